// The collapsible data table: built when it is opened, and kept up to date while it is open.
import { keepKeys, make } from "./dom";
import type { Table } from "./types";

function heading({ rows, total }: Table): string {
  const all = `${total.toLocaleString("en")} ${total === 1 ? "row" : "rows"}`;
  return `Data table (${rows.length < total ? `first ${rows.length} of ` : ""}${all})`;
}

function head({ columns }: Table): HTMLTableSectionElement {
  const cells = columns.map(({ label, align }) => make("th", { scope: "col", className: `hta-${align}` }, label));
  return make("thead", {}, make("tr", {}, ...cells));
}

function body({ columns, rows }: Table): HTMLTableSectionElement {
  const cell = (text: string, column: number) =>
    make("td", { className: `hta-${columns[column]?.align ?? "left"}`, title: text.length > 40 ? text : "" }, text);
  return make("tbody", {}, ...rows.map((texts) => make("tr", {}, ...texts.map(cell))));
}

export class DataTable {
  readonly element: HTMLDetailsElement;
  #summary: HTMLElement;
  #frame: HTMLElement;
  #table: Table | null = null;

  constructor(signal: AbortSignal) {
    this.#summary = keepKeys(make("summary"));
    this.#frame = keepKeys(make("div", { className: "hta-table", tabIndex: 0 }));
    this.#frame.setAttribute("role", "group");
    this.#frame.setAttribute("aria-label", "Data table");
    this.element = make("details", {}, this.#summary, this.#frame);
    this.element.addEventListener("toggle", () => this.#fill(), { signal });
  }

  show(table: Table | null): void {
    this.#table = table;
    this.element.hidden = !table?.total;
    if (table) this.#summary.textContent = heading(table);
    this.#fill();
  }

  #fill(): void {
    if (this.element.open && this.#table) {
      this.#frame.replaceChildren(make("table", {}, head(this.#table), body(this.#table)));
    }
  }
}
