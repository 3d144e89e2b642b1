// marimo's editor shows 610 px of an output and scrolls the rest, except for its own tables.

/** Give a dashboard in marimo's editor its full height; otherwise it is cut above its tabs. */
export function uncut(root: Element): void {
  const { host } = root.getRootNode() as ShadowRoot;
  host?.closest<HTMLElement>(".marimo-cell .output-area")?.style.setProperty("max-height", "none");
}
