import { beforeEach, expect, test, vi } from "vitest";
import { importOnce } from "../src/assets";
import { Boxes, fitting, ROW } from "../src/flame/canvas";
import { quantity, share } from "../src/flame/format";
import { decode, Graph } from "../src/flame/graph";
import type { FlameMessage } from "../src/flame/types";
import { renderView } from "../src/views";
import { EMPTY_SELECTION, FakeModel, FakePlotly, giveWidth, panelModel, settle } from "./fakes";

// (all) 100: Net 80 (Linear 30: kernel 30; Norm 50), aten::mm 19, (3 smaller) 1
const MESSAGE: FlameMessage = {
  names: ["(all)", "nn.Module: Net_0", "nn.Module: Linear_0", "gemm", "aten::norm", "aten::mm", "(3 smaller)"],
  labels: ["(all)", "nn.Module: Net_0", "nn.Module: Linear_0", "gemm", "aten::norm", "aten::mm", "(3 smaller)"],
  kinds: ["", "python", "kernel", "cpu_op"],
  name: [0, 1, 5, 6, 4, 2, 3],
  kind: [0, 1, 3, 0, 3, 1, 2],
  parent: [-1, 0, 0, 0, 1, 1, 5],
  depth: [0, 1, 1, 1, 2, 2, 3],
  start: [0, 0, 80, 99, 0, 50, 50],
  total: [100, 80, 19, 1, 50, 30, 30],
  own: [0, 0, 19, 1, 50, 0, 30],
  folded: [0, 0, 0, 3, 0, 0, 0],
  root: [],
  sandwich: "",
  all: 100,
  unit: "ns",
};
const [NET, MM, SMALL, NORM, LINEAR, GEMM] = [1, 2, 3, 4, 5, 6];

test("columns are numbers in base64, or lists", () => {
  expect(decode([1, 2])).toEqual([1, 2]);
  expect([...(decode({ dtype: "i2", bdata: btoa("\x01\x00\xff\xff") }) as Int16Array)]).toEqual([1, -1]);
});

test("paths, and what a node selects", () => {
  const graph = new Graph(MESSAGE);
  expect(graph.path(0)).toEqual([]);
  expect(graph.path(GEMM)).toEqual(["nn.Module: Net_0", "nn.Module: Linear_0", "gemm"]);
  expect(graph.pick(GEMM)).toEqual({ field: "kernel", item: "gemm" });
  expect(graph.pick(MM)).toEqual({ field: "operators", item: "aten::mm" });
  expect(graph.pick(LINEAR)).toEqual({ field: "modules", item: "Net_0 › Linear_0" });
  expect(graph.pick(0)).toBeNull();
  expect(graph.pick(SMALL)).toBeNull();
  expect(graph.inside(NET)).toEqual([NORM, LINEAR]);
});

test("its trunk ends where the time is divided", () => {
  expect(new Graph(MESSAGE).trunk()).toBe(0);
  expect(new Graph({ ...MESSAGE, total: [100, 95, 4, 1, 5, 94, 94] }).trunk()).toBe(NET);
  expect(new Graph({ ...MESSAGE, total: [100, 99, 1, 0, 1, 98, 98] }).trunk()).toBe(GEMM);
});

test("paths go on below a root", () => {
  const graph = new Graph({ ...MESSAGE, root: ["train.py(3): main"] });
  expect(graph.path(0)).toEqual(["train.py(3): main"]);
  expect(graph.path(MM)).toEqual(["train.py(3): main", "aten::mm"]);
});

// aten::mm 100: gemm 90; called by Linear_0 70, which Net_0 calls, and by train.py 30
const SANDWICH: FlameMessage = {
  ...MESSAGE,
  names: ["aten::mm", "gemm", "nn.Module: Linear_0", "nn.Module: Net_0", "train.py(3): step"],
  labels: ["aten::mm", "gemm", "nn.Module: Linear_0", "nn.Module: Net_0", "train.py(3): step"],
  kinds: ["cpu_op", "kernel", "python"],
  name: [0, 1, 2, 4, 3],
  kind: [0, 1, 2, 2, 2],
  parent: [-1, 0, 0, 0, 2],
  depth: [0, 1, -1, -1, -2],
  start: [0, 0, 0, 70, 0],
  total: [100, 90, 70, 30, 70],
  own: [10, 90, 0, 30, 70],
  folded: [0, 0, 0, 0, 0],
  root: ["aten::mm"],
  sandwich: "aten::mm",
};

