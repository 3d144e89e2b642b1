import { expect, test } from "vitest";
import { describeField } from "../src/dashboard/fields";
import { focusablePoints, pickAt, selected } from "../src/picks";
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
  expect(selected(selection.model, { field, item }, false)).toEqual({ [field]: after });
});

const SQUARE = "[[8, 8], [8, 8]]";
const LONG = "[[8, 64], [64, 8]]";

test.each([
  ["another", [], [], false, { operators: ["aten::mm"], shapes: [SQUARE] }],
  ["the same", ["aten::mm"], [SQUARE], false, { operators: [], shapes: [] }],
  ["one of several", ["aten::mm"], [LONG, SQUARE], false, { operators: ["aten::mm"], shapes: [SQUARE] }],
  ["one more", ["aten::mm"], [LONG], true, { operators: ["aten::mm"], shapes: [LONG, SQUARE] }],
  ["one less", ["aten::mm"], [LONG, SQUARE], true, { operators: ["aten::mm"], shapes: [LONG] }],
  ["a shape of all shapes", ["aten::mm"], [], true, { operators: ["aten::mm"], shapes: [SQUARE] }],
])("a click on an operator of a shape: %s", (_, operators, shapes, add, after) => {
  const selection = new FakeModel({ ...EMPTY_SELECTION, operators, shapes });
  const figure = {
    name: "",
    layout: {},
    data: [{ meta: { select: "operators", also: "shapes" }, customdata: [["aten::mm", SQUARE]] }],
  };
  const pick = pickAt(figure, { curveNumber: 0, pointNumber: 0 });
  expect(pick && selected(selection.model, pick, add)).toEqual(after);
});

test("an operator of all shapes takes the shapes back", () => {
  const selection = new FakeModel({ ...EMPTY_SELECTION, operators: ["aten::mm"], shapes: [LONG] });
  const pick = { field: "operators", item: "aten::add" };
  expect(selected(selection.model, pick, false)).toEqual({ operators: ["aten::add"], shapes: [] });
});

test("each shape of an operator has a point of its own", () => {
  const customdata = [
    ["aten::mm", SQUARE],
    ["aten::mm", LONG],
    ["aten::mm", ""],
  ];
  const trace = { meta: { select: "operators", also: "shapes" }, customdata };
  expect(focusablePoints({ name: "", layout: {}, data: [trace, trace] })).toHaveLength(3);
});

test.each([
  [[SQUARE], "8×8, 8×8"],
  [["[[2, 3], [], [[4]]]"], "2×3, 4"],
  [["[]"], "[]"],
  [[SQUARE, LONG], "2 shapes"],
])("the shapes %j are said as %s", (shapes, said) => {
  expect(describeField("shapes", shapes)).toBe(said);
});

test("a click may set a parameter of the panel, in place of the selection", () => {
  const path = ["compute", "compute"];
  const figure = { name: "", layout: {}, data: [{ meta: { sets: "opened" }, customdata: [[path]] }] };
  expect(pickAt(figure, { curveNumber: 0, pointNumber: 0 })).toEqual({ field: "opened", item: path, isOwn: true });
});
