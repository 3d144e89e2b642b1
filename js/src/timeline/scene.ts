// Everything that is drawn, as one object: other parts change it, `draw` reads it.
import type { Hovered } from "../hover";
import type { SelectionState } from "../types";
import type { Bands } from "./bands";
import { isOfAll, isOfParts, type Lane, longestStep } from "./lanes";
import type { Event, LaneTile } from "./tiles";
import type { EventAnswer, Step, TimelineLayout } from "./types";
import type { Span } from "./view";

export interface OnlyStep {
  rank: number;
  step: Step;
  /** Length of the steps that share an axis. */
  longest: number;
  /** Whether it belongs to a job other than the page's. */
  foreign: boolean;
}

export interface Scene {
  layout: TimelineLayout;
  lanes: Lane[];
  view: Span;
  aligned: boolean;
  /** The only step shown, from its start, with all lanes of its rank. */
  only: OnlyStep | null;
  /** Newest tile of each lane. */
  tiles: Map<string, LaneTile>;
  overview: Map<number, LaneTile>;
  /** Alternating starts and ends of the selected finding's intervals, by rank. */
  lit: ReadonlyMap<number, number[]>;
  /** Bands of many ranks. */
  bands: Bands;
  unfolded: boolean;
  opened: ReadonlyMap<number, unknown>;
  selection: Pick<
    SelectionState,
    "ranks" | "steps" | "kernel" | "operators" | "modules" | "window_ns" | "streams" | "finding"
  >;
  hovered: { lane: Lane; event: Event | null; time: number } | null;
  /** What other parts of the page point at. */
  elsewhere: Hovered | null;
  /** The event whose launch is followed. */
  followed: EventAnswer | null;
  brush: Span | null;
  focused: string;
  marks: number[];
  search: string;
  scroll: number;
}

/** The stage, which shows a scene, as its parts see it. */
export interface Viewer {
  readonly scene: Scene;
  readonly width: number;
  readonly height: number;
  redraw(): void;
  /** Request what is blurred. */
  refine(): void;
}

/** The whole recording, or the longest of the aligned steps. */
export function wholeOf({ layout, aligned, only }: Scene): Span {
  const [start, end] = aligned ? [0, only?.longest ?? longestStep(layout)] : layout.span;
  return { start, end };
}

/** The analysed time, or the longest of the aligned steps. */
export function homeOf({ layout, aligned, only }: Scene): Span {
  const [start, end] = aligned ? [0, only?.longest ?? longestStep(layout)] : layout.home;
  return { start, end };
}

/** The selected window, or else the span of the selected steps. Aligned steps have none. */
export function chosenOf({ layout, aligned, selection }: Scene): Span | null {
  const { ranks, steps, window_ns } = selection;
  if (aligned) return null;
  if (window_ns) return { start: window_ns[0], end: window_ns[1] };
  const rows = layout.ranks.filter(({ rank }) => ranks.length === 0 || ranks.includes(rank));
  const chosen = rows.flatMap((row) => row.steps.filter(([step]) => steps.includes(step)));
  if (chosen.length === 0) return null;
  return { start: Math.min(...chosen.map((step) => step[1])), end: Math.max(...chosen.map((step) => step[2])) };
}

/** Whether a lane is selected; without a selection, all lanes are. */
export function isSelected({ selection }: Scene, lane: Lane): boolean {
  const { ranks } = selection;
  return ranks.length === 0 || isOfAll(lane) || ranks.includes(lane.rank);
}

/** Whether any rank did anything on a GPU. */
export function hasGpuWork({ ranks }: TimelineLayout): boolean {
  return ranks.some(({ planes }) => planes.length > 0);
}

/** What to look for in all lanes: the search, or else the selection, or else the kernel that other parts point at.
 *
 * An operator is looked for only in recordings that have only calls, because its kernels have other names. */
export function sought({ layout, selection, search, elsewhere }: Scene): { find: string; whole: boolean } {
  if (search !== "") return { find: search, whole: false };
  const [operator = "", ...others] = hasGpuWork(layout) ? [] : selection.operators;
  const selected = selection.kernel || (others.length > 0 ? "" : operator);
  return { find: selected || (elsewhere?.kernel ?? ""), whole: true };
}

/** Times on the critical path of a lane's rank, by row, if the path is shown next to streams and threads. */
export function pathOf({ lanes, tiles }: Scene, { kind, rank }: Lane): LaneTile["spans"] | undefined {
  if (kind !== "stream" && kind !== "thread") return undefined;
  const path = lanes.find((each) => each.kind === "path" && each.rank === rank);
  return path && tiles.get(path.id)?.spans;
}

/** Whether an event is on the path: a call at which a host part ends, or GPU work that is partly on it. */
export function isOnPath(path: LaneTile["spans"] | undefined, { kind }: Lane, event: Event): boolean {
  const span = event.row < 0 ? undefined : path?.get(event.row);
  if (!span) return false;
  return kind === "thread" || (event.start < span.end && event.start + event.duration > span.start);
}

/** Whether the event is being followed. A call can have several runs of kernels in a lane. */
export function isFollowed({ followed }: Scene, lane: Lane, { row, start }: Event): boolean {
  if (followed?.event.row !== row || followed.rank !== lane.rank) return false;
  return !isOfParts(lane) || lane.key !== followed.event.key || start === followed.event.start;
}

/** Whether another part of the page, or the keyboard, is on an event. */
export function isPointed(scene: Scene, lane: Lane, event: Event): boolean {
  if (event.row < 0) return false;
  return scene.elsewhere?.kernel === event.name || isFollowed(scene, lane, event);
}
