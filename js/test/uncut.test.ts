import { expect, test } from "vitest";
import { uncut } from "../src/dashboard/uncut";
import { make } from "../src/dom";

test("a dashboard in marimo's editor has all of its height, and other hosts keep theirs", () => {
  const area = make("div", { className: "output-area" }, make("marimo-anywidget" as "div"));
  area.style.maxHeight = "610px";
  const root = make("section");
  area.firstElementChild?.attachShadow({ mode: "open" }).append(root);
  uncut(root);
  expect(area.style.maxHeight).toBe("610px");
  make("div", { className: "marimo-cell" }, area);
  uncut(root);
  expect(area.style.maxHeight).toBe("none");
  uncut(make("section"));
});
