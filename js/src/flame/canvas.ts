// The boxes of a flame graph on a canvas: rows of equal height, with text where it fits.
import { cut } from "../cut";
import { type Graph, MODULE } from "./graph";

export const ROW = 18;
const LEAST_TEXT = 40;
const LEAST_BOX = 0.4;
const PADDING = 4;

/** Hue and saturation of each kind of call; GPU work has the hue that computation has elsewhere. */
const COLOURS: Record<string, [hue: number, saturation: number]> = {
  kernel: [203, 65],
  cpu_op: [28, 62],
  module: [145, 38],
  python: [215, 16],
  annotation: [320, 45],
  runtime: [270, 45],
  driver: [270, 45],
};
const NEUTRAL: [hue: number, saturation: number] = [220, 4];

export interface Look {
  dark: boolean;
  ink: string;
  quiet: string;
  accent: string;
  font: string;
}

export interface Marks {
  found: boolean[] | null;
  focused: number;
  hovered: number;
  selected: (node: number) => boolean;
}

/** Boxes on the canvas, for a top node and the nodes below it. */
export class Boxes {
  readonly shown: number[] = [];
  readonly rows: number;
  #graph: Graph;
  #top: number;
  #width: number;
  #above = 0;

  constructor(graph: Graph, top: number, width: number) {
    this.#graph = graph;
    this.#top = top;
    this.#width = width;
    let deepest = 0;
    const inside = new Uint8Array(graph.size);
    for (let node = top; node < graph.size; node++) {
      if (node !== top && !inside[graph.parent[node] ?? -1]) continue;
      inside[node] = 1;
      if (this.width(node) < LEAST_BOX) continue;
      this.shown.push(node);
      const depth = (graph.depth[node] ?? 0) - (graph.depth[top] ?? 0);
      deepest = Math.max(deepest, depth);
      this.#above = Math.max(this.#above, -depth);
    }
    this.rows = this.#above + deepest + 1;
  }

  left(node: number): number {
    return ((this.#graph.start[node] ?? 0) - (this.#graph.start[this.#top] ?? 0)) * this.#scale;
  }

  width(node: number): number {
    return (this.#graph.total[node] ?? 0) * this.#scale;
  }

  row(node: number): number {
    return (this.#graph.depth[node] ?? 0) - (this.#graph.depth[this.#top] ?? 0) + this.#above;
  }

  get #scale(): number {
    const whole = this.#graph.total[this.#top] ?? 0;
    return whole > 0 ? this.#width / whole : 0;
  }

  /** The node at a point; -1 for none. */
  at(x: number, y: number): number {
    const row = Math.floor(y / ROW);
    const hit = (node: number) =>
      this.row(node) === row && this.left(node) <= x && x < this.left(node) + this.width(node);
    return this.shown.find(hit) ?? -1;
  }
}

function fill(kind: string, name: string, { dark }: Look): string {
  const [hue, saturation] = COLOURS[name.startsWith(MODULE) ? "module" : kind] ?? NEUTRAL;
  let sum = 0;
  for (let at = 0; at < name.length; at++) sum = (sum * 31 + name.charCodeAt(at)) % 997;
  const shade = sum % 9;
  const lightness = dark ? 26 + shade : 76 + shade;
  return `hsl(${hue} ${saturation}% ${lightness}%)`;
}

/** A Python frame; if it does not fit, file and function, and then the function only. */
const FRAME = /^(?:.*\/)?([^/]*\.py\(\d+\): (.*))$/;

/** The text, or as much of it as fits. */
export function fitting(text: string, width: number, measure: (text: string) => number): string {
  for (const shorter of [text, ...(FRAME.exec(text)?.slice(1) ?? [])]) if (measure(shorter) <= width) return shorter;
  return cut(text, width, measure);
}

export function draw(context: CanvasRenderingContext2D, graph: Graph, boxes: Boxes, marks: Marks, look: Look): void {
  context.font = look.font;
  context.textBaseline = "middle";
  const measure = (text: string) => context.measureText(text).width;
  for (const node of boxes.shown) {
    const [x, y, width] = [boxes.left(node), boxes.row(node) * ROW, boxes.width(node)];
    const name = graph.name(node);
    context.globalAlpha = marks.found && !marks.found[node] ? 0.35 : 1;
    context.fillStyle = fill(graph.kind(node), name, look);
    context.fillRect(x, y, Math.max(width - 1, LEAST_BOX), ROW - 1);
    if (width >= LEAST_TEXT) {
      context.fillStyle = look.ink;
      context.fillText(fitting(graph.label(node), width - 2 * PADDING - 1, measure), x + PADDING, y + ROW / 2);
    }
    context.globalAlpha = 1;
    const isMarked = marks.found?.[node] || marks.selected(node);
    if (isMarked || node === marks.focused || node === marks.hovered) {
      context.strokeStyle = isMarked || node === marks.focused ? look.accent : look.quiet;
      context.lineWidth = node === marks.focused ? 2 : 1;
      context.strokeRect(x + 1, y + 1, Math.max(width - 3, 1), ROW - 3);
    }
  }
}
