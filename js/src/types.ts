// What travels between hta_widgets/panels (Python) and the front end.

export interface Trace {
  type?: string;
  meta?: { select?: string };
  customdata?: unknown[][];
  [property: string]: unknown;
}

export interface Layout {
  height?: number;
  [property: string]: unknown;
}

export interface Figure {
  name: string;
  data: Trace[];
  layout: Layout;
}

export interface Column {
  label: string;
  align: "left" | "right";
}

export interface Table {
  columns: Column[];
  rows: string[][];
  total: number;
}

export interface View {
  rev: number;
  finding: string;
  notices: string[];
  empty: string | null;
  error: string | null;
  figures: Figure[];
  table: Table | null;
}

interface Named {
  name: string;
  label: string;
}

export interface Bounds {
  min: number;
  max: number | null;
  step: number;
  unit: string;
}

export interface SliderSpec extends Named, Bounds {
  kind: "slider";
  max: number;
  open_ended: boolean;
  log: boolean;
}

export interface NumberSpec extends Named, Bounds {
  kind: "number";
}

export interface ChoiceSpec extends Named {
  kind: "choice";
  options: [label: string, value: string | number][];
}

export interface ToggleSpec extends Named {
  kind: "toggle";
}

export interface RanksSpec extends Named {
  kind: "ranks";
  options: number[];
}

export type ControlSpec = SliderSpec | NumberSpec | ChoiceSpec | ToggleSpec | RanksSpec;

export interface PanelState {
  _spec: { title: string; controls: ControlSpec[] };
  _view: View;
  _req: number;
  _visible: boolean;
  _assets: string;
  _selection: string;
  [parameter: string]: unknown;
}

export interface SelectionState {
  ranks: number[];
  kernel: string;
  [field: string]: unknown;
}

export type Gzipped = ArrayBufferView<ArrayBuffer>;
export type AssetName = "panel" | "plotly";

export interface AssetsState {
  files: Record<AssetName, Gzipped>;
  sums: Record<AssetName, string>;
  [field: string]: unknown;
}
