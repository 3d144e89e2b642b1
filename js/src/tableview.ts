// A table that can be sorted, filtered, copied and downloaded, and whose rows select. Only rows in sight are drawn. The
// grid is one tab stop: arrow keys move through its rows, and from the first row up into the headings.
import { cellText, heading, type Order, shownAs } from "./cells";
import { keepKeys, make, pushButton } from "./dom";
import * as hover from "./hover";
import type { Model } from "./models";
import { withEdges } from "./tableedges";
import { copyRows, saveRows } from "./tablefiles";
import { TablePicks } from "./tablepicks";
import { TableRows } from "./tablerows";
import type { Column, SelectionState, Table } from "./types";

export interface TableContext {
  /** Model of the panel that has the table; null if all rows are loaded. */
  model: Model | null;
  selection: Promise<Model<SelectionState>> | null;
  send: (values: Record<string, unknown>, target: Model) => void;
  prefix: string;
  /** Name of the table, and of saved files. */
  title: string;
}

const ROW = 24; // px, as in table.css
const SPARE = 8; // rows drawn above and below those in sight
const LEAST = 20; // rows drawn where nothing is laid out yet
const MOST = 500_000; // rows that a page is high enough for
const FEW = 5; // rows that need no filter
const FILTER_DELAY = 200;
const HEADINGS = -1;

export class TableView {
  readonly element: HTMLElement;
  #context: TableContext;
  #rows: TableRows;
  #filter: HTMLInputElement;
  #said = make("span", { className: "hta-table-said", role: "status" });
  #frame = make("div", { className: "hta-table" });
  #grid = keepKeys(make("table", { tabIndex: 0, role: "grid" }));
  #head = make("tr", { "aria-rowindex": "1" });
  #body = make("tbody");
  #picks: TablePicks;
  #active = 0; // position of the row that keys act on
  #column = 0; // of the heading that keys act on
  #widths: number[] = [];
  #signal: AbortSignal;

