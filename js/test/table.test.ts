import { beforeEach, expect, test, vi } from "vitest";
import { cellText, delimited, heading, number, ordered, UNSORTED } from "../src/cells";
import * as hover from "../src/hover";
import { TableView } from "../src/tableview";
import type { Column, Table } from "../src/types";
import { EMPTY_SELECTION, FakeModel, settle, table } from "./fakes";

const EVIL = "=HYPERLINK(1)";
const KERNELS = table(
  ["name", "sum_ns", "share"],
  [
    ["gemm", 2e6, 9],
    ["Add", 1.5e7, null],
    ["all_reduce", 5e3, 10],
  ],
);

const sumColumn: Column = {
  name: "sum_ns",
  label: "sum",
  unit: "ms",
  scale: 1e6,
  kind: "number",
  select: "",
  besides: [],
};

beforeEach(() => document.body.replaceChildren());

function show(content: Table, { model = new FakeModel({}), selected = {} } = {}) {
  const selection = new FakeModel({ ...EMPTY_SELECTION, ...selected });
  const send = (values: Record<string, unknown>) => {
    for (const [name, value] of Object.entries(values)) selection.receive(name, value);
  };
  const context = {
    model: model.model,
    selection: Promise.resolve(selection.model),
    send,
    prefix: "t",
    title: "Kernels",
  };
  const stop = new AbortController();
  const view = new TableView(context, stop.signal);
  document.body.append(view.element);
  view.show(content);
  const grid = view.element.querySelector("table") as HTMLTableElement;
  const column = (place: number) =>
    [...grid.querySelectorAll("tbody tr[data-place]")].map((row) => row.children[place]?.textContent);
  const head = (place: number) => grid.querySelectorAll("th")[place] as HTMLElement;
  const press = (key: string, more = {}) =>
    grid.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }));
  const row = (place: number) => grid.querySelector(`tr[data-place="${place}"]`) as HTMLElement;
  return { view, grid, column, head, press, row, selection, model, stop };
}

test.each([
  [1234567, "1,234,567"],
  [0.0012345, "0.00123"],
  [12.3456, "12.3"],
  [12, "12"],
  [-0.5, "−0.5"],
  [0, "0"],
])("%d is written as %s", (value, text) => expect(number(value)).toBe(text));

test("a cell is divided by its scale, an id has no thousands, and the heading has the unit", () => {
  expect(cellText(1234567, sumColumn)).toBe("1.23");
  expect(heading(sumColumn)).toBe("sum\u00a0(ms)");
  expect(cellText(410135, { ...sumColumn, kind: "id" })).toBe("410135");
  expect([cellText(true, sumColumn), cellText(null, sumColumn)]).toEqual(["yes", ""]);
});

test("numbers are ordered as numbers, texts regardless of case, and missing values come last", () => {
  const names = (order: object) => (ordered(KERNELS, { ...UNSORTED, ...order }) as string[][]).map(([name]) => name);
  expect(names({ sort: "sum_ns" })).toEqual(["all_reduce", "gemm", "Add"]);
  expect(names({ sort: "share", descending: true })).toEqual(["all_reduce", "gemm", "Add"]);
  expect(names({ sort: "share" })).toEqual(["gemm", "all_reduce", "Add"]);
  expect(names({ sort: "name" })).toEqual(["Add", "all_reduce", "gemm"]);
});

test("a filter is a text, a regular expression, or a whole number", () => {
  const names = (filter: string) => {
    const rows = ordered(KERNELS, { ...UNSORTED, filter });
    return typeof rows === "string" ? rows : rows.map(([name]) => name);
  };
  expect(names("AD")).toEqual(["Add"]);
  expect(names("/^a/")).toEqual(["Add", "all_reduce"]);
  expect(names("10")).toEqual(["all_reduce"]);
  expect(names("1")).toEqual([]);
  expect(names("/(/")).toContain("not a valid regular expression");
});

test("a filter finds what is shown in place of a name", () => {
  const rows = ordered({ ...KERNELS, names: { gemm: "GEMM 256×128" } }, { ...UNSORTED, filter: "256" });
  expect(rows).toHaveLength(1);
});

test("no text is a formula in a file, and numbers keep their digits", () => {
  const content = table(
    ["name", "sum_ns"],
    [
      [EVIL, 1234567],
      ['a"b', -3],
    ],
  );
  expect(delimited(content, content.rows, "csv")).toBe(`"name","sum_ns"\n"'${EVIL}",1234567\n"a""b",-3\n`);
  expect(delimited(content, content.rows, "tsv")).toBe(`name\tsum_ns\n'${EVIL}\t1234567\n"a""b"\t-3\n`);
});

