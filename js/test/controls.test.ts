import { expect, test, vi } from "vitest";
import { control } from "../src/controls";
import type { ControlSpec, SliderSpec } from "../src/types";
import { EMPTY_SELECTION, FakeModel, panelModel, settle } from "./fakes";

const KERNELS: SliderSpec = {
  kind: "slider",
  name: "num_kernels",
  label: "Kernels",
  min: 1,
  max: 100,
  step: 1,
  unit: "",
  open_ended: true,
  log: false,
};

function show(spec: ControlSpec, state: Record<string, unknown>) {
  const model = panelModel(state);
  const selection = new FakeModel(EMPTY_SELECTION);
  const send = vi.fn();
  const stop = new AbortController();
  const element = control(spec, {
    model: model.model,
    selection: Promise.resolve(selection.model),
    send,
    signal: stop.signal,
    prefix: "p",
  });
  document.body.replaceChildren(element);
  return { element, model, selection, send, stop };
}

function input(element: Element, kind: string): HTMLInputElement {
  return element.querySelector(`input[type=${kind}]`) as HTMLInputElement;
}

function change(target: HTMLInputElement, value: string, event = "change"): void {
  target.value = value;
  target.dispatchEvent(new Event(event, { bubbles: true }));
}

test("dragging a slider sends every step and shows it in the field", () => {
  const { element, send } = show(KERNELS, { num_kernels: 10 });
  change(input(element, "range"), "25", "input");
  expect(send).toHaveBeenLastCalledWith({ num_kernels: 25 });
  expect(input(element, "number").value).toBe("25");
});

test("slider and field follow the trait, whoever changes it", () => {
  const { element, model } = show(KERNELS, { num_kernels: 10 });
  model.set("num_kernels", 40);
  expect(input(element, "range").value).toBe("40");
  expect(input(element, "number").value).toBe("40");
  model.set("num_kernels", 500);
  expect(input(element, "range").value).toBe("100");
  expect(input(element, "number").value).toBe("500");
});

test("a typed number is sent if it is right, and explained if it is not", () => {
  const { element, send } = show(KERNELS, { num_kernels: 10 });
  const field = input(element, "number");
  change(field, "0");
  expect(send).not.toHaveBeenCalled();
  expect(field.getAttribute("aria-invalid")).toBe("true");
  expect(element.querySelector("[role=alert]")?.textContent).toBe("at least 1");
  change(field, "250");
  expect(send).toHaveBeenCalledWith({ num_kernels: 250 });
  expect(field.getAttribute("aria-invalid")).toBe("false");
});

test("the field of a slider with an end shows its unit and refuses numbers past the end", () => {
  const spec: ControlSpec = { ...KERNELS, name: "gap", min: 0, max: 5, step: 0.5, unit: "µs", open_ended: false };
  const { element, send } = show(spec, { gap: 1 });
  expect(element.textContent).toContain("µs");
  change(input(element, "number"), "6");
  expect(send).not.toHaveBeenCalled();
  change(input(element, "number"), "2.5");
  expect(send).toHaveBeenCalledWith({ gap: 2.5 });
});

test("a choice of few is a row of radio buttons; the value keeps its type", () => {
  const options: [string, string | number][] = [
    ["One", 1],
    ["Two", 2],
  ];
  const { element, model, send } = show({ kind: "choice", name: "level", label: "Level", options }, { level: 1 });
  const [one, two] = element.querySelectorAll<HTMLInputElement>("input[type=radio]");
  expect(one?.checked).toBe(true);
  two?.dispatchEvent(new Event("change"));
  expect(send).toHaveBeenCalledWith({ level: 2 });
  model.set("level", 2);
  expect(two?.checked).toBe(true);
});

test("a choice of many is a menu", () => {
  const options = ["a", "b", "c", "d", "e"].map((name): [string, string] => [name.toUpperCase(), name]);
  const { element, model, send } = show({ kind: "choice", name: "view", label: "View", options }, { view: "b" });
  const select = element.querySelector("select") as HTMLSelectElement;
  expect(select.value).toBe("b");
  select.value = "d";
  select.dispatchEvent(new Event("change"));
  expect(send).toHaveBeenCalledWith({ view: "d" });
  model.set("view", "e");
  expect(select.value).toBe("e");
});

test("a toggle sends what it shows", () => {
  const { element, send } = show({ kind: "toggle", name: "memory", label: "Memory kernels" }, { memory: true });
  const box = input(element, "checkbox");
  expect(box.checked).toBe(true);
  box.checked = false;
  box.dispatchEvent(new Event("change"));
  expect(send).toHaveBeenCalledWith({ memory: false });
});

test("picked ranks go to the selection", async () => {
  const spec: ControlSpec = { kind: "picker", name: "ranks", label: "Ranks", noun: "rank", options: [0, 1, 2, 3] };
  const { element, selection, send } = show(spec, {});
  await settle();
  const open = element.querySelector("button") as HTMLButtonElement;
  const ticks = [...element.querySelectorAll<HTMLInputElement>("input[type=checkbox]")];
  expect(open.textContent).toBe("all 4 ranks");
  expect(ticks.every(({ checked }) => checked)).toBe(true);
  ticks[1]?.click();
  expect(send).toHaveBeenCalledWith({ ranks: [0, 2, 3] }, selection.model);
  selection.set("ranks", [2]);
  expect(open.textContent).toBe("rank 2");
  expect(ticks.map(({ checked }) => checked)).toEqual([false, false, true, false]);
});