  constructor(context: TableContext, signal: AbortSignal) {
    this.#context = context;
    this.#picks = new TablePicks(context.send);
    this.#signal = signal;
    this.#rows = new TableRows(context.model, () => this.#draw(), signal);
    this.#filter = this.#field();
    const edges = withEdges(this.#frame, this.#grid, signal);
    const bar = make(
      "div",
      { className: "hta-table-bar" },
      this.#filter,
      this.#said,
      edges.more,
      pushButton("Copy", { title: "Copy the selected rows, or all" }, () => this.#copy(), signal),
      pushButton("CSV", { title: "Download all rows as CSV" }, () => this.#save(), signal),
    );
    this.#grid.setAttribute("aria-label", context.title);
    this.#grid.append(make("thead", {}, this.#head), this.#body);
    this.#frame.append(this.#grid);
    this.element = make("div", { className: "hta-table-view" }, bar, edges.element);
    this.#frame.addEventListener("scroll", () => this.#draw(), { signal, passive: true });
    this.#grid.addEventListener("click", (event) => this.#clicked(event), { signal });
    this.#grid.addEventListener("keydown", (event) => this.#key(event), { signal });
    this.#grid.addEventListener("pointerover", (event) => this.#pointAt(event.target as Element), { signal });
    this.#grid.addEventListener("pointerleave", () => hover.show(null), { signal });
    void context.selection?.then((selection) => this.#picks.follow(selection, () => this.#draw(), signal));
  }

  show(table: Table): void {
    this.#widths = [];
    this.#filter.hidden = table.total <= FEW;
    this.#grid.setAttribute("aria-colcount", String(table.columns.length));
    this.#rows.show(table);
  }

  #field(): HTMLInputElement {
    const said = "Filter rows by text, or by a regular expression between slashes";
    const input = keepKeys(
      make("input", { type: "search", placeholder: "Filter: text or /regex/", "aria-label": said }),
    );
    let timer: ReturnType<typeof setTimeout> | undefined;
    const typed = () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.#arrange({ filter: input.value }), FILTER_DELAY);
    };
    input.addEventListener("input", typed, { signal: this.#signal });
    return input;
  }

  #arrange(changes: Partial<Order>): void {
    this.#frame.scrollTop = 0;
    this.#active = Math.min(this.#active, 0);
    this.#rows.arrange({ ...this.#rows.order, ...changes });
  }

  #sort({ name, kind }: Column): void {
    const { sort, descending } = this.#rows.order;
    const first = kind === "number"; // numbers: largest first
    if (sort !== name) this.#arrange({ sort: name, descending: first });
    else if (descending === first) this.#arrange({ descending: !first });
    else this.#arrange({ sort: "", descending: false });
  }

  #draw(): void {
    const table = this.#rows.table;
    if (!table) return;
    const { total, note, refused } = this.#rows;
    const rows = Math.min(total, MOST);
    const top = Math.max(0, Math.floor(this.#frame.scrollTop / ROW) - SPARE);
    const count = Math.max(LEAST, Math.ceil(this.#frame.clientHeight / ROW)) + 2 * SPARE;
    const [first, end] = [Math.min(top, Math.max(0, rows - count)), Math.min(rows, top + count)];
    this.#drawHead(table);
    const drawn = Array.from({ length: end - first }, (_, place) => this.#row(table, first + place));
    this.#body.replaceChildren(gap(first), ...drawn, gap(rows - end));
    this.#grid.setAttribute("aria-rowcount", String(rows + 1));
    setTimeout(() => this.#keepWidths()); // a separate task, because it waits for the layout
    this.#point();
    this.#filter.setAttribute("aria-invalid", String(refused));
    const few = total < table.total ? `${total.toLocaleString("en")} of ${table.total.toLocaleString("en")} rows` : "";
    const cut = total > MOST ? `the first ${MOST.toLocaleString("en")} rows` : "";
    this.#said.textContent = note || cut || few;
  }

  #drawHead({ columns }: Table): void {
    const { sort, descending } = this.#rows.order;
    const cells = columns.map((column, place) => {
      const sorted = column.name === sort ? (descending ? "descending" : "ascending") : "none";
      const properties = { scope: "col", id: this.#id("column", place), className: align(column), title: column.name };
      const cell = make("th", { ...properties, "aria-sort": sorted }, heading(column));
      cell.style.minWidth = `${this.#widths[place] ?? 0}px`;
      return cell;
    });
    this.#head.replaceChildren(...cells);
  }

  #row(table: Table, place: number): HTMLTableRowElement {
    const row = this.#rows.at(place);
    const cells = table.columns.map((column, at) => {
      const value = row?.[at] ?? null;
      const text = row ? cellText(value, column) : "…";
      const shown = shownAs(table, text);
      const title = shown !== text || text.length > 40 ? text : "";
      return make("td", { className: align(column), title }, shown);
    });
    const marked = row !== undefined && this.#picks.isMarked(table, row);
    const said = { "aria-rowindex": String(place + 2), "aria-selected": String(marked) };
    const element = make("tr", { id: this.#id("row", place), ...said }, ...cells);
    element.dataset.place = String(place);
    element.classList.toggle("hta-marked", marked);
    return element;
  }

  #id(what: string, place: number): string {
    return `${this.#context.prefix}-${what}-${place}`;
  }

  /** Keep columns from becoming narrower while scrolling. */
  #keepWidths(): void {
    const cells = [...this.#head.children] as HTMLElement[];
    this.#widths = cells.map(({ offsetWidth }, place) => Math.max(offsetWidth, this.#widths[place] ?? 0));
  }

  /** Say which row or heading keys act on. */
  #point(): void {
    for (const each of this.#grid.querySelectorAll(".hta-active")) each.classList.remove("hta-active");
    const id = this.#active === HEADINGS ? this.#id("column", this.#column) : this.#id("row", this.#active);
    const active = [...this.#head.children, ...this.#body.children].find((each) => each.id === id);
    active?.classList.add("hta-active");
    if (active) this.#grid.setAttribute("aria-activedescendant", id);
    else this.#grid.removeAttribute("aria-activedescendant");
  }

  /** Tell the other parts of the page what a row is about. */
  #pointAt(target: Element): void {
    const place = target.closest<HTMLElement>("tr[data-place]")?.dataset.place;
    const table = this.#rows.table;
    const row = place === undefined ? undefined : this.#rows.at(Number(place));
    if (!table || !row) return;
    const { kernel, ranks } = Object.fromEntries(this.#picks.of(table, row));
    const named = typeof kernel === "string" ? { kernel } : {};
    hover.show({ ...named, ...(typeof ranks === "number" ? { rank: ranks } : {}) });
  }

  #clicked(event: MouseEvent): void {
    const target = event.target as Element;
    const cell = target.closest("th");
    const column = cell && this.#rows.table?.columns[[...this.#head.children].indexOf(cell)];
    if (column) {
      this.#active = HEADINGS;
      this.#column = [...this.#head.children].indexOf(cell);
      this.#sort(column);
      return;
    }
    const row = target.closest<HTMLElement>("tr[data-place]");
    const text = (this.#grid.getRootNode() as Document).getSelection?.() ?? getSelection();
    if (!row || (text && !text.isCollapsed)) return; // the user is marking text
    this.#active = Number(row.dataset.place);
    this.#pick(event.shiftKey || event.ctrlKey || event.metaKey);
  }

  #key(event: KeyboardEvent): void {
    const { key } = event;
    const page = Math.max(1, Math.floor(this.#frame.clientHeight / ROW) - 2);
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    const step = steps[key];
    const inHead = this.#active === HEADINGS;
    if (step !== undefined) this.#move(this.#active + step);
    else if (key === "Home" || key === "End") this.#move(key === "Home" ? 0 : this.#rows.total - 1);
    else if (inHead && (key === "ArrowRight" || key === "ArrowLeft")) this.#along(key === "ArrowRight" ? 1 : -1);
    else if (key === "Enter" || key === " ") this.#press(event.shiftKey);
    else if ((event.ctrlKey || event.metaKey) && key === "c" && (getSelection()?.isCollapsed ?? true))
      void this.#copy();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #move(place: number): void {
    this.#active = Math.min(Math.max(place, HEADINGS), Math.min(this.#rows.total, MOST) - 1);
    const top = Math.max(this.#active, 0) * ROW;
    const { scrollTop, clientHeight } = this.#frame;
    if (top < scrollTop) this.#frame.scrollTop = top;
    else if (top + 2 * ROW > scrollTop + clientHeight) this.#frame.scrollTop = top + 2 * ROW - clientHeight;
    this.#draw();
  }

  #along(step: number): void {
    this.#column = Math.min(Math.max(this.#column + step, 0), this.#head.childElementCount - 1);
    this.#point();
    this.#head.children[this.#column]?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  #press(add: boolean): void {
    const column = this.#rows.table?.columns[this.#column];
    if (this.#active !== HEADINGS) this.#pick(add);
    else if (column) this.#sort(column);
  }

  /** Select what the row is about, or deselect it; `add` keeps the rest. */
  #pick(add: boolean): void {
    const table = this.#rows.table;
    const row = this.#rows.at(this.#active);
    if (!table || !row) return;
    this.#picks.pick(table, row, add);
    this.#draw();
  }

  async #copy(): Promise<void> {
    const table = this.#rows.table;
    if (!table) return;
    const marked = this.#rows.loaded.filter((row) => this.#picks.isMarked(table, row));
    this.#say(await copyRows(table, this.#rows, marked, this.element));
  }

  async #save(): Promise<void> {
    const table = this.#rows.table;
    if (!table) return;
    const said = await saveRows(table, this.#rows, this.#context.title, this.element);
    if (said) this.#say(said);
  }

  #say(text: string): void {
    this.#said.textContent = text;
  }
}

function align({ kind }: Column): string {
  return kind === "text" ? "hta-left" : "hta-right";
}

/** A row as high as the rows that are not drawn. */
function gap(rows: number): HTMLTableRowElement {
  const element = make("tr", { className: "hta-gap", hidden: rows <= 0, "aria-hidden": "true" });
  element.style.height = `${Math.max(rows, 0) * ROW}px`;
  return element;
}