test("clicks on a heading sort by it, turn the order round, and give the table's own back", () => {
  const { column, head } = show(KERNELS);
  head(1).click();
  expect(column(0)).toEqual(["Add", "gemm", "all_reduce"]);
  expect(head(1).getAttribute("aria-sort")).toBe("descending");
  head(1).click();
  expect(column(0)).toEqual(["all_reduce", "gemm", "Add"]);
  head(1).click();
  expect(column(0)).toEqual(["gemm", "Add", "all_reduce"]);
  expect(head(1).getAttribute("aria-sort")).toBe("none");
});

test("the grid is one tab stop: keys walk its rows and sort", () => {
  const { grid, column, press } = show(KERNELS);
  expect([grid.tabIndex, grid.querySelectorAll("[tabindex]").length]).toEqual([0, 0]);
  press("ArrowDown");
  expect(grid.getAttribute("aria-activedescendant")).toBe("t-row-1");
  press("Home");
  press("ArrowUp");
  press("ArrowRight");
  expect(grid.getAttribute("aria-activedescendant")).toBe("t-column-1");
  press("Enter");
  expect(column(0)[0]).toBe("Add");
});

const RANKED: Table = (() => {
  const content = table(
    ["rank", "kernel"],
    [
      [0, "gemm"],
      [1, "add"],
      [3, "add"],
    ],
  );
  const selects = ["ranks", "kernel"];
  return { ...content, columns: content.columns.map((each, place) => ({ ...each, select: selects[place] ?? "" })) };
})();

test("a click selects what the row is about, Shift adds, and another click selects nothing", async () => {
  const { row, selection } = show(RANKED);
  await settle();
  row(1).click();
  expect(selection.state).toMatchObject({ ranks: [1], kernel: "add" });
  expect([0, 1, 2].map((place) => row(place).classList.contains("hta-marked"))).toEqual([false, true, false]);
  row(2).dispatchEvent(new MouseEvent("click", { bubbles: true, shiftKey: true }));
  expect(selection.state).toMatchObject({ ranks: [1, 3], kernel: "add" });
  row(0).click();
  row(0).click();
  expect(selection.state).toMatchObject({ ranks: [], kernel: "" });
  expect(row(0).getAttribute("aria-selected")).toBe("false");
});

test("a text that stands for several kernels selects none", async () => {
  const [rank, kernel] = RANKED.columns as [Column, Column];
  const { row, selection } = show({ ...RANKED, columns: [rank, { ...kernel, besides: ["gemm"] }] });
  await settle();
  row(0).click();
  expect(selection.state).toMatchObject({ ranks: [0], kernel: "" });
});

test("a row under the pointer tells the page its kernel", () => {
  const told: unknown[] = [];
  const { grid, row, stop } = show({
    ...KERNELS,
    columns: KERNELS.columns.map((column, place) => ({ ...column, select: place === 0 ? "kernel" : "" })),
  });
  hover.listen((hovered) => told.push(hovered), stop.signal);
  return settle().then(() => {
    row(1).children[1]?.dispatchEvent(new Event("pointerover", { bubbles: true }));
    grid.dispatchEvent(new Event("pointerleave"));
    expect(told).toEqual([{ kernel: "Add" }, null]);
  });
});

test("what is selected elsewhere has a ring", async () => {
  const { row, selection } = show(RANKED);
  await settle();
  selection.receive("ranks", [0]);
  selection.receive("kernel", "gemm");
  expect(row(0).classList.contains("hta-marked")).toBe(true);
});

test("a row of all ranks selects none", async () => {
  const content = { ...RANKED, rows: [[-1, "gemm"]], total: 1 };
  const { row, selection } = show(content as Table);
  await settle();
  row(0).click();
  expect(selection.state).toMatchObject({ ranks: [], kernel: "gemm" });
});

const LONG: Table = {
  ...table(
    ["n"],
    Array.from({ length: 50 }, (_, n) => [n]),
  ),
  total: 100_000,
};

function answer(model: FakeModel, content: object): void {
  model.emit("msg:custom", { ...model.sent.at(-1), columns: ["n"], ...content }, []);
}

test("of a long table few rows are drawn, and those that are missing are asked for", () => {
  const { grid, column, press, model } = show(LONG);
  expect(grid.getAttribute("aria-rowcount")).toBe("100001");
  expect(grid.querySelectorAll("tr").length).toBeLessThan(60);
  expect(model.sent).toEqual([]);
  press("End");
  const { first } = model.sent.at(-1) as { first: number };
  expect(model.sent.at(-1)).toMatchObject({ kind: "table-rows", sort: "", filter: "", count: 200 });
  answer(model, { rows: Array.from({ length: 200 }, (_, n) => [first + n]), total: 100_000 });
  expect(column(0)).toContain("99,999");
});

