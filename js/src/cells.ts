// The values of a table: formatted, sorted, filtered, and written to a file. Python does the same for rows that are not
// loaded (panels/base/table.py).
import type { Cell, Column, Table } from "./types";

export type Row = readonly Cell[];

/** A filter and an order of rows; an empty `sort` means the table's own order. */
export interface Order {
  sort: string;
  descending: boolean;
  filter: string;
}

export const UNSORTED: Order = { sort: "", descending: false, filter: "" };

const NO_BREAK = "\u00a0";
const DIGITS = 3;
const MINUS = "−";
const FORMULA_START = /^[=+\-@\t\r\n＝＋－＠]/;

/** The same number with a minus sign, which is as wide as a plus, unlike a hyphen. */
export const withMinus = (text: string) => text.replace("-", MINUS);

/** Formatters by number of decimals: making one takes longer than using it for all cells of a table. */
const FORMATS: Intl.NumberFormat[] = [];

/** Three significant digits, with separated thousands. */
export function number(value: number): string {
  const size = value === 0 ? 0 : Math.floor(Math.log10(Math.abs(value)));
  const decimals = Math.min(Math.max(0, DIGITS - 1 - size), 20);
  FORMATS[decimals] ??= new Intl.NumberFormat("en", { maximumFractionDigits: decimals });
  return withMinus(FORMATS[decimals].format(value));
}

export function cellText(value: Cell, { kind, scale }: Column): string {
  if (value === null) return "";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string") return value;
  return kind === "id" ? String(value) : number(value / scale);
}

export function heading({ label, unit }: Column): string {
  return unit ? `${label}${NO_BREAK}(${unit})` : label;
}

/** A predicate for texts that contain the filter, or match the regular expression between its slashes; or an error. */
export function finder(filter: string): ((text: string) => boolean) | string {
  if (filter.length > 2 && filter.startsWith("/") && filter.endsWith("/")) {
    try {
      const pattern = new RegExp(filter.slice(1, -1), "i");
      return (text) => pattern.test(text);
    } catch (error) {
      return `the filter is not a valid regular expression: ${(error as Error).message}`;
    }
  }
  const wanted = filter.trim().toLowerCase();
  return (text) => text.toLowerCase().includes(wanted);
}

function matcher(table: Table, filter: string): ((row: Row) => boolean) | string {
  const found = finder(filter);
  if (typeof found === "string") return found;
  const wanted = Number(filter.replaceAll(",", "").replace(MINUS, "-"));
  return (row) =>
    filter.trim() === "" ||
    table.columns.some(({ kind }, place) => {
      const value = row[place] ?? null;
      if (typeof value === "number" || typeof value === "boolean") return Number(value) === wanted;
      return kind === "text" && value !== null && (found(value) || found(shownAs(table, value)));
    });
}

function compare(one: Cell, other: Cell): number {
  const isText = typeof one === "string" || typeof other === "string";
  const [a, b] = isText ? [String(one).toLowerCase(), String(other).toLowerCase()] : [Number(one), Number(other)];
  return a < b ? -1 : Number(a > b);
}

/** The sorted rows, those without a value last; or a message on what is wrong with the filter. */
export function ordered(table: Table, { sort, descending, filter }: Order): Row[] | string {
  const matches = matcher(table, filter);
  if (typeof matches === "string") return matches;
  const rows = table.rows.filter(matches);
  const place = table.columns.findIndex(({ name }) => name === sort);
  if (place < 0) return rows;
  const sign = descending ? -1 : 1;
  const known = rows.filter((row) => row[place] !== null);
  const rest = rows.filter((row) => row[place] === null);
  return [...known.sort((a, b) => sign * compare(a[place] ?? null, b[place] ?? null)), ...rest];
}

/** The text to show, such as the readable form of a kernel's name. */
export function shownAs({ names }: Table, text: string): string {
  return Object.hasOwn(names, text) ? (names[text] ?? text) : text;
}

function safe(value: Cell): string {
  if (value === null) return "";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number") return String(value);
  return FORMULA_START.test(value) ? `'${value}` : value;
}

const quoted = (text: string) => `"${text.replaceAll('"', '""')}"`;

/** Rows for a spreadsheet, with Python's column names; no text is a formula. */
export function delimited({ columns }: Table, rows: readonly Row[], style: "csv" | "tsv"): string {
  const cell = (value: Cell) => {
    const text = safe(value);
    if (style === "csv") return typeof value === "string" ? quoted(text) : text;
    return /["\t\r\n]/.test(text) ? quoted(text) : text;
  };
  const lines = [columns.map(({ name }) => name), ...rows].map((row) =>
    row.map(cell).join(style === "csv" ? "," : "\t"),
  );
  return `${lines.join("\n")}\n`;
}
