// The style sheet of all widgets of a page, adopted by the document or the shadow root that a widget stands in.
import dashboard from "./dashboard/dashboard.css";
import flame from "./flame/flame.css";
import panel from "./panel.css";
import table from "./table.css";
import timeline from "./timeline/timeline.css";

const SHEET = Symbol.for("hta_widgets.styles");

// This module runs once per page, and once more after each build that is reloaded.
function pageSheet(): CSSStyleSheet {
  const page = globalThis as { [SHEET]?: CSSStyleSheet };
  page[SHEET] ??= new CSSStyleSheet();
  page[SHEET].replaceSync([panel, table, dashboard, timeline, flame].join("\n"));
  return page[SHEET];
}

const sheet = pageSheet();

/** Give its styles to an element that is in the page. */
export function adoptStyles(element: Element): void {
  if (!element.isConnected) return;
  const root = element.getRootNode() as Document | ShadowRoot;
  if (!root.adoptedStyleSheets.includes(sheet)) root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet];
}

adoptStyles(document.documentElement);
