// A legend of colours that wraps and covers nothing, unlike plotly's on a narrow page.
import { make } from "./dom";
import type { Figure, Fill, Trace } from "./types";

/** Look of the areas, lines or marks of a chart. */
type Look = Fill | "mirrored" | "barred" | "crossed" | "line" | "dashed" | "dots" | "circle" | "diamond";

interface Entry {
  label: string;
  color: string;
  fill: Look;
}

const FILLS: Record<string, Look> = { "/": "hatched", "\\": "mirrored", "|": "barred", x: "crossed", ".": "dotted" };
const DASHES: Record<string, Look> = { dot: "dots", dash: "dashed" };
const MARKS: Record<string, Look> = { circle: "circle", diamond: "diamond" };
const ENTITIES: Record<string, string> = { "&lt;": "<", "&gt;": ">", "&amp;": "&" };

/** An area that looks like those of a chart. */
export function swatch({ color, fill }: Pick<Entry, "color" | "fill">): HTMLElement {
  const element = make("span", { className: `hta-swatch hta-${fill}` });
  element.style.color = color;
  return element;
}

function lookOf({ type = "scatter", mode, marker, line }: Trace): Pick<Entry, "color" | "fill"> {
  const { color, symbol, pattern, line: edge } = (marker ?? {}) as Record<string, unknown>;
  const drawn = (line ?? {}) as Record<string, unknown>;
  if (type === "scatter" && mode !== "markers")
    return { color: String(drawn.color ?? ""), fill: DASHES[String(drawn.dash)] ?? "line" };
  const { shape } = (pattern ?? {}) as Record<string, unknown>;
  const { color: outline } = (edge ?? {}) as Record<string, unknown>;
  const seen = outline ?? (Array.isArray(color) ? color[0] : color);
  const area = shape === undefined && outline !== undefined ? "outline" : (FILLS[String(shape)] ?? "solid");
  return { color: String(seen ?? ""), fill: type === "scatter" ? (MARKS[String(symbol)] ?? "solid") : area };
}

function labelOf({ name }: Trace): string {
  return String(name ?? "").replace(/&(?:lt|gt|amp);/g, (entity) => ENTITIES[entity] ?? entity); // as plotly reads it
}

/** Entries above a chart: those in its layout, or those of the legend that plotly would draw. */
export function legendOf({ data, layout }: Figure): Entry[] {
  const { meta, showlegend, legend } = layout;
  if (meta?.legend) return meta.legend;
  const named = data.filter(({ name, showlegend }) => name && showlegend !== false);
  const isShown = showlegend ?? named.length > 1;
  const isAbove = (legend as Record<string, unknown> | undefined)?.orientation === "h"; // else it is next to a pie
  if (!isShown || !isAbove) return [];
  const entries = named.map((each) => ({ label: labelOf(each), ...lookOf(each) }));
  return [...new Map(entries.map((each) => [each.label, each])).values()];
}

export class Legend {
  readonly element = make("ul", { className: "hta-legend", hidden: true });

  show(entries: readonly Entry[]): void {
    this.element.replaceChildren(...entries.map((entry) => make("li", {}, swatch(entry), entry.label)));
    this.element.hidden = entries.length === 0;
  }
}
