// A titled part of a dashboard, with a skeleton until its contents are known.
import { make } from "../dom";

export class Band {
  readonly element: HTMLElement;
  readonly title: HTMLElement;
  readonly aside = make("span", { className: "hta-aside" });
  readonly body = make("div", { className: "hta-band-body" });

  constructor(name: string, title: string, prefix: string) {
    this.title = make("h4", { className: "hta-band-title", id: `${prefix}-${name}` }, title);
    const head = make("div", { className: "hta-band-head" }, this.title, this.aside);
    const properties = { className: `hta-band hta-band-${name}`, "aria-labelledby": this.title.id };
    this.element = make("section", properties, head, this.body);
  }

  /** Whether the contents are not known yet. */
  wait(waiting: boolean): void {
    this.element.classList.toggle("hta-skeleton", waiting);
    this.element.setAttribute("aria-busy", String(waiting));
  }
}
