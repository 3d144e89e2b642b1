import { expect, test, vi } from "vitest";
import { importOnce, NO_BLOBS } from "../src/assets";
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

// Node imports no blobs, as a page whose policy refuses them.
async function unimportable(sum: string) {
  const stream = new Blob(["export default 1"]).stream().pipeThrough(new CompressionStream("gzip"));
  const gzipped = new Uint8Array(await new Response(stream).arrayBuffer());
  return new FakeModel({ sums: { panel: sum }, files: { panel: gzipped } }).model;
}

test("a policy that refuses blobs is named", async () => {
  const failing = importOnce(await unimportable("e"), "panel");
  const report = setInterval(() => {
    document.dispatchEvent(Object.assign(new Event("securitypolicyviolation"), { blockedURI: "blob" }));
  }, 5);
  await expect(failing).rejects.toThrow(NO_BLOBS);
  clearInterval(report);
});

test("other failures keep their words", async () => {
  await expect(importOnce(await unimportable("f"), "panel")).rejects.not.toThrow(NO_BLOBS);
});
