// Why is it slow: the findings with their price, or one sentence where there is none, and the kernels that take longest.
import { make } from "../dom";
import { Findings } from "../findings";
import { TableView } from "../tableview";
import { Band } from "./band";
import type { Board } from "./context";
import { Together } from "./together";
import type { Bands } from "./types";

export class Verdict {
  readonly band: Band;
  #said = make("p", { className: "hta-finding" });
  #error = make("p", { className: "hta-error" });
  #findings: Findings;
  #together: Together;
  #far = make("p", { className: "hta-about" });
  #kernels: TableView;

  constructor(board: Board) {
    this.band = new Band("verdict", "Why is it slow?", board.prefix);
    this.#error.setAttribute("role", "alert");
    this.#together = new Together(board);
    const send = (fields: Record<string, unknown>) => board.select(fields);
    this.#findings = new Findings(Promise.resolve(board.selection), send, board.prefix, board.signal, {
      shown: (panel) => board.show(panel),
      tick: this.#together.tick,
    });
    const selection = Promise.resolve(board.selection);
    const prefix = `${board.prefix}-largest`;
    this.#kernels = new TableView({ model: null, selection, send, prefix, title: "Largest kernels" }, board.signal);
    this.band.body.append(this.#error, this.#said, this.#far, this.#kernels.element);
    this.band.body.append(this.#findings.element, this.#together.element);
  }

  show({ ready, verdict, said, findings, replayed, kernels, error }: Bands): void {
    this.band.wait(!ready && error === null);
    this.band.aside.textContent = verdict;
    this.#said.textContent = said;
    this.#error.textContent = error;
    this.#far.textContent = kernels?.label ?? "";
    this.#kernels.element.hidden = !kernels?.table;
    if (kernels?.table) this.#kernels.show(kernels.table);
    this.#together.take(replayed);
    this.#findings.show(findings);
  }
}
