// A kernel of a Jupyter server, and cells that run on it.
import { KernelManager, ServerConnection } from "@jupyterlab/services";

const WIDGET = "application/vnd.jupyter.widget-view+json";

export async function startKernel(baseUrl, token, name) {
  const wsUrl = baseUrl.replace(/^http/, "ws");
  const serverSettings = ServerConnection.makeSettings({ baseUrl, wsUrl, token, appendToken: true });
  const kernel = await new KernelManager({ serverSettings }).startNew({ name });
  await kernel.info;
  return kernel;
}

/** Run a cell in an output of its own; `show` gets the widget that it displays, and its metadata. */
export async function runCell(kernel, code, show) {
  const output = document.body.appendChild(document.createElement("div"));
  output.className = "output";
  const execution = kernel.requestExecute({ code });
  execution.onIOPub = ({ content }) => {
    // Not awaited: the messages that it waits for come after this one.
    if (content.data?.[WIDGET]) void show(content.data[WIDGET], output, content.metadata[WIDGET]);
    if (content.traceback) output.textContent = `${content.ename}: ${content.evalue}`;
  };
  await execution.done;
}
