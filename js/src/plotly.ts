// The part of plotly.js that panels use: only the trace types that figures/ draws (scatter is in the core), which is a
// quarter of plotly.js.
import bar from "plotly.js/lib/bar";
import core from "plotly.js/lib/core";
import heatmap from "plotly.js/lib/heatmap";
import pie from "plotly.js/lib/pie";
import type { Point } from "./picks";

export interface PlotlyEvent {
  event?: MouseEvent;
  points: Point[];
}

/** An element that plotly has drawn in. */
export interface PlotlyNode extends HTMLElement {
  on(event: "plotly_click" | "plotly_hover", callback: (event: PlotlyEvent) => void): void;
  on(event: "plotly_relayout", callback: (event: Record<string, unknown>) => void): void;
  on(event: "plotly_doubleclick" | "plotly_unhover", callback: () => void): void;
  _fullData?: { type: string }[];
  _fullLayout?: { xaxis?: { range: [number, number] } };
}

/** The functions of plotly.js that the panels call. */
export interface Plotly {
  react(node: HTMLElement, data: unknown[], layout: unknown, config: unknown): Promise<unknown>;
  relayout(node: HTMLElement, changes: Record<string, unknown>): Promise<unknown>;
  purge(node: HTMLElement): void;
  Plots: { resize(node: HTMLElement): Promise<unknown> };
  Fx: { hover(node: HTMLElement, points: Point[]): void };
}

core.register([bar, heatmap, pie]);

export default core;
