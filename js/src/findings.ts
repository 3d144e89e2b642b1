// Causes of lost time as rows: the price, a sentence, what to try first, details behind disclosures, and a button that
// selects where the cause is seen. While it is shown, two more buttons step through all windows in which it is seen.
import { keepKeys, make, pushButton } from "./dom";
import { swatch } from "./legend";
import { listen, type Model } from "./models";
import { EVERYTHING } from "./picks";
import { copyText } from "./share";
import { TableView } from "./tableview";
import type { AdviceRow, FindingRow, Numbers, Occurrence, SelectionState } from "./types";

type Fields = Record<string, unknown>;
type Send = (values: Fields, target: Model) => void;

const same = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);

/** Lines of code to show before "…": of two, the first alone was often what a job already has. */
const MOST_LINES = 3;

/** What the sign before a price means. */
const SIGNS: Record<string, string> = {
  "": "Saves this much, according to a replay of the recording",
  "≤": "Saves at most this much: its replacement also takes time, or a rank is missing",
  "≥": "Saves at least this much: part of the time is unexplained",
  "≈": "Saves about this much, by an estimate",
};

/** The text, with each number kept on one line with its unit. */
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

/** Lines of code that break only at spaces and after names; browsers would break "--option" after its dashes. */
function breakable(lines: readonly string[]): HTMLElement {
  const parts = (word: string) => word.split(/(?<=[.,()[\]{}])(?=\w)/).flatMap((part) => [make("wbr"), part]);
  const words = (line: string) => line.split(" ").flatMap((word) => [" ", make("span", {}, ...parts(word).slice(1))]);
  return make("code", {}, ...lines.flatMap((line) => ["\n", ...words(line).slice(1)]).slice(1));
}

/** Advice, with code to copy. */
function advised({ do: what, code }: AdviceRow): HTMLElement {
  const element = make("div", { className: "hta-advice" }, make("p", {}, what));
  if (code)
    element.append(make("div", { className: "hta-code" }, make("pre", {}, make("code", {}, code)), copier(code)));
  return element;
}

/** The same in running text; of multi-line code, it shows the first lines that are not imports. */
function advisedInLine({ do: what, code }: AdviceRow): HTMLElement {
  const element = make("div", { className: "hta-advice hta-in-line" }, make("p", {}, what));
  const lines = code.split("\n").filter((line) => !/^(import |from |$)/.test(line));
  const more = lines.length > MOST_LINES ? ["…"] : [];
  const shown = breakable([...lines.slice(0, MOST_LINES), ...more]);
  shown.title = code;
  if (code) element.append(" ", make("span", { className: "hta-line-code" }, shown, " ", copier(code)));
  return element;
}

function copier(code: string): HTMLButtonElement {
  const button = pushButton("Copy", { title: "Copy this code" }, () => copyText(code, button));
  return button;
}

/** The price as part of the largest; its room stays empty without one, as a sliver would look like almost nothing. */
function bar(row: FindingRow): HTMLElement {
  const filled = swatch(row);
  filled.style.width = `${100 * row.share}%`;
  const element = make("span", { className: "hta-bar", "aria-hidden": "true" }, filled);
  if (!row.price) element.style.visibility = "hidden";
  return element;
}

/** What differs for the rows of a dashboard: they are compact, and report what is shown. */
export interface Compact {
  shown: (panel: string, button: HTMLElement) => void;
  /** The box that includes a finding in the combined saving, if it has one. */
  tick: (place: number, describedBy: string) => HTMLElement | null;
}

interface Shown {
  /** Null until known. */
  selection: Model<SelectionState> | null;
  isSecond: boolean;
  /** Selection values for each occurrence; the first one is shown first. */
  places: readonly Fields[];
  button: HTMLButtonElement;
  row: HTMLElement;
  /** Report which occurrence is shown, -1 for none. */
  turns: Turns | null;
}

interface Turns {
  element: HTMLElement;
  say: (place: number) => void;
}

export class Findings {
  readonly element = make("div", { className: "hta-findings", hidden: true });
  #selections: readonly [first: Promise<Model<SelectionState>>, second: Promise<Model<SelectionState>>];
  #send: Send;
  #prefix: string;
  #signal: AbortSignal;
  #rows: readonly FindingRow[] = [];
  #shown: Shown[] = [];
  #followed = new Map<Model<SelectionState>, Set<string>>();
  #compact: Compact | undefined;

  constructor(
    selection: Promise<Model<SelectionState>>,
    send: Send,
    prefix: string,
    signal: AbortSignal,
    compact?: Compact,
    second = selection,
  ) {
    this.#compact = compact;
    this.element.classList.toggle("hta-compact", compact !== undefined);
    this.#selections = [selection, second];
    this.#send = send;
    this.#prefix = prefix;
    this.#signal = signal;
  }

