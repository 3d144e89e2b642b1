// Overlays on the lanes: selection, hover, marks, and the arrows of launches.
import { GUTTER } from "./lanes";
import { HEAD, type Painter } from "./painter";

export function paintRings(painter: Painter): void {
  const { scene, look, context } = painter;
  for (const lane of scene.lanes) {
    const chosen = scene.selection.ranks.includes(lane.rank) && lane.kind === "rank";
    if (chosen) painter.ring(GUTTER - 1, painter.top(lane) - 2, painter.width - GUTTER, lane.height + 4);
    if (lane.id === scene.focused) {
      context.setLineDash([3, 2]);
      context.strokeStyle = look.ink;
      context.lineWidth = 1;
      context.strokeRect(0.5, painter.top(lane) - 1.5, painter.width - 1, lane.height + 3);
      context.setLineDash([]);
    }
  }
}

export function paintOver(painter: Painter): void {
  const { scene, look, height } = painter;
  const { window_ns } = scene.selection;
  for (const edge of scene.aligned ? [] : (window_ns ?? []))
    painter.fill(look.accent, painter.x(edge) - 1, HEAD, 2, height);
  for (const mark of scene.marks) painter.fill(look.ink, painter.x(mark), HEAD, 1, height);
  const time = scene.hovered?.time ?? (scene.only ? scene.elsewhere?.step_ns : scene.elsewhere?.time_ns);
  if (time !== undefined) painter.fill(look.quiet, painter.x(time), HEAD, 1, height);
  paintArrows(painter);
}

/** An arrow from the launching call to the work. */
function paintArrows(painter: Painter): void {
  const { followed, lanes } = painter.scene;
  if (!followed) return;
  const lane = (key: string) => lanes.find((each) => each.rank === followed.rank && each.key === key);
  const own = lanes.find((each) => each.rank === followed.rank && each.kind === "rank");
  const { event, launch, launched } = followed;
  const pairs = launch ? [[launch, event] as const] : launched.map((work) => [event, work] as const);
  for (const [call, work] of pairs) {
    const [from, to] = [lane(call.key) ?? own, lane(work.key) ?? own];
    if (!from || !to || from === to) continue;
    paintArrow(
      painter,
      painter.x(call.start),
      painter.top(from) + from.height / 2,
      painter.x(work.start),
      painter.top(to) + to.height / 2,
    );
  }
}

function paintArrow(painter: Painter, x0: number, y0: number, x1: number, y1: number): void {
  const { context, look } = painter;
  context.strokeStyle = look.ink;
  context.fillStyle = look.ink;
  context.lineWidth = 1.25;
  context.beginPath();
  context.moveTo(x0, y0);
  const bend = Math.max(12, Math.abs(x1 - x0) / 2);
  context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
  context.stroke();
  context.beginPath();
  context.moveTo(x1 + 1, y1);
  context.lineTo(x1 - 6, y1 - 4);
  context.lineTo(x1 - 6, y1 + 4);
  context.fill();
}
