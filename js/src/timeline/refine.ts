// Asks Python for lanes in sight that are blurred, or that a pan is about to leave.
import type { Kernel } from "./kernel";
import { GUTTER, isOfAll, isThin, type Lane } from "./lanes";
import { HEAD } from "./painter";
import { sought, type Viewer } from "./scene";
import { tilesOf } from "./tiles";
import type { Answer } from "./types";
import { isSharp, SHARPNESS, type Span } from "./view";

const MOST_LANES = 200;
const MOST_PIXELS = 200_000; // of all lanes of an answer
const PREFETCH = 1; // windows on both sides

interface Wanted extends Span {
  lanes: Lane[];
  pixels: number;
}

/** Lanes in the visible part of the page, and the path lanes of their ranks, which say what to outline. */
function inSight({ scene, height }: Viewer): Lane[] {
  const top = scene.scroll - HEAD;
  const isVisible = (lane: Lane) => lane.y + lane.height > top && lane.y < top + height + HEAD;
  const ranks = new Set(scene.lanes.filter(isVisible).map(({ rank }) => rank));
  return scene.lanes
    .filter((lane) => isVisible(lane) || (lane.kind === "path" && ranks.has(lane.rank)))
    .filter((lane) => !isOfAll(lane))
    .filter((lane) => scene.layout.held || !isThin(lane))
    .slice(0, MOST_LANES);
}

/** The window around the view to request; null if the known data are sharp. */
function wanted(stage: Viewer, scale: number): Wanted | null {
  const { view, tiles, layout } = stage.scene;
  const lanes = inSight(stage);
  const length = view.end - view.start;
  const most = Math.floor(MOST_PIXELS / (1 + 2 * PREFETCH) / Math.max(1, lanes.length));
  const pixels = Math.max(1, Math.min(most, Math.round((stage.width - GUTTER) * scale)));
  const { find } = sought(stage.scene);
  // Nothing is recorded beyond the span, unless lanes are shifted to align steps.
  const [first, last] = lanes.some(({ shift }) => shift !== 0) ? [-Infinity, Infinity] : layout.span;
  const clipped = (time: number) => Math.min(Math.max(time, first), last);
  const fits = (lane: Lane) => {
    const tile = tiles.get(lane.id);
    if (!tile || tile.sought !== find) return false;
    if (tile.start > clipped(view.start) || tile.end < clipped(view.end)) return false;
    return isSharp(tile, length / pixels, 1 / SHARPNESS);
  };
  if (lanes.every(fits)) return null;
  const start = clipped(Math.round(view.start - PREFETCH * length));
  const end = clipped(Math.round(view.end + PREFETCH * length));
  if (end <= start) return null;
  return { lanes, start, end, pixels: Math.max(1, Math.round((pixels * (end - start)) / length)) };
}

/** Request what is missing, at `scale` device pixels per CSS pixel; evaluated again when its turn comes. */
export function refine(stage: Viewer, kernel: Kernel, scale: number): void {
  const asked = wanted(stage, scale);
  if (!asked) return;
  const { scene } = stage;
  const { lanes, start, end, pixels } = asked;
  const looked = sought(scene);
  const question = {
    kind: "window",
    lanes: lanes.map(({ rank, key, shift }) => [rank, key, shift]),
    start,
    end,
    pixels,
    ...looked,
  };
  const show = (answer: Answer, buffers: ArrayBufferView[]) => {
    if (answer.kind !== "window") return;
    for (const [place, tile] of tilesOf(answer, buffers, scene.layout.classes, looked.find))
      scene.tiles.set((lanes[place] as Lane).id, tile);
    stage.redraw();
  };
  kernel.ask(question, show, question.kind, () => stage.refine());
}
