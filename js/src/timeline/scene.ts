// Everything that is drawn, as one object: the parts below change it, `draw` reads it.
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
  /** Of the steps that have one axis. */
  longest: number;
  /** Whether it is of another job than that of the page. */
  foreign: boolean;
}

export interface Scene {
  layout: TimelineLayout;
  lanes: Lane[];
  view: Span;
  aligned: boolean;
  /** The only step that is shown, from its start, and what all lanes of its rank are shown of. */
  only: OnlyStep | null;
  /** Newest tile of each lane. */
  tiles: Map<string, LaneTile>;
  overview: Map<number, LaneTile>;
  /** Start and end of each interval of the selected finding in turn, by rank. */
  lit: ReadonlyMap<number, number[]>;
  /** What many ranks do together. */
  bands: Bands;
  unfolded: boolean;
  opened: ReadonlyMap<number, unknown>;
  selection: Pick<
    SelectionState,
    "ranks" | "steps" | "kernel" | "operators" | "modules" | "window_ns" | "streams" | "finding"
  >;
  hovered: { lane: Lane; event: Event | null; time: number } | null;
  /** What others point at. */
  elsewhere: Hovered | null;
  /** The event whose launch is followed. */
  followed: EventAnswer | null;
  brush: Span | null;
  focused: string;
  marks: number[];
  search: string;
  scroll: number;
}

/** What its parts know of the stage, which shows a scene. */
export interface Viewer {
  readonly scene: Scene;
  readonly width: number;
  readonly height: number;
  redraw(): void;
  /** Ask for what is blurred. */
  refine(): void;
}

/** All of the recording, or the longest of aligned steps. */
export function wholeOf({ layout, aligned, only }: Scene): Span {
  const [start, end] = aligned ? [0, only?.longest ?? longestStep(layout)] : layout.span;
  return { start, end };
}

/** The analysed time, or the longest of aligned steps. */
export function homeOf({ layout, aligned, only }: Scene): Span {
  const [start, end] = aligned ? [0, only?.longest ?? longestStep(layout)] : layout.home;
  return { start, end };
}

/** The selected window, else from the first of the selected steps to the end of the last. Aligned steps have none. */
export function chosenOf({ layout, aligned, selection }: Scene): Span | null {
  const { ranks, steps, window_ns } = selection;
  if (aligned) return null;
  if (window_ns) return { start: window_ns[0], end: window_ns[1] };
  const rows = layout.ranks.filter(({ rank }) => ranks.length === 0 || ranks.includes(rank));
  const chosen = rows.flatMap((row) => row.steps.filter(([step]) => steps.includes(step)));
  if (chosen.length === 0) return null;
  return { start: Math.min(...chosen.map((step) => step[1])), end: Math.max(...chosen.map((step) => step[2])) };
}

/** Whether a lane is of what is selected; everything is if nothing is. */
export function isSelected({ selection }: Scene, lane: Lane): boolean {
  const { ranks } = selection;
  return ranks.length === 0 || isOfAll(lane) || ranks.includes(lane.rank);
}

/** Whether any rank did anything on a GPU. */
export function hasGpuWork({ ranks }: TimelineLayout): boolean {
  return ranks.some(({ planes }) => planes.length > 0);
}

/** What is looked for in all lanes: the search, else what is selected, else the kernel that others point at.
 *
 * An operator is looked for only where there are calls alone: its kernels have other names. */
export function sought({ layout, selection, search, elsewhere }: Scene): { find: string; whole: boolean } {
  if (search !== "") return { find: search, whole: false };
  const [operator = "", ...others] = hasGpuWork(layout) ? [] : selection.operators;
  const selected = selection.kernel || (others.length > 0 ? "" : operator);
  return { find: selected || (elsewhere?.kernel ?? ""), whole: true };
}

/** When events of a lane's rank are on the critical path, by row, where that is shown beside streams and threads. */
export function pathOf({ lanes, tiles }: Scene, { kind, rank }: Lane): LaneTile["spans"] | undefined {
  if (kind !== "stream" && kind !== "thread") return undefined;
  const path = lanes.find((each) => each.kind === "path" && each.rank === rank);
  return path && tiles.get(path.id)?.spans;
}

/** Whether an event is on the path: a call, at which the host's part ends, or the part of GPU work that is. */
export function isOnPath(path: LaneTile["spans"] | undefined, { kind }: Lane, event: Event): boolean {
  const span = event.row < 0 ? undefined : path?.get(event.row);
  if (!span) return false;
  return kind === "thread" || (event.start < span.end && event.start + event.duration > span.start);
}

/** Whether it is an event that is followed. Of a call there may be several runs of kernels in a lane. */
export function isFollowed({ followed }: Scene, lane: Lane, { row, start }: Event): boolean {
  if (followed?.event.row !== row || followed.rank !== lane.rank) return false;
  return !isOfParts(lane) || lane.key !== followed.event.key || start === followed.event.start;
}

/** Whether another part of the page, or the keyboard, is on an event. */
export function isPointed(scene: Scene, lane: Lane, event: Event): boolean {
  if (event.row < 0) return false;
  return scene.elsewhere?.kernel === event.name || isFollowed(scene, lane, event);
}
