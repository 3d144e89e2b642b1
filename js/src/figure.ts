// One chart: drawn once it has a width, redrawn with the theme, resized with its box.
import { followSize, keepKeys, make } from "./dom";
import { point } from "./hover";
import { Legend, legendOf } from "./legend";
import { focusablePoints, type Pick, type Point, pickAt } from "./picks";
import type { Plotly, PlotlyEvent, PlotlyNode } from "./plotly";
import { template } from "./theme";
import type { Figure, Layout } from "./types";
import { Zoom, type Zooming } from "./zoom";

/** Callbacks for when a user picks a point of a chart, or zooms. */
export interface Handlers {
  pick(pick: Pick, add: boolean): void;
  zoom: Zooming;
}

const HEIGHT = 320;

const CONFIG = {
  responsive: false, // follows only the window; a ResizeObserver follows the box
  typesetMath: false,
  displaylogo: false,
  displayModeBar: "hover",
  doubleClick: false, // Zoom handles it
  showTips: false, // about double clicks
  modeBarButtons: [["toImage"]], // plotly's own choice has one that uploads the chart
};

const STEPS: Record<string, number> = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };

/** The layout, without plotly's legend if the chart has another one. */
function bare(figure: Figure): Layout {
  const { layout } = figure;
  if (legendOf(figure).length === 0) return layout;
  return { ...layout, showlegend: false, height: layout.meta?.height ?? layout.height ?? HEIGHT };
}

function withoutShapes({ layout: { shapes: _, ...layout }, ...rest }: Figure): string {
  return JSON.stringify({ ...rest, layout });
}

export class Chart {
  readonly element: HTMLElement;
  #caption = make("p", { className: "hta-caption" });
  #legend = new Legend();
  #node: PlotlyNode;
  #plotly: Plotly;
  #figure: Figure;
  #handlers: Handlers;
  #zoom: Zoom;
  #drawn = ""; // the figure as text; empty until it is drawn
  #unshaped = ""; // the same without its shapes
  #followed = false;
  #width = 0;
  #focused = -1;

