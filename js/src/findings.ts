// Causes of lost time as rows: the price, a sentence, what to try, the numbers behind it, and a button that selects
// where it is seen.
import { keepKeys, make } from "./dom";
import { swatch } from "./legend";
import { listen, type Model } from "./models";
import { TableView } from "./tableview";
import type { FindingRow, Numbers, SelectionState } from "./types";

type Fields = Record<string, unknown>;
type Send = (values: Fields, target: Model) => void;

/** Fields of a selection in which nothing is selected. */
const NOTHING: Fields = {
  ranks: [],
  streams: [],
  kernel: "",
  operators: [],
  shapes: [],
  modules: [],
  phase: "",
  steps: [],
  window_ns: null,
  finding: null,
};

const same = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);

/** The text with numbers and their units on one line. */
function unbroken(text: string): string {
  return text.replace(/(\d) (?=(%|[nµm]?s|[kMGT]?B)(?![\p{L}\d]))/gu, "$1\u00a0");
}

function numbers({ label, text, table }: Numbers, prefix: string, signal: AbortSignal): HTMLElement {
  if (!table) return make("p", {}, `${label}: `, make("b", {}, text));
  const view = new TableView({ model: null, selection: null, send: () => undefined, prefix, title: label }, signal);
  view.show(table);
  return make("div", {}, make("p", {}, label), view.element);
}

function disclosure(title: string, ...contents: Node[]): HTMLElement {
  const element = make("details", {}, keepKeys(make("summary", {}, title)), ...contents);
  element.hidden = contents.length === 0;
  return element;
}

function bar({ share, color, fill }: FindingRow): HTMLElement {
  const filled = swatch(color, fill);
  filled.style.width = `${100 * share}%`;
  const element = make("span", { className: "hta-bar" }, filled);
  element.setAttribute("aria-hidden", "true");
  return element;
}

/** How the rows of a dashboard differ: lower, and what is shown is said. */
export interface Compact {
  shown: (panel: string) => void;
}

const MOST_COMPACT = 4;

/** What ends a sentence, and stands before it as the price. */
const COST = /: [\d.,]+\s\S+ of (?:each|the) [\d.,]+\s\S+ (?:step|GPU span) \([\d.,]+\s%\)\.$/;

interface Shown {
  fields: Fields;
  button: HTMLButtonElement;
  row: HTMLElement;
}

export class Findings {
  readonly element = make("div", { className: "hta-findings", hidden: true });
  #selection: Promise<Model<SelectionState>>;
  #send: Send;
  #prefix: string;
  #signal: AbortSignal;
  #rows: readonly FindingRow[] = [];
  #shown: Shown[] = [];
  #followed = new Set<string>();
  #compact: Compact | undefined;

  constructor(
    selection: Promise<Model<SelectionState>>,
    send: Send,
    prefix: string,
    signal: AbortSignal,
    compact?: Compact,
  ) {
    this.#compact = compact;
    this.element.classList.toggle("hta-compact", compact !== undefined);
    this.#selection = selection;
    this.#send = send;
    this.#prefix = prefix;
    this.#signal = signal;
  }

  /** Draw the rows, unless they are there: what is opened stays open. */
  show(rows: readonly FindingRow[]): void {
    if (same(rows, this.#rows)) return;
    this.#rows = rows;
    this.#shown = [];
    const drawn = rows.map((row, place) => this.#row(row, place));
    const isFirst = (place: number) => (this.#compact ? place < MOST_COMPACT : !rows[place]?.folded);
    const first = drawn.filter((_, place) => isFirst(place));
    const rest = drawn.slice(first.length);
    const folded = make("ol", { start: first.length + 1 }, ...rest);
    const more = disclosure(`${rest.length} more`, ...(rest.length > 0 ? [folded] : []));
    this.element.replaceChildren(make("ol", {}, ...first), more);
    this.element.hidden = rows.length === 0;
    this.element.classList.toggle(
      "hta-unpriced",
      rows.every(({ price }) => price === ""),
    );
    void this.#selection.then((selection) => this.#follow(selection));
  }

  #row(content: FindingRow, place: number): HTMLElement {
    const { price, sentence, doubt, action } = content;
    const shortened = this.#compact ? sentence.replace(COST, ".") : sentence;
    const said = make("p", { id: `${this.#prefix}-finding-${place}`, title: sentence }, unbroken(shortened));
    if (doubt) said.append(" ", make("em", {}, doubt));
    const advice = action ? [make("p", {}, action)] : [];
    const behind = content.numbers.map((each, at) => numbers(each, `${said.id}-${at}`, this.#signal));
    const disclosures = this.#compact
      ? [disclosure("what to try", ...advice, ...behind)]
      : [disclosure("What to try", ...advice), disclosure("The numbers behind it", ...behind)];
    const words = make(
      "div",
      { className: "hta-words" },
      said,
      make("div", { className: "hta-behind" }, ...disclosures),
    );
    const row = make("li", {}, bar(content), make("b", { className: "hta-price" }, price), words);
    if (content.show) row.append(this.#button(content, content.show, said.id, row));
    return row;
  }

  #button({ panel }: FindingRow, fields: Fields, describedBy: string, row: HTMLElement): HTMLButtonElement {
    const button = keepKeys(make("button", { type: "button", className: "hta-show" }, "Show"));
    button.setAttribute("aria-describedby", describedBy);
    const press = async () => {
      if (await this.#press(fields)) this.#compact?.shown(panel);
    };
    button.addEventListener("click", () => void press(), { signal: this.#signal });
    this.#shown.push({ fields, button, row });
    return button;
  }

  /** Select what a row shows, or everything again; whether it is shown. */
  async #press(fields: Fields): Promise<boolean> {
    const selection = await this.#selection;
    const none = Object.fromEntries(Object.keys(fields).map((name) => [name, NOTHING[name]]));
    const shows = !holds(selection, fields);
    this.#send(shows ? fields : none, selection);
    return shows;
  }

  #follow(selection: Model<SelectionState>): void {
    for (const name of this.#shown.flatMap(({ fields }) => Object.keys(fields))) {
      if (this.#followed.has(name)) continue;
      this.#followed.add(name);
      listen(selection, `change:${name}`, () => this.#mark(selection), this.#signal);
    }
    this.#mark(selection);
  }

  /** Mark the row that is selected. */
  #mark(selection: Model<SelectionState>): void {
    for (const { fields, button, row } of this.#shown) {
      const selected = holds(selection, fields);
      button.setAttribute("aria-pressed", String(selected));
      row.classList.toggle("hta-selected", selected);
    }
  }
}

function holds(selection: Model<SelectionState>, fields: Fields): boolean {
  return Object.entries(fields).every(([name, value]) => same(selection.get(name), value));
}
