// Messages from hta_widgets/panels/flame.py: the columns of hta_widgets/figures/flame.py as JSON text.
import type { PanelState } from "../types";

export interface FlameState extends PanelState {
  _flame: string;
  /** Names from the outermost call to the one that fills the width; empty shows everything. */
  root: string[];
  /** Name whose calls are one box, with their callers above; empty for none. */
  sandwich: string;
}

export interface Packed {
  dtype: string;
  bdata: string;
}

/** Unit of starts, totals and own parts. */
export type Unit = "ns" | "bytes";

export type Column = Packed | number[];

export interface FlameMessage {
  names: string[];
  /** Label of each name in the boxes. */
  labels: string[];
  kinds: string[];
  name: Column;
  kind: Column;
  parent: Column;
  depth: Column;
  start: Column;
  total: Column;
  own: Column;
  folded: Column;
  root: string[];
  /** Name whose callers are above the root, at depths below 0; empty for none. */
  sandwich: string;
  all: number;
  unit: Unit;
}
