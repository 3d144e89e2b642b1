// Runs cells on a kernel and shows their widgets as VS Code's Jupyter extension does, with its renderer library.
import { activate } from "./ipywidgets.js";
import { runCell, startKernel } from "./kernel.mjs";

const known = new Set();

// The extension finds the front end of anywidget in the kernel's environment, and registers its path.
const scripts = {
  widgetsRegisteredInRequireJs: known,
  loadWidgetScript: async (name) => {
    requirejs.config({ paths: { [name]: new URL(name, document.baseURI).href } });
    known.add(name);
  },
  errorHandler: (...failure) => console.error(...failure),
  successHandler: () => {},
};

globalThis.run = async (baseUrl, token, kernelName, cells) => {
  activate();
  (window.vscIPyWidgets8 ?? window.vscIPyWidgets7).load();
  const kernel = await startKernel(baseUrl, token, kernelName);
  const manager = new window.vscIPyWidgets.WidgetManager(kernel, document.body, scripts, () => {});
  const show = async (view, output) => {
    const model = await manager.get_model(view.model_id);
    const node = output.appendChild(document.createElement("div"));
    await manager.display_view(view, await manager.create_view(model, { el: node }), { node });
  };
  for (const code of cells) await runCell(kernel, code, show);
};
