import { expect, test, vi } from "vitest";
import { integerPicker } from "../src/picker";

function open(count: number) {
  const all = Array.from({ length: count }, (_, rank) => rank);
  const picker = integerPicker(all, "rank", "p-ranks", new AbortController().signal);
  picker.onPick = vi.fn();
  picker.show([]);
  document.body.replaceChildren(picker.button, picker.popover);
  const button = (text: string) =>
    [...picker.popover.querySelectorAll("button")].find(({ textContent }) => textContent === text) as HTMLButtonElement;
  const ticks = [...picker.popover.querySelectorAll<HTMLInputElement>("input[type=checkbox]")];
  const search = picker.popover.querySelector("input[type=search]") as HTMLInputElement | null;
  return { picker, ticks, button, search };
}

test("None empties the ticks, but picks nothing until one is ticked", () => {
  const { picker, ticks, button } = open(8);
  button("None").click();
  expect(ticks.some(({ checked }) => checked)).toBe(false);
  expect(picker.popover.textContent).toContain("select at least one rank");
  expect(picker.onPick).not.toHaveBeenCalled();
  ticks[5]?.click();
  expect(picker.onPick).toHaveBeenCalledWith([5]);
});

test("All picks the empty list, which means every rank", () => {
  const { picker, button } = open(8);
  picker.show([2]);
  button("All").click();
  expect(picker.onPick).toHaveBeenCalledWith([]);
});

test("many ranks can be searched, and Enter picks what is found", () => {
  const { picker, ticks, search } = open(64);
  if (!search) throw new Error("no search field");
  search.value = "3, 60-";
  search.dispatchEvent(new Event("input"));
  const shown = ticks.filter(({ parentElement }) => !parentElement?.hidden).map(({ value }) => value);
  expect(shown).toEqual(["3", "60", "61", "62", "63"]);
  search.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
  expect(picker.onPick).toHaveBeenCalledWith([3, 60, 61, 62, 63]);
});

test("few ranks need no search", () => {
  expect(open(8).search).toBeNull();
});

test("arrow keys move between the ticks", () => {
  const { ticks } = open(3);
  ticks[0]?.focus();
  ticks[0]?.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowUp", bubbles: true }));
  expect(document.activeElement).toBe(ticks[2]);
  ticks[2]?.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true }));
  expect(document.activeElement).toBe(ticks[0]);
});
