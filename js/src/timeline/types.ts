// Messages of the timeline in Python; hta_widgets/panels/timeline/messages.py has the same types, and a test compares them.

import type { Fill, PanelState } from "../types";

export interface ClassLook {
  name: string;
  label: string;
  color: string;
  fill: Fill;
  group: "busy" | "idle" | "rail" | "phase" | "call";
}

export interface Plane {
  code: number;
  at: number;
}

/** Three planes: minimum, median and maximum. */
export interface Band {
  code: number;
  at: number;
}

export type Step = [number: number, start: number, end: number];

export interface RankRow {
  rank: number;
  steps: Step[];
  planes: Plane[];
  waiting: number;
}

export interface TimelineLayout {
  classes: ClassLook[];
  ranks: RankRow[];
  span: [number, number];
  home: [number, number];
  bins: number;
  /** Whether Python holds all ranks, so that it can answer for all ranks at once. */
  held: boolean;
  /** Only with many ranks. */
  bands: Band[];
  band_bins: number;
  /** Maximum pixels of a window of bands; 0 without bands. */
  band_pixels: number;
}

/** A step of one of two jobs that are shown one below the other. */
export interface StackedStep {
  /** Whether it belongs to the job that is not the dashboard's. */
  second: boolean;
  job: string;
  rank: number;
  step: number;
  /** The step shown by default. */
  typical: number;
  /** Alternating starts and ends (ns since the start of the step) of the pieces of the open row. */
  seen: number[];
  /** Their total in words. */
  said: string;
}

/** A rank, and the alternating starts and ends of its intervals. */
export type LitRank = [rank: number, times: number[]];

export interface TimelineState extends PanelState {
  _timeline: TimelineLayout;
  _overview: DataView;
  /** Kinds of lanes that are added to each rank. */
  lanes: string[];
  /** Intervals of the selected finding. */
  _lit: LitRank[];
  /** Only in a saved report. */
  _recorded?: RecordedRank[];
}

export interface LaneName {
  key: string;
  kind: "rank" | "phases" | "stream" | "thread" | "range" | "curve" | "path";
  label: string;
  level: number;
  /** Unit of curves and paths. */
  unit: string;
  /** The largest value of each curve; the length of the whole path (ns). */
  most: number[];
  /** Label of each curve, if there are several. */
  words: string[];
}

export interface WindowLane {
  lane: number;
  /** Offset of the plane of search hits. */
  found: number | null;
  /** Offset of each curve's minima; its maxima follow. */
  curves: number[];
  planes: Plane[];
  first: number;
  count: number;
  complete: boolean;
}

/** Its buffers: planes; starts, durations, rows and classes of events; their names; extremes of curves. */
export interface WindowAnswer {
  kind: "window";
  id: number;
  start: number;
  end: number;
  bins: number;
  lanes: WindowLane[];
  names: string[];
  labels: string[];
}

export interface BandsAnswer {
  kind: "bands";
  id: number;
  start: number;
  end: number;
  bins: number;
  bands: Band[];
}

export interface EventPlace {
  row: number;
  key: string;
  name: string;
  start: number;
  duration: number;
}

/** What a click on an event selects. */
export interface EventPick {
  field: "operators" | "modules" | "kernel";
  item: string;
}

export interface EventAnswer {
  kind: "event";
  id: number;
  rank: number;
  event: EventPlace;
  launch: EventPlace | null;
  launched: EventPlace[];
  captured: string;
  pick: EventPick | null;
}

export interface LanesAnswer {
  kind: "lanes";
  id: number;
  rank: number;
  lanes: LaneName[];
}

export interface AddedAnswer {
  kind: "added";
  id: number;
  rank: number;
  lanes: LaneName[];
  /** Why there are no lanes of a kind. */
  none: string[];
}

export interface KindOfLane {
  name: string;
  label: string;
  /** Empty if there may be some. */
  why_none: string;
}

export interface KindsAnswer {
  kind: "kinds";
  id: number;
  kinds: KindOfLane[];
}

export interface NoneAnswer {
  kind: "none";
  id: number;
}

export interface RefusedAnswer {
  kind: "refused";
  id: number;
  error: string;
}

/** If buffers were compressed together, `sizes` has their lengths. */
export type Answer = { sizes?: number[] } & AnyAnswer;

type AnyAnswer =
  | WindowAnswer
  | BandsAnswer
  | EventAnswer
  | LanesAnswer
  | AddedAnswer
  | KindsAnswer
  | NoneAnswer
  | RefusedAnswer;

export interface RecordedWindow {
  key: string;
  content: WindowAnswer;
  buffers: ArrayBufferView[];
}

/** Answers about a rank, given in advance. */
export interface RecordedRank {
  rank: number;
  lanes: LaneName[];
  windows: RecordedWindow[];
}