test("picked streams go to the field of that name", async () => {
  const spec: ControlSpec = { kind: "picker", name: "streams", label: "Streams", noun: "stream", options: [7, 20, 24] };
  const { element, selection, send } = show(spec, {});
  await settle();
  element.querySelectorAll<HTMLInputElement>("input[type=checkbox]")[1]?.click();
  expect(send).toHaveBeenCalledWith({ streams: [7, 24] }, selection.model);
  selection.set("streams", [20]);
  expect(element.querySelector("button")?.textContent).toBe("stream 20");
});

test("a searched value is sent and followed", () => {
  const options: [string, string, string][] = [
    ["mm", "aten::mm", "1 ms"],
    ["add", "aten::add", "2 ms"],
  ];
  const spec: ControlSpec = { kind: "search", name: "operator", label: "Operator", options, free_text: false };
  const { element, model, send } = show(spec, { operator: "aten::mm" });
  const field = input(element, "text");
  expect(field.value).toBe("mm");
  HTMLElement.prototype.showPopover = HTMLElement.prototype.hidePopover = () => {};
  field.click();
  (element.querySelectorAll(".hta-options li")[1] as HTMLElement).click();
  expect(send).toHaveBeenCalledWith({ operator: "aten::add" });
  model.set("operator", "aten::other");
  expect(field.value).toBe("aten::other");
});

test("a button asks once, and again after the answer", () => {
  const spec: ControlSpec = { kind: "button", name: "write_overlay", label: "Write overlay", takes_folder: false };
  const { element, model, send } = show(spec, {});
  const button = element.querySelector("button") as HTMLButtonElement;
  const asked = { name: "write_overlay", number: 1 };
  button.click();
  expect(send).toHaveBeenCalledWith({ _action: asked }, model.model, 600_000);
  model.set("_action", asked);
  expect(button.getAttribute("aria-busy")).toBe("true");
  button.click();
  expect(send).toHaveBeenCalledTimes(1);
  model.set("_answer", { number: 1, text: "Wrote a.json to /tmp", failed: false });
  expect(button.getAttribute("aria-busy")).toBe("false");
  button.click();
  expect(send).toHaveBeenLastCalledWith({ _action: { name: "write_overlay", number: 2 } }, model.model, 600_000);
});

test("a folder that is typed goes with the request", () => {
  const spec: ControlSpec = { kind: "button", name: "write", label: "Export", takes_folder: true };
  const { element, model, send } = show(spec, {});
  const popover = element.querySelector<HTMLElement>("[popover]") as HTMLElement;
  popover.hidePopover = vi.fn();
  const [input, write] = [popover.querySelector("input"), popover.querySelector("button")];
  if (!input || !write) throw new Error("the field or the button is missing");
  input.value = " ~/copies ";
  write.click();
  const asked = { name: "write", number: 1, folder: "~/copies" };
  expect(send).toHaveBeenCalledWith({ _action: asked }, model.model, 600_000);
  input.value = "";
  input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
  expect(send).toHaveBeenLastCalledWith({ _action: { name: "write", number: 1 } }, model.model, 600_000);
  expect(popover.hidePopover).toHaveBeenCalledTimes(2);
});

test("a control without a choice is hidden", () => {
  const ranks = (options: number[]): ControlSpec => ({
    kind: "picker",
    name: "ranks",
    label: "Ranks",
    noun: "rank",
    options,
  });
  const search = (free_text: boolean): ControlSpec => ({
    kind: "search",
    name: "op",
    label: "Operator",
    options: [],
    free_text,
  });
  const hidden = (spec: ControlSpec) => show(spec, { op: "" }).element.hidden;
  expect([ranks([3]), ranks([0, 1]), search(false), search(true)].map(hidden)).toEqual([true, false, true, false]);
});

test("every element that takes the focus keeps JupyterLab's keys away", () => {
  const specs: ControlSpec[] = [
    KERNELS,
    { kind: "toggle", name: "memory", label: "Memory" },
    {
      kind: "choice",
      name: "view",
      label: "View",
      options: [
        ["A", "a"],
        ["B", "b"],
      ],
    },
    { kind: "search", name: "view", label: "View", options: [["A", "a", ""]], free_text: true },
    { kind: "button", name: "write", label: "Write", takes_folder: true },
    {
      kind: "picker",
      name: "ranks",
      label: "Ranks",
      noun: "rank",
      options: Array.from({ length: 20 }, (_, rank) => rank),
    },
  ];
  for (const spec of specs) {
    const { element } = show(spec, { num_kernels: 1, memory: true, view: "a" });
    const focusable = [...element.querySelectorAll<HTMLElement>("input, select, button, [tabindex]")];
    expect(focusable.length).toBeGreaterThan(0);
    expect(focusable.filter(({ dataset }) => dataset.lmSuppressShortcuts !== "true")).toEqual([]);
  }
});

test("controls stop listening when the view is gone", () => {
  const { model, stop } = show(KERNELS, { num_kernels: 10 });
  stop.abort();
  expect(model.listeners()).toBe(0);
});
