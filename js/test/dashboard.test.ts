import { beforeEach, expect, test } from "vitest";
import { importOnce } from "../src/assets";
import type { Bands, BoardSpec, BudgetPart, Tab } from "../src/dashboard/types";
import type { FindingRow, Table } from "../src/types";
import widget from "../src/widget";
import {
  EMPTY_BANDS,
  EMPTY_SELECTION,
  EMPTY_VIEW,
  FakeModel,
  FakePlotly,
  giveWidth,
  panelModel,
  settle,
} from "./fakes";

const EVIL = "<img src=x onerror=alert(1)>";

let counter = 0;

beforeEach(() => {
  document.body.replaceChildren();
  giveWidth(800);
});

const named = (title: string) =>
  panelModel({
    _spec: { title, open: false, controls: [] },
    _view: { ...EMPTY_VIEW, finding: `${title} found.` },
  });

const tab = (name: string, panels: number[]): Tab => ({ name, label: name, panels });

const TABS = [tab("ranks", [1, 3]), tab("kernels", [2]), tab("memory", [4])];

const SPEC: BoardSpec = {
  names: ["ranks_panel", "kernels_panel", "overlap_panel", "lost"],
  titles: ["Ranks", "Kernels", EVIL, "Lost"],
  follows: [["steps"], ["steps", "phase", "window_ns"], [], []],
  tabs: TABS,
  timeline: null,
  what_if: null,
  cycles: [],
  cycle: 0,
};

const ROW: FindingRow = {
  price: "3 ms",
  bound: "",
  percent: "12.5 %",
  share: 1,
  color: "#D55E00",
  fill: "hatched",
  sentence: "Rank 3 is slow: 3 ms of each 24 ms step (12.5 %).",
  cause: "Rank 3 is slow.",
  doubt: "",
  advice: [{ do: "Exchange it.", code: "" }],
  numbers: [],
  show: { ranks: [3], finding: 0 },
  panel: "kernels_panel",
  of_second: false,
  occurrences: [],
  folded: false,
};

const DETAIL = {
  kind: "kernel",
  name: `void ${EVIL}`,
  label: EVIL,
  about: "computation",
  facts: [{ label: "mean", text: "2 ms" }],
  bars: [
    { rank: 0, text: "1 ms × 4", share: 0.5 },
    { rank: 3, text: "2 ms × 4", share: 1 },
  ],
  place: 3,
  count: 32,
  code: "dash.events",
};

const TABLE: Table = {
  columns: [{ name: "kernel", label: "kernel", unit: "", scale: 1, kind: "text", select: "kernel", besides: [] }],
  rows: [],
  total: 0,
  names: {},
};

const part = (name: string, share: number, other: Partial<BudgetPart> = {}): BudgetPart => ({
  name,
  label: name,
  text: `${share} ms`,
  said: `${name}: ${share} ms`,
  color: "#0072B2",
  ink: "#FFFFFF",
  fill: "solid",
  share,
  all_share: 0.5,
  show: null,
  tab: "memory",
  ...other,
});

