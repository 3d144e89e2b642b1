import { expect, test } from "vitest";
import { selected } from "../src/picks";
import { EMPTY_SELECTION, FakeModel } from "./fakes";

test.each([
  ["steps", 13, [11], [13]],
  ["steps", 13, [13], []],
  ["kernel", "gemm", "", "gemm"],
  ["kernel", "gemm", "gemm", ""],
  ["finding", 0, null, 0],
  ["finding", 0, 0, null],
])("a click on %s %s where %j is selected selects %j", (field, item, before, after) => {
  const selection = new FakeModel({ ...EMPTY_SELECTION, [field]: before });
  expect(selected(selection.model, { field, item }, false)).toEqual(after);
});
