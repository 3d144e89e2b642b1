// Selections by a click or a key on a chart. `meta.select` names the field, and `customdata[i][0]` is the item of point i
// (in a heatmap, of row i). `meta.also` names a second field, such as the shapes of operators, and `customdata[i][1]` is its
// item. `meta.sets` names a parameter of the panel that a click sets instead of a field.

import { afterClick } from "./integers";
import type { Model } from "./models";
import type { Figure, SelectionState } from "./types";

/** Values of all fields when everything is selected. */
export const EVERYTHING: Record<string, unknown> = {
  ranks: [],
  steps: [],
  window_ns: null,
  streams: [],
  kernel: "",
  operators: [],
  shapes: [],
  modules: [],
  phase: "",
  finding: null,
};

/** The selectable phases that are steps of a server; the others are phases of code. */
export const SERVED_PHASES: readonly string[] = ["decode", "mixed", "prefill"];

export interface Point {
  curveNumber: number;
  pointNumber: number | [row: number, column: number];
}

export interface Pick {
  field: string;
  item: unknown;
  also?: Pick;
  /** Whether the field is a parameter of the panel. */
  isOwn?: boolean;
}

/** The selectable item at a point of a figure, if any. */
export function pickAt({ data }: Figure, { curveNumber, pointNumber }: Point): Pick | null {
  const trace = data[curveNumber];
  const own = trace?.meta?.sets;
  const field = own ?? trace?.meta?.select;
  const place = typeof pointNumber === "number" ? pointNumber : pointNumber[0];
  const [item, other] = trace?.customdata?.[place] ?? [];
  if (field === undefined || item === undefined || item === null) return null;
  if (own !== undefined) return { field, item, isOwn: true };
  const also = trace?.meta?.also;
  return also !== undefined && other ? { field, item, also: { field: also, item: other } } : { field, item };
}

/** One point for each selectable item, in drawing order. */
export function focusablePoints(figure: Figure): Point[] {
  const found = new Map<unknown, Point>();
  figure.data.forEach((trace, curveNumber) => {
    (trace.customdata ?? []).forEach((_, place) => {
      const point: Point = { curveNumber, pointNumber: trace.type === "heatmap" ? [place, 0] : place };
      const pick = pickAt(figure, point);
      const key = pick?.also ? JSON.stringify([pick.item, pick.also.item]) : pick?.item;
      if (pick && !found.has(key)) found.set(key, point);
    });
  });
  return [...found.values()];
}

/** The new values of the fields that a pick changes. */
export function selected(selection: Model<SelectionState>, pick: Pick, add: boolean): Record<string, unknown> {
  const { field, item, also } = pick;
  const current = selection.get(field);
  if (also && Array.isArray(current)) return both(selection, pick, also, add);
  if (!Array.isArray(current)) return { [field]: current !== item ? item : field === "finding" ? null : "" };
  const of = field === "operators" && isAny(selection.get("shapes")) ? { shapes: [] } : {};
  return { [field]: afterClick(current, item, add), ...of };
}

/** Both fields together: a second click deselects the item; with `add`, only in the second field. */
function both(
  selection: Model<SelectionState>,
  { field, item }: Pick,
  also: Pick,
  add: boolean,
): Record<string, unknown> {
  const current = selection.get(field) as unknown[];
  const others = selection.get(also.field) as unknown[];
  if (add && isAny(others)) {
    return {
      [field]: current.includes(item) ? current : afterClick(current, item, true),
      [also.field]: afterClick(others, also.item, true),
    };
  }
  const isChosen = current.length === 1 && current[0] === item && others.length === 1 && others[0] === also.item;
  return isChosen ? { [field]: [], [also.field]: [] } : { [field]: [item], [also.field]: [also.item] };
}

function isAny(values: unknown): boolean {
  return Array.isArray(values) && values.length > 0;
}
