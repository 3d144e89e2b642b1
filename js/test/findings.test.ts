import { beforeEach, expect, test, vi } from "vitest";
import { Findings } from "../src/findings";
import type { FindingRow } from "../src/types";
import { EMPTY_SELECTION, FakeModel, settle, table } from "./fakes";

const EVIL = "<img src=x onerror=alert(1)>";

const ROW: FindingRow = {
  price: "3 ms",
  bound: "≤",
  percent: "12.5 %",
  share: 0.5,
  color: "#D55E00",
  fill: "hatched",
  sentence: "Rank 3 is slow: up to 3 ms of each 24 ms step (12.5 %).",
  cause: "Rank 3 is slow.",
  doubt: "",
  advice: [{ do: "Exchange it.", code: "" }],
  numbers: [{ label: "slower", text: "25 %", table: null }],
  show: { ranks: [3], steps: [], finding: 0 },
  of_second: false,
  occurrences: [],
  panel: "rank_overlap",
  folded: false,
};

beforeEach(() => document.body.replaceChildren());

async function shown(...rows: FindingRow[]) {
  const selection = new FakeModel({ ...EMPTY_SELECTION });
  const send = vi.fn((values: Record<string, unknown>) => {
    for (const [name, value] of Object.entries(values)) selection.receive(name, value);
  });
  const stop = new AbortController();
  const second = new FakeModel({ ...EMPTY_SELECTION });
  const of = (model: FakeModel) => Promise.resolve(model.model);
  const findings = new Findings(of(selection), send, "p", stop.signal, undefined, of(second));
  document.body.append(findings.element);
  findings.show(rows);
  await settle();
  const buttons = () => [...findings.element.querySelectorAll("button")];
  return { findings, element: findings.element, selection, second, send, stop, buttons };
}

test("a row has its price, its sentence, and what is behind it", async () => {
  const { element } = await shown(ROW);
  expect(element.querySelector(".hta-price b")?.textContent).toBe("≤ 3\u00a0ms");
  expect(element.querySelector(".hta-price small")?.textContent).toBe("12.5\u00a0%");
  expect(element.querySelector("p")?.textContent).toBe(
    "Rank 3 is slow: up to 3\u00a0ms of each 24\u00a0ms step (12.5\u00a0%).",
  );
  expect([...element.querySelectorAll("summary")].map(({ textContent }) => textContent)).toEqual([
    "Alternatives",
    "The numbers behind it",
    "0 more",
  ]);
  expect(element.textContent).toContain("slower: 25 %");
  expect(element.querySelector<HTMLElement>(".hta-swatch")?.style.width).toBe("50%");
});

test("advice has its code, which a button copies", async () => {
  const write = vi.fn(async () => undefined);
  vi.stubGlobal("navigator", { clipboard: { writeText: write } });
  const advice = [
    { do: "Load ahead.", code: "DataLoader(\n  num_workers=8)" },
    { do: EVIL, code: "" },
  ];
  const { element, buttons } = await shown({ ...ROW, advice });
  expect([...element.querySelectorAll(".hta-advice p")].map(({ textContent }) => textContent)).toEqual([
    "Load ahead.",
    EVIL,
  ]);
  expect(element.querySelector("pre")?.textContent).toBe(advice[0]?.code);
  buttons()[0]?.click();
  await settle();
  expect(write).toHaveBeenCalledWith(advice[0]?.code);
  vi.unstubAllGlobals();
});

test("where no row has a price, no place is kept for prices", async () => {
  const free = { ...ROW, price: "", share: 0 };
  const { findings, element } = await shown(free, free);
  expect(element.classList.contains("hta-unpriced")).toBe(true);
  findings.show([free, ROW]);
  expect(element.classList.contains("hta-unpriced")).toBe(false);
});

test("Show selects, and selects nothing when pressed again", async () => {
  const { send, selection, buttons, element } = await shown(ROW);
  const [button] = buttons();
  expect(button?.getAttribute("aria-pressed")).toBe("false");
  button?.click();
  await settle();
  expect(send).toHaveBeenLastCalledWith({ ranks: [3], steps: [], finding: 0 }, selection.model);
  expect(button?.getAttribute("aria-pressed")).toBe("true");
  expect(element.querySelector("li")?.classList.contains("hta-selected")).toBe(true);
  button?.click();
  await settle();
  expect(send).toHaveBeenLastCalledWith({ ranks: [], steps: [], finding: null }, selection.model);
  expect(button?.getAttribute("aria-pressed")).toBe("false");
});

const SEEN: FindingRow = {
  ...ROW,
  show: { ranks: [3], steps: [2], window_ns: null, finding: 0 },
  occurrences: [
    { fields: { steps: [], window_ns: [5, 9] }, words: "holds 60 %" },
    { fields: { steps: [], window_ns: [20, 24] }, words: "holds 40 %" },
  ],
};

test("Show selects the first window, and says what it holds", async () => {
  const { send, selection, buttons, element } = await shown(SEEN);
  const turns = element.querySelector<HTMLElement>(".hta-turns");
  expect(turns?.hidden).toBe(true);
  buttons().at(-1)?.click();
  await settle();
  const first = { ranks: [3], steps: [], window_ns: [5, 9], finding: 0 };
  expect(send).toHaveBeenLastCalledWith(first, selection.model);
  expect(turns?.hidden).toBe(false);
  expect(turns?.querySelector("[role=status]")?.textContent).toBe("window 1 of 2 · holds 60\u00a0%");
});