  constructor(figure: Figure, plotly: Plotly, handlers: Handlers, signal: AbortSignal) {
    this.#figure = figure;
    this.#plotly = plotly;
    this.#handlers = handlers;
    this.#node = make("div") as HTMLElement as PlotlyNode;
    this.#zoom = new Zoom(handlers.zoom, plotly, this.#node, signal);
    this.element = keepKeys(
      make(
        "div",
        { className: "hta-figure", role: "group" },
        this.#caption,
        this.#legend.element,
        this.#zoom.element,
        this.#node,
      ),
    );
    this.element.addEventListener("keydown", (event) => this.#key(event), { signal });
    followSize(this.element, () => void this.#resized(), signal);
    signal.addEventListener("abort", () => this.#plotly.purge(this.#node), { once: true });
  }

  /** Reserve the room that a figure needs. */
  place(figure: Figure, captioned: boolean): void {
    this.#caption.textContent = captioned ? figure.name : "";
    const { wide = false, least_width } = figure.layout.meta ?? {};
    this.element.classList.toggle("hta-whole-row", wide);
    this.element.style.flexBasis = least_width ? `${least_width}px` : "";
  }

  show(figure: Figure): Promise<void> {
    this.#figure = figure;
    this.#legend.show(legendOf(figure));
    const zooms = this.#zoom.show(figure);
    const keys = [
      ...(focusablePoints(figure).length > 0 ? ["arrow keys move, Enter selects"] : []),
      ...(zooms ? ["plus and minus zoom, arrow keys move, 0 shows all"] : []),
    ];
    this.element.style.minHeight = `${bare(figure).height ?? HEIGHT}px`;
    this.element.setAttribute("aria-label", [figure.name, ...keys].join(": "));
    if (keys.length > 0) this.element.tabIndex = 0;
    else this.element.removeAttribute("tabindex");
    if (zooms) return this.draw(); // the user has moved it
    if (this.#isDrawn()) return Promise.resolve();
    return this.#isDrawnButShapes() ? this.#reshape() : this.draw();
  }

  #isDrawnButShapes(): boolean {
    return this.#drawn !== "" && this.#unshaped === withoutShapes(this.#figure);
  }

  /** Redraw only the shapes, such as the ring around the selection: a chart of a thousand bars takes long to redraw. */
  async #reshape(): Promise<void> {
    this.#drawn = JSON.stringify(this.#figure);
    await this.#plotly.relayout(this.#node, { shapes: structuredClone(this.#figure.layout.shapes ?? []) });
  }

  #isDrawn(): boolean {
    return this.#drawn === JSON.stringify(this.#figure);
  }

  async draw(): Promise<void> {
    // A hidden tab has no width; the observer calls when it gets one.
    this.#width = this.element.clientWidth;
    this.#drawn = this.#width === 0 ? "" : JSON.stringify(this.#figure);
    if (!this.#drawn) return;
    this.#unshaped = withoutShapes(this.#figure);
    const { name, data } = this.#figure;
    const zoomed = this.#zoom.layout(bare(this.#figure));
    const themed = { height: HEIGHT, ...zoomed, autosize: true, uirevision: name, template: template(this.element) };
    // Copied: plotly writes into what it is given, and the model's state is saved in the notebook.
    await this.#plotly.react(this.#node, structuredClone(data), structuredClone(themed), CONFIG);
    if (!this.#followed) this.#follow();
    this.#checkTypes();
  }

  #follow(): void {
    this.#followed = true;
    this.#node.on("plotly_click", (event) => this.#clicked(event));
    this.#node.on("plotly_hover", ({ points }) => point(points[0] ? pickAt(this.#figure, points[0]) : null));
    this.#node.on("plotly_unhover", () => point(null));
    this.#zoom.follow();
  }

  #checkTypes(): void {
    // plotly silently draws a trace type that is not in its bundle as a scatter.
    this.#figure.data.forEach(({ type = "scatter" }, index) => {
      if (this.#node._fullData?.[index]?.type !== type) throw new Error(`this build of plotly.js has no ${type} trace`);
    });
  }

  async #resized(): Promise<void> {
    const width = this.element.clientWidth;
    // A figure sets its own height and is drawn at that height.
    if (width === 0 || width === this.#width) return;
    this.#width = width;
    if (this.#isDrawn()) await this.#plotly.Plots.resize(this.#node);
    else await this.draw();
  }

  #clicked({ event, points }: PlotlyEvent): void {
    const pick = points[0] && pickAt(this.#figure, points[0]);
    if (pick) this.#handlers.pick(pick, Boolean(event && (event.ctrlKey || event.metaKey || event.shiftKey)));
  }

  #key(event: KeyboardEvent): void {
    if (event.target !== this.element) return;
    if (this.#pickKey(event) || this.#zoom.key(event.key)) event.preventDefault();
  }

  #pickKey(event: KeyboardEvent): boolean {
    const points = focusablePoints(this.#figure);
    if (points.length === 0) return false;
    const step = STEPS[event.key];
    const here = points[this.#focused];
    if (step !== undefined) this.#hover(points, this.#focused < 0 && step > 0 ? 0 : this.#focused + step);
    else if (here && (event.key === "Enter" || event.key === " ")) this.#choose(here, event);
    else return false;
    return true;
  }

  #hover(points: Point[], place: number): void {
    this.#focused = (place + points.length) % points.length;
    const point = points[this.#focused];
    if (point) this.#plotly.Fx.hover(this.#node, [point]);
  }

  #choose(point: Point, { ctrlKey, metaKey, shiftKey }: KeyboardEvent): void {
    const pick = pickAt(this.#figure, point);
    if (pick) this.#handlers.pick(pick, ctrlKey || metaKey || shiftKey);
  }
}
