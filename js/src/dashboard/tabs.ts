// Tabs with one open; the panels of the others are not there. Where there is little room, a menu.
import type { RenderProps } from "@anywidget/types";
import { keepKeys, make } from "../dom";
import { listen, resolve } from "../models";
import type { PanelState } from "../types";
import { renderView } from "../views";
import type { Board } from "./context";
import type { DashboardState, Tab } from "./types";

type Props = RenderProps<DashboardState>;

const STEPS: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1 };

// Drawn by this module instead of host.getWidget, which in marimo knows only what is displayed by itself.
export async function show(reference: string, place: HTMLElement, props: Props, signal: AbortSignal): Promise<void> {
  const { model, host } = props;
  try {
    const child = await resolve<PanelState>(model, host, reference);
    place.classList.toggle("hta-wide", child.get("_spec")?.wide ?? true);
    if (!signal.aborted) renderView({ model: child, el: place, signal, host } as RenderProps<PanelState>);
  } catch (error) {
    place.textContent = `A panel cannot be shown: ${error}`;
  }
}

export class Tabs {
  readonly element = make("div", { className: "hta-tabs" });
  readonly page = make("div", { className: "hta-tab-page" });
  #board: Board;
  #props: Props;
  #tabs: Tab[];
  #buttons: HTMLButtonElement[];
  #menu: HTMLSelectElement;
  #open = "";
  #stop = new AbortController();

  constructor(board: Board, props: Props) {
    this.#board = board;
    this.#props = props;
    this.#tabs = board.model.get("_spec").tabs;
    this.#buttons = this.#tabs.map((tab) => this.#button(tab));
    this.#menu = this.#makeMenu();
    const list = make("div", { className: "hta-tab-list" }, ...this.#buttons);
    list.setAttribute("role", "tablist");
    list.setAttribute("aria-label", "Analyses");
    list.addEventListener("keydown", (event) => this.#key(event), { signal: board.signal });
    this.page.id = `${board.prefix}-page`;
    this.page.setAttribute("role", "tabpanel");
    this.element.append(list, this.#menu, this.page);
    this.element.hidden = this.#tabs.length === 0;
    listen(board.model, "change:_spec", () => this.#renew(board.model.get("_spec").tabs), board.signal);
    listen(board.model, "change:tab", () => this.#show(board.model.get("tab")), board.signal);
    board.signal.addEventListener("abort", () => this.#stop.abort(), { once: true });
    this.#show(board.model.get("tab"));
  }

  /** The tab that shows a panel; empty if there is none. */
  tabOf(panel: string): string {
    const place = 1 + this.#board.model.get("_spec").names.indexOf(panel);
    const inside = (list: "panels" | "folded") => this.#tabs.find((tab) => place > 0 && tab[list].includes(place));
    return (inside("panels") ?? inside("folded"))?.name ?? "";
  }

  #button({ name, label }: Tab): HTMLButtonElement {
    const button = keepKeys(make("button", { type: "button", id: `${this.#board.prefix}-tab-${name}` }, label));
    button.setAttribute("role", "tab");
    button.setAttribute("aria-controls", `${this.#board.prefix}-page`);
    button.addEventListener("click", () => this.#board.open(name), { signal: this.#board.signal });
    return button;
  }

  #makeMenu(): HTMLSelectElement {
    const options = this.#tabs.map(({ name, label }) => make("option", { value: name }, label));
    const menu = keepKeys(make("select", { className: "hta-tab-menu" }, ...options));
    menu.setAttribute("aria-label", "Analysis");
    menu.addEventListener("change", () => this.#board.open(menu.value), { signal: this.#board.signal });
    return menu;
  }

  #key(event: KeyboardEvent): void {
    const here = this.#tabs.findIndex(({ name }) => name === this.#open);
    const last = this.#tabs.length - 1;
    const step = STEPS[event.key];
    const next = event.key === "Home" ? 0 : event.key === "End" ? last : here + (step ?? Number.NaN);
    const tab = this.#tabs[(next + this.#tabs.length) % this.#tabs.length];
    if (!tab) return;
    event.preventDefault();
    this.#board.open(tab.name);
    this.#buttons[this.#tabs.indexOf(tab)]?.focus();
  }

  #show(name: string): void {
    const place = this.#tabs.findIndex((tab) => tab.name === name);
    const tab = this.#tabs[place];
    if (!tab || name === this.#open) return;
    this.#open = name;
    this.#menu.value = name;
    for (const [index, button] of this.#buttons.entries()) {
      button.setAttribute("aria-selected", String(index === place));
      button.tabIndex = index === place ? 0 : -1;
    }
    this.page.setAttribute("aria-labelledby", this.#buttons[place]?.id ?? "");
    this.#fill(tab);
  }

  /** Take over other panels of the tabs, which have their names. */
  #renew(tabs: Tab[]): void {
    const before = JSON.stringify(this.#tabs);
    this.#tabs = tabs;
    const open = tabs.find(({ name }) => name === this.#open);
    if (open && JSON.stringify(tabs) !== before) this.#fill(open);
  }

  #fill({ panels, folded, without }: Tab): void {
    this.#stop.abort();
    this.#stop = new AbortController();
    const { signal } = this.#stop;
    const shown = panels.map((place) => this.#panel(place, signal));
    // Of a panel by itself, the tab says what it is.
    if (shown.length === 1) shown[0]?.classList.add("hta-alone");
    const grid = make("div", { className: "hta-grid" }, ...shown);
    const said = without ? [make("p", { className: "hta-empty" }, without)] : [];
    this.page.replaceChildren(...said, grid, ...(folded.length > 0 ? [this.#more(folded, signal)] : []));
  }

  #panel(place: number, signal: AbortSignal): HTMLElement {
    const box = make("div");
    void show(this.#props.model.get("_panels")[place] ?? "", box, this.#props, signal);
    return box;
  }

  /** Panels that are drawn when somebody opens them. */
  #more(places: readonly number[], signal: AbortSignal): HTMLElement {
    const grid = make("div", { className: "hta-grid" });
    const names = `${places.length} more ${places.length === 1 ? "analysis" : "analyses"}`;
    const more = make("details", { className: "hta-more" }, keepKeys(make("summary", {}, names)), grid);
    const open = () => {
      if (more.open && grid.childElementCount === 0) grid.append(...places.map((place) => this.#panel(place, signal)));
    };
    more.addEventListener("toggle", open, { signal });
    return more;
  }
}