test("callers stand above what they call", () => {
  const graph = new Graph(SANDWICH);
  const boxes = new Boxes(graph, 0, 100);
  expect([0, 1, 2, 3, 4].map((node) => boxes.row(node))).toEqual([2, 3, 1, 1, 0]);
  expect(boxes.rows).toBe(4);
  expect(boxes.at(80, ROW + 1)).toBe(3);
  expect(new Boxes(graph, 1, 100).shown).toEqual([1]);
  expect(graph.path(1)).toEqual(["aten::mm", "gemm"]);
  expect(graph.path(4)).toEqual(["nn.Module: Net_0", "nn.Module: Linear_0", "aten::mm"]);
  expect([graph.inside(0), graph.inside(0, true)]).toEqual([[1], [2, 3]]);
  expect(graph.search("/module/")).toMatchObject({ count: 2, sum: 70 });
  expect(graph.search("/gemm|step/")).toMatchObject({ count: 2, sum: 90 });
});

test("a search sums up what it marks, once", () => {
  const graph = new Graph(MESSAGE);
  expect(graph.search("linear")).toMatchObject({ count: 1, sum: 30 });
  expect(graph.search("NN.MODULE")).toMatchObject({ count: 2, sum: 80 });
  expect(graph.search("/^aten::(mm|norm)$/")).toMatchObject({ count: 2, sum: 69 });
  expect(graph.search("smaller")).toMatchObject({ count: 0, sum: 0 });
  expect(graph.search("/(/").count).toBe(0);
});

test("boxes are as wide as their time, and too small ones are left out", () => {
  const graph = new Graph(MESSAGE);
  const boxes = new Boxes(graph, 0, 1000);
  expect([boxes.left(MM), boxes.width(MM), boxes.row(MM), boxes.rows]).toEqual([800, 190, 1, 4]);
  expect(boxes.at(850, ROW + 1)).toBe(MM);
  expect(boxes.at(850, 2 * ROW + 1)).toBe(-1);
  expect(new Boxes(graph, 0, 30).shown).not.toContain(SMALL);
  const inner = new Boxes(graph, NET, 800);
  expect([inner.left(LINEAR), inner.width(LINEAR), inner.row(LINEAR)]).toEqual([500, 300, 1]);
  expect(inner.shown).toEqual([NET, NORM, LINEAR, GEMM]);
});

test("texts are cut to fit", () => {
  const measure = (text: string) => 10 * text.length;
  expect(fitting("aten::mm", 80, measure)).toBe("aten::mm");
  expect(fitting("aten::mm", 50, measure)).toBe("aten…");
  expect(fitting("models/net.py(3): forward", 180, measure)).toBe("net.py(3): forward");
  expect(fitting("models/net.py(3): forward", 90, measure)).toBe("forward");
  expect(fitting("aten::mm", 15, measure)).toBe("");
});

test.each([
  [0, "0 ns"],
  [999, "999 ns"],
  [1234, "1.23 µs"],
  [45_600_000, "45.6 ms"],
  [1_234_000_000_000, "1,234 s"],
])("%d ns in words", (ns, words) => {
  expect(quantity(ns, "ns")).toBe(words);
});

test("amounts of memory have units of their own", () => {
  expect([quantity(12, "bytes"), quantity(1_895_000_000, "bytes"), quantity(1500, "ns")]).toEqual([
    "12 B",
    "1.9 GB",
    "1.5 µs",
  ]);
});

test("shares", () => {
  expect([share(1, 3), share(1, 1), share(1, 0)]).toEqual(["33.3 %", "100 %", "0 %"]);
});

let counter = 0;

beforeEach(() => {
  document.body.replaceChildren();
  giveWidth(1000);
});

function show(more: Record<string, unknown> = {}) {
  counter += 1;
  const assets = new FakeModel({ sums: { plotly: `flame-${counter}` }, files: {} });
  void importOnce(assets.model, "plotly", async () => new FakePlotly().api());
  const selection = new FakeModel(EMPTY_SELECTION);
  const models: Record<string, FakeModel> = { "anywidget:assets": assets, "anywidget:selection": selection };
  const model = panelModel({});
  Object.assign(model.state, more);
  model.state._flame = JSON.stringify(MESSAGE);
  model.state.root = [];
  const stop = new AbortController();
  const el = document.body.appendChild(document.createElement("div"));
  const host = { getModel: async (reference: string) => models[reference]?.model };
  renderView({ model: model.model, el, signal: stop.signal, host } as never);
  const canvas = el.querySelector("canvas") as HTMLCanvasElement;
  canvas.getBoundingClientRect = () => ({ left: 0, top: 0 }) as DOMRect;
  return { el, model, selection, canvas, stop };
}

const at = (type: string, x: number, row: number, more = {}) =>
  new MouseEvent(type, { clientX: x, clientY: row * ROW + 4, detail: 1, ...more });
const key = (name: string) => new KeyboardEvent("keydown", { key: name, cancelable: true });