test("two buttons step through the windows, and round", async () => {
  const { selection, buttons, element } = await shown(SEEN);
  const [previous, next, show] = buttons();
  show?.click();
  await settle();
  for (const [button, window] of [
    [next, [20, 24]],
    [next, [5, 9]],
    [previous, [20, 24]],
  ] as const) {
    button?.click();
    await settle();
    expect(selection.model.get("window_ns")).toEqual(window);
  }
  expect(element.querySelector("[role=status]")?.textContent).toContain("window 2 of 2 · ");
  expect(show?.getAttribute("aria-pressed")).toBe("true");
  show?.click();
  await settle();
  expect(selection.model.get("window_ns")).toBeNull();
  expect(element.querySelector<HTMLElement>(".hta-turns")?.hidden).toBe(true);
});

test("one window needs no way through", async () => {
  const { buttons } = await shown({ ...SEEN, occurrences: SEEN.occurrences.slice(0, 1) });
  expect(buttons().map(({ hidden }) => hidden)).toEqual([true, true, false]);
});

test("a selection from elsewhere unmarks the row", async () => {
  const { selection, buttons } = await shown(ROW);
  buttons()[0]?.click();
  await settle();
  selection.receive("ranks", [1]);
  expect(buttons()[0]?.getAttribute("aria-pressed")).toBe("false");
});

test("the button is described by the sentence", async () => {
  const { buttons } = await shown({ ...ROW, sentence: "One." }, { ...ROW, sentence: "Another." });
  const described = buttons().map((button) => button.getAttribute("aria-describedby") ?? "");
  expect(described.map((id) => document.getElementById(id)?.textContent)).toEqual(["One.", "Another."]);
});

test("rows beyond the first are folded", async () => {
  const folded = { ...ROW, folded: true };
  const { element } = await shown(ROW, folded, folded);
  const more = element.querySelector(":scope > details > summary");
  expect(more?.textContent).toBe("2 more");
  expect(more?.parentElement?.hidden).toBe(false);
  expect(more?.parentElement?.querySelectorAll("li")).toHaveLength(2);
  expect(element.querySelectorAll(":scope > ol > li")).toHaveLength(1);
});

test("without findings nothing is shown", async () => {
  const { element, findings } = await shown(ROW);
  findings.show([]);
  expect(element.hidden).toBe(true);
});

test("what is opened stays open while the rows stay", async () => {
  const { element, findings } = await shown(ROW);
  const details = element.querySelector("details");
  if (details) details.open = true;
  findings.show(structuredClone([ROW]));
  expect(element.querySelector("details")).toBe(details);
  findings.show([{ ...ROW, price: "2 ms" }]);
  expect(element.querySelector("details")).not.toBe(details);
});

test("a finding without a place has no button, and a doubt is said", async () => {
  const { buttons, element } = await shown({ ...ROW, show: null, doubt: "Cannot tell." });
  expect(buttons()).toHaveLength(0);
  expect(element.querySelector("em")?.textContent).toBe("Cannot tell.");
});

test("text from a trace stays text", async () => {
  const evil = table([EVIL], [[EVIL]]);
  const numbers = [
    { label: EVIL, text: EVIL, table: null },
    { label: EVIL, text: "", table: evil },
  ];
  const advice = [{ do: EVIL, code: EVIL }];
  const said = { sentence: EVIL, cause: EVIL, doubt: EVIL, price: EVIL, percent: EVIL };
  const { element } = await shown({ ...ROW, ...said, advice, numbers });
  expect(element.querySelector("img")).toBeNull();
  expect(element.querySelector("td")?.textContent).toBe(EVIL);
});

test("keys reach the page's commands from nothing that has the focus", async () => {
  const { element, buttons } = await shown(ROW);
  for (const each of [...buttons(), ...element.querySelectorAll("summary")]) {
    expect((each as HTMLElement).dataset.lmSuppressShortcuts).toBe("true");
  }
});

test("numbers and their units stay on one line", async () => {
  const { element } = await shown({
    ...ROW,
    sentence: "Rank 3 sends 15.7 MB at 12 GB/s: 3 ms of each 23.5 ms step (13 %).",
  });
  expect(element.querySelector("p")?.textContent).toBe(
    "Rank 3 sends 15.7\u00a0MB at 12\u00a0GB/s: 3\u00a0ms of each 23.5\u00a0ms step (13\u00a0%).",
  );
});

test("when the panel is gone, nothing follows the selection", async () => {
  const { selection, stop } = await shown(ROW);
  expect(selection.listeners()).toBeGreaterThan(0);
  stop.abort();
  expect(selection.listeners()).toBe(0);
});

test("what only the second of two jobs has is shown in that one", async () => {
  const { selection, second, send, buttons } = await shown(ROW, { ...ROW, of_second: true });
  const shows = () => buttons().filter(({ textContent }) => textContent === "Show");
  shows()[1]?.click();
  await settle();
  expect(send).toHaveBeenLastCalledWith(ROW.show, second.model);
  for (const [name, value] of Object.entries(ROW.show ?? {})) second.receive(name, value);
  selection.receive("finding", null);
  expect(shows().map((button) => button.getAttribute("aria-pressed"))).toEqual(["false", "true"]);
});
