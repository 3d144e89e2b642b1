// The style sheet of all widgets of a page, adopted by the document or the shadow root that a widget stands in.
import dashboard from "./dashboard/dashboard.css";
import flame from "./flame/flame.css";
import panel from "./panel.css";
import table from "./table.css";
import { followTheme, isDark } from "./theme";
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

/** Give a widget the styles and the colour scheme of its page, at once and with each change of its theme. */
export function followPage(root: HTMLElement, signal: AbortSignal, changed: () => void = () => undefined): void {
  const apply = () => {
    adoptStyles(root);
    root.style.colorScheme = isDark(root) ? "dark" : "light";
    changed();
  };
  followTheme(() => requestAnimationFrame(apply), signal);
  requestAnimationFrame(apply);
}

adoptStyles(document.documentElement);
