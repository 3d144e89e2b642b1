import { expect, test, vi } from "vitest";
import { adoptStyles } from "../src/styles";

test("the document has the styles, those of a rebuilt module instead of the ones before", async () => {
  expect(document.adoptedStyleSheets).toHaveLength(1);
  const [sheet] = document.adoptedStyleSheets;
  const replace = vi.spyOn(CSSStyleSheet.prototype, "replaceSync");
  vi.resetModules();
  await import("../src/styles");
  expect(document.adoptedStyleSheets).toEqual([sheet]);
  expect(replace).toHaveBeenCalledOnce();
});

test("a shadow root gets them once, beside its own", () => {
  const host = document.body.appendChild(document.createElement("div"));
  const root = host.attachShadow({ mode: "open" });
  const own = new CSSStyleSheet();
  root.adoptedStyleSheets = [own];
  const element = root.appendChild(document.createElement("div"));
  adoptStyles(element);
  adoptStyles(element);
  expect(root.adoptedStyleSheets).toEqual([own, ...document.adoptedStyleSheets]);
});

test("an element outside the page gets none", () => {
  expect(() => adoptStyles(document.createElement("div"))).not.toThrow();
});
