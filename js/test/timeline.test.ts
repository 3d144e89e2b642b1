import { afterEach, beforeEach, expect, test, vi } from "vitest";
import * as hover from "../src/hover";
import { Bands } from "../src/timeline/bands";
import { amount, duration, moment, ticks } from "../src/timeline/format";
import { alignedLanes, areMany, clockLanes, GUTTER, type Lane, longestStep } from "../src/timeline/lanes";
import { bars, counts } from "../src/timeline/lit";
import { inkOn, pixels } from "../src/timeline/raster";
import { fromRuns, overviewBytes } from "../src/timeline/runs";
import { isOnPath, isPointed, pathOf, type Scene } from "../src/timeline/scene";
import { pick as select } from "../src/timeline/select";
import { tilesOf } from "../src/timeline/tiles";
import { describe } from "../src/timeline/tip";
import type { ClassLook, EventPick, LaneName, TimelineLayout } from "../src/timeline/types";
import { clamped, isSharp, panned, revealed, zoomed } from "../src/timeline/view";
import { renderView } from "../src/views";
import { EMPTY_SELECTION, FakeModel, giveCanvas, giveWidth, panelModel, settle } from "./fakes";

const look = (name: string, group: ClassLook["group"], fill: ClassLook["fill"] = "solid"): ClassLook => ({
  name,
  label: name,
  color: "#0072B2",
  fill,
  group,
});

const CLASSES = [
  look("compute", "busy"),
  look("waiting", "busy", "hatched"),
  look("late", "idle"),
  look("hidden", "rail"),
];

const layout = (ranks = 2): TimelineLayout => ({
  classes: CLASSES,
  ranks: Array.from({ length: ranks }, (_, rank) => ({
    rank,
    steps: [
      [10, 0, 400],
      [11, 400, 1000],
    ],
    planes: [{ code: 0, at: 0 }],
    waiting: (ranks - rank) / 100,
  })),
  span: [0, 2000],
  home: [0, 1000],
  bins: 4,
  held: true,
  bands: ranks > 32 ? [{ code: 0, at: 4 }] : [],
  band_bins: 2,
  band_pixels: 0,
});

// What the model carries

test("runs of equal bytes are the bytes again, and bytes that have none come as they are", () => {
  expect([...fromRuns(bytes(0, 255, 4, 2), 8)]).toEqual([0, 0, 0, 0, 0, 255, 255, 255]);
  expect([...fromRuns(bytes(1, 2, 3), 3)]).toEqual([1, 2, 3]);
  const long = fromRuns(bytes(7, 7, 9, 255, 42, 0), 300);
  expect([long.length, long[298], long[299]]).toEqual([300, 7, 9]);
});

test("an overview in runs has the planes of all ranks and the bands behind them", () => {
  const many = { ...layout(40), bins: 100, bands: [{ code: 0, at: 100 }], band_bins: 50 };
  const overview = overviewBytes(many, bytes(255, 9, 99, 149));
  expect([overview.length, overview[99], overview[100]]).toEqual([250, 255, 9]);
  expect(overviewBytes(many, null)).toHaveLength(0);
});

// Words

/** Units follow after a space that does not break. */
const narrow = (text: string) => text.replace(" ", "\u00a0");

test("durations and moments have three digits and their unit", () => {
  expect([12, 1234, 12_340_000, 2e9, 0].map(duration)).toEqual(
    ["12 ns", "1.23 µs", "12.3 ms", "2.00 s", "0 ns"].map(narrow),
  );
  expect(moment(12_345_678, 100_000_000)).toBe(narrow("12.3 ms"));
  expect(moment(12_345_678, 1_000)).toBe(narrow("12.345678 ms"));
});

