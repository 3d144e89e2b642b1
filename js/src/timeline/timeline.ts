// The timeline: lanes of all ranks on a canvas that follow the job's selection and set it.
import type { RenderProps } from "@anywidget/types";
import { control } from "../controls";
import { keepKeys, make, uniquePrefix } from "../dom";
import { listen, type Model, resolve, viewOf } from "../models";
import { followVisibility } from "../panel";
import { isSaved } from "../saved";
import { followPage } from "../styles";
import { Requests } from "../sync";
import type { SelectionState } from "../types";
import { Words } from "../words";
import { writtenFiles } from "../written";
import { bar, legend } from "./bar";
import { followKeys } from "./keys";
import { followPointer } from "./pointer";
import { type Calls, Stage } from "./stage";
import type { TimelineState } from "./types";

const FIELDS = ["ranks", "steps", "kernel", "operators", "modules", "window_ns", "streams", "finding"] as const;

function render({ model, el, signal, host }: RenderProps<TimelineState>): void {
  const root = make("section", { className: "hta-panel hta-timeline" });
  const prefix = uniquePrefix();
  const words = new Words(root, model.get("_spec").title, prefix, signal);
  root.setAttribute("aria-labelledby", words.title.id);
  const requests = new Requests(model, signal, (progress) => words.progress(progress));
  words.again.addEventListener("click", () => requests.send({}), { signal });
  const selection = resolve<SelectionState>(model, host, model.get("_selection"));
  const select = async (values: Partial<SelectionState>) => requests.send(withoutFinding(values), await selection);
  const stage = staged(model, selection, { select, say: (text) => words.say(text) }, signal);
  const context = { model, selection, send: requests.send.bind(requests), signal, prefix };
  const buttons = model
    .get("_spec")
    .controls.filter(({ kind }) => kind === "button")
    .map((spec) => control(spec, context));
  const row = bar(stage, buttons, isSaved(model) ? null : (lanes) => requests.send({ lanes }), signal);
  const heading = make("header", {}, words.title, words.status, words.again);
  root.append(heading, words.error, words.empty, row, stage.element, words.notices);
  el.append(root);

  const update = () => words.show({ ...viewOf(model), time: "" });
  listen(model, "change:_view", update, signal);
  let classes = legend(model.get("_timeline"));
  stage.element.after(classes);
  const load = () => {
    stage.load();
    const newer = legend(model.get("_timeline"));
    classes.replaceWith(newer);
    classes = newer;
  };
  listen(model, "change:_timeline", load, signal);
  const light = () => stage.light(model.get("_lit") ?? []);
  listen(model, "change:_lit", light, signal);
  light();
  listen(model, "change:lanes", () => stage.add(model.get("lanes")), signal);
  const tell = () => words.tell(model.get("_answer"), writtenFiles(model, model.get("_answer").files));
  listen(model, "change:_answer", tell, signal);
  update();
  followPage(root, signal, () => stage.restyle());
  followVisibility(root, model, signal);
}

/** The lanes of a job, which follow its selection, the pointer and the keyboard. */
export function staged(
  model: Model<TimelineState>,
  selection: Promise<Model<SelectionState>>,
  calls: Calls,
  signal: AbortSignal,
): Stage {
  const stage = new Stage(model, calls, signal);
  void selection.then((chosen) => {
    const follow = () => stage.follow(Object.fromEntries(FIELDS.map((field) => [field, chosen.get(field)])));
    for (const field of FIELDS) listen(chosen, `change:${field}`, follow, signal);
    follow();
  });
  followPointer(stage, signal);
  followKeys(stage, signal);
  keepKeys(stage.canvas);
  return stage;
}

/** Deselect the finding when other time is selected. */
function withoutFinding(values: Partial<SelectionState>): Partial<SelectionState> {
  return "window_ns" in values || "steps" in values ? { ...values, finding: null } : values;
}

export default { render };
