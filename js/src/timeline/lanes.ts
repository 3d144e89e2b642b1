// Layout of the lanes: which are shown, in which order, and where.
import type { ClassLook, LaneName, RankRow, Step, TimelineLayout } from "./types";

/** A band covers all ranks; a fold has the ranks below it. */
type Drawn = LaneName["kind"] | "band" | "fold";

/** The rank number of lanes that cover all ranks. */
const ALL = -1;

export interface Lane {
  id: string;
  rank: number;
  key: string;
  kind: Drawn;
  label: string;
  /** Offset of the lane's time from the axis (ns): 0 except for aligned steps. */
  shift: number;
  /** The step in an aligned lane. */
  step: Step | null;
  y: number;
  height: number;
  unit: string;
  most: number[];
  words: string[];
}

export const GUTTER = 128;
const HEIGHTS = { rank: 24, phases: 13, stream: 16, thread: 13, range: 13, path: 16, curve: 26, band: 12, fold: 16 };
const TALL = 40; // with room for text
const MANY_HEIGHT = 4;
const THIN = 8;
const EMPTY_HEIGHT = 14; // only the name, as nothing ran on a GPU
const GAPS = { rank: 4, phases: 1, stream: 2, thread: 0, range: 0, path: 2, curve: 3, band: 2, fold: 4 };
const ALIGNED_HEIGHT = 15;
const MOST_ALIGNED = 96;

/** Whether a lane covers all ranks. */
export function isOfAll({ rank }: Lane): boolean {
  return rank === ALL;
}

/** Whether a lane summarises events of other lanes: modules that the GPU works for, or pieces of the path. */
export function isOfParts({ kind }: Lane): boolean {
  return kind === "range" || kind === "path";
}

/** Whether a lane shows CPU calls, or parts of them. */
export function isOfCalls(lane: Lane): boolean {
  return lane.kind === "thread" || isOfParts(lane);
}

/** Whether a lane is a row without a label. */
export function isThin({ height }: Lane): boolean {
  return height <= THIN;
}

/** Whether there are too many ranks to give each a labelled row. */
export function areMany(layout: TimelineLayout): boolean {
  return layout.bands.length > 0;
}

/** Ranks in order; if there are many, those that wait least come first, as the others wait for them. */
export function inOrder(layout: TimelineLayout): RankRow[] {
  if (!areMany(layout)) return layout.ranks;
  return [...layout.ranks].sort((one, other) => one.waiting - other.waiting || one.rank - other.rank);
}

type Named = Omit<LaneName, "kind"> & { kind: Drawn };

function lane(rank: number, { key, kind, unit, most, words }: Named, label: string, y: number, height: number): Lane {
  return { id: `${rank}/${key}`, rank, key, kind, label, shift: 0, step: null, y, height, unit, most, words };
}

const OWN: Named = { key: "rank", kind: "rank", label: "", level: 0, unit: "", most: [], words: [] };

export interface Shown {
  opened?: ReadonlyMap<number, LaneName[]>;
  selected?: readonly number[];
  added?: ReadonlyMap<number, LaneName[]>;
  /** Whether each of many ranks is unfolded into a row. */
  unfolded?: boolean;
}

/** Stacks lanes from top to bottom. */
class Stack {
  readonly lanes: Lane[] = [];
  y = 0;

  add(rank: number, name: Named, label: string, height = HEIGHTS[name.kind], gap = GAPS[name.kind]): void {
    this.lanes.push(lane(rank, name, label, this.y, height));
    this.y += height + gap;
  }

  /** A rank with its added lanes. */
  addRank(rank: number, added: readonly LaneName[], isEmpty = false): void {
    this.add(rank, OWN, `rank ${rank}`, isEmpty ? EMPTY_HEIGHT : HEIGHTS.rank);
    this.#addAdded(rank, added);
  }

