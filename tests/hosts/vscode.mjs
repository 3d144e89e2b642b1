// Runs cells on a kernel and shows their widgets as VS Code's Jupyter extension does, with its renderer library.
import { KernelManager, ServerConnection } from "@jupyterlab/services";
import { activate } from "./ipywidgets.js";

const WIDGET = "application/vnd.jupyter.widget-view+json";
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

async function startKernel(baseUrl, token) {
  const wsUrl = baseUrl.replace(/^http/, "ws");
  const serverSettings = ServerConnection.makeSettings({ baseUrl, wsUrl, token, appendToken: true });
  const kernel = await new KernelManager({ serverSettings }).startNew({ name: "python3" });
  await kernel.info;
  return kernel;
}

async function show(manager, view, output) {
  const model = await manager.get_model(view.model_id);
  const node = document.createElement("div");
  output.append(node);
  await manager.display_view(view, await manager.create_view(model, { el: node }), { node });
}

async function runCell(kernel, manager, code) {
  const output = document.body.appendChild(document.createElement("div"));
  output.className = "output";
  const execution = kernel.requestExecute({ code });
  execution.onIOPub = ({ content }) => {
    // Not awaited: the messages that it waits for come after this one.
    if (content.data?.[WIDGET]) void show(manager, content.data[WIDGET], output);
    if (content.traceback) output.textContent = `${content.ename}: ${content.evalue}`;
  };
  await execution.done;
}

export async function run(baseUrl, token, cells) {
  activate();
  window.vscIPyWidgets8.load();
  const kernel = await startKernel(baseUrl, token);
  const manager = new window.vscIPyWidgets.WidgetManager(kernel, document.body, scripts, () => {});
  for (const code of cells) await runCell(kernel, manager, code);
}

globalThis.run = run;
