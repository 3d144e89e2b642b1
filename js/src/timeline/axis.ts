// Steps above the lanes, the axis below, and the lines between.
import { duration, ticks } from "./format";
import { GUTTER } from "./lanes";
import { FOOT, HEAD, type Painter } from "./painter";
import type { Step } from "./types";

export function paintSteps(painter: Painter): void {
  const { look, scene } = painter;
  if (scene.only) {
    const [number, start, end] = scene.only.step;
    painter.clipped(GUTTER, 0, painter.width - GUTTER, HEAD, () => paintStep(painter, [number, 0, end - start], 1));
    return;
  }
  if (scene.aligned) {
    painter.text("steps from their starts", 4, HEAD / 2, look.quiet);
    return;
  }
  const shown = scene.hovered?.lane.rank ?? scene.selection.ranks[0];
  const row = scene.layout.ranks.find(({ rank }) => rank === shown) ?? scene.layout.ranks[0];
  if (row && scene.layout.ranks.length > 1 && row.steps.length > 0)
    painter.text(`rank ${row.rank}`, 4, HEAD / 2, look.quiet, GUTTER - 6);
  painter.clipped(GUTTER, 0, painter.width - GUTTER, HEAD, () => {
    for (const [place, step] of (row?.steps ?? []).entries())
      if (painter.x(step[2]) > GUTTER && painter.x(step[1]) < painter.width) paintStep(painter, step, place);
  });
  painter.fill(look.line, GUTTER, HEAD, painter.width - GUTTER, 1);
}

function paintStep(painter: Painter, [number, start, end]: Step, place: number): void {
  const { context, look, scene } = painter;
  const [from, to] = [painter.x(start), painter.x(end)];
  const isChosen = scene.selection.steps.includes(number);
  painter.fill(place % 2 ? look.faint : look.line, from, 0, to - from - 1, HEAD);
  if (isChosen) painter.ring(from + 1, 1, to - from - 3, HEAD - 2);
  const name = number < 0 ? "GPU span" : `step ${number}`;
  const left = Math.max(from, GUTTER) + 5;
  const room = Math.min(to, painter.width) - left - 4;
  if (room < 4) return; // measuring 60,000 texts in each frame stalled the page
  const long = `${name}  ${duration(end - start)}`;
  const text = [long, name, `${number}`].find((each) => context.measureText(each).width <= room);
  if (text && number >= -1) painter.text(text, left, HEAD / 2 + 0.5, look.ink);
}

export function paintGrid(painter: Painter): void {
  const { look, scene } = painter;
  const line = (color: string, x: number) => painter.fill(color, Math.round(x), HEAD, 1, painter.height);
  for (const { ns } of axisTicks(painter)) line(look.faint, painter.x(ns));
  if (scene.aligned) return;
  const row = scene.layout.ranks[0];
  for (const [, start, end] of row?.steps ?? [])
    if (painter.x(end) - painter.x(start) > 3) line(look.line, painter.x(start) - 1); // or it hides the lanes
}

function axisTicks(painter: Painter) {
  const { start, end } = painter.scene.view;
  return ticks(start, end, Math.max(2, Math.floor((painter.width - GUTTER) / 64)));
}

export function paintAxis(painter: Painter): void {
  const { context, look } = painter;
  const top = painter.height - FOOT;
  painter.fill(look.line, GUTTER, top, painter.width - GUTTER, 1);
  for (const { ns, label } of axisTicks(painter)) {
    const x = painter.x(ns);
    painter.fill(look.quiet, x, top, 1, 3);
    const left = Math.min(Math.max(x - context.measureText(label).width / 2, GUTTER), painter.width - 40);
    painter.text(label, left, top + 10, look.quiet);
  }
}
