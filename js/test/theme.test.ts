import { afterEach, expect, test, vi } from "vitest";
import { followTheme, isDark, luminance } from "../src/theme";

afterEach(() => {
  document.body.className = "";
  delete document.body.dataset.jpThemeLight;
  document.documentElement.removeAttribute("theme");
  document.body.style.backgroundColor = "";
});

test.each([
  ["rgb(0, 0, 0)", 0],
  ["rgb(255, 0, 0)", 0.2126],
  ["rgba(0, 0, 0, 0)", undefined],
  ["transparent", undefined],
  ["color(srgb 1 0 0)", 0.2126],
  ["color(srgb 0 1e-05 0 / 0.8)", 7.152e-6],
  ["color(srgb 1 1 1 / 0.4)", undefined],
  ["color(display-p3 1 1 1)", undefined],
])("luminance of %s", (colour, expected) => {
  const found = luminance(colour);
  if (expected === undefined) expect(found).toBeUndefined();
  else expect(found).toBeCloseTo(expected, 9);
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

test("so does Colab, and it is followed", async () => {
  const changed = vi.fn();
  const stop = new AbortController();
  followTheme(changed, stop.signal);
  document.documentElement.setAttribute("theme", "dark");
  expect(isDark(document.body)).toBe(true);
  await vi.waitFor(() => expect(changed).toHaveBeenCalled());
  stop.abort();
});

test("a new style sheet is followed, and no new icon", async () => {
  const changed = vi.fn();
  const stop = new AbortController();
  followTheme(changed, stop.signal);
  const add = async (name: string, attributes: object) => {
    document.head.append(Object.assign(document.createElement(name), attributes));
    await new Promise((done) => setTimeout(done, 20));
  };
  await add("link", { rel: "icon" });
  expect(changed).not.toHaveBeenCalled();
  await add("style", {});
  expect(changed).toHaveBeenCalledOnce();
  stop.abort();
});

test("elsewhere the background tells", () => {
  document.body.style.backgroundColor = "rgb(20, 20, 20)";
  const element = document.body.appendChild(document.createElement("div"));
  expect(isDark(element)).toBe(true);
});

test("a background around a shadow root is seen from within", () => {
  document.body.style.backgroundColor = "rgb(20, 20, 20)";
  const root = document.body.appendChild(document.createElement("div")).attachShadow({ mode: "open" });
  expect(isDark(root.appendChild(document.createElement("div")))).toBe(true);
});
