import { expect, test, vi } from "vitest";
import { importOnce } from "../src/assets";
import { FakeModel } from "./fakes";

const assets = (sum: string) => new FakeModel({ sums: { plotly: sum }, files: { plotly: new Uint8Array([7]) } }).model;

test("panels share a module, even those of two kernels", async () => {
  const importer = vi.fn(async () => "module");
  expect(await importOnce(assets("a"), "plotly", importer)).toBe("module");
  expect(await importOnce(assets("a"), "plotly", importer)).toBe("module");
  expect(importer).toHaveBeenCalledOnce();
  expect(importer).toHaveBeenCalledWith(new Uint8Array([7]));
});

test("another version is another module", async () => {
  await importOnce(assets("b"), "plotly", async () => "old");
  expect(await importOnce(assets("c"), "plotly", async () => "new")).toBe("new");
});

test("a failure is not kept", async () => {
  const failing = importOnce(assets("d"), "plotly", () => Promise.reject(new Error("blocked")));
  await expect(failing).rejects.toThrow("blocked");
  expect(await importOnce(assets("d"), "plotly", async () => "module")).toBe("module");
});
