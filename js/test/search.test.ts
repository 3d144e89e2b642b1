import { beforeEach, expect, test, vi } from "vitest";
import { matches } from "../src/options";
import { Combobox } from "../src/search";
import type { Option, SearchSpec } from "../src/types";

const EVIL = "<img src=x onerror=alert(1)>";
const OPTIONS: Option[] = [
  ["aten::linear", "aten::linear", "12 ms, 48 calls"],
  ["aten::mm", "aten::mm", "9 ms, 96 calls"],
  ["Linear back…", "LinearBackward0", "7 ms, 48 calls"],
  [EVIL, EVIL, EVIL],
];

beforeEach(() => {
  // happy-dom has no popovers
  HTMLElement.prototype.showPopover = () => {};
  HTMLElement.prototype.hidePopover = () => {};
});

function open(free_text = false, options = OPTIONS) {
  const spec: SearchSpec = { kind: "search", name: "operator", label: "Operator", options, free_text };
  const pick = vi.fn();
  const stop = new AbortController();
  const box = new Combobox(spec, "p-operator", stop.signal, pick);
  box.show("aten::mm");
  document.body.replaceChildren(box.input, box.popover);
  const type = (text: string) => {
    box.input.value = text;
    box.input.dispatchEvent(new Event("input"));
  };
  const press = (...keys: string[]) => {
    for (const key of keys) box.input.dispatchEvent(new KeyboardEvent("keydown", { key, cancelable: true }));
  };
  const shown = () =>
    [...box.popover.querySelectorAll("[role=option] span:first-child")].map((each) => each.textContent);
  const active = () => box.popover.querySelector("[aria-selected=true]");
  return { box, input: box.input, popover: box.popover, pick, type, press, shown, active };
}

test.each([
  ["", 4],
  ["LINEAR", 2],
  ["linear 0", 1],
  ["aten mm", 1],
  ["conv", 0],
])("the words of %j are in %i options", (text, count) => {
  expect(matches(OPTIONS, text)).toHaveLength(count);
});

test("of values that are JSON only what they name is searched and told", () => {
  const options: Option[] = [
    ["rank 3", '["ranks",[3]]', ""],
    ["gemm…", '["kernel","gemm<float, 4>"]', ""],
  ];
  expect(matches(options, "[")).toEqual([]);
  expect(matches(options, "float 4")).toEqual([options[1]]);
  expect(matches([['["evil', '["evil', ""]], "evil")).toHaveLength(1);
  const { type, popover } = open(false, options);
  type("3");
  expect([...popover.querySelectorAll("li")].map(({ title }) => title)).toEqual(["3"]);
});

test("typing narrows the list down, Enter picks the first", () => {
  const { input, type, press, shown, pick } = open();
  expect(input.getAttribute("aria-expanded")).toBe("false");
  type("linear");
  expect(input.getAttribute("aria-expanded")).toBe("true");
  expect(shown()).toEqual(["aten::linear", "Linear back…"]);
  press("Enter");
  expect(pick).toHaveBeenCalledWith("aten::linear");
  expect(input.value).toBe("aten::linear");
  expect(input.getAttribute("aria-expanded")).toBe("false");
});

test("arrow keys open the list at the current value and wrap around", () => {
  const { input, press, active, pick } = open();
  press("ArrowDown");
  expect(active()?.textContent).toContain("aten::mm");
  expect(input.getAttribute("aria-activedescendant")).toBe(active()?.id);
  press("ArrowUp", "ArrowUp");
  expect(active()?.textContent).toContain(EVIL);
  press("PageUp", "Enter");
  expect(pick).toHaveBeenCalledWith("aten::linear");
});

test("Escape and a lost focus close it and bring the value back", () => {
  const { input, type, press, pick } = open();
  type("lin");
  press("Escape");
  expect(input.value).toBe("aten::mm");
  type("lin");
  input.dispatchEvent(new Event("blur"));
  expect(input.value).toBe("aten::mm");
  expect(input.getAttribute("aria-expanded")).toBe("false");
  expect(pick).not.toHaveBeenCalled();
});

test("a click picks", () => {
  const { input, popover, pick } = open();
  input.click();
  (popover.querySelectorAll(".hta-detail")[2] as HTMLElement).click();
  expect(pick).toHaveBeenCalledWith("LinearBackward0");
  expect(input.value).toBe("Linear back…");
});

test("picking what is picked already asks for nothing", () => {
  const { press, pick } = open();
  press("ArrowDown", "Enter");
  expect(pick).not.toHaveBeenCalled();
});

test("the text as typed can be picked where any text will do", () => {
  const strict = open();
  strict.type("conv");
  expect(strict.shown()).toEqual([]);
  expect(strict.popover.textContent).toContain("No matches");
  strict.press("Enter");
  expect(strict.pick).not.toHaveBeenCalled();
  const free = open(true);
  free.type("conv");
  free.press("Enter");
  expect(free.pick).toHaveBeenCalledWith("conv");
  expect(free.input.value).toBe("conv");
});

test("of very many the first are shown, and how many more there are", () => {
  const many = Array.from({ length: 1500 }, (_, each): Option => [`op${each}`, `op${each}`, ""]);
  const { type, shown, popover } = open(false, many);
  type("op");
  expect(shown()).toHaveLength(100);
  expect(popover.textContent).toContain("1,400 more; type to search");
});

test("names from a trace are text", () => {
  const { type, popover, shown } = open();
  type("img");
  expect(shown()).toEqual([EVIL]);
  expect(popover.querySelector("img")).toBeNull();
});

test("a value that Python sets is shown, even one that is not an option", () => {
  const { input, box } = open();
  box.show("LinearBackward0");
  expect(input.value).toBe("Linear back…");
  box.show("my own");
  expect(input.value).toBe("my own");
});
