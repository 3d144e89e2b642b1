// The large modules, loaded once per page: gunzipped from the bytes in the kernel's assets model.
import type { Model } from "./models";
import type { AssetName, AssetsState, Gzipped } from "./types";

const CACHE = Symbol.for("hta_widgets.modules");
const REPORT_MS = 200;

export const NO_BLOBS =
  "the page's Content Security Policy refuses scripts from blob: addresses, which every anywidget needs; " +
  "ask whoever runs this server to allow blob: in script-src";

type Cache = Map<string, Promise<unknown>>;

function cache(): Cache {
  const page = globalThis as { [CACHE]?: Cache };
  page[CACHE] ??= new Map();
  return page[CACHE];
}

/** Whether the page refuses a script from a `blob:` address; browsers report this separately from the failure. */
function refusal(signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    const report = ({ blockedURI }: SecurityPolicyViolationEvent) => blockedURI.startsWith("blob") && resolve(true);
    document.addEventListener("securitypolicyviolation", report, { signal });
  });
}

async function importFrom(url: string): Promise<{ default: unknown }> {
  const listening = new AbortController();
  const refused = refusal(listening.signal);
  try {
    return await import(url);
  } catch (error) {
    const late = new Promise<boolean>((resolve) => setTimeout(() => resolve(false), REPORT_MS));
    throw (await Promise.race([refused, late])) ? new Error(NO_BLOBS) : error;
  } finally {
    listening.abort();
  }
}

async function load(gzipped: Gzipped): Promise<unknown> {
  const stream = new Blob([gzipped]).stream().pipeThrough(new DecompressionStream("gzip"));
  const source = await new Response(stream).blob();
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  try {
    return (await importFrom(url)).default;
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
