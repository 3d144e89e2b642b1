// How long a step takes without the ticked findings, and the boxes that tick them.
import { keepKeys, make } from "../dom";
import { listen, write } from "../models";
import { isSaved } from "../saved";
import type { Board } from "./context";

export class Together {
  readonly element = make("p", { className: "hta-together", hidden: true, role: "status" });
  #board: Board;
  #replayed: readonly number[] = [];
  #boxes = new Map<number, HTMLInputElement>();

  constructor(board: Board) {
    this.#board = board;
    this.element.title = "From a replay without all of them at once; their individual prices must not be added";
    listen(board.model, "change:_together", () => this.#say(), board.signal);
    listen(board.model, "change:unticked", () => this.#follow(), board.signal);
    this.#say();
  }

  /** Set which findings get boxes in rows drawn from now on. */
  take(replayed: readonly number[]): void {
    this.#replayed = replayed;
  }

  /** The box of a finding, or a placeholder; null if there is nothing to choose, as in a report. */
  readonly tick = (place: number, describedBy: string): HTMLElement | null => {
    if (this.#replayed.length < 2 || isSaved(this.#board.model)) return null;
    if (!this.#replayed.includes(place)) return make("span");
    const said = { "aria-label": `Include finding ${place + 1}`, "aria-describedby": describedBy };
    const title = "Include in the combined saving";
    const box = keepKeys(make("input", { type: "checkbox", className: "hta-tick", title, ...said }));
    box.addEventListener("change", () => this.#change(), { signal: this.#board.signal });
    this.#boxes.set(place, box);
    this.#follow();
    return box;
  };

  #change(): void {
    const unticked = this.#replayed.filter((place) => this.#boxes.get(place)?.checked === false);
    write(this.#board.model, { unticked });
  }

  #follow(): void {
    const unticked = this.#board.model.get("unticked") ?? [];
    for (const [place, box] of this.#boxes) box.checked = !unticked.includes(place);
  }

  #say(): void {
    const said = this.#board.model.get("_together") ?? "";
    this.element.textContent = said;
    this.element.hidden = said === "";
  }
}
