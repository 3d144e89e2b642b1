// Causes of lost time as rows: the price, a sentence, what to try first, why and what else behind it, and a button that
// selects where it is seen. While it is shown, two more step through all windows in which it is seen.
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

/** What to do, with code to copy. */
function advised({ do: what, code }: AdviceRow): HTMLElement {
  const element = make("div", { className: "hta-advice" }, make("p", {}, what));
  if (code)
    element.append(make("div", { className: "hta-code" }, make("pre", {}, make("code", {}, code)), copier(code)));
  return element;
}

/** The same in one line; code of several lines is cut to its first. */
function advisedInLine({ do: what, code }: AdviceRow): HTMLElement {
  const element = make("div", { className: "hta-advice hta-in-line" }, make("p", {}, what));
  const [first = "", ...others] = code.split("\n");
  if (code) element.append(make("code", { title: code }, others.length > 0 ? `${first} …` : first), copier(code));
  return element;
}

function copier(code: string): HTMLButtonElement {
  const button = pushButton("Copy", { title: "Copy this code" });
  button.addEventListener("click", () => void copyText(code, button));
  return button;
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
  /** The box that counts a finding in what all of them save together, if it has one. */
  tick: (place: number, describedBy: string) => HTMLElement | null;
}

interface Shown {
  /** Each selects where it is seen; the first is what is shown at first. */
  places: readonly Fields[];
  button: HTMLButtonElement;
  row: HTMLElement;
  /** Says which place is shown, -1 for none. */
  turns: Turns | null;
}

interface Turns {
  element: HTMLElement;
  say: (place: number) => void;
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
    const first = drawn.filter((_, place) => !rows[place]?.folded);
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
    if (percent) cost.append(make("small", {}, unbroken(percent)));
    const tick = this.#compact?.tick(place, said.id);
    const row = make("li", {}, ...(tick ? [tick] : []), bar(content), cost, words);
    if (content.show) this.#showable(content, content.show, row, words, said.id);
    return row;
  }

  #showable(content: FindingRow, show: Fields, row: HTMLElement, words: HTMLElement, describedBy: string): void {
    const { panel, occurrences } = content;
    const places = occurrences.length > 0 ? occurrences.map(({ fields }) => ({ ...show, ...fields })) : [show];
    const turns = occurrences.length > 0 ? this.#turns(occurrences, places) : null;
    const button = this.#button(panel, places, describedBy);
    if (turns && this.#compact) words.append(turns.element);
    else if (turns) words.firstElementChild?.after(turns.element);
    row.append(button);
    this.#shown.push({ places, button, row, turns });
  }

  #button(panel: string, places: readonly Fields[], describedBy: string): HTMLButtonElement {
    const button = pushButton("Show", { className: "hta-show" });
    button.setAttribute("aria-describedby", describedBy);
    const press = async () => {
      if (await this.#press(places)) this.#compact?.shown(panel);
    };
    button.addEventListener("click", () => void press(), { signal: this.#signal });
    return button;
  }

  /** The way through the places in which a finding is seen. */
  #turns(occurrences: readonly Occurrence[], places: readonly Fields[]): Turns {
    const said = make("span", {});
    said.setAttribute("role", "status");
    const turn = (title: string, text: string, by: number) => {
      const button = pushButton(text, { title });
      button.setAttribute("aria-label", title);
      button.hidden = places.length < 2;
      button.addEventListener("click", () => void this.#turn(places, by), { signal: this.#signal });
      return button;
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

  async #turn(places: readonly Fields[], by: number): Promise<void> {
    const selection = await this.#selection;
    const place = shownPlace(selection, places);
    this.#send(places[(place + by + places.length) % places.length] ?? {}, selection);
  }

  /** Select what a row shows, or everything again; whether it is shown. */
  async #press(places: readonly Fields[]): Promise<boolean> {
    const selection = await this.#selection;
    const [first = {}] = places;
    const none = Object.fromEntries(Object.keys(first).map((name) => [name, EVERYTHING[name]]));
    const shows = shownPlace(selection, places) < 0;
    this.#send(shows ? first : none, selection);
    return shows;
  }

  #follow(selection: Model<SelectionState>): void {
    for (const name of this.#shown.flatMap(({ places }) => Object.keys(places[0] ?? {}))) {
      if (this.#followed.has(name)) continue;
      this.#followed.add(name);
      listen(selection, `change:${name}`, () => this.#mark(selection), this.#signal);
    }
    this.#mark(selection);
  }

  /** Mark the row that is selected. */
  #mark(selection: Model<SelectionState>): void {
    for (const { places, button, row, turns } of this.#shown) {
      const place = shownPlace(selection, places);
      button.setAttribute("aria-pressed", String(place >= 0));
      row.classList.toggle("hta-selected", place >= 0);
      turns?.say(place);
    }
  }
}

/** Which of some places is selected, -1 for none. */
function shownPlace(selection: Model<SelectionState>, places: readonly Fields[]): number {
  return places.findIndex((fields) => holds(selection, fields));
}

function holds(selection: Model<SelectionState>, fields: Fields): boolean {
  return Object.entries(fields).every(([name, value]) => same(selection.get(name), value));
}
