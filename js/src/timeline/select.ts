// What a click and a drag select.
import { afterClick } from "../integers";
import type { Hit } from "./hits";
import { isOfAll, isThin } from "./lanes";
import type { Stage } from "./stage";

export function click(stage: Stage, found: Hit, add: boolean): void {
  const { scene, calls } = stage;
  const { selection } = scene;
  if ("lane" in found && isOfAll(found.lane)) {
    scene.focused = found.lane.id;
    stage.fold();
    return;
  }
  if (found.at === "step") void calls.select({ steps: afterClick(selection.steps, found.step[0], add) });
  if (found.at === "arrow") stage.toggle(found.lane.rank);
  if (found.at === "label") void calls.select({ ranks: afterClick(selection.ranks, found.lane.rank, add) });
  if (found.at !== "lane") return;
  scene.focused = found.lane.id;
  const { lane, event } = found;
  if (event && lane.kind === "stream") void calls.select({ kernel: event.name === selection.kernel ? "" : event.name });
  else if (isThin(lane)) void calls.select({ ranks: afterClick(selection.ranks, lane.rank, add) });
  else if (selection.window_ns) void calls.select({ window_ns: null });
  stage.redraw();
}

/** Select what was dragged over. */
export function brushed(stage: Stage): void {
  const { brush, aligned } = stage.scene;
  stage.scene.brush = null;
  stage.redraw();
  if (!brush || aligned) return;
  const [start, end] = [Math.min(brush.start, brush.end), Math.max(brush.start, brush.end)].map(Math.round);
  if (end !== undefined && start !== undefined && end > start) void stage.calls.select({ window_ns: [start, end] });
}
