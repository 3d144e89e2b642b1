// The Python expressions for what the page shows.
import { make, pushButton } from "../dom";
import { isSaved } from "../saved";
import type { Board } from "./context";
import type { Bands } from "./types";

export class Footer {
  readonly element = make("footer", { className: "hta-footer" });
  #events = make("span");
  #code = make("code");

  #isSaved: boolean;

  constructor(board: Board) {
    this.#isSaved = isSaved(board.model); // there is no Python
    const title = "Undo the last change (Ctrl-Z)";
    const undo = pushButton("undo", { title }, () => board.act("undo"), board.signal);
    const names = make(
      "span",
      {},
      "python ▸ ",
      make("code", {}, "dash.findings"),
      " · ",
      make("code", {}, "dash.events"),
    );
    this.element.append(names, this.#events, make("code", {}, "dash.table"), this.#code, undo);
  }

  show({ events, code, ready }: Bands): void {
    this.element.hidden = !ready || this.#isSaved;
    this.#events.textContent = events ? `(${events} selected) · ` : "· ";
    this.#code.textContent = code.endsWith("set()") ? "" : `· ${code}`;
    this.#code.title = code;
  }
}
