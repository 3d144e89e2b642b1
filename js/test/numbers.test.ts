import { expect, test } from "vitest";
import { parse, position, track, valueAt } from "../src/numbers";
import type { SliderSpec } from "../src/types";

const RATIO = { min: 0, max: 1, step: 0.01, unit: "" };
const COUNT = { min: 1, max: null, step: 1, unit: "" };

const slider = (rest: Partial<SliderSpec>): SliderSpec => ({
  kind: "slider",
  name: "n",
  label: "N",
  min: 1,
  max: 1000,
  step: 1,
  unit: "",
  open_ended: false,
  log: false,
  ...rest,
});

test.each([
  ["0.85", RATIO, 0.85],
  ["0.855", RATIO, 0.855],
  ["1.2", RATIO, "at most 1"],
  ["-1", RATIO, "at least 0"],
  ["", RATIO, "enter a number"],
  ["ten", COUNT, "enter a number"],
  ["2.5", COUNT, "enter a whole number"],
  ["500", COUNT, 500],
])("typing %j", (text, bounds, expected) => {
  expect(parse(text, bounds)).toBe(expected);
});

test("a linear slider moves in its own units", () => {
  const spec = slider({});
  expect(track(spec)).toEqual({ min: "1", max: "1000", step: "1" });
  expect(position(10, spec)).toBe(10);
  expect(position(5000, spec)).toBe(1000);
  expect(valueAt(10, spec)).toBe(10);
});

test("a logarithmic slider gives equal ways to equal ratios", () => {
  const spec = slider({ log: true });
  expect(position(1, spec)).toBe(0);
  expect(position(10, spec)).toBeCloseTo(1000 / 3);
  expect(valueAt(1000, spec)).toBe(1000);
  expect(valueAt(position(37, spec), spec)).toBe(37);
});
