// The figures of a view, side by side; a figure keeps its chart as long as its name stays.
import { make } from "./dom";
import { Chart, type Handlers } from "./figure";
import type { Plotly } from "./plotly";
import type { Figure } from "./types";

interface Shown {
  chart: Chart;
  stop: AbortController;
}

/** Let the page respond between two charts, each of which can take 50 ms. */
const nextTask = () => new Promise((resolve) => setTimeout(resolve));

export class Charts {
  readonly element = make("div", { className: "hta-figures" });
  #plotly: Promise<Plotly>;
  #handlers: Handlers;
  #signal: AbortSignal;
  #shown = new Map<string, Shown>();
  #latest: readonly Figure[] = [];

  constructor(plotly: Promise<Plotly>, handlers: Handlers, signal: AbortSignal) {
    this.#plotly = plotly;
    this.#handlers = handlers;
    this.#signal = signal;
  }

  async show(figures: readonly Figure[]): Promise<void> {
    this.#latest = figures;
    if (this.#shown.size === 0 && figures.length > 0) this.element.textContent = "Loading the chart…";
    try {
      const plotly = await this.#plotly;
      if (figures !== this.#latest || this.#signal.aborted) return;
      this.#keepOnly(figures);
      // Place all before drawing the first: its width depends on the number in its row.
      const placed = figures.map((figure, place) => ({ figure, chart: this.#chart(figure, place, plotly) }));
      for (const { figure, chart } of placed) chart.place(figure, placed.length > 1);
      for (const [place, { figure, chart }] of placed.entries()) {
        if (place > 0) await nextTask();
        if (figures !== this.#latest || this.#signal.aborted) return;
        await chart.show(figure);
      }
    } catch (error) {
      this.#keepOnly([]);
      this.element.textContent = `The chart could not be drawn (${error}). Its numbers are in the data table.`;
    }
  }

  redraw(): void {
    for (const { chart } of this.#shown.values()) void chart.draw();
  }

  #chart(figure: Figure, place: number, plotly: Plotly): Chart {
    const known = this.#shown.get(figure.name);
    if (known) return known.chart;
    const stop = new AbortController();
    const chart = new Chart(figure, plotly, this.#handlers, AbortSignal.any([stop.signal, this.#signal]));
    this.#shown.set(figure.name, { chart, stop });
    this.element.insertBefore(chart.element, this.element.children[place] ?? null);
    return chart;
  }

  #keepOnly(figures: readonly Figure[]): void {
    if (this.#shown.size === 0) this.element.textContent = "";
    const names = new Set(figures.map(({ name }) => name));
    for (const [name, { chart, stop }] of this.#shown) {
      if (names.has(name)) continue;
      stop.abort();
      chart.element.remove();
      this.#shown.delete(name);
    }
  }
}
