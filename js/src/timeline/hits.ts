// Finds what is under the pointer.

import { GUTTER, type Lane } from "./lanes";
import { FOOT, HEAD, type Painter } from "./painter";
import type { Scene } from "./scene";
import type { Event } from "./tiles";
import type { Step } from "./types";

const NEAR_PX = 2;

export type Hit =
  | { at: "step"; step: Step; rank: number }
  | { at: "arrow" | "label"; lane: Lane }
  | { at: "lane"; lane: Lane; event: Event | null; time: number }
  | { at: "axis" | "nothing" };

export function timeAt(painter: Painter, x: number): number {
  const { start, end } = painter.scene.view;
  return start + ((x - GUTTER) / (painter.width - GUTTER)) * (end - start);
}

/** The event of a lane at a time, or the nearest one within two pixels. */
export function eventAt(scene: Scene, lane: Lane, time: number, near: number): Event | null {
  const tile = scene.tiles.get(lane.id);
  if (!tile) return null;
  const place = tile.firstAfter(time);
  const candidates = [place - 1, place]
    .filter((each) => each >= 0 && each < tile.events)
    .map((each) => tile.event(each));
  const apart = ({ start, duration }: Event) => Math.max(start - time, time - start - duration, 0);
  const [nearest] = candidates.sort((one, other) => apart(one) - apart(other));
  return nearest && apart(nearest) <= near ? nearest : null;
}

export function hit(painter: Painter, x: number, y: number): Hit {
  const { scene } = painter;
  const time = timeAt(painter, x);
  if (y < HEAD) {
    const rank = scene.selection.ranks[0];
    const row = scene.layout.ranks.find((each) => each.rank === rank) ?? scene.layout.ranks[0];
    const step = row?.steps.find(([, start, end]) => start <= time && time < end);
    return step && row && x >= GUTTER && !scene.aligned ? { at: "step", step, rank: row.rank } : { at: "nothing" };
  }
  if (y > painter.height - FOOT) return { at: "axis" };
  const lane = scene.lanes.find((each) => painter.top(each) - 1 <= y && y < painter.top(each) + each.height + 1);
  if (!lane) return { at: "nothing" };
  if (x < GUTTER)
    return { at: x < 15 && (lane.kind === "rank" || lane.kind === "fold") && !scene.aligned ? "arrow" : "label", lane };
  const near = ((scene.view.end - scene.view.start) / (painter.width - GUTTER)) * NEAR_PX;
  return { at: "lane", lane, event: eventAt(scene, lane, time, near), time };
}
