// Tabs: the open one shows one of its panels. Named segments switch between its panels, which are drawn on first use.
import type { RenderProps } from "@anywidget/types";
import { keepKeys, make, pushButton } from "../dom";
import { listen, resolve } from "../models";
import { SERVED_PHASES } from "../picks";
import { isSaved } from "../saved";
import type { PanelState } from "../types";
import { renderView } from "../views";
import type { Board } from "./context";
import type { DashboardState, Tab } from "./types";

type Props = RenderProps<DashboardState>;

const PICKER = "second_job";
const STEPS: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1 };
const COUNTED = [
  ["steps", "steps"],
  ["phase", "phase"],
  ["window_ns", "window"],
  ["streams", "streams"],
] as const;

// Drawn by this module instead of host.getWidget, which in marimo only knows widgets displayed on their own.
export async function show(reference: string, place: HTMLElement, props: Props, signal: AbortSignal): Promise<void> {
  const { model, host } = props;
  try {
    const child = await resolve<PanelState>(model, host, reference);
    if (!signal.aborted) renderView({ model: child, el: place, signal, host } as RenderProps<PanelState>);
  } catch (error) {
    place.textContent = `This panel cannot be shown: ${error}`;
  }
}

export class Tabs {
  readonly element = make("div", { className: "hta-tabs" });
  readonly page = make("div", { className: "hta-tab-page", role: "tabpanel" });
  #board: Board;
  #props: Props;
  #list = make("div", { className: "hta-tab-list", role: "tablist", "aria-label": "Analyses" });
  #segments = make("div", { className: "hta-segments", role: "radiogroup", "aria-label": "Views of this tab" });
  #mark = make("p", { className: "hta-unlimited" });
  #place = make("div");
  #drawn = ""; // reference of the drawn panel
  #stop = new AbortController();

  constructor(board: Board, props: Props) {
    this.#board = board;
    this.#props = props;
    this.#list.addEventListener("keydown", (event) => this.#key(event), { signal: board.signal });
    this.page.id = `${board.prefix}-page`;
    this.page.append(this.#segments, this.#mark, this.#place);
    this.element.append(this.#list, this.page);
    listen(board.model, "change:_spec", () => this.#renew(), board.signal);
    listen(board.model, "change:panel", () => this.#show(), board.signal);
    for (const [field] of COUNTED) listen(board.selection, `change:${field}`, () => this.#markCounted(), board.signal);
    board.signal.addEventListener("abort", () => this.#stop.abort(), { once: true });
    this.#renew();
  }

  /** Scroll until half of the window is below the tabs, unless they are already that far up. */
  intoSight(): void {
    const { top } = this.#list.getBoundingClientRect();
    if (top < 0 || top > window.innerHeight / 2) this.#list.scrollIntoView({ block: "center" });
  }

  /** All tabs, except in a report the one that needs a kernel to open a second job. */
  get #tabs(): Tab[] {
    const { tabs, names } = this.#board.model.get("_spec");
    if (!isSaved(this.#board.model)) return tabs;
    const picker = 1 + names.indexOf(PICKER);
    const kept = tabs.map((tab) => ({ ...tab, panels: tab.panels.filter((place) => place !== picker) }));
    return kept.filter(({ panels }) => panels.length > 0);
  }

  /** Position of the open tab. */
  get #open(): number {
    const panel = this.#placeOf(this.#board.model.get("panel"));
    return this.#tabs.findIndex(({ panels }) => panels.includes(panel));
  }

  #placeOf(panel: string): number {
    return 1 + this.#board.model.get("_spec").names.indexOf(panel);
  }

  /** Take over the tabs, which change once two jobs are compared. */
  #renew(): void {
    this.element.hidden = this.#tabs.length === 0;
    this.#list.replaceChildren(...this.#tabs.map((tab) => this.#button(tab)));
    this.#segments.replaceChildren();
    this.#show();
  }

  #button({ name, label }: Tab): HTMLButtonElement {
    const { prefix, open, signal } = this.#board;
    const said = { role: "tab", "aria-controls": `${prefix}-page` };
    return pushButton(label, { id: `${prefix}-tab-${name}`, ...said }, () => open(name), signal);
  }

  #key(event: KeyboardEvent): void {
    const last = this.#tabs.length - 1;
    const step = STEPS[event.key];
    const next = event.key === "Home" ? 0 : event.key === "End" ? last : this.#open + (step ?? Number.NaN);
    const place = (next + this.#tabs.length) % this.#tabs.length;
    const tab = this.#tabs[place];
    if (!tab) return;
    event.preventDefault();
    this.#board.open(tab.name);
    (this.#list.children[place] as HTMLElement | undefined)?.focus();
  }

  #show(): void {
    const open = this.#open;
    const tab = this.#tabs[open];
    this.page.hidden = !tab; // until somebody compares, if there is nothing else to open
    for (const [place, button] of ([...this.#list.children] as HTMLElement[]).entries()) {
      button.setAttribute("aria-selected", String(place === open));
      button.tabIndex = place === Math.max(open, 0) ? 0 : -1;
    }
    if (!tab) return;
    this.page.setAttribute("aria-labelledby", this.#list.children[open]?.id ?? "");
    this.#showSegments(tab);
    this.#markCounted();
    this.#draw(this.#placeOf(this.#board.model.get("panel")));
  }

  #showSegments({ name, panels }: Tab): void {
    if (this.#segments.dataset.tab !== name || this.#segments.childElementCount === 0) {
      this.#segments.dataset.tab = name;
      this.#segments.hidden = panels.length < 2; // the tab already names a single panel
      this.#segments.replaceChildren(...panels.map((place) => this.#segment(place)));
    }
    const shown = this.#board.model.get("panel");
    for (const input of this.#segments.querySelectorAll("input")) input.checked = input.value === shown;
  }

  /** Say so if the panel covers more time than is selected. */
  #markCounted(): void {
    const { model, selection } = this.#board;
    const follows = model.get("_spec").follows[this.#placeOf(model.get("panel")) - 1] ?? [];
    const isSet = (field: (typeof COUNTED)[number][0]) => (selection.get(field)?.length ?? 0) > 0;
    // only operators are summed by phase of code, such as backward
    const isOfCode = !SERVED_PHASES.includes(selection.get("phase")) && model.get("panel") !== "operators";
    const counts = (field: string) => follows.includes(field) && !(field === "phase" && isOfCode);
    const ignored = COUNTED.filter(([field]) => isSet(field) && !counts(field)).map(([, words]) => words);
    this.#mark.textContent =
      ignored.length > 0
        ? `Its numbers are of everything analysed, not only of the selected ${ignored.join(" and ")}.`
        : "";
  }

  #segment(place: number): HTMLElement {
    const { names, titles } = this.#board.model.get("_spec");
    const value = names[place - 1] ?? "";
    const input = keepKeys(make("input", { type: "radio", name: `${this.#board.prefix}-view`, value }));
    input.addEventListener("change", () => this.#board.show(value), { signal: this.#board.signal });
    return make("label", {}, input, make("span", {}, titles[place - 1] ?? ""));
  }

  #draw(place: number): void {
    const reference = this.#props.model.get("_panels")[place] ?? "";
    if (reference === this.#drawn) return;
    this.#drawn = reference;
    this.#stop.abort();
    this.#stop = new AbortController();
    const box = make("div");
    this.#place.replaceWith(box);
    this.#place = box;
    void show(reference, box, this.#props, this.#stop.signal);
  }
}
