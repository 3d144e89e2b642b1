// Where a step goes: one bar that is its own legend, in front of the bar of everything.
import { followSize, make, pushButton } from "../dom";
import { isSaved } from "../saved";
import { Band } from "./band";
import type { Board } from "./context";
import type { BudgetBand, BudgetPart } from "./types";

const STEPS: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1 };

function painted<T extends HTMLElement>(area: T, part: BudgetPart, share: number): T {
  area.className = `hta-area hta-${part.fill}`;
  area.style.setProperty("--hta-class", part.color);
  area.style.setProperty("--hta-ink", part.ink);
  area.style.flexGrow = String(share);
  return area;
}

export class Budget {
  readonly band: Band;
  #board: Board;
  #bar = make("div", { className: "hta-budget", role: "toolbar", "aria-label": "Classes of time" });
  #ghost = make("div", { className: "hta-ghost", "aria-hidden": "true" });
  #legend = make("div", { className: "hta-legend-line" });
  #opened: () => void;
  #active = 0;
  #drawn = "";

  /** `opened` is called when a click has opened a tab. */
  constructor(board: Board, opened: () => void) {
    this.#board = board;
    this.#opened = opened;
    this.band = new Band("budget", "Where a step goes", board.prefix);
    this.#bar.addEventListener("keydown", (event) => this.#key(event), { signal: board.signal });
    this.band.body.append(this.#bar, this.#ghost, this.#legend);
    followSize(this.#bar, () => this.#label(), board.signal);
  }

  show(budget: BudgetBand | null): void {
    this.band.element.hidden = budget === null;
    const drawn = JSON.stringify(budget);
    if (!budget || drawn === this.#drawn) return;
    this.#drawn = drawn;
    this.band.title.textContent = budget.title;
    const always = isSaved(this.#board.model) ? " (whatever the selection)" : "";
    this.band.aside.textContent = `${budget.whose}${always}`;
    const focused = this.#bar.contains(this.#bar.ownerDocument.activeElement);
    this.#bar.replaceChildren(...budget.parts.map((part) => this.#button(part)), filler(budget, "share"));
    this.#ghost.hidden = !budget.compared;
    const ghosts = budget.parts.map((part) => painted(make("span"), part, part.all_share));
    this.#ghost.replaceChildren(...ghosts, filler(budget, "all_share"));
    this.#ghost.title = budget.behind;
    this.#activate(Math.min(this.#active, budget.parts.length - 1), focused);
    requestAnimationFrame(() => this.#label()); // it needs widths, which the next frame computes anyway
  }

  get #buttons(): HTMLButtonElement[] {
    return [...this.#bar.querySelectorAll("button")];
  }

  #button(part: BudgetPart): HTMLButtonElement {
    const button = painted(pushButton("", { title: part.said, "aria-label": part.said }), part, part.share);
    button.hidden = part.share === 0;
    button.dataset.label = part.label;
    button.dataset.text = part.text;
    const choose = () => {
      if (part.show) this.#board.select(part.show);
      this.#board.open(part.tab);
      this.#opened();
    };
    button.addEventListener("click", choose, { signal: this.#board.signal });
    return button;
  }

  /** Write on each part what fits; the others are listed below the bar. */
  #label(): void {
    const shown = this.#buttons.filter((button) => !button.hidden);
    const written = label(shown);
    const left = shown.filter((button, place) => !written[place] && button.dataset.text);
    const entries = left.map((button) => {
      const swatch = make("span", { className: `hta-area hta-key ${button.classList[1] ?? ""}` });
      swatch.style.setProperty("--hta-class", button.style.getPropertyValue("--hta-class"));
      return make("span", {}, swatch, `${button.dataset.label} ${button.dataset.text}`);
    });
    this.#legend.replaceChildren(...entries);
  }

  #activate(place: number, focus = false): void {
    this.#active = place;
    for (const [index, button] of this.#buttons.entries()) button.tabIndex = index === place ? 0 : -1;
    if (focus) this.#buttons[place]?.focus();
  }

  #key(event: KeyboardEvent): void {
    const step = STEPS[event.key];
    const shown = this.#buttons.flatMap((button, index) => (button.hidden ? [] : [index]));
    if (step === undefined || shown.length === 0) return;
    event.preventDefault();
    const here = Math.max(shown.indexOf(this.#active), 0);
    this.#activate(shown[(here + step + shown.length) % shown.length] ?? 0, true);
  }
}

function filler({ parts }: BudgetBand, key: "share" | "all_share"): HTMLElement {
  const rest = make("span", { className: "hta-filler" });
  rest.style.flexGrow = String(Math.max(1 - parts.reduce((sum, part) => sum + part[key], 0), 0));
  return rest;
}

/** Write the longest text that fits on each part; return whether it has both name and time. */
function label(buttons: readonly HTMLButtonElement[]): boolean[] {
  const tried = buttons.map((button) => {
    const { label = "", text = "" } = button.dataset;
    const texts = [`${label} ${text}`, label, text];
    const all = texts.map((said) => make("span", { className: "hta-area-label" }, said));
    button.replaceChildren(...all);
    return all;
  });
  // Measure all before changing any: reading a changed page causes another layout.
  const fitting = tried.map((all, place) => {
    const [first] = all;
    const margins = first ? 2 * (Number.parseFloat(getComputedStyle(first).marginLeft) || 0) : 0;
    return all.findIndex(({ offsetWidth }) => offsetWidth <= (buttons[place]?.clientWidth ?? 0) - margins);
  });
  for (const [place, all] of tried.entries())
    buttons[place]?.replaceChildren(...all.filter((_, at) => at === fitting[place]));
  return fitting.map((fits) => fits === 0);
}
