import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { StackedStep, Step } from "../src/timeline/types";
import { renderView } from "../src/views";
import { EMPTY_SELECTION, FakeModel, giveCanvas, giveWidth, panelModel, settle } from "./fakes";

const WIDTH = 1128; // 1000 pixels of time

function timeline(steps: Step[], selection: string): FakeModel {
  const ranks = [{ rank: 0, steps, planes: [], waiting: 0 }];
  const [start, end] = [steps[0]?.[1] ?? 0, steps.at(-1)?.[2] ?? 1];
  const layout = { classes: [], ranks, span: [start, end], home: [start, end], bins: 0, held: true, bands: [] };
  const model = panelModel({ _spec: { title: "Timeline", open: false, controls: [] }, _selection: selection });
  Object.assign(model.state, { _timeline: { ...layout, band_bins: 0, band_pixels: 0 }, _overview: null });
  return model;
}

const step = (more: Partial<StackedStep>): StackedStep => ({
  second: false,
  job: "before",
  rank: 0,
  step: 5,
  typical: 5,
  seen: [],
  said: "",
  ...more,
});

async function show(stacked: StackedStep[]) {
  const steps: Step[] = [
    [5, 100, 500],
    [6, 500, 800],
  ];
  const one = timeline(steps, "anywidget:own");
  const other = timeline([[9, 7000, 8000]], "anywidget:its");
  const [own, its] = [new FakeModel({ ...EMPTY_SELECTION }), new FakeModel({ ...EMPTY_SELECTION })];
  const models: Record<string, FakeModel> = {
    "anywidget:one": one,
    "anywidget:other": other,
    "anywidget:own": own,
    "anywidget:its": its,
  };
  const model = panelModel();
  Object.assign(model.state, { _stacked: stacked, _timelines: ["anywidget:one", "anywidget:other"] });
  const el = document.body.appendChild(document.createElement("div"));
  const host = { getModel: async (name: string) => (models[name] ?? new FakeModel({})).model };
  const stop = new AbortController();
  renderView({ model: model.model, el, signal: stop.signal, host } as never);
  for (let turn = 0; turn < 8; turn += 1) await settle();
  await answer([one, other]);
  const canvases = [...el.querySelectorAll(".hta-stacked canvas")];
  return { model, one, other, own, its, el, stop, canvases };
}

const windows = (model: FakeModel) => model.sent.filter(({ kind }) => kind === "window");

/** Free the timelines from the questions that they asked first. */
async function answer(models: FakeModel[]): Promise<void> {
  for (const model of models) model.emit("msg:custom", { kind: "none", id: windows(model).at(-1)?.id }, []);
  await settle();
}

/** The last window that was asked for, and how much later its lanes are than the axis. */
function asked(model: FakeModel) {
  const last = windows(model).at(-1) ?? { lanes: [] };
  return { start: Number(last.start), end: Number(last.end), shift: (last.lanes as unknown[][])[0]?.[2] };
}

beforeEach(() => {
  giveWidth(WIDTH);
  document.body.replaceChildren();
  giveCanvas([]);
});

afterEach(() => vi.restoreAllMocks());

const BOTH = [step({}), step({ second: true, job: "after", step: 9, typical: 9, said: "1 ms in 2 pieces: compute" })];

test("both steps begin at 0 of one axis, as long as the longer one", async () => {
  const { el, one, other } = await show(BOTH);
  expect([...el.querySelectorAll(".hta-side-head b")].map(({ textContent }) => textContent)).toEqual([
    "before, rank 0",
    "after, rank 0",
  ]);
  // The view, and as much on both sides.
  expect(asked(one)).toEqual({ start: -1000, end: 2000, shift: 100 });
  expect(asked(other)).toEqual({ start: -1000, end: 2000, shift: 7000 });
  expect(el.querySelectorAll(".hta-side-head")[1]?.textContent).toContain("1 ms in 2 pieces: compute");
});

test("a zoom of one is that of the other", async () => {
  const { canvases, one, other } = await show(BOTH);
  await answer([one, other]);
  canvases[1]?.dispatchEvent(new KeyboardEvent("keydown", { key: "w", bubbles: true }));
  await answer([one, other]);
  const { start, end } = asked(other);
  expect(end - start).toBeCloseTo(3000 / 1.5, -1);
  expect(asked(one)).toMatchObject({ start, end });
});

test("a step is picked for each job, and the typical one again", async () => {
  const { el, model, one, own, its } = await show(BOTH);
  const [menu, other] = [...el.querySelectorAll<HTMLSelectElement>(".hta-stacked select")];
  const words = (each?: HTMLSelectElement) => [...(each?.options ?? [])].map(({ text }) => text);
  expect(words(menu)).toEqual(["typical: 5, 400\u00a0ns", "5, 400\u00a0ns", "6, 300\u00a0ns"]);
  expect(words(other)).toEqual(["typical: 9, 1.00\u00a0µs", "9, 1.00\u00a0µs"]);
  const choose = (value: string) => {
    Object.assign(menu as HTMLSelectElement, { value });
    menu?.dispatchEvent(new Event("change"));
  };
  choose("6");
  expect(own.get("steps")).toEqual([6]);
  expect(its.get("steps")).toEqual([]);
  model.receive("_stacked", [step({ step: 6 }), BOTH[1]]);
  await answer([one]);
  expect(menu?.value).toBe("6");
  expect(asked(one).shift).toBe(500);
  choose("");
  expect(own.get("steps")).toEqual([]);
});

test("the first is on top, of a baseline there is one, and names are text", async () => {
  const names = ({ el }: { el: HTMLElement }) =>
    [...el.querySelectorAll(".hta-side:not([hidden]) b")].map(({ textContent }) => textContent);
  expect(names(await show([...BOTH].reverse()))).toEqual(["after, rank 0", "before, rank 0"]);
  const alone = await show([step({ job: "<img src=x>" })]);
  expect(names(alone)).toEqual(["<img src=x>, rank 0"]);
  expect(alone.el.querySelector(".hta-stacked img")).toBe(null);
  const none = await show([]);
  expect(none.el.querySelector<HTMLElement>(".hta-stacked")?.hidden).toBe(true);
});

test("nothing listens any more when the panel is gone", async () => {
  const { stop, model, one, other, own, its } = await show(BOTH);
  stop.abort();
  expect([model, one, other, own, its].map((each) => each.listeners())).toEqual([0, 0, 0, 0, 0]);
});
