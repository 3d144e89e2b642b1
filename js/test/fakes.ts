// Stand-ins for what a notebook gives a widget: models, and plotly.

import { vi } from "vitest";
import type { Bands } from "../src/dashboard/types";
import type { Model } from "../src/models";
import type { Plotly } from "../src/plotly";
import type { Cell, Column, PanelState, SelectionState, Table, View } from "../src/types";

// biome-ignore lint/suspicious/noExplicitAny: what a message brings
type Callback = (...given: any[]) => void;

export class FakeModel {
  state: Record<string, unknown>;
  saved: Record<string, unknown>[] = [];
  /** Messages that are no state. */
  sent: Record<string, unknown>[] = [];
  #changed: Record<string, unknown> = {};
  #callbacks = new Map<string, Set<Callback>>();

  constructor(state: Record<string, unknown>) {
    this.state = { ...state };
  }

  /** Python sends the view as text. */
  get(name: string): unknown {
    return name === "_view" ? JSON.stringify(this.state[name]) : this.state[name];
  }

  set(name: string, value: unknown): void {
    if (Object.is(this.state[name], value)) return;
    this.state[name] = value;
    this.#changed[name] = value;
    this.emit(`change:${name}`);
  }

  save_changes(): void {
    this.saved.push(this.#changed);
    this.#changed = {};
  }

  on(event: string, callback: Callback): void {
    this.#callbacks.set(event, (this.#callbacks.get(event) ?? new Set()).add(callback));
  }

  off(event: string, callback: Callback): void {
    this.#callbacks.get(event)?.delete(callback);
  }

  /** A custom message to Python. */
  send(content: Record<string, unknown>): void {
    this.sent.push(content);
  }

  emit(event: string, ...given: unknown[]): void {
    for (const callback of [...(this.#callbacks.get(event) ?? [])]) callback(...given);
  }

  listeners(): number {
    return [...this.#callbacks.values()].reduce((total, callbacks) => total + callbacks.size, 0);
  }

  /** What Python does: set a value. */
  receive(name: string, value: unknown): void {
    this.state[name] = value;
    this.emit(`change:${name}`);
  }

  /** What Python does: answer with a view. */
  answer(view: Partial<View>): void {
    this.state._view = { ...(this.state._view as View), ...view };
    this.emit("change:_view");
  }

  get model(): Model {
    return this as unknown as Model;
  }
}

export const EMPTY_VIEW: View = {
  rev: 0,
  time: "",
  finding: "",
  findings: [],
  findings_title: "",
  notices: [],
  empty: null,
  error: null,
  figures: [],
  table: null,
};

/** A table of texts, or of numbers where the first row has them. */
export function table(names: string[], rows: Cell[][], more: Partial<Table> = {}): Table {
  const columns = names.map((name, place): Column => {
    const kind = typeof rows[0]?.[place] === "number" ? "number" : "text";
    return { name, label: name, unit: "", scale: 1, kind, select: "", besides: [] };
  });
  return { columns, rows, total: rows.length, names: {}, ...more };
}

export const EMPTY_SELECTION: SelectionState = {
  ranks: [],
  streams: [],
  kernel: "",
  operators: [],
  shapes: [],
  modules: [],
  phase: "",
  steps: [],
  window_ns: null,
  finding: null,
};

export const EMPTY_BANDS: Bands = {
  ready: true,
  everything: "everything",
  facts: [],
  verdict: "",
  said: "",
  findings: [],
  replayed: [],
  to_try: [],
  kernels: null,
  notices: [],
  budget: null,
  detail: null,
  events: "",
  code: "",
  error: null,
};

export type FakeState = Partial<Omit<PanelState, "_view"> & { _view: View }>;

export function panelModel(state: FakeState = {}): FakeModel {
  return new FakeModel({
    _spec: { title: "Overlap", open: false, controls: [] },
    _view: EMPTY_VIEW,
    _activity: "idle",
    _req: 0,
    _action: {},
    _answer: {},
    _visible: null,
    _assets: "anywidget:assets",
    _selection: "anywidget:selection",
    ...state,
  });
}

export interface Drawing {
  node: HTMLElement;
  data: { type?: string }[];
  layout: Record<string, unknown>;
  /** How many charts share the row when this one is drawn. */
  inRow: number;
}

/** A plotly that remembers what it was asked to draw, and lets a test click. */
export class FakePlotly {
  drawings: Drawing[] = [];
  hovered: unknown[] = [];
  relaid: Record<string, unknown>[] = [];
  purged = 0;
  knows: (type: string) => boolean = () => true;
  /** What plotly tells: of clicks, double clicks and new ranges. */
  tell: Record<string, (event?: unknown) => void> = {};

  api(): Plotly {
    return {
      react: async (node, data, layout) => {
        const inRow = node.closest(".hta-figures")?.childElementCount;
        this.drawings.push({ node, data, layout, inRow } as Drawing);
        Object.assign(node, {
          _fullData: (data as Drawing["data"]).map(({ type = "" }) => ({ type: this.knows(type) ? type : "scatter" })),
          on: (event: string, callback: (event: unknown) => void) => {
            this.tell[event] = callback;
          },
          _fullLayout: layout,
        });
      },
      relayout: async (_, changes) => {
        this.relaid.push(changes);
        this.tell.plotly_relayout?.(changes);
      },
      purge: () => {
        this.purged += 1;
      },
      Plots: { resize: async () => undefined },
      Fx: { hover: (_, points) => this.hovered.push(points[0]) },
    };
  }
}

/** happy-dom lays nothing out: give every element a width. */
export function giveWidth(pixels: number): void {
  Object.defineProperty(HTMLElement.prototype, "clientWidth", { configurable: true, get: () => pixels });
}

/** Give every canvas a context, whose texts are listed when drawn or measured, and draw at once. */
export function giveCanvas(drawn: string[], measured: string[] = []): void {
  const known: Record<string, unknown> = {
    measureText: (text: string) => ({ width: 6 * text.length, at: measured.push(text) }),
    fillText: (text: string) => drawn.push(text),
    canvas: null,
  };
  const context = new Proxy(known, {
    get: (target, name: string) => target[name] ?? (() => undefined),
    set: () => true,
  });
  Object.defineProperty(HTMLElement.prototype, "clientHeight", { configurable: true, get: () => 400 });
  vi.stubGlobal("ImageData", class {});
  HTMLCanvasElement.prototype.getContext = (() => context) as never;
  vi.spyOn(globalThis, "requestAnimationFrame").mockImplementation((callback) => {
    void Promise.resolve().then(() => callback(0));
    return 1;
  });
}

export const settle = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));
