// The module that the loader takes from the assets model; it draws panels and dashboards.
import type { RenderProps } from "@anywidget/types";
import dashboard from "./dashboard/dashboard";
import type { DashboardState, WidgetState } from "./dashboard/types";
import { renderView } from "./views";

function isDashboard(props: RenderProps<WidgetState>): props is RenderProps<DashboardState> {
  return props.model.get("_panels") !== undefined;
}

function render(props: RenderProps<WidgetState>): void {
  if (isDashboard(props)) dashboard.render(props);
  else renderView(props);
  // Hosts keep the element of an output after it is gone.
  props.signal.addEventListener("abort", () => props.el.replaceChildren(), { once: true });
}

export default { render };
