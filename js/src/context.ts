// What the panel passes to each of its controls.
import type { Model } from "./models";
import type { PanelState, SelectionState } from "./types";

export interface ControlContext {
  model: Model<PanelState>;
  selection: Promise<Model<SelectionState>>;
  send: (values: Record<string, unknown>, target?: Model, timeout?: number) => void;
  signal: AbortSignal;
  prefix: string;
}
