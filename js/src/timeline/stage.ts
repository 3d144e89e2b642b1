// The canvas with its scene: it loads lanes, redraws, and turns pointer and keys into views and selections.
import { followSize, make } from "../dom";
import type { Model } from "../models";
import { EVERYTHING } from "../picks";
import type { SelectionState } from "../types";
import { AddedLanes } from "./added";
import { Bands } from "./bands";
import { draw } from "./draw";
import { Follower } from "./follow";
import { duration } from "./format";
import { Help } from "./help";
import { type Hit, hit } from "./hits";
import { Kernel } from "./kernel";
import { alignedLanes, areMany, clockLanes, GUTTER, isOfAll, isThin, type Lane, lanesOfStep } from "./lanes";
import { FOOT, HEAD, type Look, lookOf, Painter, pixelScale } from "./painter";
import { recorded } from "./recorded";
import { refine } from "./refine";
import { overviewBytes } from "./runs";
import { hasGpuWork, homeOf, type OnlyStep, type Scene, wholeOf } from "./scene";
import { sharpen } from "./sharpen";
import { overviewTiles } from "./tiles";
import { inWords, Tip } from "./tip";
import type { LaneName, LitRank, TimelineLayout, TimelineState } from "./types";
import { clamped, revealed, type Span } from "./view";

const NOTHING: TimelineLayout = {
  classes: [],
  ranks: [],
  span: [0, 1],
  home: [0, 1],
  bins: 0,
  held: true,
  bands: [],
  band_bins: 0,
  band_pixels: 0,
};

export interface Calls {
  select: (values: Partial<SelectionState>) => Promise<void>;
  say: (text: string) => void;
}

export class Stage {
  readonly canvas = make("canvas", { tabIndex: 0, role: "application", "aria-roledescription": "timeline" });
  readonly element: HTMLElement;
  readonly scene: Scene;
  readonly calls: Calls;
  readonly tip = new Tip();
  readonly follower: Follower;
  readonly added: AddedLanes;
  readonly help: Help;
  /** Called with each view that originates here. */
  shown: (view: Span) => void = () => undefined;
  #spacer = make("div");
  #brush = make("div", { className: "hta-brush", hidden: true });
  #scroller: HTMLElement;
  #spoken = make("div", { className: "hta-spoken", "aria-live": "polite" });
  #model: Model<TimelineState>;
  #kernel: Kernel;
  #look: Look | null = null;
  #width = 0;
  #height = 0;
  #frame = 0;
  #opened = new Map<number, LaneName[]>();
  #known = new Map<number, LaneName[]>();
  #total = 0;
  #begun = false;
  #revealed = ""; // the finding and the window that were revealed
  #gone: { from: Span; to: Span } | null = null; // the move to a finding