async function show(bands: Partial<Bands> = {}, tabs = TABS) {
  counter += 1;
  const assets = new FakeModel({ sums: { plotly: `dashboard-${counter}` }, files: {} });
  void importOnce(assets.model, "plotly", async () => new FakePlotly().api());
  const selection = new FakeModel({ ...EMPTY_SELECTION });
  const job = panelModel({
    _spec: { title: EVIL, open: false, controls: [] },
    _view: { ...EMPTY_VIEW, notices: ["step 3 left out"] },
  });
  const panels = ["Ranks", "Kernels", "Overlap"].map(named);
  const models: Record<string, FakeModel> = { "anywidget:assets": assets, "anywidget:selection": selection };
  for (const [place, each] of [job, ...panels].entries()) models[`anywidget:${place}`] = each;
  const getModel = async (reference: string) => {
    const found = models[reference];
    if (!found) throw new Error(`no model ${reference}`);
    return found.model;
  };
  const stop = new AbortController();
  const el = document.body.appendChild(document.createElement("div"));
  const model = new FakeModel({
    _assets: "anywidget:assets",
    _selection: "anywidget:selection",
    _panels: ["anywidget:0", "anywidget:1", "anywidget:2", "anywidget:3", "anywidget:lost"],
    _spec: { ...SPEC, tabs },
    _bands: JSON.stringify({ ...EMPTY_BANDS, ...bands }),
    _options: [],
    _together: "Without 2 findings: 24 ms → 20 ms",
    unticked: [],
    _visible: false,
    panel: "ranks_panel",
  });
  widget.render({ model: model.model, el, signal: stop.signal, host: { getModel } } as never);
  await settle();
  await settle();
  const all = <T extends HTMLElement = HTMLElement>(css: string) => [...el.querySelectorAll<T>(css)];
  const texts = (css: string) => all(css).map(({ textContent }) => textContent);
  const press = (target: Element | undefined, key: string, more = {}) =>
    target?.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }));
  return { el, model, models, selection, job, panels, stop, all, texts, press };
}

test("the header names the job as text, and has its facts and notices", async () => {
  const facts = ["4 × H100", "23.5 ms per step"];
  const { el, texts, all } = await show({ facts, notices: [`${EVIL} is left out`] });
  expect(texts(".hta-board-header .hta-title")).toEqual([EVIL]);
  expect(el.querySelector("img")).toBeNull();
  expect(texts(".hta-facts")).toEqual(["4 × H100 · 23.5 ms per step"]);
  const [notices] = all(".hta-notices-button");
  const shown = () => texts(".hta-notices-list:not([hidden]) li");
  expect([notices?.textContent, notices?.getAttribute("aria-expanded"), shown()]).toEqual(["2 notices", "false", []]);
  notices?.click();
  expect([notices?.getAttribute("aria-expanded"), shown()]).toEqual([
    "true",
    ["step 3 left out", `${EVIL} is left out`],
  ]);
  notices?.click();
  expect(shown()).toEqual([]);
});

test("until the bands are known there is a skeleton, and Python is asked for them", async () => {
  const { all, model, stop } = await show({ ready: false });
  expect(all(".hta-band-verdict")[0]?.classList.contains("hta-skeleton")).toBe(true);
  expect(model.saved).toEqual([{ _visible: true }]);
  model.receive("_bands", JSON.stringify({ ...EMPTY_BANDS, said: "All is well." }));
  expect(all(".hta-band-verdict")[0]?.classList.contains("hta-skeleton")).toBe(false);
  expect(all(".hta-band-verdict .hta-finding")[0]?.textContent).toBe("All is well.");
  stop.abort();
  expect(model.get("_visible")).toBe(false);
});

test("what else is known stands behind the findings and what a step takes without them", async () => {
  const { texts } = await show({
    verdict: "bound by the host\nin 19 % the GPU is idle\nfine: copies",
    said: "It waits.",
  });
  expect(texts(".hta-band-verdict .hta-aside")).toEqual(["bound by the host"]);
  const said = texts(".hta-band-verdict .hta-band-body > *").filter(Boolean);
  expect(said.slice(0, 3)).toEqual([
    "It waits.",
    "Without 2 findings: 24 ms → 20 ms",
    "in 19 % the GPU is idle\nfine: copies",
  ]);
});

test("a failure is said instead of a skeleton", async () => {
  const { all } = await show({ ready: false, error: "It broke." });
  expect(all(".hta-band-verdict")[0]?.classList.contains("hta-skeleton")).toBe(false);
  expect(all("[role=alert]")[0]?.textContent).toBe("It broke.");
});