test("sorting is of all rows; without an answer it is of those that are here, and says so", async () => {
  vi.useFakeTimers();
  const { view, column, head, model } = show(LONG);
  head(0).click();
  expect(model.sent.at(-1)).toMatchObject({ sort: "n", descending: true, first: 0 });
  vi.advanceTimersByTime(500);
  expect(column(0)[0]).toBe("49");
  expect(view.element.querySelector(".hta-table-said")?.textContent).toContain("the first 50 of 100,000 rows");
  answer(model, { rows: [[99_999], [99_998]], total: 100_000 });
  expect(column(0).slice(0, 2)).toEqual(["99,999", "99,998"]);
  expect(view.element.querySelector(".hta-table-said")?.textContent).toBe("");
  vi.useRealTimers();
});

test("a late answer to an older question is dropped", () => {
  const { column, head, model } = show(LONG);
  head(0).click();
  const old = model.sent.at(-1);
  head(0).click();
  model.emit("msg:custom", { ...old, columns: ["n"], rows: [[7]], total: 1 }, []);
  expect(column(0)).not.toEqual(["7"]);
});

test("a filter that Python refuses is said beside it", () => {
  vi.useFakeTimers();
  const { view, model } = show(LONG);
  const field = view.element.querySelector("input") as HTMLInputElement;
  field.value = "/(/";
  field.dispatchEvent(new Event("input"));
  vi.advanceTimersByTime(250);
  expect(model.sent.at(-1)).toMatchObject({ filter: "/(/" });
  answer(model, { problem: "the filter is not a valid regular expression" });
  expect(field.getAttribute("aria-invalid")).toBe("true");
  expect(view.element.querySelector("[role=status]")?.textContent).toContain("not a valid regular expression");
  vi.useRealTimers();
});

test("Ctrl-C copies the selected rows, or all, with the names of columns in Python", async () => {
  const copied: string[] = [];
  vi.stubGlobal("navigator", { clipboard: { writeText: async (text: string) => copied.push(text) } });
  const { press, row } = show(KERNELS);
  press("c", { ctrlKey: true });
  await settle();
  expect(copied[0]?.split("\n")).toHaveLength(5);
  row(1).click();
  press("c", { ctrlKey: true });
  await settle();
  expect(copied[1]).toBe("name\tsum_ns\tshare\nAdd\t15000000\t\n");
  vi.unstubAllGlobals();
});

test("names of a trace stay text, also where they are names of JavaScript", () => {
  const { column, grid } = show(table(["name"], [["<img src=x>"], ["constructor"]]));
  expect(column(0)).toEqual(["<img src=x>", "constructor"]);
  expect(grid.querySelector("img")).toBeNull();
});

test("nothing is left listening when the view goes", async () => {
  const { model, selection, stop } = show(KERNELS);
  await settle();
  stop.abort();
  expect([model.listeners(), selection.listeners()]).toEqual([0, 0]);
});

test("the sides of a wide table are shaded where there are more columns, which are counted", () => {
  const { view, stop } = show(KERNELS);
  const frame = view.element.querySelector(".hta-table") as HTMLElement;
  const edges = frame.parentElement as HTMLElement;
  const sizes = { scrollWidth: 900, clientWidth: 500, clientHeight: 300, offsetWidth: 517, offsetHeight: 317 };
  for (const [name, value] of Object.entries({ ...sizes, clientLeft: 1, clientTop: 1 }))
    Object.defineProperty(frame, name, { value });
  const last = view.element.querySelector("th:last-child") as HTMLElement;
  for (const [name, value] of Object.entries({ offsetLeft: 800, offsetWidth: 100 }))
    Object.defineProperty(last, name, { value });
  const more = view.element.querySelector(".hta-columns") as HTMLButtonElement;
  const shaded = (left: number) => {
    frame.scrollLeft = left;
    frame.dispatchEvent(new Event("scroll"));
    return [...edges.classList].slice(1);
  };
  expect(shaded(0)).toEqual(["hta-more-right"]);
  expect([more.hidden, more.textContent]).toEqual([false, "1 more column ▸"]);
  expect(shaded(200).sort()).toEqual(["hta-more-left", "hta-more-right"]);
  expect(shaded(400)).toEqual(["hta-more-left"]);
  expect(more.hidden).toBe(true);
  // Beside the scroll bars of 15 px and the border.
  expect(edges.style.getPropertyValue("--hta-right")).toBe("16px");
  expect(edges.style.getPropertyValue("--hta-bottom")).toBe("16px");
  stop.abort();
  expect(shaded(0)).toEqual(["hta-more-left"]);
});
