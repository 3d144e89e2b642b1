// Selections by a click or a key on a chart: `meta.select` names the field, `customdata[i][0]` the
// item of point i (of a heatmap, of row i).

import { afterClick } from "./integers";
import type { Model } from "./models";
import type { Figure, SelectionState } from "./types";

export interface Point {
  curveNumber: number;
  pointNumber: number | [row: number, column: number];
}

export interface Pick {
  field: string;
  item: unknown;
}

/** The item at a point of a figure, if it can be selected. */
export function pickAt({ data }: Figure, { curveNumber, pointNumber }: Point): Pick | null {
  const trace = data[curveNumber];
  const field = trace?.meta?.select;
  const place = typeof pointNumber === "number" ? pointNumber : pointNumber[0];
  const item = trace?.customdata?.[place]?.[0];
  return field === undefined || item === undefined || item === null ? null : { field, item };
}

/** One point for each item that can be selected, in drawing order. */
export function focusablePoints(figure: Figure): Point[] {
  const found = new Map<unknown, Point>();
  figure.data.forEach((trace, curveNumber) => {
    (trace.customdata ?? []).forEach((_, place) => {
      const point: Point = { curveNumber, pointNumber: trace.type === "heatmap" ? [place, 0] : place };
      const pick = pickAt(figure, point);
      if (pick && !found.has(pick.item)) found.set(pick.item, point);
    });
  });
  return [...found.values()];
}

/** The new value of the field that a pick changes. */
export function selected(selection: Model<SelectionState>, { field, item }: Pick, add: boolean): unknown {
  const current = selection.get(field);
  if (Array.isArray(current)) return afterClick(current, item, add);
  if (current !== item) return item;
  return field === "finding" ? null : "";
}
