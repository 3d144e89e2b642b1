// Files that a button wrote where the kernel runs: how to get them, and what opens them.
import { make, pushButton } from "./dom";
import type { Model } from "./models";
import { isSaved } from "./saved";
import { save } from "./share";

/** What the page asks Python with; panels/base/written_files.py answers. */
const FILE = "written-file";
const PATIENCE = 20_000;

interface Part {
  kind: string;
  id: string;
  problem?: string;
  bytes?: number;
}

/** A button to download the files, and a link to Perfetto; nothing without a kernel. */
export function writtenFiles(model: Model, names: readonly string[] = []): Node[] {
  if (names.length === 0 || isSaved(model)) return [];
  const label = names.length === 1 ? "Download" : `Download ${names.length} files`;
  const button = pushButton(label);
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      for (const name of names) save(await fetched(model, name), name, button);
      button.textContent = label;
    } catch (problem) {
      button.textContent = `${label}: ${(problem as Error).message}`;
    }
    button.disabled = false;
  });
  const href = "https://ui.perfetto.dev";
  const link = make("a", { href, target: "_blank", rel: "noopener noreferrer" }, "ui.perfetto.dev");
  return [" ", button, " and open in ", link].map((each) =>
    typeof each === "string" ? document.createTextNode(each) : each,
  );
}

async function fetched(model: Model, name: string): Promise<Blob> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for (let offset = 0; ; ) {
    const { part, bytes } = await next(model, name, offset);
    parts.push(part);
    offset += part.byteLength;
    if (offset >= bytes || part.byteLength === 0) return new Blob(parts, { type: "application/gzip" });
  }
}

function next(model: Model, name: string, offset: number) {
  return new Promise<{ part: Uint8Array<ArrayBuffer>; bytes: number }>((resolve, reject) => {
    const id = Math.random().toString(36).slice(2);
    const received = ({ id: of, problem, bytes }: Part, [buffer]: readonly DataView[] = []) => {
      if (of !== id) return;
      done();
      if (problem !== undefined || !buffer || bytes === undefined) reject(new Error(problem ?? "no answer"));
      else resolve({ part: new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength).slice(), bytes });
    };
    const timer = setTimeout(() => {
      done();
      reject(new Error("there is no answer from Python"));
    }, PATIENCE);
    const done = () => {
      clearTimeout(timer);
      model.off("msg:custom", received);
    };
    model.on("msg:custom", received);
    model.send({ kind: FILE, id, name, offset });
  });
}
