// The script of a saved report: it shows the first widget without a kernel, or leaves the static summary if it cannot.
import type { RenderProps } from "@anywidget/types";
import { statesIn } from "./decode";
import { SavedModels } from "./model";

const page = document.documentElement;

function element(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the report has no ${id}`);
  return found;
}

interface Module {
  render: (props: RenderProps) => void | Promise<void>;
}

async function imported(source: string): Promise<Module> {
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  try {
    return (await import(url)).default;
  } finally {
    URL.revokeObjectURL(url);
  }
}

async function show(): Promise<void> {
  const models = new SavedModels(await statesIn(element("models").textContent ?? ""));
  const model = await models.find("0");
  const { render } = await imported(String(model.get("_esm")));
  const host = { getModel: (reference: string) => models.find(reference) };
  const { signal } = new AbortController(); // the widget stays as long as the page
  await render({ model, el: element("widget"), host, signal } as unknown as RenderProps);
}

// Set before the body is parsed, so that the summary does not flash up.
page.classList.add("live");
document.addEventListener("DOMContentLoaded", () => {
  show().catch((error) => {
    page.classList.remove("live");
    console.error(error);
  });
});
