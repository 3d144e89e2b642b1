// The collapsible data table: drawn when opened, and kept up to date while open.
import { keepKeys, make } from "./dom";
import { type TableContext, TableView } from "./tableview";
import type { Table } from "./types";

function heading({ total }: Table): string {
  return `Data table (${total.toLocaleString("en")} ${total === 1 ? "row" : "rows"})`;
}

export class DataTable {
  readonly element: HTMLDetailsElement;
  #summary = keepKeys(make("summary"));
  #view: TableView;
  #table: Table | null = null;
  #shown: Table | null = null;
  #text = "";

  constructor(context: TableContext, signal: AbortSignal) {
    this.#view = new TableView(context, signal);
    this.element = make("details", {}, this.#summary, this.#view.element);
    this.element.addEventListener("toggle", () => this.#fill(), { signal });
  }

  show(table: Table | null): void {
    const text = JSON.stringify(table);
    if (text !== this.#text) this.#table = table; // otherwise keep order and rows
    this.#text = text;
    this.element.hidden = !table?.total;
    if (table) this.#summary.textContent = heading(table);
    this.#fill();
  }

  #fill(): void {
    if (!this.element.open || !this.#table || this.#table === this.#shown) return;
    this.#shown = this.#table;
    this.#view.show(this.#table);
  }
}
