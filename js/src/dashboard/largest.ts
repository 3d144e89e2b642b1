// For jobs bound by the GPU: how far the kernels are from the peak, and those with the most time.
import { make } from "../dom";
import { TableView } from "../tableview";
import type { Numbers } from "../types";
import { Band } from "./band";
import type { Board } from "./context";

export class Largest {
  readonly band: Band;
  #far = make("p", { className: "hta-about" });
  #table: TableView;

  constructor(board: Board) {
    this.band = new Band("largest", "Largest kernels", board.prefix);
    const send = (fields: Record<string, unknown>) => board.select(fields);
    const context = { model: null, selection: Promise.resolve(board.selection), send };
    this.#table = new TableView(
      { ...context, prefix: `${board.prefix}-largest`, title: "Largest kernels" },
      board.signal,
    );
    this.band.body.append(this.#far, this.#table.element);
    this.show(null);
  }

  show(kernels: Numbers | null): void {
    this.band.element.hidden = !kernels?.table;
    this.band.aside.textContent = kernels?.text ?? "";
    this.#far.textContent = kernels?.label ?? "";
    if (kernels?.table) this.#table.show(kernels.table);
  }
}
