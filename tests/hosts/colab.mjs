// Runs cells on a kernel as Colab does: this page holds the kernel, its comms and the states of the models; each output
// is a frame of another origin, with a widget manager of its own that asks this page for states.
import { runCell, startKernel } from "./kernel.mjs";

const models = new Map(); // by id: the comm of a model, its state, and the frames that have it

function put(state, paths = [], buffers = []) {
  paths.forEach((path, place) => {
    const owner = path.slice(0, -1).reduce((inner, key) => inner[key], state);
    owner[path.at(-1)] = copied(buffers[place]);
  });
  return state;
}

function copied(buffer) {
  const view = ArrayBuffer.isView(buffer) ? buffer : new Uint8Array(buffer);
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength).slice().buffer;
}

function register(comm, { content, buffers }) {
  const { state, buffer_paths } = content.data;
  const model = { comm, state: put(structuredClone(state), buffer_paths, buffers), frames: new Set() };
  models.set(comm.commId, model);
  comm.onMsg = (message) => {
    const { data } = message.content;
    const parts = message.buffers ?? [];
    if (data.method === "update") Object.assign(model.state, put(structuredClone(data.state), data.buffer_paths, parts));
    const told = { type: "comm", id: comm.commId, data, buffers: parts.map(copied) };
    for (const frame of model.frames) frame.postMessage(told, "*");
  };
}

addEventListener("message", ({ data, source }) => {
  const model = models.get(data.id);
  if (data.type === "send") model.comm.send(data.data, undefined, data.buffers);
  if (data.type !== "state") return;
  model?.frames.add(source);
  source.postMessage({ type: "state", call: data.call, state: model?.state }, "*");
});

// Without the metadata, Colab takes a manager that knows the widgets of ipywidgets only.
function show(view, output, metadata) {
  if (!metadata?.colab?.custom_widget_manager) output.textContent = "Widget is not supported";
  else output.append(Object.assign(document.createElement("iframe"), { src: `https://frame.test/#${view.model_id}` }));
}

globalThis.run = async (baseUrl, token, kernelName, cells) => {
  const kernel = await startKernel(baseUrl, token, kernelName);
  kernel.registerCommTarget("jupyter.widget", register);
  for (const code of cells) await runCell(kernel, code, show);
};
