// Follows the pointer and the keyboard to events, and asks Python for exact facts and launches.
import * as hover from "../hover";
import { duration } from "./format";
import type { Hit } from "./hits";
import type { Kernel } from "./kernel";
import { isOfAll, type Lane } from "./lanes";
import { isFollowed, type Viewer } from "./scene";
import { describe, type Tip } from "./tip";
import type { EventAnswer } from "./types";
import type { Span } from "./view";

const HOVER_MS = 60;
const POINTING_MS = 150; // time the pointer must rest on a table row until its kernel is looked for

/** A question to Python about events. */
export type Question = { kind: "event" | "first" | "next"; [field: string]: unknown };

/** Where events are shown: the stage. */
interface Stage extends Viewer {
  readonly tip: Tip;
  show(view: Span): void;
  say(text: string): void;
  into(lane: Lane): void;
}

export class Follower {
  #stage: Stage;
  #kernel: Kernel;
  #signal: AbortSignal;
  #asking: ReturnType<typeof setTimeout> | undefined;
  #pointing: ReturnType<typeof setTimeout> | undefined;
  #reached = false; // whether the keyboard reached the followed event

  constructor(stage: Stage, kernel: Kernel, signal: AbortSignal) {
    this.#stage = stage;
    this.#kernel = kernel;
    this.#signal = signal;
    hover.listen(this.#hovered, signal);
    signal.addEventListener("abort", () => clearTimeout(this.#pointing), { once: true });
  }

  /** What other parts of the page point at. */
  #hovered = (elsewhere: hover.Hovered | null): void => {
    this.#stage.scene.elsewhere = elsewhere;
    this.#stage.redraw();
    clearTimeout(this.#pointing);
    this.#pointing = setTimeout(() => this.#stage.refine(), POINTING_MS);
  };

  /** Show the tooltip of what is under the pointer. */
  point(found: Hit, x: number, y: number): void {
    const { scene, tip } = this.#stage;
    scene.hovered = found.at === "lane" ? found : null;
    if (found.at === "lane") {
      const { lane, event, time } = found;
      const kernel = lane.kind === "stream" && event ? { kernel: event.name } : {};
      const rank = isOfAll(lane) ? {} : { rank: lane.rank };
      const where = scene.only?.foreign ? {} : { time_ns: time + lane.shift, ...rank };
      hover.show({ ...where, ...(scene.only ? { step_ns: time } : {}), ...kernel }, this.#hovered);
      this.#look_up(found, x, y);
      tip.show(describe(scene, scene.followed), x, y, this.#stage.width);
    } else this.leave();
    this.#stage.redraw();
  }

  leave(): void {
    const { scene, tip } = this.#stage;
    clearTimeout(this.#asking);
    scene.hovered = null;
    if (!this.#reached) scene.followed = null;
    tip.hide();
    hover.show(null, this.#hovered);
    this.#stage.redraw();
  }

  /** Ask what launched the event under the pointer. */
  #look_up({ lane, event }: Extract<Hit, { at: "lane" }>, x: number, y: number): void {
    const { scene, tip } = this.#stage;
    clearTimeout(this.#asking);
    this.#reached = false;
    if (!event || event.row < 0 || lane.kind === "rank" || lane.step) {
      scene.followed = null;
      return;
    }
    if (isFollowed(scene, lane, event)) return;
    scene.followed = null;
    this.#asking = setTimeout(() => {
      if (this.#signal.aborted) return;
      this.#kernel.ask({ kind: "event", rank: lane.rank, row: event.row }, (answer) => {
        if (answer.kind !== "event" || scene.hovered?.event?.row !== answer.event.row) return;
        const { start, duration } = event;
        const run = { ...answer.event, key: lane.key, start, duration };
        this.#followed(lane.kind === "range" ? { ...answer, event: run } : answer);
        tip.show(describe(scene, answer), x, y, this.#stage.width);
      });
    }, HOVER_MS);
  }

  #followed(answer: EventAnswer): void {
    this.#stage.scene.followed = answer;
    this.#stage.redraw();
  }

  /** Ask Python for the facts of an event, unless they are already known. */
  ask(rank: number, row: number, then: (answer: EventAnswer) => void): void {
    const { followed } = this.#stage.scene;
    if (followed?.rank === rank && followed.event.row === row) then(followed);
    else
      this.#kernel.ask(
        { kind: "event", rank, row },
        (answer) => (answer.kind === "event" ? then(answer) : null),
        "click",
      );
  }

  /** Ask Python for an event, and go to it; if another question is in flight, call `again` later instead. */
  find(question: Question, again?: () => void): void {
    const other = question.kind === "first" ? "no other event in this lane" : "no other event of this name";
    const nothing = this.#stage.scene.followed ? other : "no event here";
    this.#kernel.ask(
      question,
      (answer) => {
        if (answer.kind === "event") this.#goTo(answer);
        if (answer.kind === "none") this.#stage.say(nothing);
      },
      "go",
      again,
    );
  }

  /** Show an event, its launch and its lane. */
  #goTo(answer: EventAnswer): void {
    const { scene } = this.#stage;
    const { start, duration: length, name } = answer.event;
    const lane = scene.lanes.find(({ rank, key }) => rank === answer.rank && key === answer.event.key);
    scene.focused = lane?.id ?? scene.focused;
    this.#followed(answer);
    this.#reached = true;
    const { view } = scene;
    const size = view.end - view.start;
    if (start < view.start || start + Math.min(length, size) > view.end) {
      const wide = Math.max(size, length * 1.2);
      this.#stage.show({ start: start + length / 2 - wide / 2, end: start + length / 2 + wide / 2 });
    }
    if (lane) this.#stage.into(lane);
    this.#stage.say(`${name}, ${duration(length)}, rank ${answer.rank}`);
  }
}
