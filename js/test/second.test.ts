import type { RenderProps } from "@anywidget/types";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import second, { type SecondState } from "../src/second";
import { FakeModel } from "./fakes";

let model: FakeModel;
let stop: AbortController;
let root: HTMLElement;

beforeEach(() => {
  vi.useFakeTimers();
  model = new FakeModel({ _second: "", _view: {} });
  stop = new AbortController();
  root = document.createElement("div");
  second.render({ model: model.model, el: root, signal: stop.signal } as unknown as RenderProps<SecondState>);
});

afterEach(() => {
  stop.abort();
  vi.useRealTimers();
});

const button = (text: string) =>
  [...root.querySelectorAll("button")].find(({ textContent }) => textContent === text) as HTMLButtonElement;

test("it asks what there is, and opens only what is clicked", () => {
  expect(model.sent).toEqual([{ second: "offers" }]);
  model.emit("msg:custom", {
    second: "offers",
    offers: [
      ["<b>after</b>", "folder"],
      ["main.arrow", "baseline"],
    ],
  });
  expect(root.querySelectorAll("b")).toHaveLength(0);
  expect(model.sent).toHaveLength(1);
  button("main.arrow").click();
  expect(model.sent[1]).toEqual({ second: "offer", value: 1 });
});

test("it says what is opened, for how long, and why that failed; one thing at a time", () => {
  const path = root.querySelector<HTMLInputElement>("input[type=text]") as HTMLInputElement;
  button("Open").click();
  expect(root.querySelector("[role=alert]")?.textContent).toContain("Type the path");
  path.value = " later ";
  button("Open").click();
  expect(model.sent[1]).toEqual({ second: "path", value: "later" });
  vi.advanceTimersByTime(3_000);
  expect(root.querySelector("[role=status]")?.textContent).toBe("Opening later, 3 s…");
  button("Open").click();
  expect(model.sent).toHaveLength(2);
  model.emit("msg:custom", { second: "picked", error: "later does not exist" });
  expect(root.querySelector("[role=status]")?.textContent).toBe("");
  expect(root.querySelector("[role=alert]")?.textContent).toBe("later does not exist");
  button("Open").click();
  expect(model.sent).toHaveLength(3);
});

test("it names what is compared, and can end that", () => {
  model.set("_second", "after");
  expect(root.textContent).toContain("Compared with after");
  button("Stop comparing").click();
  expect(model.sent[1]).toEqual({ second: "nothing", value: null });
});

test("it leaves nothing behind", () => {
  stop.abort();
  expect(model.listeners()).toBe(0);
});
