// What the rows of a table select: the selection fields that their columns name, or else just the rows.
import type { Row } from "./cells";
import { afterClick } from "./integers";
import { listen, type Model } from "./models";
import { EVERYTHING } from "./picks";
import type { Cell, SelectionState, Table } from "./types";

const NUMBERED = new Set(["ranks", "streams", "steps"]);

export class TablePicks {
  #selection: Model<SelectionState> | null = null;
  #send: (values: Record<string, unknown>, target: Model) => void;
  #marked = new Set<string>(); // marked rows, for a table that selects nothing

  constructor(send: (values: Record<string, unknown>, target: Model) => void) {
    this.#send = send;
  }

  /** Follow a selection; `changed` is called now, and after each change. */
  follow(selection: Model<SelectionState>, changed: () => void, signal: AbortSignal): void {
    this.#selection = selection;
    for (const name of Object.keys(EVERYTHING)) listen(selection, `change:${name}`, changed, signal);
    changed();
  }

  /** The selection fields that a row is about, with its values. */
  of(table: Table, row: Row): [field: string, value: Cell][] {
    return table.columns.flatMap(({ select, besides }, place): [string, Cell][] => {
      const value = row[place] ?? null;
      const isAny = select !== "" && value !== null && isItem(select, value) && !besides.includes(String(value));
      return isAny ? [[select, value]] : [];
    });
  }

  isMarked(table: Table, row: Row): boolean {
    const picks = this.#selection ? this.of(table, row) : [];
    if (picks.length === 0) return this.#marked.has(JSON.stringify(row));
    return picks.every(([field, value]) => holds(this.#selection?.get(field), value));
  }

  /** Select what the row is about, or deselect it; `add` keeps the rest. */
  pick(table: Table, row: Row, add: boolean): void {
    const picks = this.#selection ? this.of(table, row) : [];
    if (!this.#selection || picks.length === 0) {
      this.#marked = new Set(afterClick([...this.#marked], JSON.stringify(row), add));
      return;
    }
    const marked = this.isMarked(table, row);
    const values = picks.map(([field, value]) => [field, this.#after(field, value, marked, add)]);
    this.#send(Object.fromEntries(values), this.#selection);
  }

  #after(field: string, value: Cell, marked: boolean, add: boolean): unknown {
    const current = this.#selection?.get(field);
    if (!Array.isArray(current)) return marked ? EVERYTHING[field] : value;
    if (add) return marked || !current.includes(value) ? afterClick(current, value, true) : current;
    return marked && current.length === 1 ? [] : [value];
  }
}

/** Whether a field can hold the value; a row for all ranks, or for no stream, selects nothing. */
function isItem(field: string, value: Cell): boolean {
  return NUMBERED.has(field) ? typeof value === "number" && value >= 0 : typeof value === "string" && value !== "";
}

function holds(current: unknown, value: Cell): boolean {
  return Array.isArray(current) ? current.includes(value) : current === value;
}