test("only the panels of the open tab are there", async () => {
  const { texts, model, panels, all } = await show();
  expect(texts(".hta-panel .hta-panel .hta-title")).toEqual(["Ranks"]);
  expect(panels.map((panel) => panel.listeners() > 0)).toEqual([true, false, false]);
  all("[role=tab]")[1]?.click();
  await settle();
  expect(model.saved.at(-1)).toEqual({ panel: "kernels_panel" });
  expect(texts(".hta-panel .hta-panel .hta-title")).toEqual(["Kernels"]);
  expect(panels.map((panel) => panel.listeners() > 0)).toEqual([false, true, false]);
  expect(panels[0]?.get("_visible")).toBe(false);
  model.receive("panel", "ranks_panel");
  await settle();
  expect(texts(".hta-panel .hta-panel .hta-title")).toEqual(["Ranks"]);
});

test("a second job brings a tab, and the panel that is shown stays as it is", async () => {
  const { texts, model, all } = await show({}, [tab("ranks", [1])]);
  const before = all(".hta-tab-page .hta-panel")[0];
  model.receive("_spec", { ...SPEC, tabs: [tab("ranks", [1]), tab("compare", [3])] });
  await settle();
  expect(texts("[role=tab]")).toEqual(["ranks", "compare"]);
  expect(all(".hta-tab-page .hta-panel")[0]).toBe(before);
  model.receive("panel", "overlap_panel");
  await settle();
  expect(texts(".hta-tab-page .hta-title")).toEqual(["Overlap"]);
});

test("a panel that counts more than the selected time says so", async () => {
  const { texts, model, selection } = await show();
  expect(texts(".hta-unlimited")).toEqual([""]);
  selection.receive("window_ns", [5, 9]);
  expect(texts(".hta-unlimited")).toEqual(["Its numbers are of everything analysed, not only of the selected window."]);
  selection.receive("steps", [11]);
  model.receive("panel", "overlap_panel");
  expect(texts(".hta-unlimited")).toEqual([
    "Its numbers are of everything analysed, not only of the selected steps and window.",
  ]);
  model.receive("panel", "kernels_panel");
  expect(texts(".hta-unlimited")).toEqual([""]);
  selection.receive("phase", "decode");
  expect(texts(".hta-unlimited")).toEqual([""]);
  selection.receive("phase", "backward"); // sums operators, and no kernels
  expect(texts(".hta-unlimited")).toEqual(["Its numbers are of everything analysed, not only of the selected phase."]);
});

test("further panels of a tab stand behind segments, which name them as text", async () => {
  const { el, all, texts, model } = await show();
  const segments = () => all<HTMLInputElement>(".hta-tab-page > .hta-segments input");
  expect(texts(".hta-tab-page > .hta-segments label")).toEqual(["Ranks", EVIL]);
  expect(el.querySelector("img")).toBeNull();
  const before = segments();
  before[1]?.click();
  await settle();
  expect(model.saved.at(-1)).toEqual({ panel: "overlap_panel" });
  expect(texts(".hta-tab-page .hta-title")).toEqual(["Overlap"]);
  expect(segments().map(({ checked }) => checked)).toEqual([false, true]);
  expect(segments()).toEqual(before); // they keep the focus
  all("[role=tab]")[0]?.click();
  expect(model.get("panel")).toBe("overlap_panel"); // its tab is open
  model.receive("panel", "kernels_panel");
  expect(all(".hta-tab-page > .hta-segments")[0]?.hidden).toBe(true);
  all("[role=tab]")[0]?.click();
  expect(segments().map(({ checked }) => checked)).toEqual([true, false]);
});

test("keys move between the tabs, of which one is in the tab order", async () => {
  const { all, press, model } = await show();
  const tabs = all("[role=tab]");
  expect(tabs.map(({ tabIndex }) => tabIndex)).toEqual([0, -1, -1]);
  press(tabs[0], "ArrowLeft");
  expect(model.get("panel")).toBe("lost");
  expect(document.activeElement).toBe(tabs[2]);
  press(tabs[2], "ArrowRight");
  expect(model.get("panel")).toBe("ranks_panel");
  press(tabs[0], "End");
  expect(tabs.map((each) => each.getAttribute("aria-selected"))).toEqual(["false", "false", "true"]);
  press(tabs[2], "a");
  expect(model.get("panel")).toBe("lost");
});

