// Messages between hta_widgets/panels and the front end; panels/base/protocol.py has the same types in Python.
// A test compares the two.

export interface TraceMeta {
  select?: string;
}

export interface Trace {
  type?: string;
  meta?: TraceMeta;
  customdata?: unknown[][];
  [property: string]: unknown;
}

export interface LayoutMeta {
  zoom?: string;
}

export interface Layout {
  height?: number;
  meta?: LayoutMeta;
  xaxis?: Record<string, unknown>;
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

export type Choosable = string | number | boolean;

export interface ChoiceSpec extends Named {
  kind: "choice";
  options: [label: string, value: Choosable][];
}

export interface ToggleSpec extends Named {
  kind: "toggle";
}

export type Option = [label: string, value: string, detail: string];

export interface SearchSpec extends Named {
  kind: "search";
  options: Option[];
  free_text: boolean;
}

export interface ButtonSpec extends Named {
  kind: "button";
}

export interface PickerSpec extends Named {
  kind: "picker";
  noun: string;
  options: number[];
}

export type ControlSpec = SliderSpec | NumberSpec | ChoiceSpec | ToggleSpec | SearchSpec | ButtonSpec | PickerSpec;

/** Request of a button, with a new number each time. */
export interface Action {
  name?: string;
  number?: number;
}

export interface Answer {
  number?: number;
  text?: string;
  failed?: boolean;
}

export interface PanelSpec {
  title: string;
  wide: boolean;
  controls: ControlSpec[];
}

export interface PanelState {
  _spec: PanelSpec;
  /** A `View` as JSON text. */
  _view: string;
  _req: number;
  _action: Action;
  _answer: Answer;
  _visible: boolean;
  _assets: string;
  _selection: string;
  [parameter: string]: unknown;
}

export interface DashboardState {
  _assets: string;
  _panels: string[];
  [field: string]: unknown;
}

/** Of a widget that is displayed: `_panels` is there in a dashboard only. */
export type WidgetState = PanelState | DashboardState;

export interface SelectionState {
  ranks: number[];
  streams: number[];
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
