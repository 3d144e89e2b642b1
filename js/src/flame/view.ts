// The flame graph of a panel: a search, zoom buttons, the canvas, and a description of one node.
import { followSize, keepKeys, make } from "../dom";
import type { Pick } from "../picks";
import { isDark } from "../theme";
import { Boxes, draw, type Look, ROW } from "./canvas";
import { quantity, share } from "./format";
import { Graph } from "./graph";
import type { FlameMessage } from "./types";

const HINT = "Click to select, double-click or Enter to zoom in, Esc to zoom out, arrows to move, C for callers.";
const WORDS: Record<string, string> = {
  cpu_op: "operator",
  python: "Python function",
  runtime: "API call",
  driver: "driver call",
};

export interface FlameHandlers {
  pick(pick: Pick, add: boolean): void;
  isSelected(pick: Pick): boolean;
  /** Ask Python for all nodes below a root (only some may be loaded), or for those of a sandwich. */
  zoom(root: string[], sandwich: string): void;
  /** Whether Python can be asked for callers. */
  asks: boolean;
}

export class FlameView {
  readonly element: HTMLElement;
  readonly canvas = keepKeys(make("canvas", { className: "hta-flame-canvas", tabIndex: 0, role: "img" }));
  #handlers: FlameHandlers;
  #frame = make("div", { className: "hta-flame-frame" });
  #search = keepKeys(make("input", { type: "search", placeholder: "highlight (text or /regex/)" }));
  #around = make("button", { type: "button", hidden: true }, "Callers and callees");
  #up = make("button", { type: "button", hidden: true }, "Zoom out");
  #all = make("button", { type: "button", hidden: true }, "Show all");
  #sum = make("span", { className: "hta-flame-sum" });
  #trail = make("p", { className: "hta-flame-trail" });
  #words = make("p", { className: "hta-flame-words", role: "status" });
  #tip = make("div", { className: "hta-flame-tip", hidden: true });
  #graph: Graph | null = null;
  #boxes: Boxes | null = null;
  #top = 0; // fills the whole width until Python has answered
  #focused = -1;
  #hovered = -1;
  #isNew = false;
  #found: boolean[] | null = null;

