// What is looked at: the job, its devices and steps, and what was left out of it.
import { make, pushButton } from "../dom";
import { listen, type Model, viewOf } from "../models";
import { float } from "../popover";
import type { PanelState } from "../types";
import type { Board } from "./context";
import { Cycles } from "./cycles";

export class Header {
  readonly element: HTMLElement;
  readonly title: HTMLElement;
  readonly cycles: Cycles;
  #facts = make("span", { className: "hta-facts" });
  #notices: HTMLButtonElement;
  #list = make("ul");
  #popover: HTMLElement;

  constructor(board: Board, search: readonly HTMLElement[]) {
    const { prefix, signal } = board;
    this.cycles = new Cycles(board);
    this.title = make("h3", { className: "hta-title", id: `${prefix}-title` });
    this.#popover = make("div", { className: "hta-popover hta-notices-list", id: `${prefix}-notices` }, this.#list);
    this.#popover.setAttribute("popover", "auto");
    this.#notices = pushButton("", { className: "hta-notices-button", hidden: true });
    this.#notices.popoverTargetElement = this.#popover;
    float(this.#popover, this.#notices, signal);
    this.element = make(
      "header",
      { className: "hta-board-header" },
      this.title,
      this.cycles.element,
      this.#facts,
      ...search,
      this.#notices,
      this.#popover,
    );
  }

  /** Follow the panel that knows the name and the notices of the job. */
  follow(job: Model<PanelState>, signal: AbortSignal): void {
    const update = () => {
      const { title } = job.get("_spec");
      this.title.textContent = title;
      this.title.title = title;
      const { notices } = viewOf(job);
      this.#list.replaceChildren(...notices.map((text) => make("li", {}, text)));
      this.#notices.hidden = notices.length === 0;
      this.#notices.textContent = `${notices.length} ${notices.length === 1 ? "notice" : "notices"}`;
      this.#notices.title = "What was left out of the traces, and how times were read";
    };
    listen(job, "change:_view", update, signal);
    update();
  }

  show(facts: readonly string[]): void {
    const last = facts.at(-1);
    const rest = make("span", {}, facts.slice(0, -1).join(" · "));
    this.#facts.replaceChildren(
      rest,
      facts.length > 1 ? " · " : "",
      ...(last === undefined ? [] : [make("b", {}, last)]),
    );
    this.#facts.title = facts.join(" · ");
  }
}
