import { beforeEach, expect, test, vi } from "vitest";
import { importOnce } from "../src/assets";
import { legendOf } from "../src/legend";
import { isOneBar } from "../src/onebar";
import panel from "../src/panel";
import type { ControlSpec, Figure, View } from "../src/types";
import {
  EMPTY_SELECTION,
  EMPTY_VIEW,
  FakeModel,
  FakePlotly,
  type FakeState,
  giveWidth,
  panelModel,
  settle,
  table,
} from "./fakes";

const EVIL = "<img src=x onerror=alert(1)>";

const BARS: Figure = {
  name: "Time of each GPU",
  data: [
    { type: "bar", meta: { select: "ranks" }, customdata: [[0], [1]] },
    { type: "bar", meta: { select: "ranks" }, customdata: [[0], [1]] },
  ],
  layout: { height: 300 },
};

let counter = 0;

beforeEach(() => {
  document.body.replaceChildren();
  giveWidth(800);
});

function show(state: FakeState = {}) {
  const plotly = new FakePlotly();
  counter += 1;
  const assets = new FakeModel({ sums: { plotly: `sum-${counter}` }, files: {} });
  const selection = new FakeModel(EMPTY_SELECTION);
  const models: Record<string, FakeModel> = { "anywidget:assets": assets, "anywidget:selection": selection };
  void importOnce(assets.model, "plotly", async () => plotly.api());
  const model = panelModel(state);
  const stop = new AbortController();
  const el = document.body.appendChild(document.createElement("div"));
  const host = { getModel: async (reference: string) => models[reference]?.model };
  panel.render({ model: model.model, el, signal: stop.signal, host } as never);
  return { el, model, plotly, selection, stop };
}

const text = (el: Element, part: string) => el.querySelector(`.hta-${part}`)?.textContent;

test("words and table are there at once, the chart follows", async () => {
  const names = table(["name"], [["gemm"]]);
  const { el, plotly } = show({
    _view: { ...EMPTY_VIEW, finding: "All is well.", notices: ["step 3 left out"], figures: [BARS], table: names },
  });
  expect(text(el, "title")).toBe("Overlap");
  expect(text(el, "finding")).toBe("All is well.");
  expect(text(el, "notices")).toBe("step 3 left out");
  expect(el.querySelector("summary")?.textContent).toBe("Data table (1 row)");
  expect(text(el, "figures")).toContain("Loading");
  await settle();
  expect(plotly.drawings).toHaveLength(1);
  expect(plotly.drawings[0]?.layout).toMatchObject({ height: 300, autosize: true });
});

test("plotly gets a copy, as it writes into what it is given", async () => {
  const { model, plotly } = show({ _view: { ...EMPTY_VIEW, figures: [structuredClone(BARS)] } });
  await settle();
  const drawing = plotly.drawings[0];
  if (drawing) Object.assign(drawing.layout, { height: 1 });
  drawing?.data.pop();
  expect((model.state._view as View).figures).toEqual([BARS]);
});

test("text from a trace stays text", async () => {
  const evil = table([EVIL], [[EVIL]]);
  const { el } = show({
    _spec: { title: EVIL, open: false, controls: [] },
    _view: { ...EMPTY_VIEW, finding: EVIL, notices: [EVIL, EVIL], error: EVIL, empty: EVIL, table: evil },
  });
  el.querySelectorAll("details").forEach((details) => {
    details.open = true;
    details.dispatchEvent(new Event("toggle"));
  });
  await settle();
  expect(el.querySelector("img")).toBeNull();
  expect(el.querySelector("td")?.textContent).toBe(EVIL);
  expect(text(el, "error")).toBe(EVIL);
});