  constructor(model: Model<TimelineState>, calls: Calls, signal: AbortSignal) {
    this.#model = model;
    this.calls = calls;
    this.#kernel = new Kernel(model, signal, calls.say);
    this.#scroller = make("div", { className: "hta-lanes" }, this.canvas, this.#spacer);
    this.element = make("div", { className: "hta-stage" }, this.#scroller, this.#brush, this.tip.element, this.#spoken);
    this.element.style.position = "relative";
    this.scene = this.#emptyScene();
    this.follower = new Follower(this, this.#kernel, signal);
    const say = (text: string) => calls.say(text);
    this.added = new AddedLanes(this.#kernel, () => this.#lay(), say);
    this.help = new Help(signal);
    this.load();
    this.#scroller.addEventListener("scroll", () => this.#scrolled(), { signal });
    followSize(this.element, () => this.resize(), signal);
    signal.addEventListener("abort", () => cancelAnimationFrame(this.#frame), { once: true });
  }

  /** Size of the canvas, without reading the page, which would cause a layout. */
  get width(): number {
    return this.#width;
  }

  get height(): number {
    return this.#height;
  }

  #emptyScene(): Scene {
    return {
      layout: NOTHING,
      lanes: [],
      view: { start: 0, end: 1 },
      aligned: false,
      only: null,
      tiles: new Map(),
      overview: new Map(),
      lit: new Map(),
      bands: new Bands(NOTHING, null),
      unfolded: false,
      opened: this.#opened,
      selection: { ...EVERYTHING } as Scene["selection"],
      hovered: null,
      elsewhere: null,
      followed: null,
      brush: null,
      focused: "",
      marks: [],
      search: "",
      scroll: 0,
    };
  }

  /** Take over the data of the model. */
  load(): void {
    const layout = this.#model.get("_timeline");
    if (!layout.ranks) return;
    this.scene.layout = layout;
    const overview = overviewBytes(layout, this.#model.get("_overview"));
    this.scene.overview = overviewTiles(layout, overview);
    this.scene.bands = new Bands(layout, overview);
    const { lanes, added, tiles } = recorded(this.#model.get("_recorded"), layout.classes);
    for (const [rank, names] of lanes) this.#known.set(rank, names);
    this.added.choose(this.#model.get("lanes") ?? []);
    for (const [rank, names] of added) this.added.know(rank, names);
    this.scene.tiles = tiles;
    this.element.hidden = layout.ranks.length === 0;
    if (!this.scene.only) this.join(homeOf(this.scene)); // a single step shares the axis of another one
    this.#lay();
    this.#openWithoutGpuWork();
  }

  /** Open the threads of the first rank from the start if no rank has anything to show in its own lane. */
  #openWithoutGpuWork(): void {
    const [first] = this.scene.layout.ranks;
    if (this.#begun || !first) return;
    this.#begun = true;
    if (!hasGpuWork(this.scene.layout)) this.toggle(first.rank);
  }

  /** Show the steps, or the whole recording if the steps are already shown. */
  fit(): void {
    const { view } = this.scene;
    const isHome = view.start === homeOf(this.scene).start && view.end === homeOf(this.scene).end;
    this.show(isHome ? wholeOf(this.scene) : homeOf(this.scene));
  }

  show(view: Span): void {
    this.join(view);
    this.shown(this.scene.view);
  }

  /** Show what another timeline shows. */
  join(view: Span): void {
    this.scene.view = clamped(view, wholeOf(this.scene));
    this.redraw();
    this.refine();
  }

  follow(selection: Partial<SelectionState>): void {
    Object.assign(this.scene.selection, selection);
    if (this.scene.aligned || areMany(this.scene.layout)) this.#lay();
    this.#reveal();
    this.redraw();
    this.refine();
  }

  /** Go once to the window that shows a finding, unless it is in view and wide enough to be seen. Go back when the
   * finding is deselected, unless the view has changed since. */
  #reveal(): void {
    const { aligned, selection, view } = this.scene;
    const { finding, window_ns } = selection;
    if (view !== this.#gone?.to) this.#gone = null;
    if (!window_ns && this.#gone) this.show(this.#gone.from);
    const shown = finding === null || !window_ns ? "" : `${finding} ${window_ns}`;
    if (shown === this.#revealed) return;
    this.#revealed = shown;
    if (!window_ns || !shown || aligned) return;
    const [start, end] = window_ns;
    const seen = revealed(view, { start, end }, wholeOf(this.scene));
    if (!seen) return;
    this.show(seen);
    this.#gone = { from: this.#gone?.from ?? view, to: this.scene.view };
  }

  align(aligned: boolean): void {
    this.scene.aligned = aligned;
    this.scene.hovered = null;
    this.scene.followed = null;
    this.#lay();
    this.show(homeOf(this.scene));
  }

  /** Show one step, from its start. */
  only(only: OnlyStep): void {
    this.scene.aligned = true;
    this.scene.only = only;
    this.scene.hovered = null;
    this.scene.followed = null;
    this.#lay();
    this.join(homeOf(this.scene));
  }

  /** Add lanes of these kinds to the ranks that are shown in full. */
  add(kinds: readonly string[]): void {
    this.added.choose(kinds);
    this.#lay();
  }

  /** Highlight intervals of ranks. */
  light(lit: readonly LitRank[]): void {
    this.scene.lit = new Map(lit);
    this.redraw();
  }

  search(text: string): void {
    this.scene.search = text;
    this.redraw();
    this.refine();
  }

  /** Show a row of each of many ranks, or none. */
  fold(): void {
    this.scene.unfolded = !this.scene.unfolded;
    this.#lay();
  }

  /** Open a rank into its streams and threads, or close it. */
  toggle(rank: number): void {
    const known = this.#known.get(rank);
    if (this.#opened.delete(rank)) this.#lay();
    else if (known) this.#open(rank, known);
    else
      this.#kernel.ask(
        { kind: "lanes", rank },
        (answer) => {
          if (answer.kind !== "lanes") return;
          this.#known.set(rank, answer.lanes);
          this.#open(rank, answer.lanes);
        },
        `lanes ${rank}`,
      );
  }

  /** Open a rank into its streams and threads. */
  open(rank: number): void {
    if (!this.#opened.has(rank)) this.toggle(rank);
  }

  /** Open a rank if that makes a lane visible. */
  openFor(rank: number, key: string): void {
    if (key !== "rank" && !this.scene.aligned) this.open(rank);
  }

  /** Mark a time; two marks report the time between them. */
  mark(time: number): void {
    this.scene.marks = [...this.scene.marks, time].slice(-2);
    const [first, second] = this.scene.marks;
    if (first !== undefined && second !== undefined)
      this.calls.say(`${duration(Math.abs(second - first))} between marks`);
    this.redraw();
  }

  #open(rank: number, lanes: LaneName[]): void {
    this.#opened.set(rank, lanes);
    this.#lay();
    this.refine();
  }

  #lanes(): Lane[] {
    const { layout, selection, aligned, only, unfolded } = this.scene;
    const added = this.added.byRank;
    const opened = this.#opened;
    if (only) return lanesOfStep(only.rank, only.step, opened.get(only.rank) ?? [], added.get(only.rank) ?? []);
    if (aligned) return alignedLanes(layout, selection.ranks, added);
    return clockLanes(layout, { opened, selected: selection.ranks, added, unfolded });
  }

  #lay(): void {
    const { scene } = this;
    const { layout } = scene;
    scene.lanes = this.#lanes();
    const inFull = scene.lanes.filter((lane) => lane.kind === "rank" && !isThin(lane));
    this.added.want(inFull.map(({ rank }) => rank));
    const last = scene.lanes.at(-1);
    const before = this.#total;
    this.#total = HEAD + FOOT + 4 + (last ? last.y + last.height : 0);
    this.canvas.setAttribute(
      "aria-label",
      `Timeline of ${layout.ranks.length} ranks. Up and down choose a lane, W and S zoom, A and D pan, ` +
        "left and right go to the next event of the same name or the next module, Enter selects, O opens a rank, " +
        "F shows the selection, question mark lists all keys.",
    );
    // The observer reports a new width; reading it here would cause another layout with each selection.
    if (this.#total !== before || this.#width === 0) this.resize();
    else {
      this.redraw();
      this.refine();
    }
  }

  resize(): void {
    const width = this.element.clientWidth;
    if (width === 0) return;
    this.#width = width;
    const most = Number.parseFloat(getComputedStyle(this.#scroller).maxHeight) || 640;
    const height = Math.min(this.#total, most);
    this.#height = height;
    const scale = pixelScale();
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.canvas.style.height = `${height}px`;
    this.#spacer.style.height = `${Math.max(0, this.#total - height)}px`;
    if (this.#look) this.#look.scale = scale;
    this.redraw();
    this.refine();
  }

  #scrolled(): void {
    this.scene.scroll = this.#scroller.scrollTop;
    this.redraw();
    this.refine();
  }

  /** Read fonts and colours of the page. */
  restyle(): void {
    this.#look = lookOf(this.element);
    this.resize();
  }

  painter(): Painter | null {
    const context = this.canvas.getContext("2d");
    if (!context || !this.#look || this.#width === 0) return null;
    return new Painter(context, this.scene, this.#look, this.#width, this.canvas.height / this.#look.scale);
  }

  redraw(): void {
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      const painter = this.painter();
      if (painter) draw(painter);
    });
  }

  /** Show the stretch being dragged over, or none, above the canvas, which is not redrawn. */
  brush(span: Span | null): void {
    const painter = this.painter();
    this.scene.brush = span;
    this.#brush.hidden = span === null || painter === null;
    if (!span || !painter) return;
    const x = (time: number) => Math.min(Math.max(painter.x(time), GUTTER), this.#width);
    const [from, to] = [x(span.start), x(span.end)];
    Object.assign(this.#brush.style, {
      left: `${Math.min(from, to)}px`,
      width: `${Math.abs(to - from)}px`,
      top: `${HEAD}px`,
      height: `${painter.height - HEAD - FOOT}px`,
    });
  }

  hit(x: number, y: number): Hit {
    const painter = this.painter();
    return painter ? hit(painter, x, y) : { at: "nothing" };
  }

  /** Request what is blurred. */
  refine(): void {
    if (this.#width === 0 || !this.#look) return;
    refine(this, this.#kernel, this.#look.scale);
    sharpen(this, this.#kernel);
  }

  /** Put the keyboard on a lane. */
  focus(lane: Lane): void {
    const { scene } = this;
    scene.focused = lane.id;
    this.into(lane);
    const isRank = lane.kind === "rank";
    const name = isRank ? "" : isOfAll(lane) || lane.kind === "curve" || lane.kind === "path" ? lane.label : lane.key;
    const rank = isOfAll(lane) ? "" : `rank ${lane.rank}`;
    const step = lane.step && lane.step[0] >= 0 ? `step ${lane.step[0]}` : "";
    this.say([rank, step, name, ...inWords(scene, lane)].filter(Boolean).join(", "));
    this.redraw();
  }

  /** Scroll until a lane is in sight. */
  into(lane: Lane): void {
    const top = this.#scroller.scrollTop;
    const room = this.canvas.clientHeight - HEAD - FOOT - lane.height - 6;
    if (lane.y < top) this.#scroller.scrollTop = lane.y;
    else if (lane.y > top + room) this.#scroller.scrollTop = lane.y - room;
  }

  say(text: string): void {
    this.#spoken.textContent = text;
  }
}