test("ticks are round, inside, and the first one names the unit", () => {
  const found = ticks(0, 94e6, 10);
  expect(found.map(({ ns }) => ns / 1e6)).toEqual([0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
  expect(found.map(({ label }) => label).slice(0, 2)).toEqual([narrow("0 ms"), "10"]);
  expect(ticks(5, 9, 8).map(({ ns }) => ns)).toEqual([5, 6, 7, 8, 9]);
});

// View

test("bins are sharp near the size of a pixel, and if they last 1 ns", () => {
  const are = (size: number, pixel: number, least?: number) =>
    isSharp({ start: 50, end: 50 + 10 * size, bins: 10 }, pixel, least);
  expect([are(12, 10), are(14, 10), are(2, 10)]).toEqual([true, false, true]);
  expect([are(8, 10, 0.7), are(6, 10, 0.7)]).toEqual([true, false]);
  expect([are(1, 0.1), are(1, 10, 0.7)]).toEqual([true, true]);
});

test("a zoom keeps the moment under the pointer, and a view stays near the recording", () => {
  expect(zoomed({ start: 0, end: 100 }, 0.5, 20)).toEqual({ start: 10, end: 60 });
  expect(panned({ start: 0, end: 100 }, 0.25)).toEqual({ start: 25, end: 125 });
  const whole = { start: 0, end: 1000 };
  expect(clamped({ start: -5000, end: -4000 }, whole)).toEqual({ start: -500, end: 500 });
  expect(clamped({ start: 0, end: 1e9 }, whole)).toEqual({ start: -500, end: 1500 });
  const least = clamped({ start: 10, end: 11 }, whole);
  expect(least.end - least.start).toBe(50);
});

// Lanes

test("ranks stand below each other, an opened one with its lanes", () => {
  const closed = clockLanes(layout());
  expect(closed.map(({ id }) => id)).toEqual(["0/rank", "1/rank"]);
  const inner = [
    { key: "rank", kind: "rank", label: "", level: 0, unit: "", most: [], words: [] },
    { key: "stream 0 7", kind: "stream", label: "stream 7", level: 0, unit: "", most: [], words: [] },
    { key: "thread 0 0", kind: "thread", label: "thread 1", level: 0, unit: "", most: [], words: [] },
    { key: "thread 0 1", kind: "thread", label: "thread 1", level: 1, unit: "", most: [], words: [] },
  ] satisfies LaneName[];
  const opened = clockLanes(layout(), { opened: new Map([[0, [...inner]]]) });
  expect(opened.map(({ label }) => label)).toEqual(["rank 0", "stream 7", "thread", "1", "rank 1"]);
  for (const [place, lane] of opened.entries()) {
    const next = opened[place + 1];
    if (next) expect(next.y).toBeGreaterThanOrEqual(lane.y + lane.height);
  }
});

test("many ranks are bands, and unfolded, thin rows, those that wait least on top", () => {
  const many = layout(40);
  expect(areMany(many)).toBe(true);
  const folded = clockLanes(many, { selected: [7] });
  expect(folded.map(({ kind, label }) => [kind, label])).toEqual([
    ["band", "compute"],
    ["fold", "40 ranks"],
    ["rank", "rank 7"],
  ]);
  const lanes = clockLanes(many, { selected: [7], unfolded: true });
  expect(lanes.slice(2).map(({ rank }) => rank)).toEqual(Array.from({ length: 40 }, (_, place) => 39 - place));
  const tall = lanes.slice(2).filter(({ height }) => height > 4);
  expect(tall.map(({ label }) => label)).toEqual(["rank 7"]);
  expect(new Set(lanes.map(({ id }) => id)).size).toBe(lanes.length);
  expect(Math.max(...lanes.map(({ y, height }) => y + height))).toBeLessThan(40 * 5 + 3 * 30);
});

test("bands are known by their pixels, a click on one unfolds the ranks", async () => {
  const state = { _timeline: layout(40), _overview: bytes(255, 0, 0, 0, 0, 51, 51, 102, 255, 204) };
  const { at, el, key, model } = await show(state);
  const bands = new Bands(layout(40), state._overview);
  const known = [10, 900, -1].map((time) => bands.at("compute", time));
  expect(known).toEqual([[0, 0.2, 1], [0.2, 0.4, 0.8], null]);
  at("pointermove", GUTTER + 10, 30);
  expect(el.querySelector(".hta-tip")?.textContent).toContain(
    "min 0\u00a0%, median 20\u00a0%, max 100\u00a0% of 40 ranks",
  );
  key("ArrowDown");
  expect([...el.querySelectorAll("[aria-live=polite]")].at(-1)?.textContent).toContain("compute, median 30\u00a0%");
  expect(model.sent).toHaveLength(0);
  at("pointerdown", GUTTER + 10, 30);
  at("pointerup", GUTTER + 10, 30);
  await settle();
  const [asked] = model.sent as [Sent & { lanes: unknown[][] }];
  expect(asked.lanes).toHaveLength(40);
  expect(asked.lanes[0]).toEqual([39, "rank", 0]);
});

test("bands are asked for the view where they are blurred", async () => {
  const shares = bytes(255, 0, 0, 0, 0, 51, 51, 102, 255, 204);
  const many = { ...layout(40), band_pixels: 100 };
  const { model, key, at, el } = await show({ _timeline: many, _overview: shares });
  const [asked] = model.sent as [Sent & { ranks: number[] }];
  expect(asked).toMatchObject({ kind: "bands", start: 0, end: 1000, pixels: 100 });
  expect(asked.ranks).toHaveLength(40);
  const planes = new DataView(Uint8Array.from({ length: 300 }, (_, place) => (place < 200 ? 51 : 255)).buffer);
  model.reply({ kind: "bands", id: asked.id, start: 0, end: 1000, bins: 100, bands: [{ code: 0, at: 0 }] }, [planes]);
  await settle();
  at("pointermove", GUTTER + 900, 30);
  expect(el.querySelector(".hta-tip")?.textContent).toContain("min 20\u00a0%, median 20\u00a0%, max 100\u00a0%");
  key("w");
  expect(model.sent.at(-1)).toMatchObject({ kind: "bands", pixels: 100 });
  expect(model.sent).toHaveLength(2);
  const sharp = await show({ _timeline: { ...many, band_pixels: 2 }, _overview: shares });
  expect(sharp.model.sent).toHaveLength(0);
});

test("a window of bands lies over those of the whole, and its mean counts", () => {
  const bands = new Bands(layout(40), bytes(255, 0, 0, 0, 0, 0, 0, 51, 255, 255));
  const answer = { kind: "bands" as const, id: 1, start: 500, end: 750, bins: 1, bands: [{ code: 0, at: 0 }] };
  bands.sharpen(answer, [bytes(0, 255, 255)]);
  const pieces = bands.pieces("compute", { start: 250, end: 1000 });
  expect(pieces.map(({ start, end, tile }) => [start, end, tile.end])).toEqual([
    [250, 500, 1000],
    [500, 750, 750],
    [750, 1000, 1000],
  ]);
  expect(bands.mean("compute", 500, 750)).toBe(1);
  expect(bands.at("compute", 600)).toEqual([0, 1, 1]);
  bands.blur();
  expect(bands.pieces("compute", { start: 250, end: 1000 })).toHaveLength(1);
  expect(bands.at("compute", 600)).toEqual([0, 0.2, 1]);
});

test("aligned steps begin at 0, each with a lane of its own", () => {
  const lanes = alignedLanes(layout(), []);
  expect(lanes.map(({ shift }) => shift)).toEqual([0, 400, 0, 400]);
  expect(alignedLanes(layout(), [1]).map(({ rank }) => rank)).toEqual([1, 1]);
  expect(longestStep(layout())).toBe(600);
});

// Pixels

const alpha = (image: Uint8ClampedArray, bins: number, x: number, y: number) => image[(y * bins + x) * 4 + 3] ?? 0;

function rows(image: Uint8ClampedArray, bins: number, height: number, x: number): number[] {
  return Array.from({ length: height }, (_, y) => alpha(image, bins, x, y));
}

test("a column is as full as its time is covered: nothing has a least height that lies", () => {
  const of = Uint8Array.from([255, 56, 1, 0]);
  const image = pixels([{ look: CLASSES[0] as ClassLook, of }], 4, 20, 1);
  const filled = [0, 1, 2, 3].map((x) => rows(image, 4, 20, x).filter(Boolean).length);
  expect(filled).toEqual([20, 4, 0, 0]);
  expect(rows(image, 4, 20, 1).slice(-4).every(Boolean)).toBe(true);
});

test("what the GPU does lies below what it waits for, which is paler", () => {
  const half = Uint8Array.from([128]);
  const rest = Uint8Array.from([127]);
  const [compute, , late] = CLASSES as [ClassLook, ClassLook, ClassLook];
  const image = pixels(
    [
      { look: late, of: rest },
      { look: compute, of: half },
    ],
    1,
    10,
    1,
  );
  const column = rows(image, 1, 10, 0);
  expect(column.slice(5)).toEqual([255, 255, 255, 255, 255]);
  expect(column.slice(0, 5).every((each) => each > 60 && each < 160)).toBe(true);
});

test("names are legible on every colour", () => {
  const colors = ["#0072B2", "#7A5195", "#5F6B76", "#D55E00", "#009E73", "#8A929A", "#A9B0B6"];
  expect(colors.map(inkOn).map((ink) => ink === "#ffffff")).toEqual([true, true, true, false, false, false, false]);
});

test("hatched classes are hatched, and the rail shows where it covers", () => {
  const full = Uint8Array.from({ length: 12 }, () => 255);
  const hatched = pixels([{ look: CLASSES[1] as ClassLook, of: full }], 12, 12, 1);
  expect(new Set(rows(hatched, 12, 12, 0)).size).toBe(2);
  const rail = pixels([{ look: CLASSES[3] as ClassLook, of: Uint8Array.from([255, 0]) }], 2, 10, 1);
  expect(rows(rail, 2, 10, 0).filter(Boolean)).toHaveLength(3);
  expect(rows(rail, 2, 10, 1).filter(Boolean)).toHaveLength(0);
});

// Answers

const bytes = (...values: number[]) => new DataView(Uint8Array.from(values).buffer);
const numbers = (kind: "f8" | "i4", ...values: number[]) => {
  const shifted = new Uint8Array(values.length * 8 + 1);
  const content = kind === "f8" ? new Float64Array(values) : new Int32Array(values);
  shifted.set(new Uint8Array(content.buffer), 1);
  return new DataView(shifted.buffer, 1, content.byteLength);
};

const ANSWER = {
  kind: "window" as const,
  id: 1,
  start: 100,
  end: 500,
  bins: 4,
  lanes: [{ lane: 0, found: 4, curves: [], planes: [{ code: 0, at: 0 }], first: 1, count: 2, complete: true }],
  names: ["gemm<float>"],
  labels: ["gemm"],
};

const BUFFERS = [
  bytes(0, 255, 128, 0, 0, 255, 255, 0),
  numbers("f8", 7, 3, 190),
  numbers("f8", 7, 50, 100),
  numbers("i4", 7, 34, 1),
  bytes(0, 0, 1),
  numbers("i4", -1, 0, -1),
];

test("an answer is read at any offset, and its events are found by time", () => {
  const tile = tilesOf(ANSWER, BUFFERS, CLASSES, "gemm").get(0);
  expect(tile?.events).toBe(2);
  expect(tile?.event(0)).toMatchObject({ start: 110, duration: 50, row: 41, name: "gemm<float>", label: "gemm" });
  expect(tile?.event(1)).toMatchObject({ start: 300, row: 42, name: "", look: CLASSES[1] });
  expect([100, 159, 160, 399, 400].map((time) => tile?.firstAfter(time))).toEqual([0, 0, 1, 1, 2]);
  expect([...(tile?.runs(0, 4) ?? [])]).toEqual([[1, 3]]);
  expect(tile?.shares(250)).toEqual([{ look: CLASSES[0], share: 1 }]);
  expect(tile?.means(100, 500)[0]?.share).toBeCloseTo(383 / 4 / 255);
});

// The widget

const drawn: string[] = [];
const measured: string[] = [];

beforeEach(() => {
  drawn.length = 0;
  document.body.replaceChildren();
  giveWidth(GUTTER + 1000);
  giveCanvas(drawn, measured);
});

afterEach(() => vi.restoreAllMocks());

type Sent = Record<string, unknown> & { id: number; kind: string };

class TimelineModel extends FakeModel {
  override sent: Sent[] = [];
  #told = new Set<(content: unknown, buffers: unknown[]) => void>();

  override on(event: string, callback: never): void {
    if (event === "msg:custom") this.#told.add(callback);
    else super.on(event, callback);
  }

  override off(event: string, callback: never): void {
    if (event === "msg:custom") this.#told.delete(callback);
    else super.off(event, callback);
  }

  override send(content: Sent): void {
    this.sent.push(content);
  }

  reply(content: Record<string, unknown>, buffers: unknown[] = []): void {
    for (const callback of [...this.#told]) callback(content, buffers);
  }
}

async function show(state: Record<string, unknown> = {}) {
  const model = new TimelineModel({
    ...panelModel({ _spec: { title: "Timeline", open: false, controls: [] } }).state,
    _timeline: layout(),
    _overview: bytes(255, 0, 0, 0),
    ...state,
  });
  const selection = new FakeModel(EMPTY_SELECTION);
  const stop = new AbortController();
  const el = document.body.appendChild(document.createElement("div"));
  renderView({
    model: model.model,
    el,
    signal: stop.signal,
    host: { getModel: async () => selection.model },
  } as never);
  for (let turn = 0; turn < 4; turn += 1) await settle();
  const canvas = el.querySelector("canvas") as HTMLCanvasElement;
  vi.spyOn(canvas, "getBoundingClientRect").mockReturnValue({ left: 0, top: 0 } as DOMRect);
  const at = (type: string, x: number, y: number, more: object = {}) =>
    canvas.dispatchEvent(
      Object.assign(new MouseEvent(type, { clientX: x, clientY: y, button: 0, ...more }), { pointerId: 1 }),
    );
  const key = (name: string) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
  return { model, selection, el, canvas, stop, at, key };
}

test("ranks, steps and axis are drawn from what the model carries, without a kernel", async () => {
  const { el } = await show();
  expect(drawn).toContain("rank 0");
  expect(drawn).toContain("step 10  400\u00a0ns");
  expect(el.querySelector(".hta-legend")?.textContent).toBe("compute");
  expect(el.querySelector("canvas")?.getAttribute("aria-label")).toContain("2 ranks");
});

test("of thousands of steps, none is measured that is too narrow for a text", async () => {
  const steps = Array.from({ length: 5000 }, (_, at): [number, number, number] => [at, at / 5, (at + 1) / 5]);
  measured.length = 0;
  await show({ _timeline: { ...layout(), ranks: layout().ranks.map((rank) => ({ ...rank, steps })) } });
  expect(measured.length).toBeGreaterThan(0);
  expect(measured.filter((text) => text.startsWith("step"))).toEqual([]);
});

test("the threads of the first rank are open where no rank has GPU work", async () => {
  const opened = ({ model }: { model: TimelineModel }) =>
    model.sent.filter(({ kind }) => kind === "lanes").map(({ rank }) => rank);
  expect(opened(await show())).toEqual([]);
  const bare = { ...layout(), ranks: layout().ranks.map((rank) => ({ ...rank, planes: [] })) };
  expect(opened(await show({ _timeline: bare }))).toEqual([bare.ranks[0]?.rank]);
});

test("a selected operator is looked for among calls, where no rank has GPU work", async () => {
  const bare = { ...layout(), ranks: layout().ranks.map((rank) => ({ ...rank, planes: [] })) };
  for (const [state, find] of [
    [{}, ""], // kernels have other names
    [{ _timeline: bare }, "aten::copy_"],
  ] as const) {
    const { model, selection } = await show(state);
    const [first] = model.sent.filter(({ kind }) => kind === "window") as Sent[];
    model.reply({ ...ANSWER, id: first?.id, lanes: [] }, BUFFERS);
    selection.set("operators", ["aten::copy_"]);
    await settle();
    expect(model.sent.filter(({ kind }) => kind === "window").at(-1)).toMatchObject({ find });
  }
});

test("a sharper window is asked for, of no more than is recorded", async () => {
  const { model } = await show();
  const [asked] = model.sent;
  expect(asked).toMatchObject({ kind: "window", start: 0, end: 2000, pixels: 2000, find: "" });
  expect(asked?.lanes).toEqual([
    [0, "rank", 0],
    [1, "rank", 0],
  ]);
});

test("of several zooms, the last is asked for when the first is answered", async () => {
  const { model, key } = await show();
  for (const name of ["w", "w", "w"]) key(name);
  expect(model.sent).toHaveLength(1);
  const [first] = model.sent as [Sent];
  model.reply({ ...ANSWER, id: first.id, lanes: [] }, BUFFERS);
  expect(model.sent).toHaveLength(2);
  const last = model.sent[1] as Sent & { start: number; end: number };
  const shown = 1000 / 1.5 ** 3;
  expect(last.start).toBeCloseTo(500 - 1.5 * shown, -1);
  expect(last.end).toBeCloseTo(500 + 1.5 * shown, -1);
});

test("buffers that come compressed together are taken apart", async () => {
  const { model } = await show();
  const [asked] = model.sent as [Sent];
  const whole = new Uint8Array(
    BUFFERS.flatMap((each) => [...new Uint8Array(each.buffer, each.byteOffset, each.byteLength)]),
  );
  const packed = await new Response(
    new Blob([whole]).stream().pipeThrough(new CompressionStream("gzip")),
  ).arrayBuffer();
  const sizes = BUFFERS.map(({ byteLength }) => byteLength);
  drawn.length = 0;
  model.reply({ ...ANSWER, id: asked.id, sizes }, [new DataView(packed)]);
  await vi.waitFor(() => expect(drawn).toContain("gemm"));
});

test("lit intervals are bars of at least a pixel, and those less than one apart are one", () => {
  const times = [0, 10, 10.2, 10.4, 30, 30.1, 200, 300];
  expect(bars(times, (time) => time, 5, 250)).toEqual([
    [5, 11.2],
    [30, 31],
    [200, 250],
  ]);
});

test("a drag selects a window of time, and draws no lane again", async () => {
  const { selection, at, el } = await show();
  const brush = el.querySelector(".hta-brush") as HTMLElement;
  at("pointerdown", GUTTER + 100, 30);
  at("pointermove", GUTTER + 110, 30);
  await settle();
  drawn.length = 0;
  at("pointermove", GUTTER + 250, 30);
  await settle();
  expect(drawn).toEqual([]);
  expect([brush.hidden, brush.style.left, brush.style.width]).toEqual([false, `${GUTTER + 100}px`, "150px"]);
  at("pointerup", GUTTER + 250, 30);
  await settle();
  expect(selection.get("window_ns")).toEqual([100, 250]);
  expect(selection.get("finding")).toBeNull(); // it is seen at another time
});

test("F shows the selection, and W zooms about it, wherever the pointer is", async () => {
  const { selection, model, at, key } = await show();
  const asked = () => {
    const last = model.sent.at(-1) as Sent;
    model.reply({ ...ANSWER, id: last.id, lanes: [] }, BUFFERS);
    const { start, end } = model.sent.at(-1) as Sent & { start: number; end: number };
    return [start, end]; // one more of what is shown on both sides, where it was recorded
  };
  selection.receive("window_ns", [600, 800]);
  at("pointermove", GUTTER + 900, 30);
  key("f");
  expect(asked()).toEqual([590 - 220, 810 + 220]);
  selection.receive("window_ns", null);
  selection.receive("steps", [11]);
  key("f");
  expect(asked()).toEqual([0, 1030 + 660]);
  selection.receive("window_ns", [600, 800]);
  key("w");
  key("w");
  key("w");
  const [start, end] = asked() as [number, number];
  expect((start + end) / 2).toBeCloseTo(700, -1);
});

test("a drag ends with the recording, and Escape gives it up", async () => {
  const { selection, at, key } = await show();
  at("pointerdown", GUTTER + 500, 30);
  at("pointermove", GUTTER + 5000, 30);
  at("pointerup", GUTTER + 5000, 30);
  await settle();
  expect(selection.get("window_ns")).toEqual([500, 1000]);
  at("pointerdown", GUTTER + 100, 30);
  at("pointermove", GUTTER + 300, 30);
  key("Escape");
  at("pointerup", GUTTER + 300, 30);
  await settle();
  expect(selection.get("window_ns")).toEqual([500, 1000]);
});

test("a click beside events lets go of the window, and a double click keeps it", async () => {
  const { selection, model, at } = await show();
  selection.receive("window_ns", [200, 400]);
  const click = () => {
    at("pointerdown", GUTTER + 500, 30);
    at("pointerup", GUTTER + 500, 30);
  };
  const wait = () => new Promise((done) => setTimeout(done, 350));
  click();
  click();
  at("dblclick", GUTTER + 500, 30);
  await wait();
  expect(selection.get("window_ns")).toEqual([200, 400]);
  click();
  await wait();
  expect(selection.get("window_ns")).toBeNull();
  model.answer({ rev: model.get("_req") as number });
});

test("a question mark lists the keys", async () => {
  const { el, key } = await show();
  const list = el.querySelector(".hta-help") as HTMLElement;
  list.togglePopover = vi.fn();
  key("?");
  expect(list.togglePopover).toHaveBeenCalled();
  expect(list.textContent).toContain("Fzoom to the selection");
});

test("a click selects a step or a rank, and a second one all again", async () => {
  const { model, selection, at } = await show();
  const click = async (x: number, y: number) => {
    at("pointerdown", x, y);
    at("pointerup", x, y);
    await settle();
    model.answer({ rev: model.get("_req") as number });
  };
  await click(GUTTER + 500, 5);
  expect(selection.get("steps")).toEqual([11]);
  await click(GUTTER + 500, 5);
  expect(selection.get("steps")).toEqual([]);
  await click(40, 30);
  expect(selection.get("ranks")).toEqual([0]);
  const opened = model.sent.filter(({ kind }) => kind === "lanes").map(({ rank }) => rank);
  expect(opened).toEqual([0]); // what is selected is shown in full
});

test("the plain wheel is left to the notebook, with Ctrl it zooms", async () => {
  const { canvas, model } = await show();
  const wheel = (ctrlKey: boolean) => {
    const event = Object.assign(new Event("wheel", { cancelable: true }), { deltaY: -100, ctrlKey, clientX: 500 });
    canvas.dispatchEvent(event);
    return event.defaultPrevented;
  };
  expect(wheel(false)).toBe(false);
  expect(wheel(true)).toBe(true);
  expect(model.sent).toHaveLength(1);
});

test("an arrow opens a rank into the lanes that Python names", async () => {
  const { model, at } = await show();
  at("pointerdown", 5, 30);
  at("pointerup", 5, 30);
  const asked = model.sent.find(({ kind }) => kind === "lanes") as Sent;
  expect(asked.rank).toBe(0);
  const lanes = [
    { key: "rank", kind: "rank", label: "", level: 0, unit: "", most: [], words: [] },
    { key: "stream 0 7", kind: "stream", label: "stream 7", level: 0, unit: "", most: [], words: [] },
  ];
  model.reply({ kind: "lanes", id: asked.id, rank: 0, lanes });
  await settle();
  expect(drawn).toContain("stream 7");
  expect(drawn).toContain("▾");
});

const STREAM = { key: "stream 0 7", kind: "stream", label: "stream 7", level: 0, unit: "", most: [], words: [] };

/** A rank opened into a stream whose tile has not come, with the keyboard on that. */
async function onStream() {
  const shown = await show();
  const { model, key, el } = shown;
  key("ArrowDown");
  key("o");
  const asked = model.sent.find(({ kind }) => kind === "lanes") as Sent;
  model.reply({ kind: "lanes", id: asked.id, rank: 0, lanes: [STREAM] });
  await settle();
  key("ArrowDown");
  const spoken = () => [...el.querySelectorAll("[aria-live=polite]")].at(-1)?.textContent;
  const last = () => model.sent.at(-1) as Sent;
  expect(spoken()).toBe("rank 0, stream 0 7");
  return { ...shown, spoken, last };
}

const EVENT = { row: 41, key: "stream 0 7", name: "gemm", start: 500, duration: 20 };

test("left and right go to the first event in view that Python knows, whatever is drawn", async () => {
  const { model, key, spoken, last } = await onStream();
  key("ArrowRight");
  const where = { kind: "first", rank: 0, key: "stream 0 7" };
  expect(last()).toMatchObject({ ...where, time: 0, forward: true });
  model.reply({ kind: "none", id: last().id });
  expect(spoken()).toBe("no event here");
  key("ArrowLeft");
  expect(last()).toMatchObject({ ...where, time: 1000, forward: false });
  model.reply({
    kind: "event",
    id: last().id,
    rank: 0,
    event: EVENT,
    launch: null,
    launched: [],
    captured: "",
    pick: null,
  });
  await settle();
  expect(spoken()).toBe("gemm, 20\u00a0ns, rank 0");
});

test("a key pressed before the answer goes on from there, and another lane begins anew", async () => {
  const { model, key, last } = await onStream();
  key("ArrowRight");
  key("ArrowRight");
  model.reply({
    kind: "event",
    id: last().id,
    rank: 0,
    event: EVENT,
    launch: null,
    launched: [],
    captured: "",
    pick: null,
  });
  expect(last()).toMatchObject({ kind: "next", row: 41, forward: true });
  model.reply({ kind: "none", id: last().id });
  key("ArrowUp");
  key("ArrowDown");
  key("ArrowRight");
  expect(last()).toMatchObject({ kind: "first", forward: true });
});

const MODULES = { key: "modules 0", kind: "range", label: "modules", level: 0, unit: "", most: [], words: [] };

test("left and right go from module to module in a lane of modules", async () => {
  const { model, key, el } = await show({ lanes: ["modules"] });
  const asked = model.sent.find(({ kind, rank }) => kind === "added" && rank === 0) as Sent;
  model.reply({ kind: "added", id: asked.id, rank: 0, lanes: [MODULES], none: [] });
  await settle();
  key("ArrowDown");
  key("ArrowDown");
  const last = () => model.sent.at(-1) as Sent;
  const spoken = () => [...el.querySelectorAll("[aria-live=polite]")].at(-1)?.textContent;
  const answer = (start: number, duration: number) => {
    const event = { row: 41, key: "modules 0", name: "Linear_0", start, duration };
    model.reply({ kind: "event", id: last().id, rank: 0, event, launch: null, launched: [], captured: "", pick: null });
  };
  const where = { kind: "first", rank: 0, key: "modules 0" };
  key("ArrowRight");
  expect(last()).toMatchObject({ ...where, time: 0, forward: true });
  answer(500, 20);
  expect(spoken()).toBe("Linear_0, 20\u00a0ns, rank 0");
  key("ArrowRight");
  expect(last()).toMatchObject({ ...where, time: 520, forward: true });
  answer(600, 30);
  key("ArrowLeft");
  expect(last()).toMatchObject({ ...where, time: 600, forward: false });
  model.reply({ kind: "none", id: last().id });
  expect(spoken()).toBe("no other event in this lane");
  key("ArrowDown");
  expect(spoken()).toContain("rank 1");
});

test("Enter selects the module or the operator that is followed, and lets go of it again", async () => {
  const { model, key, selection } = await show({ lanes: ["modules"] });
  const asked = model.sent.find(({ kind, rank }) => kind === "added" && rank === 0) as Sent;
  model.reply({ kind: "added", id: asked.id, rank: 0, lanes: [MODULES], none: [] });
  await settle();
  key("ArrowDown");
  key("ArrowDown");
  key("ArrowRight");
  const event = { row: 41, key: "modules 0", name: "Linear_0", start: 500, duration: 20 };
  const pick = { field: "modules", item: "Net_0 › Linear_0" };
  const last = model.sent.at(-1) as Sent;
  model.reply({ kind: "event", id: last.id, rank: 0, event, launch: null, launched: [], captured: "", pick });
  key("Enter");
  await settle();
  expect(selection.get("modules")).toEqual(["Net_0 › Linear_0"]);
  model.answer({ rev: model.get("_req") as number });
  key("Enter");
  await settle();
  expect(selection.get("modules")).toEqual([]);
});

test("another operator lets go of the shapes of the one before", () => {
  const pick: EventPick = { field: "operators", item: "aten::mm" };
  const calls: unknown[] = [];
  const stage = { scene: { selection: { operators: ["aten::add"], modules: [], window_ns: null } } };
  select({ ...stage, calls: { select: async (values: unknown) => void calls.push(values) } } as never, pick);
  expect(calls).toEqual([{ operators: ["aten::mm"], shapes: [] }]);
});

test("a kernel is selected by its pick, and let go of by the same", () => {
  const pick: EventPick = { field: "kernel", item: "gemm" };
  const calls: unknown[] = [];
  const select_of = (kernel: string) => {
    const scene = { selection: { operators: [], modules: [], window_ns: null, kernel } };
    select({ scene, calls: { select: async (values: unknown) => void calls.push(values) } } as never, pick);
  };
  select_of("");
  select_of("gemm");
  expect(calls).toEqual([{ kernel: "gemm" }, { kernel: "" }]);
});

const PATH: LaneName = { key: "path 0", kind: "path", label: "path", level: 0, unit: "ns", most: [400], words: [] };

test("events on the critical path are known while its lane is shown: calls, and the part of a kernel that is", () => {
  const thread: LaneName = { ...(STREAM as LaneName), key: "thread 0 0", kind: "thread" };
  const opened = new Map([[0, [STREAM as LaneName, thread]]]);
  const look = CLASSES[0] as ClassLook;
  const events = [
    { row: 41, start: 300, duration: 100 },
    { row: 41, start: 400, duration: 50 },
    { row: 41, start: 450, duration: 50 },
    { row: 42, start: 400, duration: 50 },
    { row: -1, start: 400, duration: 50 },
  ].map((event) => ({ ...event, look, name: "", label: "" }));
  const found = (added: LaneName[]) => {
    const lanes = clockLanes(layout(), { opened, added: new Map([[0, added]]) });
    const columns = [[400], [50], [41], [0], [-1]] as const;
    const buffers = [
      new Uint8Array(),
      new Float64Array(columns[0]),
      new Float64Array(columns[1]),
      new Int32Array(columns[2]),
      new Uint8Array(columns[3]),
      new Int32Array(columns[4]),
    ];
    const lane = { lane: 0, found: null, curves: [], planes: [], first: 0, count: 1, complete: true };
    const answer = {
      kind: "window" as const,
      id: 1,
      start: 0,
      end: 1000,
      bins: 4,
      lanes: [lane],
      names: [],
      labels: [],
    };
    const tile = tilesOf(answer, buffers, CLASSES, "").get(0);
    const scene = { lanes, tiles: new Map([["0/path 0", tile]]) } as unknown as Scene;
    return lanes.map((lane) => events.map((event) => Number(isOnPath(pathOf(scene, lane), lane, event))).join(""));
  };
  expect(found([PATH])).toEqual(["00000", "00000", "01000", "11100", "00000"]);
  expect(found([])).toEqual(["00000", "00000", "00000", "00000"]);
});

test.each([
  ["call" as const, "until gemm"],
  ["busy" as const, "gemm"],
])("a piece of the critical path (%s) has its class, its length and its share of the path", (group, what) => {
  const lane = clockLanes(layout(), { added: new Map([[0, [PATH]]]) }).find(({ kind }) => kind === "path") as Lane;
  const event = { row: 41, start: 500, duration: 20, name: "gemm", label: "gemm", look: look("host", group) };
  const scene = { hovered: { lane, event, time: 505 }, view: { start: 0, end: 1000 }, layout: layout() };
  const words = describe(scene as unknown as Scene, null).map((part) => (part as HTMLElement).textContent);
  expect(words.slice(0, 3)).toEqual(["host", "20\u00a0ns, 5\u00a0% of the critical path", what]);
});

test("what only the capture of a graph has is said of a kernel that the graph replays", () => {
  const lane = { kind: "stream", rank: 0, shift: 0, key: "stream 0 7" } as Lane;
  const event = { row: 41, start: 500, duration: 20, name: "gemm", label: "gemm", look: look("compute", "busy") };
  const scene = { hovered: { lane, event, time: 505 }, view: { start: 0, end: 1000 }, layout: layout() };
  const followed = { kind: "event" as const, id: 1, rank: 0, event: { ...event, key: lane.key }, launch: null };
  const words = (captured: string) =>
    describe(scene as unknown as Scene, { ...followed, launched: [], captured, pick: null })
      .map((part) => (part as HTMLElement).textContent)
      .filter((text) => text?.includes("capture"));
  expect(words("aten::mm")).toEqual(["in aten::mm, as recorded in the graph's capture"]);
  expect(words("")).toEqual([]);
});

test("of many ranks, it is counted how many are lit in each pixel", () => {
  const x = (time: number) => time / 10;
  const lit = [[0, 30, 50, 52], [20, 40], []];
  expect([...counts(lit, x, 0, 6)]).toEqual([1, 1, 2, 1, 0, 1]);
  expect([...counts(lit, x, 2, 4)]).toEqual([2, 1]);
  expect([...counts([], x, 0, 2)]).toEqual([0, 0]);
});

test("of the runs of one call, only the one that is followed is lit in its lane", () => {
  const lanes = clockLanes(layout(), { added: new Map([[0, [MODULES as LaneName]]]) });
  const range = lanes.find(({ kind }) => kind === "range") as Lane;
  const run = { row: 41, start: 500, duration: 20, name: "Linear_0", label: "Linear_0", look: CLASSES[0] as ClassLook };
  const followed = { kind: "event", id: 1, rank: 0, launch: null, launched: [], captured: "", pick: null };
  const scene = { elsewhere: null, followed: { ...followed, event: { ...run, key: "modules 0" } } } as unknown as Scene;
  expect(isPointed(scene, range, run)).toBe(true);
  expect(isPointed(scene, range, { ...run, start: 700 })).toBe(false);
  const thread = { ...range, kind: "thread", key: "thread 0 0" } as Lane;
  expect(isPointed(scene, thread, { ...run, start: 100 })).toBe(true);
});

test("the keyboard goes through lanes, and says what they show", async () => {
  const { el, key, selection } = await show();
  key("ArrowDown");
  key("ArrowDown");
  const spoken = [...el.querySelectorAll("[aria-live=polite]")].at(-1);
  expect(spoken?.textContent).toContain("rank 1, compute 25 %");
  key("Enter");
  await settle();
  expect(selection.get("ranks")).toEqual([1]);
});

test("ranks that Python does not hold are not asked for while they are thin", async () => {
  const { model, selection, key } = await show({ _timeline: { ...layout(40), held: false } });
  key("ArrowDown");
  key("o");
  await settle();
  expect(model.sent).toHaveLength(0);
  selection.receive("ranks", [38]);
  expect(((model.sent[0] as Sent).lanes as unknown[][]).map(([rank]) => rank)).toEqual([38]);
});

test("what Python refuses is said", async () => {
  const { el, model } = await show();
  const [asked] = model.sent as [Sent];
  model.reply({ kind: "refused", id: asked.id, error: "no such rank" });
  expect(el.querySelector(".hta-status")?.textContent).toBe("no such rank");
});

test("names are text in the note beside the pointer", async () => {
  const { el, model, at } = await show();
  const [asked] = model.sent as [Sent];
  const evil = "<img src=x onerror=alert(1)>";
  const answer = { ...ANSWER, start: 0, id: asked.id, names: [evil], labels: [evil] };
  model.reply(answer, BUFFERS);
  at("pointermove", GUTTER + 30, 30);
  const tip = el.querySelector(".hta-tip");
  expect(tip?.textContent).toContain(evil);
  expect(tip?.querySelector("img")).toBeNull();
});

test("what is pointed at is told to the rest of the page, and theirs is shown", async () => {
  const { at } = await show();
  const told: (hover.Hovered | null)[] = [];
  const stop = new AbortController();
  hover.listen((hovered) => told.push(hovered), stop.signal);
  at("pointermove", GUTTER + 500, 60);
  expect(told.at(-1)).toEqual({ time_ns: 500, rank: 1 });
  at("pointerleave", 0, 0);
  expect(told.at(-1)).toBeNull();
  stop.abort();
});

test("nothing listens once the view is gone", async () => {
  const { model, selection, stop } = await show();
  stop.abort();
  expect(model.listeners()).toBe(0);
  expect(selection.listeners()).toBe(0);
  const before = model.sent.length;
  model.reply({ ...ANSWER, id: 1 }, BUFFERS);
  expect(model.sent).toHaveLength(before);
});

// Added lanes

const CURVE: LaneName = {
  key: "queue 0 7",
  kind: "curve",
  label: "queue 7",
  level: 0,
  unit: "operations",
  most: [8],
  words: [],
};

test("amounts have three digits and their unit", () => {
  const found = [amount(6_629_508_096, "bytes"), amount(1234, "operations"), amount(1, "operations")];
  expect(found).toEqual(["6.63 GB", "1,234 operations", "1 operation"].map(narrow));
  expect([0.4222, 0.002_864].map((speed) => amount(speed, "GB/s"))).toEqual(["0.422 GB/s", "2.86 MB/s"].map(narrow));
});

test("a menu adds lanes to each rank, and says why there are none of a kind", async () => {
  const { el, model } = await show({ lanes: [] });
  const menu = el.querySelector(".hta-kinds") as HTMLElement;
  menu.dispatchEvent(Object.assign(new Event("beforetoggle"), { newState: "open" }));
  const kinds = [
    { name: "queue", label: "queue length", why_none: "" },
    { name: "memory", label: "memory", why_none: "no memory events were recorded" },
  ];
  model.reply({ kind: "kinds", id: (model.sent.at(-1) as Sent).id, kinds });
  await settle();
  const [queue, memory] = [...menu.querySelectorAll("input")] as [HTMLInputElement, HTMLInputElement];
  expect([queue.disabled, memory.disabled]).toEqual([false, true]);
  expect(menu.textContent).toContain("no memory events were recorded");
  queue.checked = true;
  queue.dispatchEvent(new Event("change"));
  expect(model.get("lanes")).toEqual(["queue"]);
  const asked = model.sent.filter(({ kind }) => kind === "added");
  expect(asked.map(({ rank, lanes }) => [rank, lanes])).toEqual([
    [0, ["queue"]],
    [1, ["queue"]],
  ]);
  model.reply({ kind: "added", id: (asked[0] as Sent).id, rank: 0, lanes: [CURVE], none: [] });
  await settle();
  expect(drawn).toContain("queue 7");
  expect(drawn).toContain("max 8\u00a0ops");
});

test("added lanes lie below each of the aligned steps, from its start", async () => {
  const lanes = alignedLanes(layout(), [], new Map([[1, [CURVE]]]));
  expect(lanes.map(({ id, shift }) => [id, shift])).toEqual([
    ["0/rank@0", 0],
    ["0/rank@400", 400],
    ["1/rank@0", 0],
    ["1/queue 0 7@0", 0],
    ["1/rank@400", 400],
    ["1/queue 0 7@400", 400],
  ]);
  for (const [place, lane] of lanes.slice(1).entries())
    expect(lane.y).toBeGreaterThan((lanes[place]?.y ?? 0) + (lanes[place]?.height ?? 0));
  const { model, el, key } = await show({ lanes: ["queue"] });
  (el.querySelectorAll("input[type=radio]")[1] as HTMLInputElement).dispatchEvent(new Event("change"));
  const asked = model.sent.find(({ kind, rank }) => kind === "added" && rank === 1) as Sent;
  model.reply({ kind: "added", id: asked.id, rank: 1, lanes: [CURVE], none: [] });
  await settle();
  for (let press = 0; press < 6; press += 1) key("ArrowRight");
  expect([...el.querySelectorAll("[aria-live=polite]")].at(-1)?.textContent).toBe(
    "rank 1, step 11, queue 7, nothing recorded",
  );
});

test("a curve is known by its pixels, and nowhere else", () => {
  const extremes = new Float32Array([0, 2, Number.NaN, Number.NaN, 3, 8, Number.NaN, Number.NaN]);
  const answer = { ...ANSWER, lanes: [{ ...ANSWER.lanes[0], found: null, planes: [], count: 0, curves: [0] }] };
  const buffers = [...BUFFERS, new DataView(extremes.buffer)];
  const curve = tilesOf(answer as never, buffers, CLASSES, "").get(0)?.curves[0];
  expect([150, 250, 350, 99].map((time) => curve?.at(time))).toEqual([[0, 3], [2, 8], null, null]);
  expect(curve?.within(100, 500)).toEqual([0, 8]);
  expect(curve?.within(310, 500)).toBeNull();
});

test("allocated and reserved memory share a lane, each with its word", async () => {
  const most = [6e9, 8e9];
  const memory = { ...CURVE, key: "memory CUDA 0", label: "memory 0", unit: "bytes", most };
  const { model, key, el } = await show({ lanes: ["memory"] });
  const [asked] = model.sent.filter(({ kind }) => kind === "added") as [Sent];
  const lanes = [{ ...memory, words: ["allocated", "reserved"] }];
  model.reply({ kind: "added", id: asked.id, rank: 0, lanes, none: [] });
  await settle();
  expect(drawn).toContain("max 6\u00a0GB");
  const first = model.sent.find(({ kind }) => kind === "window") as Sent;
  model.reply({ ...ANSWER, id: first.id, lanes: [] }, BUFFERS);
  const window = model.sent.at(-1) as Sent & { lanes: unknown[][]; start: number; end: number };
  expect(window.lanes[1]).toEqual([0, "memory CUDA 0", 0]);
  const extremes = new Float32Array([1e9, 2e9, 1e9, 4e9, 6e9, 6e9, 8e9, 8e9]);
  const shown = { ...ANSWER.lanes[0], lane: 1, found: null, planes: [], count: 0, curves: [0, 4] };
  const answer = { ...ANSWER, id: window.id, start: window.start, end: window.end, bins: 2, lanes: [shown] };
  model.reply(answer, [...BUFFERS, new DataView(extremes.buffer)]);
  await settle();
  expect(drawn).toEqual(expect.arrayContaining(["allocated", "reserved"]));
  key("ArrowDown");
  key("ArrowDown");
  expect([...el.querySelectorAll("[aria-live=polite]")].at(-1)?.textContent).toBe(
    "rank 0, memory 0, allocated 1\u00a0GB to 4\u00a0GB, reserved 6\u00a0GB to 8\u00a0GB",
  );
});

test("a window that is a line, or out of view, is gone to, inside of the recording", () => {
  const view = { start: 0, end: 1000 };
  const whole = { start: 0, end: 5000 };
  expect(revealed(view, { start: 100, end: 140 }, whole)).toBeNull();
  expect(revealed(view, { start: 100, end: 139 }, whole)).toEqual({ start: 41.5, end: 197.5 });
  expect(revealed(view, { start: 900, end: 1025 }, whole)).toBeNull();
  expect(revealed(view, { start: 900, end: 1026 }, whole)).toEqual({ start: 711, end: 1215 });
  expect(revealed(view, { start: 0, end: 30 }, whole)).toEqual({ start: 0, end: 120 });
  expect(revealed(view, { start: 0, end: 2000 }, whole)).toEqual(whole);
});

test("what is no longer shown is left again for where one came from, unless one has gone on", async () => {
  const { selection, model, key } = await show();
  const start = () => {
    model.reply({ ...ANSWER, id: (model.sent.at(-1) as Sent).id, lanes: [] }, BUFFERS);
    return (model.sent.at(-1) as Sent & { start: number }).start; // one more of what is shown before it
  };
  const showing = (finding: number | null, window_ns: number[] | null) => {
    selection.receive("window_ns", window_ns);
    selection.receive("finding", finding);
    return start();
  };
  const home = showing(null, null);
  expect(showing(0, [500, 510])).toBe(430);
  expect(showing(0, [700, 710])).toBe(630);
  expect(showing(1, [600, 610])).toBe(530);
  expect(showing(null, null)).toBe(home);
  showing(0, [500, 510]);
  key("d");
  const gone = start();
  expect(showing(null, null)).toBe(gone);
});