test("an error is shown over the last picture, and goes away", async () => {
  const { el, model, plotly } = show({ _view: { ...EMPTY_VIEW, figures: [BARS] } });
  await settle();
  model.answer({ error: "rank 9 is not in this job; its ranks are 0-7" });
  await settle();
  expect(el.querySelector(".hta-panel")?.classList.contains("hta-failed")).toBe(true);
  expect(text(el, "error")).toContain("rank 9");
  expect(plotly.purged).toBe(0);
  model.answer({ error: null });
  expect(el.querySelector(".hta-panel")?.classList.contains("hta-failed")).toBe(false);
});

test("of a chart in which only shapes change, such as a ring, nothing else is drawn", async () => {
  const { model, plotly } = show({ _view: { ...EMPTY_VIEW, figures: [BARS] } });
  await settle();
  const answer = async (rev: number, figure: Figure) => {
    model.answer({ rev, figures: [figure] });
    await settle();
  };
  const ring = { type: "rect", x0: 1 };
  await answer(1, { ...BARS, layout: { ...BARS.layout, shapes: [ring] } });
  await answer(2, BARS);
  expect(plotly.relaid).toEqual([{ shapes: [ring] }, { shapes: [] }]);
  expect(plotly.drawings).toHaveLength(1);
  await answer(3, { ...BARS, layout: { height: 200, shapes: [ring] } });
  expect(plotly.drawings).toHaveLength(2);
  expect(plotly.relaid).toHaveLength(2);
});

test("a chart that comes back takes its old place", async () => {
  const second = { ...BARS, name: "Second" };
  const { el, model } = show({ _view: { ...EMPTY_VIEW, figures: [BARS, second] } });
  await settle();
  model.answer({ rev: 1, figures: [second] });
  await settle();
  model.answer({ rev: 2, figures: [BARS, second] });
  await settle();
  const captions = [...el.querySelectorAll(".hta-caption")].map((caption) => caption.textContent);
  expect(captions).toEqual([BARS.name, "Second"]);
});

test("a figure keeps its chart while its name stays", async () => {
  const { el, model, plotly } = show({ _view: { ...EMPTY_VIEW, figures: [BARS] } });
  await settle();
  model.answer({
    rev: 1,
    figures: [
      { ...BARS, layout: {} },
      { ...BARS, name: "Second" },
    ],
  });
  await settle();
  expect(el.querySelectorAll(".hta-figure")).toHaveLength(2);
  expect(plotly.drawings[0]?.node).toBe(plotly.drawings[1]?.node);
  model.answer({ rev: 2, figures: [] });
  await settle();
  expect(el.querySelectorAll(".hta-figure")).toHaveLength(0);
  expect(plotly.purged).toBe(2);
});

test("all charts are in place before the first is drawn, as they share a row", async () => {
  const { plotly } = show({ _view: { ...EMPTY_VIEW, figures: [BARS, { ...BARS, name: "Second" }] } });
  await settle();
  await settle(); // each is drawn in a task of its own
  expect(plotly.drawings.map(({ inRow }) => inRow)).toEqual([2, 2]);
});

test("of several charts only those that changed are drawn again", async () => {
  const second = { ...BARS, name: "Second" };
  const { model, plotly } = show({ _view: { ...EMPTY_VIEW, figures: [BARS, second] } });
  await settle();
  await settle();
  model.answer({ rev: 1, figures: [structuredClone(BARS), { ...second, layout: { height: 400 } }] });
  await settle();
  await settle();
  expect(plotly.drawings.map(({ layout }) => layout.height)).toEqual([300, 300, 400]);
  expect(plotly.drawings[2]?.node).toBe(plotly.drawings[1]?.node);
});

test("what changed while a chart was out of sight is drawn when it is seen again", async () => {
  const boxes: (() => void)[] = [];
  const observe = class {
    constructor(resized: () => void) {
      boxes.push(resized);
    }
    observe(): void {}
    disconnect(): void {}
  };
  vi.stubGlobal("ResizeObserver", observe);
  const { model, plotly } = show({ _view: { ...EMPTY_VIEW, figures: [BARS] } });
  await settle();
  giveWidth(0);
  model.answer({ rev: 1, figures: [{ ...BARS, layout: { height: 400 } }] });
  await settle();
  expect(plotly.drawings).toHaveLength(1);
  giveWidth(800);
  for (const resized of boxes) resized();
  await settle();
  expect(plotly.drawings.map(({ layout }) => layout.height)).toEqual([300, 400]);
  vi.unstubAllGlobals();
});

