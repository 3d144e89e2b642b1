// Details of the one selected kernel or operator, and buttons that step through its events.
import { make, pushButton } from "../dom";
import { isSaved } from "../saved";
import { copyText, download } from "../share";
import { TableRows } from "../tablerows";
import type { Board } from "./context";
import type { Detail, RankBar } from "./types";

export class Drawer {
  readonly element = make("aside", { className: "hta-drawer", hidden: true, "aria-label": "Details" });
  #board: Board;
  #events: TableRows;
  #said = make("span", { className: "hta-quiet", role: "status" });
  #drawn = "";

  constructor(board: Board) {
    this.#board = board;
    this.#events = new TableRows(board.model, () => undefined, board.signal);
  }

  show(detail: Detail | null): void {
    this.element.hidden = detail === null;
    const drawn = JSON.stringify(detail);
    if (!detail || drawn === this.#drawn) return;
    this.#drawn = drawn;
    const active = this.element.ownerDocument.activeElement;
    const focused = this.element.contains(active) ? (active as HTMLElement).dataset.act : undefined;
    const name = make("p", { className: "hta-drawer-name", title: detail.name }, detail.label);
    const copyName = this.#button("Copy the name", "copy", () => void copyText(detail.name, name));
    const code = make("code", {}, detail.code);
    this.element.replaceChildren(
      make("div", { className: "hta-band-head" }, make("h4", { className: "hta-band-title" }, detail.kind), copyName),
      name,
      ...(detail.about ? [make("p", { className: "hta-about" }, detail.about)] : []),
      make(
        "dl",
        {},
        ...detail.facts.map(({ label, text }) => make("div", {}, make("dt", {}, label), make("dd", {}, text))),
      ),
      this.#bars(detail.bars),
      ...(detail.count > 0 && !isSaved(this.#board.model) ? [this.#turns(detail)] : []),
      make("p", { className: "hta-code" }, "python ▸ ", code),
    );
    if (focused) this.element.querySelector<HTMLElement>(`[data-act="${focused}"]`)?.focus();
  }

  #button(title: string, text: string, act: () => void): HTMLButtonElement {
    const button = pushButton(text, { title, "aria-label": title }, act, this.#board.signal);
    button.dataset.act = title;
    return button;
  }

  #bars(bars: readonly RankBar[]): HTMLElement {
    const rows = bars.map(({ rank, text, share }) => {
      const filled = make("span", { className: "hta-rank-bar" });
      filled.style.width = `${100 * share}%`;
      return make(
        "li",
        {},
        make("span", {}, `rank ${rank}`),
        make("span", { className: "hta-rank-track" }, filled),
        make("span", { className: "hta-right" }, text),
      );
    });
    const said = "Mean and count per rank";
    return make("ul", { className: "hta-rank-bars", "aria-label": said, hidden: rows.length < 2 }, ...rows);
  }

  /** Buttons that step through the events; each event is shown in a window of its own. */
  #turns({ place, count }: Detail): HTMLElement {
    const here = place > 0 ? `${place.toLocaleString("en")} of ` : "";
    return make(
      "div",
      { className: "hta-turns" },
      this.#button("Previous event", "◂", () => this.#board.act("previous")),
      make("span", {}, `${here}${count.toLocaleString("en")}`),
      this.#button("Next event", "▸", () => this.#board.act("next")),
      this.#button("Download the selected events as CSV", "CSV", () => void this.#save()),
      this.#said,
    );
  }

  async #save(): Promise<void> {
    this.#said.textContent = "";
    const text = await this.#events.text("csv");
    if (text === null) this.#said.textContent = "Python is not responding.";
    else download(text, "events.csv", this.element);
  }
}
