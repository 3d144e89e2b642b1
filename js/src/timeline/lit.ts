// The intervals of the selected finding, as bars on top of the lanes of their ranks.
import type { Lane } from "./lanes";
import type { Painter } from "./painter";

const BAR = 4;

/** Starts and ends of the bars between two positions: at least a pixel long, merged if less than a pixel apart. */
export function bars(
  times: readonly number[],
  x: (time: number) => number,
  from: number,
  to: number,
): [number, number][] {
  const found: [number, number][] = [];
  for (let at = 0; at + 1 < times.length; at += 2) {
    const left = Math.max(x(times[at] ?? 0), from);
    const right = Math.min(Math.max(x(times[at + 1] ?? 0), left + 1), to);
    if (right <= left) continue;
    const last = found.at(-1);
    if (last && left < last[1] + 1) last[1] = Math.max(last[1], right);
    else found.push([left, right]);
  }
  return found;
}

/** How many ranks have a bar in each pixel between two positions. */
export function counts(
  lit: Iterable<readonly number[]>,
  x: (time: number) => number,
  from: number,
  to: number,
): Uint16Array {
  const found = new Uint16Array(Math.max(0, Math.ceil(to - from)));
  for (const times of lit)
    for (const [left, right] of bars(times, x, from, to))
      for (let at = Math.floor(left - from); at < Math.min(right - from, found.length); at += 1)
        found[at] = (found[at] ?? 0) + 1;
  return found;
}

/** On the folded row of many ranks: the more ranks have a bar, the stronger the colour. */
function paintFolded(painter: Painter, lane: Lane, from: number): void {
  const { scene, context, width } = painter;
  const many = scene.lit.size;
  const found = counts(scene.lit.values(), (time) => painter.x(time), from, width);
  for (let at = 0; at < found.length; ) {
    const count = found[at] ?? 0;
    let end = at + 1;
    while (end < found.length && found[end] === count) end += 1;
    context.globalAlpha = 0.4 + (0.6 * count) / many;
    if (count > 0) context.fillRect(from + at, painter.top(lane) + 4, end - at, lane.height - 6);
    at = end;
  }
  context.globalAlpha = 1;
}

/** In ink with a line of the page below: the accent of JupyterLab could not be told from compute. */
export function paintLit(painter: Painter, from: number): void {
  const { scene, context, look, width } = painter;
  for (const lane of scene.lanes) {
    context.fillStyle = look.ink;
    if (lane.kind === "fold" && scene.lit.size > 0) paintFolded(painter, lane, from);
    const times = lane.kind === "rank" ? scene.lit.get(lane.rank) : undefined;
    if (!times) continue;
    const x = (time: number) => painter.x(time - lane.shift);
    const [first, last] = ends(painter, lane, from, width);
    for (const [left, right] of bars(times, x, first, last)) {
      painter.fill(look.page, left, painter.top(lane), right - left, Math.min(BAR + 1, lane.height));
      painter.fill(look.ink, left, painter.top(lane), right - left, Math.min(BAR, lane.height));
    }
  }
}

/** An aligned lane shows only its step. */
function ends(painter: Painter, { step }: Lane, from: number, to: number): [number, number] {
  if (!step) return [from, to];
  return [Math.max(from, painter.x(0)), Math.min(to, painter.x(step[2] - step[1]))];
}
