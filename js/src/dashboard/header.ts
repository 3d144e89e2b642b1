// The header: the job, its devices and steps, and the notices about it.
import { make, pushButton } from "../dom";
import { listen, type Model, viewOf } from "../models";
import type { PanelState } from "../types";
import type { Board } from "./context";
import { Cycles } from "./cycles";

export class Header {
  readonly element: HTMLElement;
  readonly title: HTMLElement;
  readonly cycles: Cycles;
  #facts = make("span", { className: "hta-facts" });
  #notices: HTMLButtonElement;
  #list: HTMLElement;
  #ofJob: readonly string[] = [];
  #ofVerdict: readonly string[] = [];

  constructor(board: Board, search: readonly HTMLElement[]) {
    const { prefix, signal } = board;
    this.cycles = new Cycles(board);
    this.title = make("h3", { className: "hta-title", id: `${prefix}-title` });
    this.#list = make("ul", { className: "hta-notices-list", id: `${prefix}-notices`, hidden: true });
    const said = { "aria-controls": this.#list.id };
    this.#notices = pushButton("", { className: "hta-notices-button", hidden: true, ...said });
    const toggle = (shown: boolean) => {
      this.#list.hidden = !shown;
      this.#notices.setAttribute("aria-expanded", String(shown));
    };
    this.#notices.addEventListener("click", () => toggle(this.#list.hidden === true), { signal });
    toggle(false);
    this.element = make(
      "header",
      { className: "hta-board-header" },
      this.title,
      this.cycles.element,
      this.#facts,
      ...search,
      this.#notices,
      this.#list, // pushes the page down: as an overlay, it covered the buttons of the first finding
    );
  }

  /** Follow the panel that has the name and the notices of the job. */
  follow(job: Model<PanelState>, signal: AbortSignal): void {
    const update = () => {
      const { title } = job.get("_spec");
      this.title.textContent = title;
      this.title.title = title;
      this.#ofJob = viewOf(job).notices;
      this.#listNotices();
    };
    listen(job, "change:_view", update, signal);
    update();
  }

  #listNotices(): void {
    const texts = [...this.#ofJob, ...this.#ofVerdict];
    this.#list.replaceChildren(...texts.map((text) => make("li", {}, text)));
    this.#notices.hidden = texts.length === 0;
    this.#notices.textContent = `${texts.length} ${texts.length === 1 ? "notice" : "notices"}`;
    this.#notices.title = "What was left out of the traces, how times were read, and what limits the verdict";
  }

  show(facts: readonly string[], notices: readonly string[]): void {
    const last = facts.at(-1);
    const rest = make("span", {}, facts.slice(0, -1).join(" · "));
    this.#facts.replaceChildren(
      rest,
      facts.length > 1 ? " · " : "",
      ...(last === undefined ? [] : [make("b", {}, last)]),
    );
    this.#facts.title = facts.join(" · ");
    this.#ofVerdict = notices;
    this.#listNotices();
  }
}
