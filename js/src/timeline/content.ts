// The content of a lane: coverage, events or a curve, and its label.
import { paintBand } from "./band";
import { paintCurveLabel, paintCurves } from "./curve";
import { GUTTER, isOfAll, type Lane } from "./lanes";
import { FOOT, HEAD, type Painter } from "./painter";
import { inkOn } from "./raster";
import { isOnPath, isPointed, isSelected, pathOf, sought } from "./scene";
import type { Event, LaneTile } from "./tiles";
import type { Step } from "./types";

const DIMMED = 0.35;
const DIMMED_LABEL = 0.75;
const LABEL_ROOM = 34;
const EDGE_ROOM = 5;
const OUTLINE = 1.5;

export function paintLane(painter: Painter, lane: Lane, y: number): void {
  const { context, scene } = painter;
  const chosen = isSelected(scene, lane);
  painter.clipped(0, HEAD, GUTTER, painter.height - HEAD - FOOT, () => paintLabel(painter, lane, y, chosen));
  painter.clipped(
    GUTTER,
    Math.max(HEAD, y),
    painter.width - GUTTER,
    Math.min(lane.height, painter.height - FOOT - y),
    () => {
      for (const [start, end, lit] of stretches(painter, lane, chosen)) {
        const [from, to] = [painter.x(start), painter.x(end)];
        painter.clipped(from, y, to - from, lane.height, () => {
          context.globalAlpha = lit ? 1 : DIMMED;
          paintTime(painter, lane, y);
        });
      }
    },
  );
}

/** The selected part of the lane in full colour, and the rest. */
function stretches(painter: Painter, lane: Lane, chosen: boolean): [start: number, end: number, lit: boolean][] {
  const { view, selection, layout } = painter.scene;
  const shifted = (time: number) => time - lane.shift;
  const steps = layout.ranks.find(({ rank }) => rank === lane.rank)?.steps ?? [];
  const of = selection.steps.length > 0 ? steps.filter(([number]) => selection.steps.includes(number)) : null;
  const window = selection.window_ns;
  const whole = lane.step ? [Math.max(view.start, 0), Math.min(view.end, lane.step[2] - lane.step[1])] : null;
  if (whole) return [[whole[0] ?? 0, whole[1] ?? 0, chosen && (of === null || of.includes(lane.step as Step))]];
  if (!chosen || (of === null && window === null)) return [[view.start, view.end, chosen]];
  const parts = (of ?? [[0, Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY] as Step])
    .map(([, start, end]) => [
      Math.max(shifted(start), view.start, window ? shifted(window[0]) : view.start),
      Math.min(shifted(end), view.end, window ? shifted(window[1]) : view.end),
    ])
    .filter(([start = 0, end = 0]) => end > start) as [number, number][];
  const found: [number, number, boolean][] = [];
  let reached = view.start;
  for (const [start, end] of parts) {
    found.push([reached, start, false], [start, end, true]);
    reached = end;
  }
  found.push([reached, view.end, false]);
  return found.filter(([start, end]) => end > start);
}

function paintTime(painter: Painter, lane: Lane, y: number): void {
  const { view } = painter.scene;
  const tile = painter.scene.tiles.get(lane.id);
  if (lane.kind === "band") paintBand(painter, lane, y);
  if (isOfAll(lane)) return;
  if (lane.kind === "curve") {
    if (tile) paintCurves(painter, tile.curves, lane, y);
    return;
  }
  const overview = lane.kind === "rank" ? painter.scene.overview.get(lane.rank) : undefined;
  const covers = tile && tile.start <= view.start && tile.end >= view.end;
  if (overview && !covers) paintImage(painter, overview, lane, y, -lane.shift, tile);
  if (!tile) return;
  paintImage(painter, tile, lane, y, 0);
  paintEvents(painter, tile, lane, y);
}

function paintImage(painter: Painter, tile: LaneTile, lane: Lane, y: number, shift: number, but?: LaneTile): void {
  const { context } = painter;
  const image = tile.image(Math.round(lane.height * painter.look.scale), painter.look);
  if (!image) return;
  context.save();
  if (but) {
    context.beginPath();
    context.rect(GUTTER, y, painter.x(but.start) - GUTTER, lane.height);
    context.rect(painter.x(but.end), y, painter.width, lane.height);
    context.clip();
  }
  const [from, to] = [painter.x(tile.start + shift), painter.x(tile.end + shift)];
  context.imageSmoothingEnabled = false;
  const alpha = context.globalAlpha;
  const isSought = tile.found !== null && tile.sought === sought(painter.scene).find;
  if (isSought) context.globalAlpha = alpha * DIMMED;
  context.drawImage(image, from, y, to - from, lane.height);
  context.globalAlpha = alpha;
  if (isSought) paintFound(painter, tile, image, lane, y);
  context.restore();
}

