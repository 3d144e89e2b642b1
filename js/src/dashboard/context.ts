// What the dashboard passes to each of its bands.
import type { Model } from "../models";
import type { SelectionState } from "../types";
import type { DashboardState } from "./types";

export type Fields = Record<string, unknown>;

export interface Board {
  model: Model<DashboardState>;
  selection: Model<SelectionState>;
  signal: AbortSignal;
  prefix: string;
  /** Set fields of the selection as one change. */
  select: (fields: Fields) => void;
  /** Have Python do something, optionally with a cycle. */
  act: (name: string, cycle?: number) => void;
  /** Open the tab with this name, if any, at its main panel; an open tab stays as it is. */
  open: (tab: string) => void;
  /** Show a panel in its tab, if it has one. */
  show: (panel: string) => void;
}
