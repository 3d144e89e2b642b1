import { expect, test } from "vitest";
import { afterKey, asked } from "../src/zoom";

test.each([
  [{ "xaxis.range[0]": 10, "xaxis.range[1]": 20 }, [10, 20]],
  [{ "xaxis.range": [10.123456789, 20.123456789] }, [10.123, 20.123]],
  [{ "xaxis.range[0]": 1234.5678901, "xaxis.range[1]": 1234.5678999 }, [1234.5678901, 1234.5678999]],
  [{ "xaxis.autorange": true }, []],
  [{ autosize: true }, null],
  [{ "yaxis.range[0]": 1, "yaxis.range[1]": 2 }, null],
  [{ "xaxis.range[0]": 20, "xaxis.range[1]": 20 }, null],
])("plotly's %j zooms to %j", (event, expected) => {
  expect(asked(event)).toEqual(expected);
});

test.each([
  ["+", [125, 175]],
  ["-", [50, 250]],
  ["ArrowLeft", [75, 175]],
  ["ArrowRight", [125, 225]],
  ["0", []],
  ["b", null],
])("the key %j on [100, 200]", (key, expected) => {
  expect(afterKey(key, [100, 200])).toEqual(expected);
});
