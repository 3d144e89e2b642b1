// The menu of cycles, for traces that contain several.
import { keepKeys, make } from "../dom";
import { listen } from "../models";
import { isSaved } from "../saved";
import type { Board } from "./context";

export class Cycles {
  readonly element = make("span", { className: "hta-cycles" });
  #board: Board;

  constructor(board: Board) {
    this.#board = board;
    listen(board.model, "change:_spec", () => this.#show(), board.signal);
    listen(board.model, "change:_bands", () => this.#show(), board.signal); // the bands say if it failed
    this.#show();
  }

  focus(): void {
    this.element.querySelector("select")?.focus();
  }

  #show(): void {
    const { cycles, cycle } = this.#board.model.get("_spec");
    this.element.hidden = cycles.length === 0 || isSaved(this.#board.model); // the title names the cycle
    if (this.element.hidden) return;
    const isFocused = this.element.querySelector(":focus") !== null;
    this.element.setAttribute("aria-busy", "false");
    this.element.replaceChildren(this.#menu(cycles, cycle));
    if (isFocused) this.focus();
  }

  #menu(cycles: readonly string[], cycle: number): HTMLSelectElement {
    const options = cycles.map((words, place) => make("option", { value: String(place) }, words));
    const title = `Cycle: ${cycles[cycle] ?? ""}`; // the menu may be cut
    const menu = make("select", { "aria-label": "Cycle", title }, ...options);
    menu.value = String(cycle);
    const change = () => {
      this.element.setAttribute("aria-busy", "true"); // until Python answers; disabling the menu would lose the focus
      this.#board.act("cycle", Number(menu.value));
    };
    menu.addEventListener("change", change, { signal: this.#board.signal });
    return keepKeys(menu);
  }
}
