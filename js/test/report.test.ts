import { beforeEach, expect, test, vi } from "vitest";
import panel from "../src/panel";
import { bytesOf, statesOf } from "../src/report/decode";
import { SavedModels } from "../src/report/model";
import { Requests } from "../src/sync";
import { ticksIn } from "../src/ticks";
import { recorded } from "../src/timeline/recorded";
import { Zoom } from "../src/zoom";
import { EMPTY_SELECTION, FakeModel, FakePlotly, giveWidth, panelModel, settle } from "./fakes";

const SLIDER = { kind: "slider", name: "bars", label: "Bars", min: 1, max: 9, step: 1, unit: "", log: false };

beforeEach(() => {
  document.body.replaceChildren();
  giveWidth(600);
});

test("bytes are back in their places, as a kernel sends them", () => {
  const state = { files: { panel: null, sums: [null] } };
  const buffers = [
    { path: ["files", "panel"], size: 3 },
    { path: ["files", "sums", 0], size: 12 },
  ];
  const json = JSON.stringify([{ state, buffers }]);
  const [{ files }] = statesOf(new TextEncoder().encode(`${json}\0oneaeibfjcgkdhl`)) as [
    { files: { panel: DataView; sums: DataView[] } },
  ];
  const text = (view?: DataView) => new TextDecoder().decode(view);
  expect([text(files.panel), text(files.sums[0])]).toEqual(["one", "abcdefghijkl"]);
});

test("what Python has written in base 85 is read, whatever is left over", () => {
  const written = ["00", "009C6", "|Nj", "|NsC0{{", "VPaz", "VPa!sWo7"]; // made by base64.b85encode
  const bytes = [[0], [0, 1, 2, 3], [255, 255], [255, 255, 255, 255, 255], [97, 98, 99], [97, 98, 99, 100, 101, 102]];
  expect(written.map((text) => [...bytesOf(text)])).toEqual(bytes);
});

test("names of a trace survive in the page, whatever they are", async () => {
  const name = "</script><img onerror=alert(1)>\u2028 › µs \ud800";
  const json = new TextEncoder().encode(`${JSON.stringify([{ state: { name }, buffers: [] }])}\0`);
  expect(statesOf(json)).toEqual([{ name }]);
});

test("widgets find each other and share what is set", async () => {
  const models = new SavedModels([{ _selection: "anywidget:1" }, { ranks: [] }]);
  const root = await models.find("0");
  const selection = await models.find(String(root.get("_selection")));
  expect(await root.widget_manager.get_model("1")).toBe(selection);
  const told = vi.fn();
  selection.on("change:ranks", told);
  selection.set("ranks", [3]);
  selection.save_changes();
  selection.send();
  expect(selection.get("ranks")).toEqual([3]);
  selection.off("change:ranks", told);
  selection.set("ranks", [4]);
  expect(told).toHaveBeenCalledTimes(1);
  await expect(models.find("anywidget:2")).rejects.toThrow("no widget anywidget:2");
});

test("a panel without a kernel asks for nothing, and never waits", () => {
  const model = panelModel({ _saved: true });
  const selection = new FakeModel({ ranks: [] });
  const told = vi.fn();
  const requests = new Requests(model.model, new AbortController().signal, told);
  requests.send({ bars: 3 });
  requests.send({ ranks: [3] }, selection.model);
  expect(model.saved).toEqual([]);
  expect(model.get("bars")).toBeUndefined();
  expect(selection.get("ranks")).toEqual([3]);
  expect([requests.waiting, told.mock.calls]).toEqual([false, []]);
});

test.each([true, undefined])("its controls are disabled, those of a live panel are not: %j", async (_saved) => {
  const controls = [
    SLIDER,
    { kind: "button", name: "write", label: "Write" },
    { kind: "picker", name: "ranks", label: "Ranks", noun: "rank", options: [0, 1] },
  ];
  const model = panelModel({
    _spec: { title: "T", open: false, controls } as never,
    _saved,
    bars: 3,
    ranks: [],
  });
  const found: Record<string, unknown> = {
    "anywidget:selection": new FakeModel(EMPTY_SELECTION),
    "anywidget:assets": new FakeModel({ sums: { plotly: "sum" }, files: {} }),
  };
  const host = { getModel: async (reference: string) => found[reference] };
  panel.render({ model: model.model, el: document.body, host, signal: new AbortController().signal } as never);
  await settle();
  const row = document.querySelectorAll<HTMLInputElement>(".hta-controls input, .hta-controls button");
  expect(row.length).toBeGreaterThan(4);
  expect([...row].every(({ disabled }) => disabled)).toBe(_saved ?? false);
});

