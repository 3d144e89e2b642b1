import { expect, test } from "vitest";
import { afterClick, describe, filter } from "../src/integers";

const EIGHT = [0, 1, 2, 3, 4, 5, 6, 7];

test.each([
  [[], EIGHT, "all 8 ranks"],
  [EIGHT, EIGHT, "all 8 ranks"],
  [[], [0, 1], "both ranks"],
  [[], [5], "rank 5"],
  [[3], EIGHT, "rank 3"],
  [[0, 3], EIGHT, "ranks 0, 3"],
  [[0, 1, 2, 3], EIGHT, "4 of 8 ranks"],
])("ranks %j of %j", (chosen, all, expected) => {
  expect(describe(chosen, all, "rank")).toBe(expected);
});

test.each([
  ["", EIGHT],
  ["3", [3]],
  ["1, 5-6", [1, 5, 6]],
  ["6-", [6, 7]],
  ["x", []],
])("the filter %j", (text, expected) => {
  expect(filter(text, EIGHT)).toEqual(expected);
});

test.each([
  [[], 3, false, [3]],
  [[3], 3, false, []],
  [[1, 3], 3, false, [3]],
  [[1], 3, true, [1, 3]],
  [[1, 3], 3, true, [1]],
])("with %j selected, a click on %i (adding: %j)", (chosen, item, add, expected) => {
  expect(afterClick(chosen, item, add)).toEqual(expected);
});

test("the noun is what they number", () => {
  expect(describe([7, 20], [7, 20, 24], "stream")).toBe("streams 7, 20");
});