test("a click on a heatmap selects the rank of the row, and keys go from row to row", async () => {
  const map: Figure = {
    name: "Time by rank",
    data: [{ type: "heatmap", meta: { select: "ranks" }, customdata: [[4], [9]] }],
    layout: {},
  };
  const { el, plotly, selection } = show({ _view: { ...EMPTY_VIEW, figures: [map] } });
  await settle();
  plotly.tell.plotly_click?.({ event: {}, points: [{ curveNumber: 0, pointNumber: [1, 3] }] });
  await settle();
  expect(selection.get("ranks")).toEqual([9]);
  el.querySelector(".hta-figure")?.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true }));
  expect(plotly.hovered).toEqual([{ curveNumber: 0, pointNumber: [0, 0] }]);
});

test("a click selects a rank, another one clears it, with Ctrl it adds", async () => {
  const { plotly, selection, model } = show({ _view: { ...EMPTY_VIEW, figures: [BARS] } });
  await settle();
  const click = async (pointNumber: number, ctrlKey = false) => {
    plotly.tell.plotly_click?.({ event: { ctrlKey }, points: [{ curveNumber: 1, pointNumber }] });
    await settle();
    model.answer({ rev: model.get("_req") as number });
  };
  await click(1);
  expect(selection.get("ranks")).toEqual([1]);
  await click(0, true);
  expect(selection.get("ranks")).toEqual([1, 0]);
  await click(0);
  await click(0);
  expect(selection.get("ranks")).toEqual([]);
});

test("arrow keys and Enter do the same", async () => {
  const { el, plotly, selection } = show({ _view: { ...EMPTY_VIEW, figures: [BARS] } });
  await settle();
  const chart = el.querySelector(".hta-figure") as HTMLElement;
  expect(chart.tabIndex).toBe(0);
  for (const key of ["ArrowRight", "ArrowRight", "Enter"]) chart.dispatchEvent(new KeyboardEvent("keydown", { key }));
  await settle();
  expect(plotly.hovered).toEqual([
    { curveNumber: 0, pointNumber: 0 },
    { curveNumber: 0, pointNumber: 1 },
  ]);
  expect(selection.get("ranks")).toEqual([1]);
});

test("a chart without a width waits for one", async () => {
  giveWidth(0);
  const { plotly } = show({ _view: { ...EMPTY_VIEW, figures: [BARS] } });
  await settle();
  expect(plotly.drawings).toHaveLength(0);
});

test("a trace type that this plotly lacks is said, not drawn as something else", async () => {
  const { el, plotly } = show({ _view: { ...EMPTY_VIEW, figures: [BARS] } });
  plotly.knows = (type) => type !== "bar";
  await settle();
  expect(text(el, "figures")).toContain("no bar trace");
});

const bar = (name: string, x: unknown[]) => ({ type: "bar", name, x, y: x, marker: { color: "#123456" } });
const chart = (data: Figure["data"], layout: Figure["layout"] = {}) => ({ name: "By rank", data, layout });

