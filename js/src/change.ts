// What changed between two jobs: a panel, with one step of each job below its charts, on one axis.
import type { RenderProps } from "@anywidget/types";
import { keepKeys, make, uniquePrefix } from "./dom";
import { listen, type Model, resolve, write } from "./models";
import panel, { followVisibility } from "./panel";
import { isSaved } from "./saved";
import { followPage } from "./styles";
import { duration } from "./timeline/format";
import type { Stage } from "./timeline/stage";
import { staged } from "./timeline/timeline";
import type { StackedStep, Step, TimelineState } from "./timeline/types";
import type { PanelState, SelectionState } from "./types";

export interface ChangeState extends PanelState {
  /** The first job comes first. */
  _stacked: StackedStep[];
  /** The timelines of the dashboard's job and of the other job. */
  _timelines: string[];
}

const TITLE = "One step of each job, from its start (drag or A/D to pan, W/S or Ctrl + wheel to zoom both)";
const TYPICAL = "";

/** The step of one of the jobs. */
class Side {
  readonly element = make("div", { className: "hta-side" });
  readonly stage: Stage;
  #model: Model<TimelineState>;
  #selection: Model<SelectionState>;
  #name = make("b");
  #menu = keepKeys(make("select"));
  #said = make("span", { className: "hta-quiet" });
  #options = "";
  #shown: StackedStep | undefined;

  constructor(model: Model<TimelineState>, selection: Model<SelectionState>, signal: AbortSignal) {
    this.#model = model;
    this.#selection = selection;
    const label = make("label", {}, "Step ", this.#menu);
    label.hidden = isSaved(model);
    const say = (text: string) => {
      this.#said.textContent = text;
    };
    const select = async (values: Partial<SelectionState>) => write(selection, values);
    this.stage = staged(model, Promise.resolve(selection), { select, say }, signal);
    const choose = () => write(selection, { steps: this.#menu.value === TYPICAL ? [] : [Number(this.#menu.value)] });
    this.#menu.addEventListener("change", choose, { signal });
    this.element.append(make("p", { className: "hta-side-head" }, this.#name, label, this.#said), this.stage.element);
    listen(model, "change:_timeline", () => this.stage.load(), signal);
    listen(model, "change:_lit", () => this.#light(), signal);
    followPage(this.element, signal, () => this.stage.restyle());
  }

  /** The steps of a rank, once Python has laid them out. */
  #stepsOf(rank: number): Step[] {
    return this.#model.get("_timeline").ranks?.find((row) => row.rank === rank)?.steps ?? [];
  }

  find({ rank, step }: StackedStep): Step | undefined {
    return this.#stepsOf(rank).find(([number]) => number === step);
  }

  show(shown: StackedStep, longest: number): void {
    const step = this.find(shown);
    this.#name.textContent = `${shown.job}, rank ${shown.rank}`;
    this.#shown = shown;
    this.#offer(shown);
    if (!step) return;
    const before = this.stage.scene.only;
    const isSame = before?.rank === shown.rank && before.step[1] === step[1] && before.longest === longest;
    if (!isSame) this.stage.only({ rank: shown.rank, step, longest, foreign: shown.second });
    if (before?.rank !== shown.rank && !isSaved(this.#model)) this.stage.open(shown.rank);
    this.#light();
  }

  /** Highlight the finding selected in this job, or else the open row of the waterfall. */
  #light(): void {
    const step = this.#shown && this.find(this.#shown);
    if (!this.#shown || !step) return;
    const { rank, seen, said } = this.#shown;
    const finding = this.#model.get("_lit") ?? [];
    this.#said.textContent = finding.length > 0 ? "" : said;
    this.stage.light(finding.length > 0 ? finding : [[rank, seen.map((time) => time + step[1])]]);
  }

  #offer({ rank, typical }: StackedStep): void {
    const steps = this.#stepsOf(rank);
    const words = ([number, start, end]: Step) => `${number < 0 ? "GPU span" : number}, ${duration(end - start)}`;
    const known = steps.find(([number]) => number === typical);
    const options = [
      make("option", { value: TYPICAL }, `typical: ${known ? words(known) : typical}`),
      ...steps.map((step) => make("option", { value: String(step[0]) }, words(step))),
    ];
    const text = options.map(({ textContent }) => textContent).join();
    if (text !== this.#options) this.#menu.replaceChildren(...options);
    this.#options = text;
    const [chosen, ...others] = this.#selection.get("steps");
    const isOffered = chosen !== undefined && others.length === 0 && steps.some(([number]) => number === chosen);
    this.#menu.value = isOffered ? String(chosen) : TYPICAL;
  }
}

function render(props: RenderProps<ChangeState>): void {
  const { model, signal } = props;
  const prefix = uniquePrefix();
  const title = make("h4", { id: prefix }, TITLE);
  const place = make("section", { className: "hta-stacked", hidden: true, "aria-labelledby": prefix }, title);
  const [, other] = model.get("_timelines") ?? [];
  panel.render(props, place, other === undefined ? undefined : selectionOf(props, other));
  if (!model.get("_timelines")) return;
  stack(props, place).catch((error) => {
    if (!signal.aborted) place.append(`The steps cannot be shown: ${error}`);
  });
}

async function selectionOf(
  { model, host }: RenderProps<ChangeState>,
  reference: string,
): Promise<Model<SelectionState>> {
  const timeline = await resolve<TimelineState>(model, host, reference);
  return resolve<SelectionState>(model, host, timeline.get("_selection"));
}

async function stack({ model, host, signal }: RenderProps<ChangeState>, place: HTMLElement): Promise<void> {
  const sides: Side[] = [];
  const show = () => {
    const pairs = model.get("_stacked").flatMap((shown): [StackedStep, Side][] => {
      const side = sides[shown.second ? 1 : 0];
      return side ? [[shown, side]] : [];
    });
    const lengths = pairs.map(([shown, side]) => side.find(shown)).map((step) => (step ? step[2] - step[1] : 0));
    place.hidden = pairs.length === 0;
    const elements = pairs.map(([, { element }]) => element);
    for (const { element } of sides) element.hidden = !elements.includes(element);
    if (elements.some((each, at) => each !== place.children[at + 1])) place.append(...elements);
    for (const [shown, side] of pairs) side.show(shown, Math.max(1, ...lengths));
  };
  for (const reference of model.get("_timelines")) {
    const timeline = await resolve<TimelineState>(model, host, reference);
    const selection = await resolve<SelectionState>(model, host, timeline.get("_selection"));
    if (signal.aborted) return;
    const side = new Side(timeline, selection, signal);
    side.stage.shown = (view) => {
      for (const other of sides) if (other !== side) other.stage.join(view);
    };
    sides.push(side);
    place.append(side.element); // in the page, where it reads its colours
    listen(timeline, "change:_timeline", show, signal);
    followVisibility(place, timeline, signal); // both are needed for the common axis
  }
  listen(model, "change:_stacked", show, signal);
  show();
}

export default { render };