  #addAdded(rank: number, added: readonly LaneName[]): void {
    for (const name of added) this.add(rank, name, name.label, name.words.length > 0 ? TALL : HEIGHTS[name.kind]);
    if (added.length > 0) this.y += 6;
  }

  /** A step of a rank from its start, with the rank's added lanes. */
  addStep(rank: number, step: Step, label: string, added: readonly LaneName[]): void {
    const first = this.lanes.length;
    this.add(rank, OWN, label, ALIGNED_HEIGHT, 2);
    this.#addAdded(rank, added);
    this.begin(step, first);
  }

  /** Make lanes show a step from its start. */
  begin(step: Step, first = 0): void {
    for (const lane of this.lanes.slice(first))
      Object.assign(lane, { id: `${lane.id}@${step[1]}`, shift: step[1], step });
  }

  /** The streams and threads of a rank. */
  addInner(rank: number, names: readonly LaneName[]): void {
    let above = "";
    let row = 0;
    for (const name of names) {
      if (name.kind === "rank") continue;
      row = name.label === above ? row + 1 : 0;
      if (row === 0 && name.kind === "thread") this.y += 3;
      this.add(rank, name, labelOf(name, row));
      above = name.label;
    }
    this.y += 6;
  }

  /** The bands of many ranks, and the row that unfolds the ranks. */
  addBands({ bands, classes, ranks }: TimelineLayout): void {
    for (const { code } of bands) {
      const { name, label } = classes[code] as ClassLook;
      this.add(ALL, { ...OWN, key: name, kind: "band" }, label);
    }
    this.add(ALL, { ...OWN, key: "fold", kind: "fold" }, `${ranks.length} ranks`);
  }
}

/** The lanes of all ranks; those in `opened` have their streams and threads, and the added lanes.
 *
 * Many ranks are shown as bands and, if unfolded, as thin rows; selected or opened ranks are shown in full. */
export function clockLanes(layout: TimelineLayout, shown: Shown = {}): Lane[] {
  const { opened = new Map(), selected = [], added = new Map(), unfolded = false } = shown;
  const stack = new Stack();
  const many = areMany(layout);
  if (many) stack.addBands(layout);
  for (const { rank, planes } of inOrder(layout)) {
    const inner = opened.get(rank);
    if (!many || inner || selected.includes(rank)) stack.addRank(rank, added.get(rank) ?? [], planes.length === 0);
    else if (unfolded) stack.add(rank, OWN, "", MANY_HEIGHT, 1);
    if (inner) stack.addInner(rank, inner);
  }
  return stack.lanes;
}

/** The label of a lane; for a thread, "thread" is above its number. */
function labelOf({ kind, label }: LaneName, row: number): string {
  if (kind !== "thread") return label;
  const words = label.split(" ");
  const number = words.pop() ?? "";
  return [words.join(" "), number][row] ?? "";
}

/** A lane for each step of each rank, all from their starts, with the added lanes of the rank. */
export function alignedLanes(
  layout: TimelineLayout,
  only: readonly number[],
  added: Shown["added"] = new Map(),
): Lane[] {
  const stack = new Stack();
  for (const { rank, steps } of inOrder(layout)) {
    if (only.length > 0 && !only.includes(rank)) continue;
    const names = added.get(rank) ?? [];
    for (const step of steps) {
      if (stack.lanes.length + 1 + names.length > MOST_ALIGNED) return stack.lanes;
      const name = step[0] < 0 ? "" : step === steps[0] ? ` · ${step[0]}` : `step ${step[0]}`;
      stack.addStep(rank, step, step === steps[0] ? `rank ${rank}${name}` : name, names);
    }
    stack.y += 4;
  }
  return stack.lanes;
}

/** All lanes of a rank in one step, from its start. */
export function lanesOfStep(rank: number, step: Step, inner: readonly LaneName[], added: readonly LaneName[]): Lane[] {
  const stack = new Stack();
  stack.addRank(rank, added);
  stack.addInner(rank, inner);
  stack.begin(step);
  return stack.lanes;
}

export function longestStep(layout: TimelineLayout): number {
  return Math.max(1, ...layout.ranks.flatMap(({ steps }) => steps.map(([, start, end]) => end - start)));
}
