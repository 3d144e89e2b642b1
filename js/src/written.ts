// Files that a button wrote on the kernel's machine: buttons to download and open them.
import { make, pushButton } from "./dom";
import type { Model } from "./models";
import { inParts } from "./parts";
import { isSaved } from "./saved";
import { save } from "./share";

/** How the page asks Python; panels/base/written_files.py answers. */
const FILE = "written-file";
const PATIENCE = 20_000;

/** A button that downloads the files, and a link to Perfetto; nothing without a kernel. */
export function writtenFiles(model: Model, names: readonly string[] = []): Node[] {
  if (names.length === 0 || isSaved(model)) return [];
  const label = names.length === 1 ? "Download" : `Download ${names.length} files`;
  const button = pushButton(label);
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      for (const name of names) save(await inParts(model, { kind: FILE, name }, PATIENCE), name, button);
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