test("a click selects", async () => {
  const { canvas, selection, el } = show();
  await settle();
  canvas.dispatchEvent(at("click", 850, 1));
  expect(selection.saved).toEqual([{ operators: ["aten::mm"] }]);
  expect(el.querySelector(".hta-flame-words")?.textContent).toBe("aten::mm: operator · 19 ns, 19 %");
  canvas.dispatchEvent(at("click", 850, 1));
  expect(selection.saved.at(-1)).toEqual({ operators: [] });
});

test("a double click asks for a root and shows it at once", async () => {
  const { canvas, model, el } = show();
  await settle();
  canvas.dispatchEvent(at("dblclick", 10, 1));
  expect(model.saved).toContainEqual({ root: ["nn.Module: Net_0"], sandwich: "" });
  expect(el.querySelector(".hta-flame-trail")?.textContent).toBe("nn.Module: Net_0");
  canvas.dispatchEvent(key("Escape"));
  expect(model.state.root).toEqual([]);
  canvas.dispatchEvent(at("dblclick", 995, 1)); // the small ones
  expect(model.state.root).toEqual([]);
});

test("keys move, zoom and select", async () => {
  const { canvas, model, selection, el } = show();
  await settle();
  for (const name of ["ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"]) canvas.dispatchEvent(key(name));
  expect(el.querySelector(".hta-flame-words")?.textContent).toContain("nn.Module: Linear_0");
  canvas.dispatchEvent(key(" "));
  expect(selection.state.modules).toEqual(["Net_0 › Linear_0"]);
  const enter = key("Enter");
  canvas.dispatchEvent(enter);
  expect(enter.defaultPrevented).toBe(true);
  expect(model.state.root).toEqual(["nn.Module: Net_0", "nn.Module: Linear_0"]);
});

test("callers and callees of a name are asked for, and left again", async () => {
  const { canvas, model, el } = show();
  await settle();
  const press = (text: string) =>
    [...el.querySelectorAll<HTMLButtonElement>(".hta-flame button")].find((each) => each.textContent === text);
  expect(press("Callers and callees")?.hidden).toBe(true);
  canvas.dispatchEvent(at("click", 850, 1));
  expect(press("Callers and callees")?.hidden).toBe(false);
  press("Callers and callees")?.click();
  expect([model.state.root, model.state.sandwich]).toEqual([[], "aten::mm"]);
  model.receive("_flame", JSON.stringify(SANDWICH));
  expect(el.querySelector(".hta-flame-trail")?.textContent).toBe("Callers ▴ aten::mm ▾ callees");
  canvas.dispatchEvent(at("dblclick", 900, 1));
  expect([model.state.root, model.state.sandwich]).toEqual([[], "train.py(3): step"]);
  canvas.dispatchEvent(at("dblclick", 10, 3));
  expect([model.state.root, model.state.sandwich]).toEqual([["aten::mm", "gemm"], "aten::mm"]);
  model.receive("_flame", JSON.stringify(SANDWICH));
  for (const name of ["ArrowDown", "ArrowUp", "ArrowUp"]) canvas.dispatchEvent(key(name));
  expect(el.querySelector(".hta-flame-words")?.textContent).toContain("nn.Module: Net_0");
  canvas.dispatchEvent(key("Escape"));
  expect([model.state.root, model.state.sandwich]).toEqual([[], ""]);
});

test("a saved page has no callers to ask for", async () => {
  const { canvas, el } = show({ _saved: true });
  await settle();
  canvas.dispatchEvent(at("click", 850, 1));
  const hidden = [...el.querySelectorAll<HTMLButtonElement>(".hta-flame button")].filter((each) => each.hidden);
  expect(hidden.map((each) => each.textContent)).toContain("Callers and callees");
});

test("what is marked is said, and names are text", async () => {
  const { el, canvas } = show();
  await settle();
  const search = el.querySelector(".hta-flame input") as HTMLInputElement;
  search.value = "linear";
  search.dispatchEvent(new Event("input"));
  expect(el.querySelector(".hta-flame-sum")?.textContent).toBe("1 marked: 30 ns, 30 %");
  canvas.dispatchEvent(at("pointermove", 10, 1));
  expect(el.querySelector(".hta-flame-tip")?.textContent).toContain("nn.Module: Net_0");
});

test("without any time there is no graph", async () => {
  const { el, model } = show();
  await settle();
  model.receive("_flame", "");
  expect((el.querySelector(".hta-flame") as HTMLElement).hidden).toBe(true);
});

test("nothing is left behind", async () => {
  const { model, selection, stop } = show();
  await settle();
  stop.abort();
  expect([model.listeners(), selection.listeners()]).toEqual([0, 0]);
  vi.restoreAllMocks();
});