test("without an open panel, the tabs stay shut until one is pressed", async () => {
  const { all, model } = await show();
  model.receive("panel", "");
  expect(all(".hta-tab-page")[0]?.hidden).toBe(true);
  expect(all("[role=tab]").map(({ tabIndex }) => tabIndex)).toEqual([0, -1, -1]);
  expect(all("[role=tab][aria-selected=true]")).toEqual([]);
  all("[role=tab]")[1]?.click();
  expect(model.get("panel")).toBe("kernels_panel");
  expect(all(".hta-tab-page")[0]?.hidden).toBe(false);
});

test("a panel that is lost says so", async () => {
  const { all, model } = await show();
  model.receive("panel", "lost");
  await settle();
  expect(all(".hta-tab-page")[0]?.textContent).toContain("no model anywidget:lost");
});

test("everything stops listening when the dashboard goes, and nothing stays in the page", async () => {
  const { stop, panels, model, selection, job, el } = await show();
  expect(panels[0]?.listeners()).toBeGreaterThan(0);
  stop.abort();
  expect(el.childNodes).toHaveLength(0);
  for (const each of [...panels, model, selection, job]) expect(each.listeners()).toBe(0);
});

test("chips say what is selected, in the order in which it was", async () => {
  const { texts, selection, all } = await show();
  expect(texts(".hta-chips")).toEqual(["Selected:everything"]);
  selection.receive("kernel", EVIL);
  selection.receive("ranks", [0, 1, 2, 7]);
  selection.receive("window_ns", [12_400_000, 18_000_000]);
  expect(texts(".hta-chip")).toEqual([`${EVIL} ×`, "ranks 0–2, 7 ×", "12.40–18.00 ms ×"]);
  all(".hta-chip")[1]?.click();
  expect(selection.saved).toEqual([{ ranks: [] }]);
  expect(texts(".hta-chip")).toHaveLength(2);
  all(".hta-clear")[0]?.click();
  expect(texts(".hta-chips")).toEqual(["Selected:everything"]);
});

test("the chip of a kernel has the label that the page gives it, not its mangled name", async () => {
  const { texts, selection, model } = await show();
  selection.receive("kernel", "_Z4normv");
  const detail = { ...DETAIL, name: "_Z4normv", label: "norm" };
  model.receive("_bands", JSON.stringify({ ...EMPTY_BANDS, detail }));
  expect(texts(".hta-chip")).toEqual(["norm ×"]);
  selection.receive("kernel", "other");
  expect(texts(".hta-chip")).toEqual(["other ×"]);
});

test("what panels count beside the verdict is said where nothing is selected", async () => {
  const { texts, selection } = await show({ everything: "everything (6 % of the GPU time is outside)" });
  expect(texts(".hta-chips")).toEqual(["Selected:everything (6 % of the GPU time is outside)"]);
  selection.receive("ranks", [3]);
  expect(texts(".hta-everything")).toEqual([]);
});

test("a part of the budget selects its finding and opens its tab", async () => {
  const parts = [part("compute", 0.75), part("waiting", 0.25, { show: { finding: 1 }, tab: "kernels" })];
  const { all, selection, model, press } = await show({
    budget: { title: "Where a step goes", whose: "rank 3", compared: true, behind: "All ranks and steps", parts },
  });
  const buttons = all(".hta-budget button");
  expect(buttons.map((button) => button.getAttribute("aria-label"))).toEqual(["compute: 0.75 ms", "waiting: 0.25 ms"]);
  expect(all(".hta-ghost .hta-area").map(({ style }) => style.flexGrow)).toEqual(["0.5", "0.5"]);
  press(buttons[0], "ArrowRight");
  expect(document.activeElement).toBe(buttons[1]);
  buttons[1]?.click();
  expect(selection.get("finding")).toBe(1);
  expect(model.get("panel")).toBe("kernels_panel");
});