  constructor(handlers: FlameHandlers, signal: AbortSignal) {
    this.#handlers = handlers;
    this.#search.setAttribute("aria-label", "Highlight names in the flame graph");
    this.#frame.append(this.canvas, this.#tip);
    const bar = make("div", { className: "hta-flame-bar" }, this.#search, this.#sum, this.#around, this.#up, this.#all);
    this.element = make("div", { className: "hta-flame" }, bar, this.#trail, this.#frame, this.#words);
    this.#search.addEventListener("input", () => this.#mark(), { signal });
    this.#around.addEventListener("click", () => this.#focusOn(this.#focused), { signal });
    this.#up.addEventListener("click", () => this.#zoomOut(), { signal });
    this.#all.addEventListener("click", () => this.#zoomTo([]), { signal });
    this.canvas.addEventListener("click", (event) => this.#clicked(event), { signal });
    this.canvas.addEventListener("dblclick", (event) => this.#zoomIn(this.#at(event)), { signal });
    this.canvas.addEventListener("pointermove", (event) => this.#hover(event), { signal });
    this.canvas.addEventListener("pointerleave", () => this.#leave(), { signal });
    this.canvas.addEventListener("keydown", (event) => this.#key(event), { signal });
    followSize(this.#frame, () => this.redraw(), signal);
    this.#say(-1);
  }

  show(text: string): void {
    this.#graph = text === "" ? null : new Graph(JSON.parse(text) as FlameMessage);
    this.#top = 0;
    this.#focused = this.#hovered = -1;
    this.#tip.hidden = this.#isNew = true;
    this.element.hidden = (this.#graph?.total[0] ?? 0) === 0;
    this.#mark();
    if (this.#graph?.sandwich) this.#reveal(0);
  }

  redraw(): void {
    const [graph, width] = [this.#graph, this.#frame.clientWidth];
    if (!graph || width === 0) return;
    const boxes = new Boxes(graph, this.#top, width);
    const scale = globalThis.devicePixelRatio || 1;
    this.#boxes = boxes;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(boxes.rows * ROW * scale);
    this.canvas.style.height = `${boxes.rows * ROW}px`;
    if (this.#isNew && !graph.sandwich) {
      this.#frame.scrollTop = boxes.row(graph.trunk()) * ROW;
      this.#frame.scrollTop -= this.#frame.scrollTop % ROW; // scrolled to the end, the first row would be cut
    }
    this.#isNew = false;
    this.#tellTop(graph);
    const context = this.canvas.getContext("2d");
    if (!context) return;
    context.scale(scale, scale);
    const marks = {
      found: this.#found,
      focused: this.#focused,
      hovered: this.#hovered,
      selected: (node: number) => {
        const pick = graph.pick(node);
        return pick !== null && this.#handlers.isSelected(pick);
      },
    };
    draw(context, graph, boxes, marks, this.#look());
  }

  #look(): Look {
    const style = getComputedStyle(this.canvas);
    return {
      dark: isDark(this.canvas),
      ink: style.color,
      quiet: style.getPropertyValue("border-top-color"),
      accent: style.getPropertyValue("outline-color"),
      font: `12px ${style.fontFamily}`,
    };
  }

  #tellTop(graph: Graph): void {
    const path = graph.path(this.#top);
    this.#trail.textContent =
      graph.sandwich !== "" && path.length === 1 ? `Callers ▴ ${path[0]} ▾ callees` : path.join(" › ");
    this.#around.hidden =
      !this.#handlers.asks || !this.#isCall(this.#focused) || (this.#focused <= 0 && graph.sandwich !== "");
    this.#up.hidden = this.#all.hidden = path.length === 0;
    const name = path.length === 0 ? "everything" : graph.name(this.#top);
    const of = `Flame graph of ${name}, ${quantity(graph.total[this.#top] ?? 0, graph.unit)}.`;
    this.canvas.setAttribute("aria-label", `${of} ${HINT}`);
  }

  #mark(): void {
    const graph = this.#graph;
    const text = this.#search.value.trim();
    this.#found = null;
    this.#sum.textContent = "";
    if (graph && text !== "") {
      const { found, count, sum } = graph.search(text);
      this.#found = found;
      this.#sum.textContent = `${count} marked: ${quantity(sum, graph.unit)}, ${share(sum, graph.total[0] ?? 0)}`;
    }
    this.redraw();
  }

  #at(event: MouseEvent): number {
    const place = this.canvas.getBoundingClientRect();
    return this.#boxes?.at(event.clientX - place.left, event.clientY - place.top) ?? -1;
  }

  #hover(event: PointerEvent): void {
    const node = this.#at(event);
    if (node !== this.#hovered) {
      this.#hovered = node;
      this.#tip.textContent = node < 0 ? "" : this.#described(node);
      this.#tip.hidden = node < 0;
      this.redraw();
    }
    if (node < 0) return;
    const frame = this.#frame.getBoundingClientRect();
    const left = Math.min(event.clientX - frame.left + 12, Math.max(0, frame.width - this.#tip.offsetWidth));
    this.#tip.style.left = `${left}px`;
    this.#tip.style.top = `${event.clientY - frame.top + this.#frame.scrollTop + 16}px`;
  }

  #leave(): void {
    this.#hovered = -1;
    this.#tip.hidden = true;
    this.redraw();
  }

  #described(node: number): string {
    const graph = this.#graph;
    if (!graph) return "";
    const [total, own, whole] = [graph.total[node] ?? 0, graph.own[node] ?? 0, graph.total[0] ?? 0];
    const kind = graph.kind(node).replaceAll("_", " ");
    const what = WORDS[graph.kind(node)] ?? kind;
    const parts = [`${quantity(total, graph.unit)}, ${share(total, whole)}`];
    if (graph.all !== whole) parts.push(`${share(total, graph.all)} of the total`);
    if (own !== total && own > 0 && !graph.isCaller(node)) parts.push(`self ${quantity(own, graph.unit)}`);
    return `${graph.name(node)}\n${what === "" ? "" : `${what} · `}${parts.join(" · ")}`;
  }

  #say(node: number): void {
    this.#words.textContent = node < 0 ? HINT : this.#described(node).replace("\n", ": ");
  }

  #clicked(event: MouseEvent): void {
    const node = this.#at(event);
    this.#focused = node;
    this.#say(node);
    this.#choose(node, event.ctrlKey || event.metaKey || event.shiftKey, event.detail);
    this.redraw();
  }

  #choose(node: number, add: boolean, clicks = 1): void {
    const pick = node < 0 ? null : this.#graph?.pick(node);
    if (pick && clicks < 2) this.#handlers.pick(pick, add);
  }

  #isCall(node: number): boolean {
    const graph = this.#graph;
    return graph !== null && node >= 0 && graph.kind(node) !== "";
  }

  /** Ask for all calls of a node's name, with their callers and callees. */
  #focusOn(node: number): void {
    const name = this.#isCall(node) ? this.#graph?.name(node) : undefined;
    if (name === undefined || !this.#handlers.asks) return;
    this.#focused = -1;
    this.#handlers.zoom([], name);
  }

  #zoomIn(node: number): void {
    if (node < 0 || !this.#graph || (this.#graph.folded[node] ?? 0) > 0) return;
    if (this.#graph.isCaller(node)) this.#focusOn(node);
    else if (node !== this.#top) this.#zoomTo(this.#graph.path(node), node);
  }

  #zoomOut(): void {
    const graph = this.#graph;
    if (!graph) return;
    const path = graph.path(this.#top);
    if (path.length === 1 && graph.sandwich !== "") this.#zoomTo([]);
    else if (path.length > 0) this.#zoomTo(path.slice(0, -1), this.#top > 0 ? (graph.parent[this.#top] ?? 0) : 0);
  }

  #zoomTo(root: string[], node = 0): void {
    this.#top = this.#graph && this.#graph.path(node).length === root.length ? node : this.#top;
    this.#focused = this.#top;
    this.#handlers.zoom(root, root.length > 0 ? (this.#graph?.sandwich ?? "") : "");
    this.redraw();
  }

  #key(event: KeyboardEvent): void {
    const graph = this.#graph;
    const boxes = this.#boxes;
    if (!graph || !boxes) return;
    const here = this.#focused < 0 ? this.#top : this.#focused;
    const moves: Record<string, () => number | undefined> = {
      ArrowDown: () => (this.#focused < 0 ? this.#top : this.#further(graph, here, false)),
      ArrowUp: () => this.#further(graph, here, true),
      ArrowRight: () => this.#beside(graph, here, 1),
      ArrowLeft: () => this.#beside(graph, here, -1),
    };
    const move = moves[event.key];
    if (move) this.#focus(move() ?? here);
    else if (event.key === "Enter") this.#zoomIn(here);
    else if (event.key === "Escape") this.#zoomOut();
    else if (event.key === "c" && !event.ctrlKey && !event.metaKey) this.#focusOn(here);
    else if (event.key === " ") this.#choose(here, event.shiftKey);
    else return;
    event.preventDefault();
  }

  /** The node above or below; callers are above the root, with their callees below them. */
  #further(graph: Graph, here: number, up: boolean): number | undefined {
    if (graph.isCaller(here)) return up ? graph.inside(here, true)[0] : graph.parent[here];
    if (here === this.#top) return graph.inside(here, up)[0];
    return up ? graph.parent[here] : graph.inside(here)[0];
  }

  #beside(graph: Graph, node: number, step: number): number | undefined {
    if (node === this.#top) return node;
    const row = graph.inside(graph.parent[node] ?? 0, graph.isCaller(node));
    return row[row.indexOf(node) + step];
  }

  #focus(node: number): void {
    this.#focused = node;
    this.#say(node);
    this.#reveal(node);
    this.redraw();
  }

  /** Scroll until a node is in sight. */
  #reveal(node: number): void {
    const top = (this.#boxes?.row(node) ?? 0) * ROW;
    if (top < this.#frame.scrollTop) this.#frame.scrollTop = top;
    const bottom = top + ROW - this.#frame.clientHeight;
    if (bottom > this.#frame.scrollTop) this.#frame.scrollTop = bottom;
  }
}
