// The notebook's theme: read from the page, and followed when it changes.

type Attributes = Pick<DOMStringMap, string>;

const THEME_ATTRIBUTES = ["class", "style", "theme", "data-jp-theme-light", "data-theme"];
const VSCODE = { "vscode-dark": true, "vscode-high-contrast": true, "vscode-light": false };

function declared({ documentElement, body }: Document): boolean | undefined {
  if (documentElement.getAttribute("theme") === "dark") return true; // Colab
  const { jpThemeLight }: Attributes = body.dataset;
  if (jpThemeLight) return jpThemeLight === "false";
  for (const [name, dark] of Object.entries(VSCODE)) if (body.classList.contains(name)) return dark;
  return undefined;
}

/** Relative luminance (0 to 1) of a CSS `rgb()` or `color(srgb …)` colour; undefined if it is transparent. */
export function luminance(colour: string): number | undefined {
  const [, space, channels = ""] = colour.match(/^(rgba?\(|color\(srgb )(.+)\)$/) ?? [];
  const [red = 0, green = 0, blue = 0, alpha = 1] = channels.split(/[\s,/]+/).map(Number);
  if (!space || alpha < 0.5) return undefined;
  return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / (space.startsWith("rgb") ? 255 : 1);
}

/** The parent of an element, or of the shadow root that contains it. */
function around(element: Element): Element | null {
  const root = element.getRootNode();
  return element.parentElement ?? (root instanceof ShadowRoot ? root.host : null);
}

function behind(start: HTMLElement): number | undefined {
  for (let element: Element | null = start; element; element = around(element)) {
    const seen = luminance(getComputedStyle(element).backgroundColor);
    if (seen !== undefined) return seen;
  }
  return undefined;
}

/** Whether an element is on a dark background. */
export function isDark(element: HTMLElement): boolean {
  const stated = declared(document);
  if (stated !== undefined) return stated;
  const background = behind(element);
  if (background !== undefined) return background < 0.5;
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** The plotly template that gives a figure the fonts and colours of the page. */
export function template(element: HTMLElement): object {
  const style = getComputedStyle(element);
  const dark = isDark(element);
  const ink = dark ? "255, 255, 255" : "0, 0, 0";
  const axis = {
    gridcolor: `rgba(${ink}, 0.09)`,
    zerolinecolor: `rgba(${ink}, 0.25)`,
    linecolor: `rgba(${ink}, 0.25)`,
    tickcolor: `rgba(${ink}, 0.25)`,
    zeroline: false,
    automargin: true,
    ticklabeloverflow: "allow", // automargin makes room; plotly's own check is slow
    ticklabelstandoff: 4,
    title: { font: { size: 12 }, standoff: 8 },
  };
  const layout = {
    font: { family: style.fontFamily, size: 12, color: style.color },
    paper_bgcolor: "rgba(0, 0, 0, 0)",
    plot_bgcolor: "rgba(0, 0, 0, 0)",
    xaxis: axis,
    yaxis: axis,
    hoverlabel: {
      bgcolor: dark ? "#2b2b2b" : "#ffffff",
      bordercolor: `rgba(${ink}, 0.35)`,
      font: { family: style.fontFamily, size: 12, color: dark ? "#f0f0f0" : "#1a1a1a" },
      align: "left",
    },
    modebar: {
      bgcolor: "rgba(0, 0, 0, 0)",
      color: `rgba(${ink}, 0.45)`,
      activecolor: `rgba(${ink}, 0.85)`,
    },
    legend: { bgcolor: "rgba(0, 0, 0, 0)" },
  };
  // In heatmap cells, plotly considers white legible on pale orange, although the contrast is only 2.2.
  const data = { heatmap: [{ textfont: { color: style.color } }] };
  return { layout, data };
}

/** Whether only icons changed: JupyterLab changes its own whenever the kernel starts or stops computing. */
function isOfIcons({ type, addedNodes, removedNodes }: MutationRecord): boolean {
  const isIcon = (node: Node) => node instanceof HTMLLinkElement && node.relList.contains("icon");
  return type === "childList" && [...addedNodes, ...removedNodes].every(isIcon);
}

/** Call back when the page may have changed its theme, until the signal aborts. */
export function followTheme(callback: () => void, signal: AbortSignal): void {
  const observer = new MutationObserver((records) => {
    if (!records.every(isOfIcons)) callback();
  });
  const attributes = { attributes: true, attributeFilter: THEME_ATTRIBUTES };
  observer.observe(document.documentElement, attributes);
  observer.observe(document.body, attributes);
  observer.observe(document.head, { childList: true });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", callback, { signal });
  signal.addEventListener("abort", () => observer.disconnect(), { once: true });
}