test("a zoom enlarges what is there, labels it and leads back", () => {
  const plotly = new FakePlotly();
  const api = plotly.api();
  const changes: Record<string, unknown>[] = [];
  api.relayout = async (_, change) => void changes.push(change as Record<string, unknown>);
  const zooming = { set: vi.fn(), isSet: () => false, waits: () => false, isFixed: true };
  const node = Object.assign(document.createElement("div"), {
    on: (event: string, act: (event?: unknown) => void) => {
      plotly.tell[event] = act;
    },
  });
  const zoom = new Zoom(zooming, api, node as never, new AbortController().signal);
  const xaxis = { range: [0, 40_000], tickvals: [0, 20_000], ticktext: ["0", "20"] };
  zoom.show({ name: "F", data: [], layout: { meta: { zoom: "window_us" }, xaxis } });
  zoom.follow();
  const whole = zoom.element.querySelector("button") as HTMLButtonElement;
  plotly.tell.plotly_relayout?.({ "xaxis.range": [1000, 1800] });
  expect(changes.at(-1)).toMatchObject({
    "xaxis.ticktext": ["1.0", "1.1", "1.2", "1.3", "1.4", "1.5", "1.6", "1.7", "1.8"],
  });
  expect(whole.hidden).toBe(false);
  whole.click();
  expect(changes.at(-1)).toEqual({
    "xaxis.range": [0, 40_000],
    "xaxis.tickvals": [0, 20_000],
    "xaxis.ticktext": ["0", "20"],
  });
  plotly.tell.plotly_relayout?.({ "xaxis.range": [0, 40_000] });
  expect(whole.hidden).toBe(true);
  expect(zooming.set).not.toHaveBeenCalled();
});

test.each([
  [[1000, 1800], { tickvals: [0, 20_000], ticktext: ["0", "20"] }, "1.0 1.1 1.2 1.3 1.4 1.5 1.6 1.7 1.8"],
  [[-500, 4500], { tickvals: [0, 1_000], ticktext: ["0", "1,000"] }, "0 1,000 2,000 3,000 4,000"],
  [[3, 4], { tickvals: [5], ticktext: ["5"] }, "5"],
])("labels of %j beside %j", (stretch, written, expected) => {
  expect(ticksIn(stretch as [number, number], written).ticktext?.join(" ")).toBe(expected);
});

test("a saved timeline knows the lanes that were recorded, and their events", () => {
  const look = { name: "compute", label: "compute", color: "#000", fill: "solid", group: "busy" } as const;
  const bytes = (array: ArrayBufferView) => new DataView(array.buffer);
  const buffers = [new Uint8Array([255, 0]), new Float64Array([10, 60]), new Float64Array([20, 5])].map(bytes);
  buffers.push(bytes(new Int32Array([7, 8])), bytes(new Uint8Array([0, 0])), bytes(new Int32Array([0, -1])));
  const content = {
    ...{ kind: "window", id: 0, start: 1000, end: 1100, bins: 2, names: ["gemm"], labels: ["gemm"] },
    lanes: [{ lane: 0, found: null, curves: [], planes: [{ code: 0, at: 0 }], first: 0, count: 2, complete: true }],
  };
  const names = ["stream 0/7", "thread 1/2"].map((key) => ({ key, kind: "stream", label: key, level: 0 }));
  const queue = { key: "queue 0 7", kind: "curve", label: "queue 7", level: 0 };
  const windows = ["stream 0/7", "queue 0 7"].map((key) => ({ key, content, buffers }));
  const { lanes, added, tiles } = recorded([{ rank: 3, lanes: [queue, ...names], windows }] as never, [look]);
  expect(added.get(3)).toEqual([queue]);
  expect(lanes.get(3)?.map(({ key }) => key)).toEqual(["stream 0/7"]);
  const tile = tiles.get("3/stream 0/7");
  expect([tile?.events, tile?.complete]).toEqual([2, true]);
  expect(tile?.event(0)).toMatchObject({ start: 1010, duration: 20, row: 7, name: "gemm" });
  expect(recorded(undefined, [look])).toEqual({ lanes: new Map(), added: new Map(), tiles: new Map() });
});
