// The dashboard: header, chips, verdict, budget, timeline, tabs and details, which share one selection.
import type { RenderProps } from "@anywidget/types";
import { make, uniquePrefix } from "../dom";
import { listen, resolve, write } from "../models";
import { isSaved } from "../saved";
import { followPage } from "../styles";
import type { PanelState, SelectionState } from "../types";
import { Band } from "./band";
import { Budget } from "./budget";
import { Chips } from "./chips";
import type { Board, Fields } from "./context";
import { Drawer } from "./drawer";
import { Footer } from "./footer";
import { Header } from "./header";
import { followKeys } from "./keys";
import { Largest } from "./largest";
import { Search } from "./search";
import { show as showPanel, Tabs } from "./tabs";
import type { Bands, DashboardState } from "./types";
import { uncut } from "./uncut";
import { Verdict } from "./verdict";

type Props = RenderProps<DashboardState>;

function render(props: Props): void {
  const root = make("section", { className: "hta-panel hta-dashboard" });
  props.el.append(root);
  followPage(root, props.signal);
  requestAnimationFrame(() => uncut(root));
  followVisibility(props.model, props.signal);
  let stop = new AbortController();
  props.signal.addEventListener("abort", () => stop.abort(), { once: true });
  const draw = () => {
    const chosen = root.querySelector(".hta-cycles :focus") !== null;
    stop.abort();
    stop = new AbortController();
    const { signal } = stop;
    root.replaceChildren();
    fill(root, { ...props, signal }, chosen).catch((error) => {
      if (!signal.aborted) root.append(`The dashboard cannot be shown: ${error}`);
    });
  };
  listen(props.model, "change:_selection", draw, props.signal); // another cycle is a job of its own
  draw();
}

/** Fill the dashboard, and return the focus to the menu of cycles if it was used. */
async function fill(root: HTMLElement, props: Props, chosen: boolean): Promise<void> {
  const { model, host, signal } = props;
  const selection = await resolve<SelectionState>(model, host, model.get("_selection"));
  if (signal.aborted) return;
  const select = (fields: Fields) => write(selection, fields);
  const act = (name: string, cycle?: number) => {
    model.send(cycle === undefined ? { act: name } : { act: name, cycle }); // of two changes of a trait in a row, the kernel may see only the second
  };
  const show = (panel: string) => {
    const { names, tabs } = model.get("_spec");
    const place = 1 + names.indexOf(panel);
    if (tabs.some(({ panels }) => panels.includes(place))) write(model, { panel });
  };
  const open = (tab: string) => {
    const { names, tabs } = model.get("_spec");
    const inside = tabs.find(({ name }) => name === tab)?.panels.map((place) => names[place - 1]) ?? [];
    if (!inside.includes(model.get("panel"))) show(inside[0] ?? "");
  };
  const board: Board = { model, selection, signal, prefix: uniquePrefix(), select, act, open, show };
  let isFound = false;
  const search = new Search(board, () => {
    isFound = true;
  });
  const header = new Header(board, search.elements);
  root.setAttribute("aria-labelledby", header.title.id);
  const chips = new Chips(board);
  const tabs = new Tabs(board, props);
  // In the next frame, which lays out the page anyway; doing it now would cause a second layout.
  const intoSight = (...all: Element[]) => {
    requestAnimationFrame(() => {
      for (const each of all) each.scrollIntoView({ block: "nearest" });
    });
  };
  // the timeline, which shows it, and the button that steps on; if both do not fit, the button wins
  const verdict = new Verdict(board, (button) => intoSight(band.element, button));
  const budget = new Budget(board, () => tabs.intoSight());
  const parts = [header.element, chips.element, verdict.band.element, budget.band.element];
  const { timeline, what_if: knobs } = model.get("_spec");
  const band = new Band("timeline", "Timeline", board.prefix);
  if (timeline !== null) {
    band.element.removeAttribute("aria-labelledby"); // its content is a region with that name
    void showPanel(model.get("_panels")[timeline] ?? "", band.body, props, signal);
    parts.push(band.element);
  }
  const drawer = new Drawer(board);
  const whatIf = make("div", { className: "hta-what-if", hidden: knobs === null });
  whatIf.classList.toggle("hta-saved", isSaved(model));
  if (knobs !== null) void showPanel(model.get("_panels")[knobs] ?? "", whatIf, props, signal);
  const largest = new Largest(board);
  const footer = new Footer(board);
  parts.push(drawer.element, whatIf, largest.band.element, tabs.element, footer.element);
  root.append(make("div", { className: "hta-board" }, ...parts));
  followKeys(root, { search: () => search.focus(), drop: () => chips.dropLast(), undo: () => act("undo") }, signal);

  const update = () => {
    const bands: Bands = JSON.parse(model.get("_bands"));
    header.show(bands.facts, bands.notices);
    chips.show(bands.everything, bands.detail);
    verdict.show(bands);
    budget.show(bands.budget);
    drawer.show(bands.detail);
    largest.show(bands.kernels);
    footer.show(bands);
    if (isFound) intoSight(drawer.element, band.element);
    isFound = false;
  };
  listen(model, "change:_bands", update, signal);
  update();
  if (chosen) header.cycles.focus();
  const job = await resolve<PanelState>(model, host, model.get("_panels")[0] ?? "");
  header.follow(job, signal);
}

/** Tell Python that a page shows the dashboard; only then does it compute the bands. */
function followVisibility(model: Board["model"], signal: AbortSignal): void {
  write(model, { _visible: true });
  signal.addEventListener("abort", () => write(model, { _visible: false }), { once: true });
}

export default { render };