test("a chart of one bar is left out, and the table open in its place", () => {
  const one = chart([bar("a", [0]), bar("b", [0])], { barmode: "stack" });
  const options: [string, boolean][] = [
    ["Share", true],
    ["Time", false],
  ];
  const controls = [{ kind: "choice" as const, name: "as_percent", label: "Show", options, of_charts: true }];
  const { el, model } = show({
    _spec: { title: "T", open: false, controls },
    _view: { ...EMPTY_VIEW, figures: [one], table: table(["name"], [["gemm"]]) },
    as_percent: true,
  });
  const row = el.querySelector<HTMLElement>(".hta-controls");
  expect(el.querySelector("details")?.open).toBe(true);
  expect(row?.hidden).toBe(true);
  model.receive("_view", { ...EMPTY_VIEW, figures: [chart([bar("a", [0, 1])])] });
  expect(row?.hidden).toBe(false);
  expect(isOneBar(one)).toBe(true);
  expect(isOneBar(chart([bar("a", [0, 1])]))).toBe(false);
  expect(isOneBar(chart([bar("a", [0]), bar("b", [0])]))).toBe(false); // side by side
  const packed = (bdata: string) => ({ ...bar("a", []), x: { dtype: "i2", bdata } });
  expect(isOneBar(chart([packed("AAA=")]))).toBe(true);
  expect(isOneBar(chart([packed("AAABAA==")]))).toBe(false);
});

test("a legend stands above its chart, with what the chart draws, as text", () => {
  const legend = { orientation: "h" };
  const line = { type: "scatter", name: "Array&lt;2&gt;", mode: "lines", line: { color: "#111", dash: "dot" } };
  const solid = { ...line, name: "Copies", line: { color: "#111", dash: "solid" } };
  const hatched = { ...bar("waiting", [0]), marker: { color: "#222", pattern: { shape: "/" } } };
  const hidden = { ...bar("no", [0]), showlegend: false };
  expect(legendOf(chart([line, solid, hatched, hatched, hidden], { legend }))).toEqual([
    { label: "Array<2>", color: "#111", fill: "dots" },
    { label: "Copies", color: "#111", fill: "line" },
    { label: "waiting", color: "#222", fill: "hatched" },
  ]);
  expect(legendOf(chart([hatched], { legend }))).toEqual([]);
  expect(legendOf(chart([line, hatched], { legend: { x: 1.02 } }))).toEqual([]); // beside a pie
  expect(legendOf(chart([line, hatched], { legend, showlegend: false }))).toEqual([]);
});

test("patterns of one colour are told apart in the legend as in the chart", () => {
  const looks = ["/", "\\", "|", "x", ".", undefined].map((shape) => {
    const drawn = { ...bar(`pattern ${shape}`, [0]), marker: { color: "#222", pattern: { shape } } };
    return legendOf(chart([drawn], { legend: { orientation: "h" }, showlegend: true }))[0]?.fill;
  });
  expect(looks).toEqual(["hatched", "mirrored", "barred", "crossed", "dotted", "solid"]);
});

test("many notices are folded", () => {
  const { el } = show({ _view: { ...EMPTY_VIEW, notices: ["one", "two", "three"] } });
  expect(el.querySelector(".hta-notices summary")?.textContent).toBe("3 notices");
  expect([...el.querySelectorAll(".hta-notices li")].map(({ textContent }) => textContent)).toEqual([
    "one",
    "two",
    "three",
  ]);
});

test("slow answers are announced, and so is a kernel that has stopped", async () => {
  vi.useFakeTimers();
  const spec: ControlSpec = { kind: "toggle", name: "memory", label: "Memory" };
  const { el, model } = show({ memory: true, _spec: { title: "T", open: false, controls: [spec] } });
  const box = el.querySelector("input") as HTMLInputElement;
  box.click();
  expect(text(el, "status")).toBe("");
  vi.advanceTimersByTime(300);
  expect(text(el, "status")).toBe("Computing…");
  vi.advanceTimersByTime(30_000);
  expect(text(el, "status")).toContain("not responding");
  model.answer({ rev: 1 });
  expect(text(el, "status")).toBe("");
  model.emit("comm_live_update");
  expect(text(el, "status")).toContain("stopped");
  vi.useRealTimers();
});

