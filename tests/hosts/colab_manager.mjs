// A widget manager with what Colab's does: it lives in the frame of one output, asks the page around it for the states
// of models, takes front ends from a CDN as AMD modules, drops echoes, and calls a message answered once it is sent.
import * as base from "@jupyter-widgets/base";
import { ManagerBase } from "@jupyter-widgets/base-manager";

const CDN = "https://cdn.test/";

/** Run an AMD module that needs nothing but the base classes of widgets. */
function loadAmd(name) {
  return new Promise((resolve, reject) => {
    const script = Object.assign(document.createElement("script"), { src: CDN + name, onerror: reject });
    globalThis.define = (needs, factory) => resolve(factory(...needs.map(() => base)));
    document.head.append(script);
  });
}

const bytes = (view) => (ArrayBuffer.isView(view) ? new Uint8Array(view.buffer, view.byteOffset, view.byteLength) : view);

class Comm {
  #channel;

  constructor(id, channel) {
    this.comm_id = id;
    this.target_name = "";
    this.#channel = channel;
  }

  send(data, callbacks, _metadata, buffers) {
    const sent = this.#channel.send(JSON.parse(JSON.stringify(data)), { buffers: buffers?.map(bytes) });
    sent.then(() => callbacks?.iopub?.status?.({ content: { execution_state: "idle" } }));
    return "";
  }

  async on_msg(callback) {
    for await (const { data, buffers = [] } of this.#channel.messages) {
      const content = { comm_id: this.comm_id, data };
      if (data.method !== "echo_update") callback({ content, buffers: buffers.map((each) => new Uint8Array(each)) });
    }
  }

  on_close() {}

  close() {}
}

class Manager extends ManagerBase {
  #environment;
  #models = new Map();
  #modules = new Map();

  constructor(environment) {
    super();
    this.#environment = environment;
  }

  async loadClass(name, module) {
    if (module === "@jupyter-widgets/base") return base[name];
    if (!this.#modules.has(module)) this.#modules.set(module, loadAmd(module));
    return (await this.#modules.get(module))[name];
  }

  get_model(id) {
    if (!this.#models.has(id)) this.#models.set(id, this.#fetch(id));
    return this.#models.get(id);
  }

  async #fetch(id) {
    const { modelName, modelModule, modelModuleVersion, state, comm } = await this.#environment.getModelState(id);
    const names = { model_name: modelName, model_module: modelModule, model_module_version: modelModuleVersion };
    return this.new_model({ ...names, model_id: id, comm: new Comm(id, comm) }, state);
  }

  async render(id, container) {
    const view = await this.create_view(await this.get_model(id));
    container.append(view.el);
    view.trigger("displayed");
  }

  _get_comm_info() {
    throw new Error("Colab's manager has no list of comms");
  }

  _create_comm() {
    throw new Error("no widget of these tests opens a comm");
  }
}

export const createWidgetManager = (environment) => new Manager(environment);
