// Messages from a dashboard in Python; hta_widgets/panels/bands/messages.py has the same types, and a test compares them.
import type { FindingRow, Numbers, Option, PanelState } from "../types";

export interface Tab {
  name: string;
  label: string;
  /** Positions of its panels among all panels of the dashboard, the main one first. */
  panels: number[];
}

export interface BoardSpec {
  /** Names of the panels after the first, which is the header. */
  names: string[];
  titles: string[];
  /** Fields of the selected time that each panel honours. */
  follows: string[][];
  tabs: Tab[];
  /** Position of the panel. */
  timeline: number | null;
  what_if: number | null;
  /** All cycles in words; empty if there is only one. */
  cycles: string[];
  /** Position of the shown cycle. */
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
  /** Fraction of the longer of the two bars. */
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
  /** Position, from 1, of the event that the window shows; 0 if it shows none. */
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
  /** How long a step takes without the ticked findings. */
  _together: string;
  /** Positions of the findings that are not ticked. */
  unticked: number[];
  /** What the search finds; an option's value is JSON of a selection field and its value. */
  _options: Option[];
  _visible: boolean;
  /** Name of the panel that the tabs show. */
  panel: string;
  [field: string]: unknown;
}

/** State of a displayed widget: only a dashboard has `_panels`. */
export type WidgetState = PanelState | DashboardState;