test("findings are ticked, and Python says what is left without those that are", async () => {
  const findings = [0, 1, 2].map((finding) => ({ ...ROW, show: { finding } }));
  const { all, model, texts } = await show({ findings, replayed: [0, 2] });
  expect(texts(".hta-together")).toEqual(["Without 2 findings: 24 ms → 20 ms"]);
  const boxes = all(".hta-tick") as HTMLInputElement[];
  expect(boxes.map(({ checked }) => checked)).toEqual([true, true]);
  boxes[1]?.click();
  expect(model.saved.at(-1)).toEqual({ unticked: [2] });
  model.receive("unticked", [0]);
  expect(boxes.map(({ checked }) => checked)).toEqual([false, true]);
  model.receive("_together", EVIL);
  expect(texts(".hta-together")).toEqual([EVIL]);
});

test("where only faster kernels help, they stand in place of findings, and are selected", async () => {
  const kernels = { label: "MFU 12 %", text: "", table: { ...TABLE, rows: [[EVIL]], total: 1 } };
  const { el, all, texts, selection } = await show({ kernels });
  expect(texts(".hta-band-largest .hta-about")).toEqual(["MFU 12 %"]);
  expect(el.querySelector("img")).toBeNull();
  all(".hta-band-largest tbody td")[0]?.click();
  await settle();
  expect(selection.get("kernel")).toBe(EVIL);
});

test("what to try stands below, as text, without a box to tick", async () => {
  const rows = [{ ...ROW, price: "", cause: EVIL, advice: [{ do: "Compile.", code: "torch.compile(model)" }] }];
  const { el, all, texts, model } = await show({ to_try: rows });
  expect(texts(".hta-band-verdict section .hta-words > p")).toEqual([EVIL]);
  expect(texts(".hta-in-line")).toEqual(["Compile. torch.compile(model) Copy"]);
  expect(all(".hta-in-line code span")[0]?.innerHTML).toBe("torch.<wbr>compile(<wbr>model)"); // broken there, if at all
  expect(el.querySelector("img, .hta-tick")).toBeNull();
  model.receive("_bands", JSON.stringify(EMPTY_BANDS));
  expect(all(".hta-band-verdict section")[0]?.hidden).toBe(true);
});

test("Show selects, and shows the panel that proves it", async () => {
  const { all, selection, model } = await show({ findings: [ROW] });
  const button = all(".hta-show")[0];
  button?.click();
  await settle();
  expect(selection.get("ranks")).toEqual([3]);
  expect(model.get("panel")).toBe("kernels_panel");
  model.receive("panel", "ranks_panel");
  button?.click();
  await settle();
  expect(selection.get("ranks")).toEqual([]);
  expect(model.get("panel")).toBe("ranks_panel");
});

test("keys of the page search, drop the last chip and go back", async () => {
  const { el, all, press, selection, model } = await show();
  const root = all(".hta-dashboard")[0];
  selection.receive("ranks", [3]);
  selection.receive("steps", [11]);
  press(root, "Escape");
  expect(selection.saved.at(-1)).toEqual({ steps: [] });
  press(root, "z", { ctrlKey: true });
  expect(model.sent.at(-1)).toEqual({ act: "undo" });
  press(root, "/");
  expect(document.activeElement).toBe(el.querySelector(".hta-search-field"));
  press(document.activeElement ?? undefined, "z", { ctrlKey: true });
  expect(model.sent.filter((each) => each.act === "undo")).toHaveLength(1);
});

