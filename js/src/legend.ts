// Areas and what they mean: a legend that wraps, which plotly's does not on a narrow page.
import { make } from "./dom";
import type { LegendEntry } from "./types";

/** An area that looks like those of a chart. */
export function swatch(color: string, fill: LegendEntry["fill"]): HTMLElement {
  const element = make("span", { className: `hta-swatch hta-${fill}` });
  element.style.color = color;
  return element;
}

function entry({ label, color, fill }: LegendEntry): HTMLElement {
  return make("li", {}, swatch(color, fill), label);
}

export class Legend {
  readonly element = make("ul", { className: "hta-legend", hidden: true });

  show(entries: readonly LegendEntry[]): void {
    this.element.replaceChildren(...entries.map(entry));
    this.element.hidden = entries.length === 0;
  }
}
