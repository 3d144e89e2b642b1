// What clicks and drags select.
import { afterClick } from "../integers";
import type { Hit } from "./hits";
import { isOfAll, isOfCalls, isThin } from "./lanes";
import type { Stage } from "./stage";
import type { EventPick } from "./types";

/** Select what was clicked; return whether it was anything but time. */
export function click(stage: Stage, found: Hit, add: boolean): boolean {
  const { scene, calls } = stage;
  const { selection } = scene;
  if ("lane" in found && isOfAll(found.lane)) {
    scene.focused = found.lane.id;
    stage.fold();
    return true;
  }
  if (found.at === "step") void calls.select({ steps: afterClick(selection.steps, found.step[0], add) });
  if (found.at === "arrow") stage.toggle(found.lane.rank);
  if (found.at === "label") {
    const ranks = afterClick(selection.ranks, found.lane.rank, add);
    void calls.select({ ranks });
    if (ranks.includes(found.lane.rank)) stage.openFor(found.lane.rank, "label");
  }
  if (found.at !== "lane") return true;
  scene.focused = found.lane.id;
  const { lane, event } = found;
  if (event && lane.kind === "stream") void calls.select({ kernel: event.name === selection.kernel ? "" : event.name });
  else if (isThin(lane)) void calls.select({ ranks: afterClick(selection.ranks, lane.rank, add) });
  else if (event && event.row >= 0 && isOfCalls(lane))
    stage.follower.ask(lane.rank, event.row, (answer) => answer.pick && pick(stage, answer.pick));
  else return false;
  stage.redraw();
  return true;
}

/** Select or deselect the operator, module or kernel of an event. */
export function pick({ scene: { selection }, calls }: Stage, { field, item }: EventPick): void {
  if (field === "kernel") return void calls.select({ kernel: item === selection.kernel ? "" : item });
  const [only, ...others] = selection[field];
  const shapes = field === "operators" ? { shapes: [] } : {}; // they belong to the operator selected before
  void calls.select({ [field]: only === item && others.length === 0 ? [] : [item], ...shapes });
}

export function letGo({ scene: { selection }, calls }: Stage): void {
  if (selection.window_ns) void calls.select({ window_ns: null });
}

/** Select the window that was dragged over. */
export function brushed(stage: Stage): void {
  const { brush, aligned } = stage.scene;
  stage.brush(null);
  if (!brush || aligned) return;
  const [start, end] = [Math.min(brush.start, brush.end), Math.max(brush.start, brush.end)].map(Math.round);
  if (end !== undefined && start !== undefined && end > start) void stage.calls.select({ window_ns: [start, end] });
}