test("only a slow answer changes how the charts look meanwhile", () => {
  vi.useFakeTimers();
  const spec: ControlSpec = { kind: "toggle", name: "memory", label: "Memory" };
  const { el, model } = show({ memory: true, _spec: { title: "T", open: false, controls: [spec] } });
  const box = el.querySelector("input") as HTMLInputElement;
  const computing = () => el.querySelector(".hta-computing") !== null;
  box.click();
  vi.advanceTimersByTime(100);
  model.answer({ rev: 1 });
  vi.advanceTimersByTime(300);
  expect(computing()).toBe(false);
  box.click();
  vi.advanceTimersByTime(300);
  expect(computing()).toBe(true);
  model.answer({ rev: 2 });
  expect(computing()).toBe(false);
  vi.useRealTimers();
});

test("ids differ between panels, though each runs its own copy of the module", () => {
  const spec: ControlSpec = { kind: "picker", name: "ranks", label: "Ranks", noun: "rank", options: [0, 1] };
  const controls = { title: "T", open: false, controls: [spec] };
  show({ _spec: controls });
  show({ _spec: controls });
  const ids = [...document.querySelectorAll("[id]")].map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
});

const LINES: Figure = {
  name: "Queue length",
  data: [{ type: "scatter" }],
  layout: { meta: { zoom: "window_us" }, xaxis: { range: [0, 1000] } },
};

test("a zoom is asked of Python, a double click asks for everything", async () => {
  const { el, model, plotly } = show({ window_us: [], _view: { ...EMPTY_VIEW, figures: [LINES] } });
  await settle();
  const all = [...el.querySelectorAll("button")].find(({ textContent }) => textContent === "Show all") as HTMLElement;
  expect(all.hidden).toBe(true);
  plotly.tell.plotly_relayout?.({ "xaxis.range[0]": 100, "xaxis.range[1]": 200 });
  expect(model.saved.at(-1)).toEqual({ window_us: [100, 200], _req: 1 });
  model.answer({ rev: 1, figures: [{ ...LINES, layout: { ...LINES.layout, xaxis: { range: [100, 200] } } }] });
  await settle();
  expect(plotly.drawings.at(-1)?.layout.xaxis).toEqual({ range: [100, 200] });
  expect(model.saved).toHaveLength(1);
  expect(all.hidden).toBe(false);
  plotly.tell.plotly_doubleclick?.();
  expect(model.saved.at(-1)).toEqual({ window_us: [], _req: 2 });
});

test("while a newer zoom is on its way, the chart stays where the user went", async () => {
  const { model, plotly } = show({ window_us: [], _view: { ...EMPTY_VIEW, figures: [LINES] } });
  await settle();
  const zoom = (start: number, end: number) => {
    Object.assign(plotly.drawings.at(-1)?.node ?? {}, { _fullLayout: { xaxis: { range: [start, end] } } });
    plotly.tell.plotly_relayout?.({ "xaxis.range[0]": start, "xaxis.range[1]": end });
  };
  zoom(100, 200);
  zoom(120, 150);
  model.answer({ rev: 1, figures: [{ ...LINES, layout: { ...LINES.layout, xaxis: { range: [100, 200] } } }] });
  await settle();
  expect(plotly.drawings.at(-1)?.layout.xaxis).toEqual({ range: [120, 150] });
  model.answer({ rev: 2, figures: [{ ...LINES, layout: { ...LINES.layout, xaxis: { range: [120, 150] } } }] });
  await settle();
  expect(plotly.drawings.at(-1)?.layout.xaxis).toEqual({ range: [120, 150] });
  expect(model.saved).toHaveLength(2);
});

test("keys zoom too", async () => {
  const { el, model } = show({ window_us: [], _view: { ...EMPTY_VIEW, figures: [LINES] } });
  await settle();
  const chart = el.querySelector(".hta-figure") as HTMLElement;
  expect(chart.tabIndex).toBe(0);
  chart.dispatchEvent(new KeyboardEvent("keydown", { key: "+" }));
  expect(model.saved.at(-1)).toMatchObject({ window_us: [250, 750] });
  chart.dispatchEvent(new KeyboardEvent("keydown", { key: "b" }));
  expect(model.saved).toHaveLength(1);
});

