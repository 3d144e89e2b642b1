// Copies and saves the rows of a table: all rows from Python, or the loaded ones if it does not answer.
import { delimited, type Row } from "./cells";
import { copyText, download } from "./share";
import type { TableRows } from "./tablerows";
import type { Table } from "./types";

/** Copy the marked rows, or all if none are marked; returns a message. */
export async function copyRows(
  table: Table,
  rows: TableRows,
  marked: readonly Row[],
  beside: HTMLElement,
): Promise<string> {
  const some = marked.length > 0 ? marked : rows.loaded;
  const local = delimited(table, some, "tsv");
  let count = some.length;
  const all = async () => {
    const text = await rows.text("tsv");
    if (text !== null) count = rows.total;
    return text ?? local;
  };
  const isWhole = marked.length > 0 || isComplete(rows);
  const copied = await copyText(isWhole ? local : all(), beside);
  const said = `Copied ${count.toLocaleString("en")} ${count === 1 ? "row" : "rows"}`;
  return copied ? said : "The browser blocked the copy";
}

/** Save all rows to a file named after the title; returns a message, or "". */
export async function saveRows(table: Table, rows: TableRows, title: string, beside: HTMLElement): Promise<string> {
  const whole = await rows.text("csv");
  const text = whole ?? delimited(table, rows.loaded, "csv");
  const name = title
    .toLowerCase()
    .replace(/[^\p{L}\d]+/gu, "-")
    .replace(/^-|-$/g, "");
  download(text, `${name || "table"}.csv`, beside);
  return whole === null && !isComplete(rows) ? `Only the ${rows.loaded.length} loaded rows were saved` : "";
}

/** Whether all rows that pass the filter are loaded. */
function isComplete(rows: TableRows): boolean {
  return rows.loaded.length >= rows.total && rows.note === "";
}
