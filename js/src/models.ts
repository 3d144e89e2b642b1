// Models are the browser side of widgets; their state is kept in sync with Python's.
import type { AnyModel, Host } from "@anywidget/types";
import type { PanelState, View } from "./types";

// biome-ignore lint/suspicious/noExplicitAny: AnyModel is invariant in its state, so only `any` stands for every model
export type Model<State extends Record<string, unknown> = any> = AnyModel<State>;

/** Everything that a panel shows, sent as text. */
export function viewOf(model: Model<PanelState>): View {
  return JSON.parse(model.get("_view"));
}

/** Find another model of the same kernel by the reference that anywidget.WidgetTrait sends. */
export function resolve<State extends Record<string, unknown>>(
  model: Model,
  host: Host | undefined,
  reference: string,
): Promise<Model<State>> {
  if (host) return host.getModel<State>(reference);
  return model.widget_manager.get_model<State>(reference.replace(/^anywidget:/, ""));
}

/** Listen to a model until the signal aborts. */
export function listen<Told extends unknown[]>(
  model: Model,
  event: string,
  callback: (...told: Told) => void,
  signal: AbortSignal,
): void {
  model.on(event, callback);
  signal.addEventListener("abort", () => model.off(event, callback), { once: true });
}

/** Set values of a model, and send them to Python. */
export function write(model: Model, values: Record<string, unknown>): void {
  for (const [name, value] of Object.entries(values)) model.set(name, value);
  model.save_changes();
}