test("the search asks for what it finds once it is used, and selects it", async () => {
  const { el, model, selection, press } = await show();
  const field = el.querySelector<HTMLInputElement>(".hta-search-field");
  const list = el.querySelector<HTMLElement>(".hta-search-list");
  Object.assign(list ?? {}, { showPopover: () => {}, hidePopover: () => {} });
  field?.focus();
  expect(model.sent.at(-1)).toEqual({ act: "search" });
  model.receive("_options", [
    ["rank 3", '["ranks", [3]]', "rank"],
    [EVIL, JSON.stringify(["kernel", EVIL]), "kernel"],
  ]);
  if (field) field.value = "onerror";
  field?.dispatchEvent(new Event("input"));
  expect(el.querySelector("img")).toBeNull();
  press(field ?? undefined, "Enter");
  expect(selection.get("kernel")).toBe(EVIL);
  expect(field?.value).toBe("");
  const seen: Element[] = [];
  Element.prototype.scrollIntoView = function (this: Element) {
    seen.push(this);
  };
  model.receive("_bands", JSON.stringify({ ...EMPTY_BANDS, detail: DETAIL }));
  model.receive("_bands", JSON.stringify({ ...EMPTY_BANDS, detail: { ...DETAIL, place: 4 } }));
  await new Promise(requestAnimationFrame);
  expect(seen[0]).toBe(el.querySelector(".hta-drawer"));
  expect(seen).toHaveLength(2); // once, whatever comes after
  expect(seen[0]?.nextElementSibling).toBe(el.querySelector(".hta-what-if"));
});

test("a row without a price has no bar, which would look like almost nothing", async () => {
  const { all } = await show({ findings: [ROW, { ...ROW, price: "", share: 0 }] });
  expect(all(".hta-bar").map(({ style }) => style.visibility)).toEqual(["", "hidden"]);
});

test("a row has what to try first, with three lines of its code, and the rest behind it", async () => {
  const advice = [
    { do: "Load ahead.", code: "from a import b\n\nload = b(\n  workers=8)\nload.start()" },
    { do: EVIL, code: "" },
  ];
  const { all, texts } = await show({ findings: [{ ...ROW, advice }] });
  expect(texts(".hta-in-line")).toEqual(["Load ahead. load = b(\n  workers=8)\nload.start() Copy"]);
  expect(all(".hta-in-line code")[0]?.title).toBe(advice[0]?.code);
  expect(texts(".hta-behind details:not([hidden])")).toEqual([`why${EVIL}`]);
  const longer = await show({ findings: [{ ...ROW, advice: [{ do: "Try.", code: "a\nb\nc\nd" }] }] });
  expect(longer.texts(".hta-in-line")).toEqual(["Try. a\nb\nc\n… Copy"]);
});

test("details name the kernel as text, and lead through its events", async () => {
  const { el, all, texts, model } = await show({ detail: DETAIL });
  expect(all(".hta-drawer")[0]?.hidden).toBe(false);
  expect(texts(".hta-drawer-name")).toEqual([EVIL]);
  expect(all(".hta-drawer-name")[0]?.title).toBe(`void ${EVIL}`);
  expect(el.querySelector("img")).toBeNull();
  expect(texts(".hta-rank-bars li")).toEqual(["rank 01 ms × 4", "rank 32 ms × 4"]);
  expect(texts(".hta-turns span:not([role])")).toEqual(["3 of 32"]);
  const next = el.querySelector<HTMLElement>('[aria-label="Next event"]');
  next?.focus();
  next?.click();
  expect(model.sent.at(-1)).toEqual({ act: "next" });
  model.receive("_bands", JSON.stringify({ ...EMPTY_BANDS, detail: { ...DETAIL, place: 4 } }));
  expect(texts(".hta-turns span:not([role])")).toEqual(["4 of 32"]);
  expect(document.activeElement?.getAttribute("aria-label")).toBe("Next event");
  model.receive("_bands", JSON.stringify(EMPTY_BANDS));
  expect(all(".hta-drawer")[0]?.hidden).toBe(true);
});

