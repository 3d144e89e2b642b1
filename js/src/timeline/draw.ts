// Draws a scene on a canvas: grid, lanes, overlays, steps, axis.
import { paintAxis, paintGrid, paintSteps } from "./axis";
import { paintLane } from "./content";
import { GUTTER } from "./lanes";
import { paintLit } from "./lit";
import { paintOver, paintRings } from "./overlay";
import { FOOT, HEAD, type Painter } from "./painter";

export function draw(painter: Painter): void {
  const { context, look, scene, width, height } = painter;
  context.setTransform(look.scale, 0, 0, look.scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = look.font;
  context.textBaseline = "middle";
  const room = height - HEAD - FOOT;
  painter.clipped(GUTTER, HEAD, width - GUTTER, room, () => paintGrid(painter));
  for (const lane of scene.lanes) {
    const y = painter.top(lane);
    if (y + lane.height >= HEAD && y <= height - FOOT) paintLane(painter, lane, y);
  }
  painter.clipped(GUTTER, HEAD, width - GUTTER, room, () => {
    paintLit(painter, GUTTER);
    paintOver(painter);
  });
  painter.clipped(0, HEAD, width, room, () => paintRings(painter));
  paintSteps(painter);
  paintAxis(painter);
}
