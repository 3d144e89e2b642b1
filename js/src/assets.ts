// The large modules, once per page: gunzipped from the bytes that the kernel's assets model holds.
import type { Model } from "./models";
import type { AssetName, AssetsState, Gzipped } from "./types";

const CACHE = Symbol.for("hta_widgets.modules");

type Cache = Map<string, Promise<unknown>>;

function cache(): Cache {
  const page = globalThis as { [CACHE]?: Cache };
  page[CACHE] ??= new Map();
  return page[CACHE];
}

async function load(gzipped: Gzipped): Promise<unknown> {
  const stream = new Blob([gzipped]).stream().pipeThrough(new DecompressionStream("gzip"));
  const source = await new Response(stream).blob();
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  try {
    const module = await import(url);
    return module.default;
  } finally {
    URL.revokeObjectURL(url);
  }
}

/** Import a module that an assets model holds; all panels of the page share it. */
export function importOnce<T>(
  assets: Model<AssetsState>,
  name: AssetName,
  importer: (gzipped: Gzipped) => Promise<unknown> = load,
): Promise<T> {
  const known = cache();
  const sum = assets.get("sums")[name];
  const loading = known.get(sum) ?? importer(assets.get("files")[name]);
  known.set(sum, loading);
  loading.catch(() => known.delete(sum));
  return loading as Promise<T>;
}
