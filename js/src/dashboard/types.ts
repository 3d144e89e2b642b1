// What a dashboard of Python sends; hta_widgets/panels/bands/messages.py has the same types, and a test compares them.
import type { FindingRow, Numbers, Option, PanelState } from "../types";

export interface Tab {
  name: string;
  label: string;
  /** Places among all panels of the dashboard, the main one first. */
  panels: number[];
}

export interface BoardSpec {
  /** Of the panels behind the first, which is the header. */
  names: string[];
  titles: string[];
  /** Fields of the selected time that each counts. */
  follows: string[][];
  tabs: Tab[];
  /** Place of the panel. */
  timeline: number | null;
  what_if: number | null;
  /** In words; none if there is only one. */
  cycles: string[];
  /** Place of the one that is shown. */
  cycle: number;
}

export interface BudgetPart {
  name: string;
  label: string;
  text: string;
  said: string;
  color: string;
  ink: string;
  /** "solid", "hatched" or "outline". */
  fill: string;
  /** Of the longer of the two bars. */
  share: number;
  all_share: number;
  show: Record<string, unknown> | null;
  tab: string;
}

export interface BudgetBand {
  title: string;
  whose: string;
  compared: boolean;
  behind: string;
  parts: BudgetPart[];
}

export interface Fact {
  label: string;
  text: string;
}

export interface RankBar {
  rank: number;
  text: string;
  share: number;
}

export interface Detail {
  kind: string;
  name: string;
  label: string;
  about: string;
  facts: Fact[];
  bars: RankBar[];
  /** Of the event that the window shows, from 1; 0 where it shows none. */
  place: number;
  count: number;
  code: string;
}

export interface Bands {
  ready: boolean;
  facts: string[];
  /** What is said to be selected where nothing is. */
  everything: string;
  verdict: string;
  said: string;
  findings: FindingRow[];
  replayed: number[];
  to_try: FindingRow[];
  kernels: Numbers | null;
  notices: string[];
  budget: BudgetBand | null;
  detail: Detail | null;
  events: string;
  code: string;
  error: string | null;
}

export interface DashboardState {
  _assets: string;
  _selection: string;
  /** The header, and the panels. */
  _panels: string[];
  _spec: BoardSpec;
  /** `Bands` as JSON text. */
  _bands: string;
  /** What a step takes without the findings that are ticked. */
  _together: string;
  /** Places of the findings that are not ticked. */
  unticked: number[];
  /** What the search finds: the value is JSON of a field of the selection and its value. */
  _options: Option[];
  _visible: boolean;
  /** Name of the one that the tabs show. */
  panel: string;
  [field: string]: unknown;
}

/** Of a widget that is displayed: only a dashboard has `_panels`. */
export type WidgetState = PanelState | DashboardState;
