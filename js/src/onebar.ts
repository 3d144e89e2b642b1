// Detects charts of one bar, such as a chart over the ranks of a single-rank job: there is nothing to compare.
import type { Figure, Trace } from "./types";

/** Numbers come as a list, or as base64 with the item type. */
function lengthOf(values: unknown): number {
  if (Array.isArray(values)) return values.length;
  const { bdata = "", dtype = "" } = (values ?? {}) as { bdata?: string; dtype?: string };
  return atob(bdata).length / (Number(dtype.slice(1)) || 1);
}

function bars({ x, y, orientation }: Trace): number {
  return lengthOf(orientation === "h" ? y : x);
}

/** Whether a figure has only a single bar, or the parts of one. */
export function isOneBar({ data, layout }: Figure): boolean {
  const isBars = data.length > 0 && data.every(({ type }) => type === "bar");
  if (layout.meta?.legend) return false; // it is one on purpose
  return isBars && (data.length === 1 || layout.barmode === "stack") && data.every((each) => bars(each) === 1);
}
