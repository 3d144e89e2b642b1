import { afterEach, expect, test } from "vitest";
import { isDark, luminance } from "../src/theme";

afterEach(() => {
  document.body.className = "";
  delete document.body.dataset.jpThemeLight;
  document.body.style.backgroundColor = "";
});

test.each([
  ["rgb(0, 0, 0)", 0],
  ["rgb(255, 0, 0)", 0.2126],
  ["rgba(0, 0, 0, 0)", undefined],
  ["transparent", undefined],
])("luminance of %s", (colour, expected) => {
  expect(luminance(colour)).toBe(expected);
});

test("JupyterLab says which theme it has", () => {
  document.body.dataset.jpThemeLight = "false";
  expect(isDark(document.body)).toBe(true);
  document.body.dataset.jpThemeLight = "true";
  expect(isDark(document.body)).toBe(false);
});

test("so does VS Code", () => {
  document.body.className = "vscode-high-contrast";
  expect(isDark(document.body)).toBe(true);
  document.body.className = "vscode-light";
  expect(isDark(document.body)).toBe(false);
});

test("elsewhere the background tells", () => {
  document.body.style.backgroundColor = "rgb(20, 20, 20)";
  const element = document.body.appendChild(document.createElement("div"));
  expect(isDark(element)).toBe(true);
});
