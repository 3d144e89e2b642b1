// The style sheet of all widgets of a page, adopted by the document or shadow root that contains a widget.
import dashboard from "./dashboard/dashboard.css";
import flame from "./flame/flame.css";
import panel from "./panel.css";
import table from "./table.css";
import { followTheme, isDark } from "./theme";
import timeline from "./timeline/timeline.css";

const SHEET = Symbol.for("hta_widgets.styles");

// This module runs once per page, and again after each reloaded build.
function pageSheet(): CSSStyleSheet {
  const page = globalThis as { [SHEET]?: CSSStyleSheet };
  page[SHEET] ??= new CSSStyleSheet();
  page[SHEET].replaceSync([panel, table, dashboard, timeline, flame].join("\n"));
  return page[SHEET];
}

const sheet = pageSheet();

/** Give an element in the page its styles. */
export function adoptStyles(element: Element): void {
  if (!element.isConnected) return;
  const root = element.getRootNode() as Document | ShadowRoot;
  if (!root.adoptedStyleSheets.includes(sheet)) root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet];
}

/** Give a widget the styles and colour scheme of its page, now and after each change of theme. */
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
