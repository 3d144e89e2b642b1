// Curves: from the minimum to the maximum of each pixel, on a scale from 0; the first curve is in front and filled.

import type { Curve } from "./extremes";
import { amount } from "./format";
import { GUTTER, type Lane } from "./lanes";
import type { Painter } from "./painter";

const FILL = 0.28;
const IN_FRONT = 0.8;
const BEHIND = 0.45;
const LABEL_LEFT = 4;
const LINE_PX = 13;
const SHORT: Record<string, string> = { operations: "ops" };

/** The largest value in lanes with the same label; they share a scale, so that ranks can be compared. */
export function scaleOf(lanes: readonly Lane[], { label, unit }: Lane): number {
  const like = lanes.filter((each) => each.kind === "curve" && each.label === label && each.unit === unit);
  return Math.max(...like.flatMap(({ most }) => most), Number.MIN_VALUE);
}

export function paintCurves(painter: Painter, curves: readonly Curve[], lane: Lane, y: number): void {
  const top = scaleOf(painter.scene.lanes, lane);
  for (const curve of [...curves].reverse()) {
    const isFirst = curve === curves[0];
    const heights = new Heights(painter, curve, lane, y, top);
    if (isFirst) heights.fill();
    heights.line(isFirst ? IN_FRONT : BEHIND);
  }
  if (lane.words.length > 0) paintWords(painter, lane, y);
}

/** A curve on the canvas. */
class Heights {
  #painter: Painter;
  #curve: Curve;
  #bottom: number;
  #perUnit: number;
  #left: number;
  #width: number;

  constructor(painter: Painter, curve: Curve, lane: Lane, y: number, top: number) {
    this.#painter = painter;
    this.#curve = curve;
    this.#bottom = y + lane.height;
    this.#perUnit = (lane.height - 1) / top;
    this.#left = painter.x(curve.start);
    this.#width = (painter.x(curve.end) - this.#left) / curve.low.length;
  }

  /** Fill a rectangle for each pixel in sight, between two heights. */
  #paint(alpha: number, between: (low: number, high: number) => [number, number]): void {
    const { context, look, width } = this.#painter;
    const { low, high } = this.#curve;
    const first = Math.max(0, Math.floor((GUTTER - this.#left) / this.#width));
    const last = Math.min(low.length, Math.ceil((width - this.#left) / this.#width));
    const before = context.globalAlpha;
    context.fillStyle = look.ink;
    context.globalAlpha = before * alpha;
    context.beginPath();
    for (let bin = first; bin < last; bin += 1) {
      const [least, most] = [low[bin] ?? Number.NaN, high[bin] ?? Number.NaN];
      if (Number.isNaN(most)) continue;
      const [from, to] = between(least * this.#perUnit, most * this.#perUnit);
      if (to > from) context.rect(this.#left + bin * this.#width, this.#bottom - to, this.#width, to - from);
    }
    context.fill();
    context.globalAlpha = before;
  }

  fill(): void {
    this.#paint(FILL, (low) => [0, low]);
  }

  line(alpha: number): void {
    this.#paint(alpha, (low, high) => [low, high + 1]);
  }
}

/** Labels of the curves, the rear curve first, on the colour of the page. */
function paintWords(painter: Painter, { words }: Lane, y: number): void {
  const { context, look } = painter;
  for (const [place, word] of [...words].reverse().entries()) {
    const middle = y + 8 + place * LINE_PX;
    context.strokeStyle = look.page;
    context.lineWidth = 3;
    context.strokeText(word, GUTTER + 4, middle);
    painter.text(word, GUTTER + 4, middle, place === words.length - 1 ? look.ink : look.quiet);
  }
}

/** The label and, below it, the largest value of the front curve in the whole recording. */
export function paintCurveLabel(painter: Painter, lane: Lane, y: number): void {
  const { look } = painter;
  painter.text(lane.label, LABEL_LEFT, y + 7, look.ink, GUTTER - LABEL_LEFT - 4);
  const most = amount(lane.most[0] ?? 0, SHORT[lane.unit] ?? lane.unit);
  const long = `max ${most}`;
  const fits = painter.context.measureText(long).width <= GUTTER - LABEL_LEFT - 4;
  painter.text(fits ? long : most, LABEL_LEFT, y + 20, look.quiet, GUTTER - LABEL_LEFT - 4);
}
