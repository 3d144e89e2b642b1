// The intervals of the finding that is selected: a bar on top of the lanes of their ranks.
import type { Lane } from "./lanes";
import type { Painter } from "./painter";

const BAR = 4;

/** Where bars begin and end between two positions, at least a pixel long; those less than a pixel apart are one. */
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

export function paintLit(painter: Painter, from: number): void {
  const { scene, context, look, width } = painter;
  context.fillStyle = look.accent;
  for (const lane of scene.lanes) {
    const times = lane.kind === "rank" ? scene.lit.get(lane.rank) : undefined;
    if (!times) continue;
    const x = (time: number) => painter.x(time - lane.shift);
    const [first, last] = ends(painter, lane, from, width);
    for (const [left, right] of bars(times, x, first, last))
      context.fillRect(left, painter.top(lane), right - left, Math.min(BAR, lane.height));
  }
}

/** An aligned lane shows only its step. */
function ends(painter: Painter, { step }: Lane, from: number, to: number): [number, number] {
  if (!step) return [from, to];
  return [Math.max(from, painter.x(0)), Math.min(to, painter.x(step[2] - step[1]))];
}
