// What the timeline of Python sends; hta_widgets/panels/timeline/messages.py has the same types, and a test compares them.

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

/** Three planes: the least, the median and the most. */
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
  /** Whether Python holds all ranks, so that windows of all are answered at once. */
  held: boolean;
  /** Of many ranks only. */
  bands: Band[];
  band_bins: number;
  /** Most pixels of a window of bands, 0 where there are none. */
  band_pixels: number;
}

/** A step of one of two jobs, of which one is shown below the other. */
export interface StackedStep {
  /** Whether it is of the job that the dashboard is not of. */
  second: boolean;
  job: string;
  rank: number;
  step: number;
  /** The step that is shown where none is chosen. */
  typical: number;
  /** Start and end (ns since the step began) of each piece of what is open in turn. */
  seen: number[];
  /** How much that is. */
  said: string;
}

/** A rank, and start and end of each of its intervals in turn. */
export type LitRank = [rank: number, times: number[]];

export interface TimelineState extends PanelState {
  _timeline: TimelineLayout;
  _overview: DataView;
  /** Kinds of lanes that are added to each rank. */
  lanes: string[];
  /** What the selected finding is seen in. */
  _lit: LitRank[];
  /** In a saved report only. */
  _recorded?: RecordedRank[];
}

export interface LaneName {
  key: string;
  kind: "rank" | "phases" | "stream" | "thread" | "range" | "curve" | "path";
  label: string;
  level: number;
  /** Of curves and paths. */
  unit: string;
  /** The largest value of each curve; the length of the whole path (ns). */
  most: number[];
  /** What each curve is, where there are several. */
  words: string[];
}

export interface WindowLane {
  lane: number;
  /** Where the plane of what is looked for begins. */
  found: number | null;
  /** Where the least values of each curve begin; the largest ones are behind. */
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
  /** Why there are none of a kind. */
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

/** Of buffers that were compressed together, `sizes` are their lengths. */
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

/** Answers about a rank that were given in advance. */
export interface RecordedRank {
  rank: number;
  lanes: LaneName[];
  windows: RecordedWindow[];
}
