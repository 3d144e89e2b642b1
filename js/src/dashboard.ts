// All panels of a job in a grid: two columns where there is room, and wide panels in rows of their own.
import type { RenderProps } from "@anywidget/types";
import { make } from "./dom";
import { resolve } from "./models";
import panel from "./panel";
import { adoptStyles } from "./styles";
import type { DashboardState, PanelState } from "./types";

type Props = RenderProps<DashboardState>;

// Drawn by this module instead of host.getWidget, which in marimo knows only what is displayed by itself.
async function show(reference: string, place: HTMLElement, { model, signal, host }: Props): Promise<void> {
  try {
    const child = await resolve<PanelState>(model, host, reference);
    place.classList.toggle("hta-wide", child.get("_spec").wide);
    if (!signal.aborted) panel.render({ model: child, el: place, signal, host } as RenderProps<PanelState>);
  } catch (error) {
    place.textContent = `A panel cannot be shown: ${error}`;
  }
}

function render(props: Props): void {
  const places = props.model.get("_panels").map((reference) => {
    const place = make("div");
    void show(reference, place, props);
    return place;
  });
  const grid = make("div", { className: "hta-dashboard" }, ...places);
  props.el.append(grid);
  requestAnimationFrame(() => adoptStyles(grid));
}

export default { render };
