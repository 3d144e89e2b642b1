// Why it is slow: the findings with their price, or one sentence if there are none, and what else to try.
import { make } from "../dom";
import { Findings } from "../findings";
import { Band } from "./band";
import type { Board } from "./context";
import { Together } from "./together";
import type { Bands } from "./types";

export class Verdict {
  readonly band: Band;
  #said = make("p", { className: "hta-finding" });
  #error = make("p", { className: "hta-error", role: "alert" });
  #findings: Findings;
  #together: Together;
  #besides = make("p", { className: "hta-besides" });
  #others = make("section", {}, make("p", { className: "hta-about" }, "What to try: the GPU is the bottleneck"));
  #toTry: Findings;

  /** `found` is called with the pressed button once what it shows is selected. */
  constructor(board: Board, found: (button: HTMLElement) => void) {
    this.band = new Band("verdict", "Why is it slow?", board.prefix);
    this.#together = new Together(board);
    const send = (fields: Record<string, unknown>) => board.select(fields);
    const selection = Promise.resolve(board.selection);
    const shown = (panel: string, button: HTMLElement) => {
      board.show(panel);
      found(button);
    };
    this.#findings = new Findings(selection, send, board.prefix, board.signal, { shown, tick: this.#together.tick });
    this.#toTry = new Findings(selection, send, `${board.prefix}-try`, board.signal, { shown, tick: () => null });
    this.#others.append(this.#toTry.element);
    this.band.body.append(
      this.#error,
      this.#said,
      this.#findings.element,
      this.#together.element,
      this.#besides,
      this.#others,
    );
  }

  show({ ready, verdict, said, findings, replayed, to_try, error }: Bands): void {
    this.band.wait(!ready && error === null);
    const [first = "", ...besides] = verdict.split("\n");
    this.band.aside.textContent = first;
    this.#besides.textContent = besides.join("\n"); // behind the findings: nine lines stood before one of them
    this.#said.textContent = said;
    this.#error.textContent = error;
    this.#together.take(replayed);
    this.#findings.show(findings);
    this.#toTry.show(to_try);
    this.#others.hidden = to_try.length === 0;
  }
}
