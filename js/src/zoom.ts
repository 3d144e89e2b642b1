// Level of detail: a figure whose `layout.meta.zoom` names a parameter shows the x range in that parameter; an empty list
// means the whole range. Python redraws each range, so that zooming in shows more detail.
import { make, pushButton } from "./dom";
import type { Plotly, PlotlyNode } from "./plotly";
import { ticksIn } from "./ticks";
import type { Figure, Layout } from "./types";

type Stretch = [start: number, end: number];

/** How a zoom affects the panel. */
export interface Zooming {
  set(parameter: string, stretch: readonly number[]): void;
  isSet(parameter: string): boolean;
  /** Whether a newer figure is on its way. */
  waits(): boolean;
  /** Whether no kernel redraws, so that a zoom only enlarges the chart. */
  isFixed: boolean;
}

const HINT = "Drag to zoom in, double-click to zoom out";
const DIGITS = 4;

/** A stretch, rounded to the visible digits. */
function rounded([start, end]: Stretch): Stretch {
  const digits = Math.min(Math.max(Math.ceil(DIGITS - Math.log10(end - start)), 0), 12);
  return [Number(start.toFixed(digits)), Number(end.toFixed(digits))];
}

/** The stretch that a `plotly_relayout` event zooms to, all of it, or null for other events. */
export function asked(event: Record<string, unknown>): Stretch | [] | null {
  if (event["xaxis.autorange"]) return [];
  const range = event["xaxis.range"] ?? [event["xaxis.range[0]"], event["xaxis.range[1]"]];
  const [start, end] = (range as unknown[]).map(Number) as Stretch;
  return start < end ? rounded([start, end]) : null;
}

/** The stretch that a key moves or zooms to, all of it, or null for other keys. */
export function afterKey(key: string, [start, end]: Stretch): Stretch | [] | null {
  const quarter = (end - start) / 4;
  switch (key) {
    case "+":
    case "=":
      return [start + quarter, end - quarter];
    case "-":
      return [start - 2 * quarter, end + 2 * quarter];
    case "ArrowLeft":
      return [start - quarter, end - quarter];
    case "ArrowRight":
      return [start + quarter, end + quarter];
    case "0":
      return [];
    default:
      return null;
  }
}

export class Zoom {
  readonly element: HTMLElement;
  #whole = pushButton("Show all");
  #zooming: Zooming;
  #plotly: Plotly;
  #node: PlotlyNode;
  #parameter: string | undefined;
  #axis: Record<string, unknown> = {}; // as drawn by the figure

  constructor(zooming: Zooming, plotly: Plotly, node: PlotlyNode, signal: AbortSignal) {
    this.#zooming = zooming;
    this.#plotly = plotly;
    this.#node = node;
    this.element = make("div", { className: "hta-zoom" }, make("span", {}, HINT), this.#whole);
    this.#whole.addEventListener("click", () => this.#set([]), { signal });
  }

  /** Follow the user's zooms, once the chart is drawn. */
  follow(): void {
    this.#node.on("plotly_relayout", (event) => this.#set(asked(event)));
    this.#node.on("plotly_doubleclick", () => this.#set([]));
  }

  /** Take over a figure; returns whether it can be zoomed. */
  show({ layout }: Figure): boolean {
    this.#parameter = layout.meta?.zoom;
    this.#axis = layout.xaxis ?? {};
    this.element.hidden = !this.#parameter;
    this.#whole.hidden = !this.#parameter || !this.#zooming.isSet(this.#parameter);
    return Boolean(this.#parameter);
  }

  /** The layout to draw; if a newer figure is on its way, the user has zoomed further. */
  layout(layout: Layout): Layout {
    const range = this.#node._fullLayout?.xaxis?.range;
    if (!this.#parameter || !range || !this.#zooming.waits()) return layout;
    return { ...layout, xaxis: { ...layout.xaxis, range: [...range] } };
  }

  /** Handle a key; returns whether it is used. */
  key(key: string): boolean {
    const range = this.#node._fullLayout?.xaxis?.range;
    const next = this.#parameter && range ? afterKey(key, range) : null;
    if (next?.length) void this.#plotly.relayout(this.#node, { "xaxis.range": next });
    else this.#set(next);
    return next !== null;
  }

  #set(stretch: Stretch | [] | null): void {
    if (!this.#parameter || !stretch) return;
    if (this.#zooming.isFixed) this.#enlarge(stretch);
    else this.#zooming.set(this.#parameter, stretch);
  }

  /** Show a stretch of the chart, with labels for that stretch. */
  #enlarge(stretch: Stretch | []): void {
    const { range, tickvals, ticktext } = this.#axis as { range: Stretch; tickvals: number[]; ticktext: string[] };
    const isWhole = stretch.length === 0 || String(stretch) === String(rounded(range));
    this.#whole.hidden = isWhole;
    const ticks = isWhole ? { tickvals, ticktext } : ticksIn(stretch, { tickvals, ticktext });
    const back = stretch.length === 0 ? { "xaxis.range": [...range] } : {};
    const labels = { "xaxis.tickvals": ticks.tickvals, "xaxis.ticktext": ticks.ticktext };
    void this.#plotly.relayout(this.#node, { ...back, ...labels });
  }
}
