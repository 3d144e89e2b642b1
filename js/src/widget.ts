// What the loader takes from the assets model: it draws panels and dashboards.
import type { RenderProps } from "@anywidget/types";
import dashboard from "./dashboard";
import panel from "./panel";
import type { DashboardState, PanelState, WidgetState } from "./types";

function isDashboard(props: RenderProps<WidgetState>): props is RenderProps<DashboardState> {
  return props.model.get("_panels") !== undefined;
}

function render(props: RenderProps<WidgetState>): void {
  if (isDashboard(props)) dashboard.render(props);
  else panel.render(props as RenderProps<PanelState>);
}

export default { render };
