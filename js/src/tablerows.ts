// The shown rows of a table: those that are not loaded are requested from Python.
import { type Order, ordered, type Row, UNSORTED } from "./cells";
import { listen, type Model } from "./models";
import { inParts } from "./parts";
import type { Cell, Table } from "./types";

/** How a table asks Python; panels/base/table.py answers. */
export const ROWS = "table-rows";
export const TEXT = "table-text";

const PAGE = 200;
const PATIENCE = 400; // ms to wait before showing the loaded rows meanwhile

interface Answer {
  kind: string;
  id: string;
  problem?: string;
  first?: number;
  rows?: Cell[][];
  total?: number;
  columns?: string[];
  names?: Record<string, string>;
}

/** Filtered and sorted rows; `changed` is called when they change. */
export class TableRows {
  total = 0;
  /** What is wrong or missing; empty if all is well. */
  note = "";
  /** Whether the filter is wrong. */
  refused = false;
  #model: Model | null;
  #changed: () => void;
  #table: Table | null = null;
  #order: Order = UNSORTED;
  #local: readonly Row[] = [];
  #head: readonly Row[] = []; // the first rows, until their page is loaded
  #pages = new Map<number, readonly Row[]>();
  #pagesOf: Order = UNSORTED;
  #asked = new Set<number>();
  #remote = false;
  #waiting = new Map<string, (answer: Answer) => void>();
  #prefix = Math.random().toString(36).slice(2);
  #number = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #gone = false;

  constructor(model: Model | null, changed: () => void, signal: AbortSignal) {
    this.#model = model;
    this.#changed = changed;
    signal.addEventListener("abort", () => clearTimeout(this.#timer), { once: true });
    if (!model) return;
    const received = (content: Answer) => {
      const waiting = this.#waiting.get(content?.id);
      this.#waiting.delete(content?.id);
      waiting?.(content);
    };
    const lost = () => {
      this.#gone = true;
    };
    listen(model, "msg:custom", received, signal);
    listen(model, "comm_live_update", lost, signal);
  }

  get order(): Order {
    return this.#order;
  }

  /** Whether all rows of the table are loaded. */
  get complete(): boolean {
    return this.#table !== null && this.#table.rows.length >= this.#table.total;
  }

  get table(): Table | null {
    return this.#table;
  }

  /** The loaded rows, in order. */
  get loaded(): Row[] {
    if (!this.#remote) return [...this.#local];
    const pages = [...this.#pages].sort(([one], [other]) => one - other).flatMap(([, rows]) => rows);
    return this.#pages.has(0) ? pages : [...this.#head, ...pages];
  }

  show(table: Table): void {
    this.#table = table;
    if (!table.columns.some(({ name }) => name === this.#order.sort)) this.#order = { ...this.#order, sort: "" };
    this.arrange(this.#order);
  }

  /** Change the order. */
  arrange(order: Order): void {
    const table = this.#table;
    if (!table) return;
    clearTimeout(this.#timer);
    this.#order = order;
    this.#asked.clear();
    this.#waiting.clear();
    this.refused = false;
    const plain = order.sort === "" && order.filter.trim() === "";
    if (this.complete || this.#gone || !this.#model) this.#showLocal();
    else if (plain) this.#showFirst(table);
    else {
      this.#timer = setTimeout(() => this.#showLocal(), PATIENCE);
      this.#ask(0);
    }
  }

  /** The row at a position; it is requested if it is not loaded. */
  at(place: number): Row | undefined {
    if (!this.#remote) return this.#local[place];
    const page = Math.floor(place / PAGE);
    const row = this.#head[place] ?? this.#pages.get(page)?.[place % PAGE];
    if (row === undefined && place < this.total) this.#ask(page);
    return row;
  }

  /** All rows in this order as text, from Python; null if it does not answer. */
  async text(style: "csv" | "tsv", patience = 10_000): Promise<string | null> {
    if (!this.#model || this.#gone) return null;
    try {
      const packed = await inParts(this.#model, { kind: TEXT, style, ...this.#order }, patience);
      return await new Response(packed.stream().pipeThrough(new DecompressionStream("gzip"))).text();
    } catch {
      return null;
    }
  }

  /** The first rows came with the table. */
  #showFirst(table: Table): void {
    this.#remote = true;
    this.#pages = new Map();
    this.#pagesOf = this.#order;
    this.#head = table.rows;
    this.total = table.total;
    this.note = "";
    this.#changed();
  }

  #showLocal(): void {
    const table = this.#table;
    if (!table) return;
    const rows = ordered(table, this.#order);
    this.#remote = false;
    this.refused = typeof rows === "string";
    this.#local = typeof rows === "string" ? table.rows : rows;
    this.total = this.#local.length;
    const some = `the first ${table.rows.length} of ${table.total.toLocaleString("en")} rows${this.#model ? ": Python is not responding" : ""}`;
    this.note = typeof rows === "string" ? rows : this.complete ? "" : some;
    this.#changed();
  }

  #ask(page: number): void {
    if (this.#asked.has(page)) return;
    this.#asked.add(page);
    const order = this.#order;
    const content = { kind: ROWS, first: page * PAGE, count: PAGE };
    const sent = this.#send(content, (answer) => {
      if (order === this.#order) this.#take(page, answer);
    });
    if (!sent) this.#showLocal();
  }

  #take(page: number, { rows, total, columns, names: labels, problem }: Answer): void {
    clearTimeout(this.#timer);
    const names = this.#table?.columns.map(({ name }) => name);
    if (problem !== undefined) {
      this.note = problem;
      this.refused = true;
      this.#changed();
    } else if (rows && total !== undefined && String(columns) === String(names)) {
      if (this.#pagesOf !== this.#order) {
        this.#pages = new Map();
        this.#pagesOf = this.#order;
        this.#head = [];
      }
      Object.assign(this.#table?.names ?? {}, labels);
      this.#remote = true;
      this.note = "";
      this.refused = false;
      this.total = total;
      this.#pages.set(page, rows);
      this.#changed();
    }
  }

  #send(content: Record<string, unknown>, answered: (answer: Answer) => void): boolean {
    this.#number += 1;
    const id = `${this.#prefix}-${this.#number}`;
    this.#waiting.set(id, answered);
    try {
      this.#model?.send({ ...content, ...this.#order, id });
      return true;
    } catch {
      this.#gone = true; // a model without a kernel
      return false;
    }
  }
}