  /** Draw the rows, unless they are already drawn, so that open parts stay open. */
  show(rows: readonly FindingRow[], title = ""): void {
    if (same(rows, this.#rows)) return;
    this.#rows = rows;
    this.#shown = [];
    const drawn = rows.map((row, place) => this.#row(row, place));
    const first = drawn.filter((_, place) => !rows[place]?.folded);
    const rest = drawn.slice(first.length);
    const folded = make("ol", { start: first.length + 1 }, ...rest);
    const more = disclosure(`${rest.length} more`, ...(rest.length > 0 ? [folded] : []));
    const heading = title ? [make("h4", {}, title)] : [];
    this.element.replaceChildren(...heading, make("ol", {}, ...first), more);
    this.element.hidden = rows.length === 0;
    this.element.classList.toggle(
      "hta-unpriced",
      rows.every(({ price }) => price === ""),
    );
    for (const shown of this.#shown) {
      void this.#selections[shown.isSecond ? 1 : 0].then((selection) => this.#follow(shown, selection));
    }
  }

  #row(content: FindingRow, place: number): HTMLElement {
    const { price, bound, percent, sentence, cause, doubt } = content;
    const shown = this.#compact ? cause : sentence;
    const said = make("p", { id: `${this.#prefix}-finding-${place}`, title: sentence }, unbroken(shown));
    if (doubt) said.append(" ", make("em", {}, doubt));
    const [first, ...others] = content.advice;
    const behind = content.numbers.map((each, at) => numbers(each, `${said.id}-${at}`, this.#signal));
    const alternatives = others.map(advised);
    const words = make("div", { className: "hta-words" }, said);
    if (first) words.append(this.#compact ? advisedInLine(first) : advised(first));
    const disclosures = this.#compact
      ? [disclosure("why", ...alternatives, ...behind)]
      : [disclosure("Alternatives", ...alternatives), disclosure("The numbers behind it", ...behind)];
    words.append(make("div", { className: "hta-behind" }, ...disclosures));
    const cost = make("span", { className: "hta-price" }, make("b", {}, unbroken(bound ? `${bound} ${price}` : price)));
    if (price) cost.title = `${SIGNS[bound] ?? SIGNS[""]}. Prices of several findings overlap: do not add them.`;
    if (percent) cost.append(make("small", {}, unbroken(percent)));
    const tick = this.#compact?.tick(place, said.id);
    const row = make("li", {}, ...(tick ? [tick] : []), bar(content), cost, words);
    if (content.show) this.#showable(content, content.show, row, words, said.id);
    return row;
  }

  #showable(content: FindingRow, show: Fields, row: HTMLElement, words: HTMLElement, describedBy: string): void {
    const { panel, occurrences, of_second } = content;
    const selection = this.#selections[of_second ? 1 : 0];
    const places = occurrences.length > 0 ? occurrences.map(({ fields }) => ({ ...show, ...fields })) : [show];
    const turns = occurrences.length > 0 ? this.#turns(occurrences, places, selection) : null;
    const button = this.#button(panel, places, selection, describedBy);
    if (turns && this.#compact) words.append(turns.element);
    else if (turns) words.firstElementChild?.after(turns.element);
    row.append(button);
    this.#shown.push({ selection: null, isSecond: of_second, places, button, row, turns });
  }

  #button(
    panel: string,
    places: readonly Fields[],
    selection: Promise<Model<SelectionState>>,
    describedBy: string,
  ): HTMLButtonElement {
    const press = async () => {
      if (this.#press(places, await selection)) this.#compact?.shown(panel, button);
    };
    const properties = { className: "hta-show", "aria-describedby": describedBy };
    const button = pushButton("Show", properties, press, this.#signal);
    return button;
  }

  /** Buttons that step through the occurrences of a finding. */
  #turns(
    occurrences: readonly Occurrence[],
    places: readonly Fields[],
    selection: Promise<Model<SelectionState>>,
  ): Turns {
    const said = make("span", { role: "status" });
    const turn = (title: string, text: string, by: number) => {
      const press = async () => this.#turn(places, by, await selection);
      return pushButton(text, { title, "aria-label": title, hidden: places.length < 2 }, press, this.#signal);
    };
    const element = make(
      "div",
      { className: "hta-turns", hidden: true },
      turn("Previous occurrence", "‹", -1),
      turn("Next occurrence", "›", 1),
      said,
    );
    const say = (place: number) => {
      const words = occurrences[place]?.words;
      element.hidden = words === undefined;
      if (words !== undefined) said.textContent = unbroken(`window ${place + 1} of ${places.length} · ${words}`);
    };
    return { element, say };
  }

  #turn(places: readonly Fields[], by: number, selection: Model<SelectionState>): void {
    const place = shownPlace(selection, places);
    this.#send(places[(place + by + places.length) % places.length] ?? {}, selection);
  }

  /** Select what a row shows, or deselect it; return whether it is shown now. */
  #press(places: readonly Fields[], selection: Model<SelectionState>): boolean {
    const [first = {}] = places;
    const none = Object.fromEntries(Object.keys(first).map((name) => [name, EVERYTHING[name]]));
    const shows = shownPlace(selection, places) < 0;
    this.#send(shows ? first : none, selection);
    return shows;
  }

  #follow(shown: Shown, selection: Model<SelectionState>): void {
    shown.selection = selection;
    const followed = this.#followed.get(selection) ?? new Set();
    this.#followed.set(selection, followed);
    for (const name of Object.keys(shown.places[0] ?? {})) {
      if (followed.has(name)) continue;
      followed.add(name);
      listen(selection, `change:${name}`, () => this.#shown.forEach(mark), this.#signal);
    }
    mark(shown);
  }
}

/** Mark a row if it is selected. */
function mark({ selection, places, button, row, turns }: Shown): void {
  if (!selection) return;
  const place = shownPlace(selection, places);
  button.setAttribute("aria-pressed", String(place >= 0));
  row.classList.toggle("hta-selected", place >= 0);
  turns?.say(place);
}

/** Index of the selected occurrence, -1 for none. */
function shownPlace(selection: Model<SelectionState>, places: readonly Fields[]): number {
  return places.findIndex((fields) => holds(selection, fields));
}

function holds(selection: Model<SelectionState>, fields: Fields): boolean {
  return Object.entries(fields).every(([name, value]) => same(selection.get(name), value));
}
