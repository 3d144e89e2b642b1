// Why is it slow: the findings with their price, or one sentence where there is none.
import { make } from "../dom";
import { Findings } from "../findings";
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

  constructor(board: Board) {
    this.band = new Band("verdict", "Why is it slow?", board.prefix);
    this.#error.setAttribute("role", "alert");
    this.#together = new Together(board);
    const send = (fields: Record<string, unknown>) => board.select(fields);
    this.#findings = new Findings(Promise.resolve(board.selection), send, board.prefix, board.signal, {
      shown: (panel) => board.show(panel),
      tick: this.#together.tick,
    });
    this.band.body.append(this.#error, this.#said, this.#findings.element, this.#together.element);
  }

  show({ ready, verdict, said, findings, replayed, error }: Bands): void {
    this.band.wait(!ready && error === null);
    this.band.aside.textContent = verdict;
    this.#said.textContent = said;
    this.#error.textContent = error;
    this.#together.take(replayed);
    this.#findings.show(findings);
  }
}
