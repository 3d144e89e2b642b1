// A search that finds ranks, steps, streams, kernels and operators, and selects them.
import { listen } from "../models";
import { Combobox } from "../search";
import type { Option } from "../types";
import type { Board } from "./context";

export class Search {
  readonly elements: readonly HTMLElement[];
  #input: HTMLInputElement;

  /** `chosen` is called before the choice is selected. */
  constructor(board: Board, chosen: () => void) {
    const { model, signal } = board;
    const found: Option[] = [];
    const spec = { kind: "search" as const, name: "search", label: "Search", options: found, free_text: false };
    const choose = (value: string) => {
      const [field, wanted] = JSON.parse(value);
      chosen();
      board.select({ [field]: wanted });
      box.show("");
    };
    const box = new Combobox(spec, `${board.prefix}-search`, signal, choose);
    this.#input = box.input;
    this.#input.classList.add("hta-search-field");
    this.#input.placeholder = "rank, step, kernel, operator …  /";
    this.#input.setAttribute("aria-label", "Search");
    const fill = () => {
      const known = model.get("_options");
      found.splice(0, found.length, ...known);
      if (box.input.getAttribute("aria-expanded") === "true") box.input.dispatchEvent(new Event("input"));
    };
    listen(model, "change:_options", fill, signal);
    fill();
    const ask = () => found.length === 0 && board.act("search");
    this.#input.addEventListener("focus", ask, { signal });
    this.elements = [box.input, box.popover];
  }

  focus(): void {
    this.#input.focus();
  }
}
