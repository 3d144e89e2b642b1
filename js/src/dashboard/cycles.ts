// Which cycle is shown of traces that hold several, and with which it is compared.
import { keepKeys, make } from "../dom";
import { listen } from "../models";
import { isSaved } from "../saved";
import type { Board } from "./context";

const SHOWN = "Cycle";
const COMPARED = "Compare with";
const NOTHING = "";

export class Cycles {
  readonly element = make("span", { className: "hta-cycles" });
  #board: Board;

  constructor(board: Board) {
    this.#board = board;
    listen(board.model, "change:_spec", () => this.#show(), board.signal);
    listen(board.model, "change:_bands", () => this.#show(), board.signal); // that it failed stands there
    this.#show();
  }

  focus(label: string): void {
    this.element.querySelector<HTMLElement>(`[aria-label="${label}"]`)?.focus();
  }

  #show(): void {
    const { cycles, cycle, compared } = this.#board.model.get("_spec");
    this.element.hidden = cycles.length === 0 || isSaved(this.#board.model); // the title names the cycle
    if (this.element.hidden) return;
    const focused = this.element.querySelector<HTMLElement>(":focus")?.ariaLabel;
    const every = cycles.map((words, place): [string, string] => [String(place), words]);
    const others = every.filter((_, place) => place !== cycle);
    const shown = this.#menu(SHOWN, every, String(cycle), (value) => this.#board.act("cycle", Number(value)));
    const none: [string, string] = [NOTHING, compared === null ? "compare with…" : "compare with nothing"];
    const beside = this.#menu(COMPARED, [none, ...others], compared === null ? NOTHING : String(compared), (value) => {
      this.#board.act("compare_cycle", value === NOTHING ? null : Number(value));
    });
    this.element.ariaBusy = "false";
    this.element.replaceChildren(shown, beside);
    if (focused) this.focus(focused);
  }

  #menu(
    label: string,
    options: readonly [value: string, words: string][],
    value: string,
    choose: (value: string) => void,
  ): HTMLSelectElement {
    const menu = make("select", {}, ...options.map(([value, words]) => make("option", { value }, words)));
    menu.ariaLabel = label;
    menu.value = value;
    menu.title = `${label}: ${menu.selectedOptions[0]?.textContent ?? ""}`; // cut where there is little room
    const change = () => {
      this.element.ariaBusy = "true"; // until Python answers; a disabled menu would lose the focus
      choose(menu.value);
    };
    menu.addEventListener("change", change, { signal: this.#board.signal });
    return keepKeys(menu);
  }
}