test("the events of what is selected are asked for as a file", async () => {
  const { el, model } = await show({ detail: DETAIL });
  el.querySelector<HTMLElement>('[aria-label="Download the selected events as CSV"]')?.click();
  const { id, ...asked } = model.sent.at(-1) as { id: string };
  expect(asked).toEqual({ kind: "table-text", style: "csv", offset: 0, sort: "", descending: false, filter: "" });
  model.emit("msg:custom", { id, problem: "too many" }, []);
  await settle();
  expect(el.querySelector(".hta-turns [role=status]")?.textContent).toBe("Python is not responding.");
});

test("the footer says what there is in Python", async () => {
  const { texts } = await show({ events: "5,392", code: "dash.selection.set(ranks=[3])" });
  expect(texts(".hta-footer")[0]).toContain("dash.events(5,392 selected)");
  expect(texts(".hta-footer")[0]).toContain("dash.selection.set(ranks=[3])");
});

test.each(["each 23.5\u00a0ms step", "the 84.5\u00a0ms GPU span"])(
  "the price is not said twice: of %s",
  async (whole) => {
    const sentence = `Rank 3 is slow: 2.9\u00a0ms of ${whole} (12.3\u00a0%).`;
    const { all } = await show({ findings: [{ ...ROW, sentence }] });
    expect(all(".hta-words > p")[0]?.textContent).toBe("Rank 3 is slow.");
    expect(all(".hta-words > p")[0]?.title).toBe(sentence);
  },
);

test("the rest of the findings is folded", async () => {
  const row = (finding: number) => ({ ...ROW, show: { finding }, folded: finding > 2 });
  const { all } = await show({ findings: [0, 1, 2, 3, 4].map(row) });
  expect(all(".hta-findings > ol > li")).toHaveLength(3);
  expect(all(".hta-findings > details > summary")[0]?.textContent).toBe("2 more");
});

const CYCLES: BoardSpec = { ...SPEC, cycles: ["cycle 0", "cycle 1", EVIL], cycle: 2 };

const choose = (menu: Element | undefined, value: string) => {
  (menu as HTMLSelectElement).value = value;
  menu?.dispatchEvent(new Event("change"));
};

test("cycles are chosen in the header, where there are several", async () => {
  const { model, all, texts } = await show();
  expect(all(".hta-cycles")[0]?.hidden).toBe(true);
  model.set("_spec", CYCLES);
  const menus = () => all(".hta-cycles select") as HTMLSelectElement[];
  expect(texts(".hta-cycles select:first-child option")).toEqual(CYCLES.cycles);
  expect(menus().map(({ value }) => value)).toEqual(["2"]);
  expect(all(".hta-cycles img")).toEqual([]);
  choose(menus()[0], "0");
  expect(model.sent).toEqual([{ act: "cycle", cycle: 0 }]);
  expect(all(".hta-cycles")[0]?.getAttribute("aria-busy")).toBe("true");
  model.set("_spec", { ...CYCLES, cycle: 0 });
  expect(all(".hta-cycles")[0]?.getAttribute("aria-busy")).toBe("false");
  expect(menus().map(({ value }) => value)).toEqual(["0"]);
});

test("a report has no menus of cycles", async () => {
  const { model, all } = await show();
  model.set("_saved", true);
  model.set("_spec", CYCLES);
  expect(all(".hta-cycles")[0]?.hidden).toBe(true);
});

test("another cycle brings another selection and other panels, in the same place", async () => {
  const { model, models, selection, all, texts, stop } = await show();
  const other = new FakeModel({ ...EMPTY_SELECTION });
  models["anywidget:other"] = other;
  models["anywidget:1"] = named("Others");
  model.set("_selection", "anywidget:other");
  await settle();
  await settle();
  expect(all(".hta-board")).toHaveLength(1);
  expect(texts(".hta-tab-page .hta-title")).toEqual(["Others"]);
  selection.set("ranks", [3]);
  expect(all(".hta-chip")).toHaveLength(0);
  other.set("ranks", [3]);
  expect(texts(".hta-chip")[0]).toContain("rank 3");
  expect(model.get("_visible")).toBe(true);
  stop.abort();
  expect(model.get("_visible")).toBe(false);
});