test("what a button did is told and stays; a failure goes with the next request", async () => {
  const spec: ControlSpec = { kind: "toggle", name: "memory", label: "Memory" };
  const { el, model } = show({ memory: true, _spec: { title: "T", open: false, controls: [spec] } });
  const box = el.querySelector("input") as HTMLInputElement;
  const again = () => {
    box.click();
    model.answer({ rev: model.get("_req") as number });
  };
  model.set("_answer", { number: 1, text: "Wrote a.json to /tmp", failed: false });
  again();
  expect(text(el, "status")).toBe("Wrote a.json to /tmp");
  model.set("_answer", { number: 2, text: "there is no pattern", failed: true });
  expect(text(el, "status")).toBe("there is no pattern");
  again();
  expect(text(el, "status")).toBe("");
});

test("nothing is left listening or drawn when the view goes", async () => {
  const { model, plotly, stop } = show({ _view: { ...EMPTY_VIEW, figures: [BARS] } });
  await settle();
  stop.abort();
  expect(model.listeners()).toBe(0);
  expect(plotly.purged).toBe(1);
  expect(model.get("_visible")).toBe(false);
});

test("an interrupted panel says so and offers to compute", async () => {
  const { el, model } = show({ _view: { ...EMPTY_VIEW, figures: [BARS] } });
  const button = [...el.querySelectorAll("button")].find(({ textContent }) => textContent === "Compute") as HTMLElement;
  const outdated = () => el.querySelector(".hta-outdated") !== null;
  expect([button.hidden, outdated()]).toEqual([true, false]);
  model.receive("_activity", "interrupted");
  expect(text(el, "status")).toContain("Interrupted");
  expect([button.hidden, outdated()]).toEqual([false, true]);
  button.click();
  expect(model.saved).toEqual([{ _req: 1 }]);
  model.receive("_activity", "idle");
  model.answer({ rev: 1 });
  expect(text(el, "status")).toBe("");
  expect([button.hidden, outdated()]).toEqual([true, false]);
});

test("a panel that a cell computes is busy", () => {
  vi.useFakeTimers();
  const { el, model } = show();
  model.receive("_activity", "computing");
  expect(el.querySelector(".hta-panel")?.getAttribute("aria-busy")).toBe("true");
  vi.advanceTimersByTime(300);
  expect(text(el, "status")).toBe("Computing…");
  model.receive("_activity", "idle");
  model.answer({});
  expect(text(el, "status")).toBe("");
  vi.useRealTimers();
});

test("a touched control does not hide that the kernel has gone", () => {
  vi.useFakeTimers();
  const spec: ControlSpec = { kind: "toggle", name: "memory", label: "Memory" };
  const { el, model } = show({ memory: true, _spec: { title: "T", open: false, controls: [spec] } });
  model.emit("comm_live_update");
  const box = el.querySelector("input") as HTMLInputElement;
  for (const after of [0, 300, 30_000]) {
    box.click();
    vi.advanceTimersByTime(after);
    expect(text(el, "status")).toContain("kernel has stopped");
  }
  vi.useRealTimers();
});

test("a panel that counts only some of the time says so, and a click shows all of it", async () => {
  const { el, model, selection } = show({ _view: { ...EMPTY_VIEW, time: "steps 11, 13" } });
  selection.state = { ...selection.state, steps: [11, 13], window_ns: [5, 8] };
  const button = el.querySelector<HTMLButtonElement>("button.hta-time");
  expect(button?.textContent).toBe("steps 11, 13 ×");
  expect(button?.getAttribute("aria-label")).toBe("steps 11, 13: show all of the time");
  button?.focus();
  button?.click();
  await settle();
  expect(selection.state).toMatchObject({ steps: [], window_ns: null });
  model.answer({ rev: 1, time: "" });
  expect(button?.hidden).toBe(true);
  expect(document.activeElement).toBe(el.querySelector(".hta-title"));
});
