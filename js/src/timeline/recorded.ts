// The lanes inside the ranks of a saved timeline: answers that Python gave in advance.
import { type LaneTile, tilesOf } from "./tiles";
import type { ClassLook, LaneName, RecordedRank } from "./types";

/** The lanes of each rank, and the tile of each lane by its id. */
export function recorded(ranks: readonly RecordedRank[] = [], classes: ClassLook[]) {
  const lanes = new Map<number, LaneName[]>();
  const added = new Map<number, LaneName[]>();
  const tiles = new Map<string, LaneTile>();
  for (const { rank, lanes: names, windows } of ranks) {
    const known = windows.map(({ key }) => key);
    const there = names.filter(({ key }) => known.includes(key));
    const isAdded = ({ kind }: LaneName) => kind === "curve" || kind === "range" || kind === "path";
    lanes.set(
      rank,
      there.filter((name) => !isAdded(name)),
    );
    added.set(rank, there.filter(isAdded));
    for (const { key, content, buffers } of windows) {
      const tile = tilesOf(content, buffers, classes, "").get(0);
      if (tile) tiles.set(`${rank}/${key}`, tile);
    }
  }
  return { lanes, added, tiles };
}
