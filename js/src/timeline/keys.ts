// The keyboard on the canvas: zoom, pan, lanes, events of the same name, launches, marks.
import type { Question } from "./follow";
import { isOfAll, isOfCalls, isOfParts, type Lane } from "./lanes";
import { chosenOf } from "./scene";
import { click, pick } from "./select";
import type { Stage } from "./stage";
import type { EventAnswer } from "./types";
import { panned, type Span, zoomed } from "./view";

const ZOOM = 1.5;
const PAN = 0.25;
const AROUND = 1.1; // times the length of the selection

function at({ scene: { view, hovered } }: Stage): number {
  return hovered?.time ?? (view.start + view.end) / 2;
}

/** The time that a zoom keeps in place: the middle of the selection if it is in view, or else the pointer. */
function around(stage: Stage): number {
  const { view } = stage.scene;
  const chosen = chosenOf(stage.scene);
  const middle = chosen ? (chosen.start + chosen.end) / 2 : view.end;
  return middle > view.start && middle < view.end ? middle : at(stage);
}

/** Show the selection with some time around it, or the analysed steps if nothing is selected. */
function showChosen(stage: Stage): void {
  const chosen = chosenOf(stage.scene);
  if (chosen) stage.show(zoomed(chosen, AROUND, (chosen.start + chosen.end) / 2));
  else stage.fit();
}

function focused({ scene }: Stage): Lane | undefined {
  return scene.lanes.find(({ id }) => id === scene.focused);
}

/** The lane a number of places further down; the first lane if none is chosen. */
function moveBy(stage: Stage, by: number): void {
  const { lanes, focused: id } = stage.scene;
  const now = lanes.findIndex((lane) => lane.id === id);
  const next = lanes[now < 0 ? 0 : Math.min(Math.max(now + by, 0), lanes.length - 1)];
  if (!next) return;
  stage.scene.followed = null;
  stage.focus(next);
}

/** What to ask for to find the next or previous event; in a lane of modules or of the path, its neighbour. */
function fromHere({ scene }: Stage, { rank, event }: EventAnswer, forward: boolean): Question {
  const { row, key, start, duration } = event;
  const isPart = scene.lanes.some((lane) => lane.rank === rank && lane.key === key && isOfParts(lane));
  if (!isPart) return { kind: "next", rank, key, row, forward };
  return { kind: "first", rank, key, time: forward ? start + duration : start, forward };
}

/** Go to the next event of the same name, or the next module; without a current one, to the first in view. */
function step(stage: Stage, forward: boolean): void {
  const { followed, view } = stage.scene;
  const lane = focused(stage);
  const again = () => step(stage, forward);
  if (followed) {
    stage.follower.find(fromHere(stage, followed, forward), again);
    return;
  }
  if (!lane || lane.step || lane.kind === "rank" || isOfAll(lane)) {
    moveBy(stage, forward ? 1 : -1);
    return;
  }
  const { rank, key, shift } = lane;
  const time = (forward ? view.start : view.end) + shift;
  stage.follower.find({ kind: "first", rank, key, time, forward }, again);
}

/** Go to the other end of the arrow: from work to its launch, from a call to its work. */
function follow(stage: Stage): void {
  const { followed } = stage.scene;
  const other = followed?.launch ?? followed?.launched[0];
  if (!followed || !other) {
    stage.say("no launch known");
    return;
  }
  stage.openFor(followed.rank, other.key);
  stage.follower.find({ kind: "event", rank: followed.rank, row: other.row });
}

function choose(stage: Stage, add: boolean): void {
  const { followed } = stage.scene;
  const lane = focused(stage);
  if (followed && lane?.kind === "stream") void stage.calls.select({ kernel: followed.event.name });
  else if (followed?.pick && lane && isOfCalls(lane)) pick(stage, followed.pick);
  else if (lane) click(stage, { at: "label", lane }, add);
}

const VIEWS: Record<string, (stage: Stage) => Span> = {
  w: (stage) => zoomed(stage.scene.view, 1 / ZOOM, around(stage)),
  s: (stage) => zoomed(stage.scene.view, ZOOM, around(stage)),
  a: (stage) => panned(stage.scene.view, -PAN),
  d: (stage) => panned(stage.scene.view, PAN),
};

const ACTIONS: Record<string, (stage: Stage, event: KeyboardEvent) => void> = {
  m: (stage) => stage.mark(at(stage)),
  f: showChosen,
  l: follow,
  "?": (stage) => stage.help.toggle(),
  o: (stage) => {
    const lane = focused(stage);
    if (lane && isOfAll(lane)) stage.fold();
    else if (lane) stage.toggle(lane.rank);
  },
  home: (stage) => stage.fit(),
  arrowup: (stage) => moveBy(stage, -1),
  arrowdown: (stage) => moveBy(stage, 1),
  arrowleft: (stage) => step(stage, false),
  arrowright: (stage) => step(stage, true),
  enter: (stage, event) => choose(stage, event.shiftKey),
};

export function followKeys(stage: Stage, signal: AbortSignal): void {
  const down = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.toLowerCase();
    const view = VIEWS[key];
    const act = ACTIONS[key];
    if (!view && !act) return;
    event.preventDefault();
    event.stopPropagation();
    if (view) stage.show(view(stage));
    else act?.(stage, event);
  };
  stage.canvas.addEventListener("keydown", down, { signal });
}
