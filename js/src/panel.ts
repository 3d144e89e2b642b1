// The contents of every panel: text, a row of controls, charts and a table, all drawn from one `_view`.
import type { RenderProps } from "@anywidget/types";
import { importOnce } from "./assets";
import { Charts } from "./charts";
import type { ControlContext } from "./context";
import { control } from "./controls";
import { make, uniquePrefix } from "./dom";
import { Findings } from "./findings";
import { listen, type Model, resolve, viewOf, write } from "./models";
import { isOneBar } from "./onebar";
import { type Pick, SERVED_PHASES, selected } from "./picks";
import type { Plotly } from "./plotly";
import { isSaved } from "./saved";
import { followPage } from "./styles";
import { Requests } from "./sync";
import { DataTable } from "./table";
import { template } from "./theme";
import type { AssetsState, PanelState, SelectionState } from "./types";
import { Words } from "./words";
import { writtenFiles } from "./written";

/** Tell Python whether the panel is visible; hidden panels are not recomputed. */
export function followVisibility(root: HTMLElement, model: Model<PanelState>, signal: AbortSignal): void {
  let inSight = true;
  const tell = () => {
    if (model.get("_visible") !== inSight) write(model, { _visible: inSight });
  };
  const observer = new IntersectionObserver(
    (entries) => {
      inSight = entries.at(-1)?.isIntersecting ?? true;
      tell();
    },
    { rootMargin: "200px" },
  );
  observer.observe(root);
  // Another view of the panel was hidden, but this one is still visible.
  listen(model, "change:_visible", () => inSight && tell(), signal);
  const leave = () => {
    observer.disconnect();
    inSight = false;
    tell();
  };
  signal.addEventListener("abort", leave, { once: true });
}

/** Draw charts again when the page gets other fonts or colours. */
function redrawing(root: HTMLElement, charts: Charts): () => void {
  let before = "";
  return () => {
    const now = JSON.stringify(template(root));
    if (now !== before && before !== "") charts.redraw();
    before = now;
  };
}

function disable(row: HTMLElement): void {
  for (const each of row.querySelectorAll("input, select, button")) Object.assign(each, { disabled: true });
}

function controlRow(context: ControlContext): HTMLElement {
  const elements = context.model.get("_spec").controls.map((spec) => control(spec, context));
  const row = make("div", { className: "hta-controls" }, ...elements);
  if (isSaved(context.model)) disable(row);
  hideEmpty(row);
  return row;
}

function hideEmpty(row: HTMLElement): void {
  row.hidden = [...row.children].every((each) => (each as HTMLElement).hidden);
}

/** Draw a panel; a panel of two jobs also has content below its charts, and the selection of the second job. */
function render(
  { model, el, signal, host }: RenderProps<PanelState>,
  more?: HTMLElement,
  second?: Promise<Model<SelectionState>>,
): void {
  const prefix = uniquePrefix();
  const root = make("section", { className: "hta-panel" });
  const words = new Words(root, model.get("_spec").title, prefix, signal);
  root.setAttribute("aria-labelledby", words.title.id);

  const requests = new Requests(model, signal, (progress) => words.progress(progress));
  const send = requests.send.bind(requests);
  words.again.addEventListener("click", () => send({}), { signal });
  const selection = resolve<SelectionState>(model, host, model.get("_selection"));
  const showAllTime = async () => {
    const target = await selection;
    const phase = SERVED_PHASES.includes(target.get("phase")) ? { phase: "" } : {};
    send({ steps: [], window_ns: null, ...phase }, target);
  };
  words.timeButton.disabled = isSaved(model);
  words.timeButton.addEventListener("click", () => void showAllTime(), { signal });
  const plotly = resolve<AssetsState>(model, host, model.get("_assets")).then((assets) =>
    importOnce<Plotly>(assets, "plotly"),
  );
  const pick = async (picked: Pick, add: boolean) => {
    const target = await selection;
    if (picked.isOwn) send({ [picked.field]: picked.item });
    else send(selected(target, picked, add), target);
  };
  const zoom = {
    set: (name: string, stretch: readonly number[]) => send({ [name]: stretch }),
    isSet: (name: string) => (model.get(name) as unknown[]).length > 0,
    isFixed: isSaved(model),
    waits: () => requests.waiting,
  };
  const charts = new Charts(plotly, { pick, zoom }, signal);
  const findings = new Findings(selection, send, prefix, signal, undefined, second);
  const { title } = model.get("_spec");
  const table = new DataTable(
    { model: isSaved(model) ? null : model, selection, send, prefix: `${prefix}-table`, title },
    signal,
  );
  const { open } = model.get("_spec");
  table.element.open = open;
  const controls = controlRow({ model, selection, send, signal, prefix });
  const ofCharts = [...controls.querySelectorAll<HTMLElement>(".hta-of-charts")];
  root.append(
    make("header", {}, words.title, words.timeButton, words.status, words.again),
    words.finding,
    findings.element,
    controls,
    words.error,
    words.empty,
    charts.element,
    ...(more ? [more] : []),
    table.element,
    words.notices,
  );
  el.append(root);

  const update = () => {
    const view = viewOf(model);
    words.show(view);
    findings.show(view.findings, view.findings_title);
    const figures = view.figures.filter((figure) => !isOneBar(figure));
    root.classList.toggle("hta-table-beside", open && figures.length > 0);
    const allAreOneBar = figures.length < view.figures.length && figures.length === 0;
    if (allAreOneBar) table.element.open = true; // it shows the same numbers
    for (const each of ofCharts) each.hidden = allAreOneBar;
    hideEmpty(controls);
    table.show(view.table);
    void charts.show(figures);
  };
  listen(model, "change:_view", update, signal);
  const tell = () => words.tell(model.get("_answer"), writtenFiles(model, model.get("_answer").files));
  listen(model, "change:_answer", tell, signal);
  update();
  followPage(root, signal, redrawing(root, charts));
  followVisibility(root, model, signal);
}

export default { render };
