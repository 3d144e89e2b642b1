// Messages between hta_widgets/panels and the front end. panels/base/protocol.py declares the same types in Python, and a
// test compares the two.

export interface TraceMeta {
  select?: string;
  also?: string;
  sets?: string;
}

export interface Trace {
  type?: string;
  meta?: TraceMeta;
  customdata?: unknown[][];
  [property: string]: unknown;
}

export type Fill = "solid" | "hatched" | "dotted" | "outline";

export interface LegendEntry {
  label: string;
  color: string;
  fill: Fill;
}

export interface LayoutMeta {
  zoom?: string;
  wide?: boolean;
  least_width?: number;
  legend?: LegendEntry[];
  height?: number;
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

export type Cell = string | number | boolean | null;

export interface Column {
  /** Name in Python. */
  name: string;
  label: string;
  unit: string;
  /** Divisor of the shown values. */
  scale: number;
  kind: "text" | "number" | "id";
  /** The selection field that its values set, or empty. */
  select: string;
  /** Texts that cannot be selected. */
  besides: string[];
}

export interface Table {
  columns: Column[];
  rows: Cell[][];
  total: number;
  /** Labels shown in place of long texts. */
  names: Record<string, string>;
}

export interface Numbers {
  label: string;
  text: string;
  table: Table | null;
}

export interface Occurrence {
  fields: Record<string, unknown>;
  words: string;
}

export interface AdviceRow {
  do: string;
  code: string;
}

export interface FindingRow {
  price: string;
  bound: string;
  percent: string;
  share: number;
  color: string;
  fill: Fill;
  sentence: string;
  cause: string;
  doubt: string;
  advice: AdviceRow[];
  numbers: Numbers[];
  show: Record<string, unknown> | null;
  /** Whether that is in the selection of the second of two jobs. */
  of_second: boolean;
  occurrences: Occurrence[];
  panel: string;
  folded: boolean;
}

export interface View {
  rev: number;
  /** The time that is counted, such as "steps 11, 13"; empty means all. */
  time: string;
  finding: string;
  findings: FindingRow[];
  findings_title: string;
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

export interface SliderSpec extends Named {
  kind: "slider";
  min: number;
  max: number;
  step: number;
  unit: string;
  log: boolean;
  open_ended: boolean;
}

export type Choosable = string | number | boolean;

export interface OfCharts {
  of_charts?: boolean;
}

export interface ChoiceSpec extends Named, OfCharts {
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
  takes_folder: boolean;
}

export interface PickerSpec extends Named {
  kind: "picker";
  noun: string;
  options: number[];
}

export type ControlSpec = SliderSpec | ChoiceSpec | ToggleSpec | SearchSpec | ButtonSpec | PickerSpec;

/** What a panel is doing while its view lags behind its parameters; idle when up to date. */
export type Activity = "idle" | "computing" | "interrupted";

/** Request from a button, with a new number each time. */
export interface Action {
  name?: string;
  number?: number;
  /** Empty means the default folder. */
  folder?: string;
}

export interface Answer {
  number?: number;
  text?: string;
  failed?: boolean;
  files?: string[];
}

export interface PanelSpec {
  title: string;
  open: boolean;
  controls: ControlSpec[];
}

export interface PanelState {
  _spec: PanelSpec;
  /** A `View` as JSON text. */
  _view: string;
  _activity: Activity;
  _req: number;
  _action: Action;
  _answer: Answer;
  /** Null until a page reports it. */
  _visible: boolean | null;
  _assets: string;
  _selection: string;
  [parameter: string]: unknown;
}

export interface SelectionState {
  ranks: number[];
  streams: number[];
  kernel: string;
  /** An empty list means all, as for modules and steps. */
  operators: string[];
  /** Input shapes of operators, like `input_dims` in tables. */
  shapes: string[];
  /** Names from the outermost to the innermost, joined by " › ". */
  modules: string[];
  /** Empty means all. */
  phase: string;
  steps: number[];
  /** Start and end since the first event of all ranks; null means all of the time. */
  window_ns: [start: number, end: number] | null;
  finding: number | null;
  [field: string]: unknown;
}

export type Gzipped = ArrayBufferView<ArrayBuffer>;
export type AssetName = "panel" | "plotly";

export interface AssetsState {
  files: Record<AssetName, Gzipped>;
  sums: Record<AssetName, string>;
  [field: string]: unknown;
}
