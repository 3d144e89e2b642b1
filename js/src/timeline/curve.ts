// Curves: from least to largest value per pixel, on a scale from 0.

import type { Curve } from "./extremes";
import { amount } from "./format";
import { GUTTER, type Lane } from "./lanes";
import type { Painter } from "./painter";

const FILL = 0.28;
const LABEL_LEFT = 4;
const SHORT: Record<string, string> = { operations: "ops" };

/** The largest value that lanes of one label reach: they share a scale, so that ranks compare. */
export function scaleOf(lanes: readonly Lane[], { label, unit }: Lane): number {
  const like = lanes.filter((each) => each.kind === "curve" && each.label === label && each.unit === unit);
  return Math.max(...like.map(({ most }) => most), Number.MIN_VALUE);
}

export function paintCurve(painter: Painter, curve: Curve, lane: Lane, y: number): void {
  const { context, look, scene } = painter;
  const { low, high, start, end } = curve;
  const top = scaleOf(scene.lanes, lane);
  const room = lane.height - 1;
  const bins = low.length;
  const alpha = context.globalAlpha;
  const width = (painter.x(end) - painter.x(start)) / bins;
  const first = Math.max(0, Math.floor((GUTTER - painter.x(start)) / width));
  const last = Math.min(bins, Math.ceil((painter.width - painter.x(start)) / width));
  context.fillStyle = look.ink;
  context.globalAlpha = alpha * FILL;
  context.beginPath();
  for (let bin = first; bin < last; bin += 1) {
    const height = ((low[bin] ?? 0) / top) * room;
    if (height > 0) context.rect(painter.x(start) + bin * width, y + lane.height - height, width, height);
  }
  context.fill();
  context.globalAlpha = alpha * 0.8;
  context.beginPath();
  for (let bin = first; bin < last; bin += 1) {
    const [least, most] = [low[bin] ?? Number.NaN, high[bin] ?? Number.NaN];
    if (Number.isNaN(most)) continue;
    const upper = y + lane.height - (most / top) * room;
    const lower = y + lane.height - (least / top) * room;
    context.rect(painter.x(start) + bin * width, upper - 1, width, Math.max(lower - upper, 0) + 1);
  }
  context.fill();
  context.globalAlpha = alpha;
}

/** The label, and below it the largest value of all of the recording. */
export function paintCurveLabel(painter: Painter, lane: Lane, y: number): void {
  const { look } = painter;
  painter.text(lane.label, LABEL_LEFT, y + 7, look.ink, GUTTER - LABEL_LEFT - 4);
  const most = amount(lane.most, SHORT[lane.unit] ?? lane.unit);
  const long = `max ${most}`;
  const fits = painter.context.measureText(long).width <= GUTTER - LABEL_LEFT - 4;
  painter.text(fits ? long : most, LABEL_LEFT, y + 20, look.quiet, GUTTER - LABEL_LEFT - 4);
}
