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
  /** Have Python do something, or something with a cycle. */
  act: (name: string, cycle?: number) => void;
  /** Open a tab, if there is one of that name, with its main panel; one that is open stays as it is. */
  open: (tab: string) => void;
  /** Show a panel in its tab, if it has one. */
  show: (panel: string) => void;
}
