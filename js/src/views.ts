// Draws any widget except a dashboard, in its own cell or inside a dashboard.
import type { RenderProps } from "@anywidget/types";
import change, { type ChangeState } from "./change";
import type { WidgetState } from "./dashboard/types";
import flame from "./flame/flame";
import type { FlameState } from "./flame/types";
import panel from "./panel";
import second, { type SecondState } from "./second";
import timeline from "./timeline/timeline";
import type { TimelineState } from "./timeline/types";
import type { PanelState } from "./types";

function isTimeline(props: RenderProps<WidgetState>): props is RenderProps<TimelineState> {
  return props.model.get("_timeline") !== undefined;
}

function isFlame(props: RenderProps<WidgetState>): props is RenderProps<FlameState> {
  return props.model.get("_flame") !== undefined;
}

function isChange(props: RenderProps<WidgetState>): props is RenderProps<ChangeState> {
  return props.model.get("_stacked") !== undefined;
}

function isSecond(props: RenderProps<WidgetState>): props is RenderProps<SecondState> {
  return props.model.get("_second") !== undefined;
}

export function renderView(props: RenderProps<WidgetState>): void {
  if (isTimeline(props)) timeline.render(props);
  else if (isFlame(props)) flame.render(props);
  else if (isSecond(props)) second.render(props);
  else if (isChange(props)) change.render(props);
  else panel.render(props as RenderProps<PanelState>);
}
