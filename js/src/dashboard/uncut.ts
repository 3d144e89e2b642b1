// marimo's editor shows 610 px of an output and scrolls the rest, its own tables apart.

/** Give a dashboard in marimo's editor all of its height: it would be cut above its tabs. */
export function uncut(root: Element): void {
  const { host } = root.getRootNode() as ShadowRoot;
  host?.closest<HTMLElement>(".marimo-cell .output-area")?.style.setProperty("max-height", "none");
}