/** What the search finds, in full colour. */
function paintFound(painter: Painter, tile: LaneTile, image: HTMLCanvasElement, lane: Lane, y: number): void {
  const { context, look, scene } = painter;
  const time = (bin: number) => tile.start + ((tile.end - tile.start) * bin) / tile.bins;
  const bin = (at: number) => Math.floor(((at - tile.start) / (tile.end - tile.start)) * tile.bins);
  for (const [first, last] of tile.runs(bin(scene.view.start), bin(scene.view.end) + 1)) {
    const [left, right] = [painter.x(time(first)), painter.x(time(last))];
    context.drawImage(image, first, 0, last - first, image.height, left, y, right - left, lane.height);
    painter.fill(look.accent, left, y, right - left, 2);
  }
}

function paintEvents(painter: Painter, tile: LaneTile, lane: Lane, y: number): void {
  const { view } = painter.scene;
  const path = pathOf(painter.scene, lane);
  const least = ((view.end - view.start) / (painter.width - GUTTER)) * EDGE_ROOM;
  for (let place = tile.firstAfter(view.start); place < tile.events; place += 1) {
    const event = tile.event(place);
    if (event.start >= view.end) break;
    const lit = isPointed(painter.scene, lane, event);
    const outlined = isOnPath(path, lane, event);
    if (event.duration < least && !lit && !outlined) continue;
    const [from, to] = [painter.x(event.start), painter.x(event.start + event.duration)];
    paintEvent(painter, lane, y, from, to, event, lit, isDimmed(painter, tile, event));
    if (outlined) paintOutline(painter, lane, y, from, to);
  }
}

/** Whether an event is translucent because the search does not find it. */
function isDimmed({ context, scene }: Painter, tile: LaneTile, { start, duration }: Event): boolean {
  if (context.globalAlpha < 1) return true;
  if (tile.found === null || tile.sought !== sought(scene).find) return false;
  const bin = Math.floor(((start + duration / 2 - tile.start) / (tile.end - tile.start)) * tile.bins);
  return !tile.found[bin];
}

/** The outline of an event on the critical path. */
function paintOutline({ context, look }: Painter, lane: Lane, y: number, from: number, to: number): void {
  context.strokeStyle = look.ink;
  context.lineWidth = OUTLINE;
  const half = OUTLINE / 2;
  context.strokeRect(from + half, y + half, Math.max(to - from - OUTLINE, 0), lane.height - OUTLINE);
}

function paintEvent(
  painter: Painter,
  lane: Lane,
  y: number,
  from: number,
  to: number,
  event: Event,
  lit: boolean,
  dimmed: boolean,
): void {
  const { context, look } = painter;
  const label = labelOf(lane, event);
  if (lane.kind !== "rank" && to - from >= EDGE_ROOM) painter.fill(look.page, to - 1, y, 1, lane.height);
  if (lit) {
    painter.fill(look.accent, from, y, Math.max(to - from, 1), 2);
    painter.fill(look.accent, from, y + lane.height - 2, Math.max(to - from, 1), 2);
  }
  const left = Math.max(from, GUTTER);
  const room = Math.min(to, painter.width) - left - 6;
  if (label === "" || room < LABEL_ROOM || lane.height < 12) return;
  const alpha = context.globalAlpha;
  const ink = lane.kind === "rank" || dimmed ? look.ink : inkOn(event.look.color);
  if (dimmed) context.globalAlpha = DIMMED_LABEL;
  painter.text(label, left + 3, y + lane.height / 2 + 0.5, ink, room);
  context.globalAlpha = alpha;
}

function labelOf({ kind }: Lane, { label, look }: Event): string {
  if (kind === "path") return [look.label, label].filter(Boolean).join(look.group === "call" ? " → " : " · ");
  return label || (kind === "phases" ? look.label : "");
}

function paintLabel(painter: Painter, lane: Lane, y: number, chosen: boolean): void {
  const { context } = painter;
  if (lane.label === "") return;
  context.globalAlpha = chosen ? 1 : 0.55;
  if (lane.kind === "curve") paintCurveLabel(painter, lane, y);
  else paintName(painter, lane, y);
  context.globalAlpha = 1;
}

function paintName(painter: Painter, lane: Lane, y: number): void {
  const { look, scene } = painter;
  const middle = y + Math.min(lane.height, 24) / 2;
  const isRank = lane.kind === "rank" || lane.kind === "fold";
  const isOpen = lane.kind === "fold" ? scene.unfolded : scene.opened.has(lane.rank);
  if (isRank && !scene.aligned) painter.text(isOpen ? "▾" : "▸", 2, middle, look.quiet);
  const left = scene.aligned ? 2 : isRank ? 16 : lane.kind === "band" ? 4 : 20;
  painter.text(lane.label, left, middle, isRank || lane.kind === "band" ? look.ink : look.quiet, GUTTER - left - 4);
}
