// Popovers stay next to the element that opened them, and close when it scrolls out of sight.
// JupyterLab scrolls when a click makes a cell the active one: the first click must not be lost.

function place(popover: HTMLElement, anchor: HTMLElement): void {
  const { left, top, bottom } = anchor.getBoundingClientRect();
  const { width, height } = popover.getBoundingClientRect();
  const below = bottom + 4 + height <= innerHeight || top < height;
  popover.style.left = `${Math.max(4, Math.min(left, innerWidth - width - 4))}px`;
  popover.style.top = `${below ? bottom + 4 : top - height - 4}px`;
}

/** Whether only the popover, which may not be in place yet, covers the anchor. */
function isInSight(anchor: HTMLElement, popover: HTMLElement): boolean {
  const { left, right, top, bottom } = anchor.getBoundingClientRect();
  const root = anchor.getRootNode() as Document | ShadowRoot;
  const over = root.elementFromPoint((left + right) / 2, (top + bottom) / 2);
  return anchor.contains(over) || popover.contains(over);
}

/** Keep a popover next to its anchor; call the returned function after the popover has changed. */
export function float(popover: HTMLElement, anchor: HTMLElement, signal: AbortSignal): () => void {
  const opened = () => popover.matches(":popover-open");
  const follow = () => opened() && place(popover, anchor);
  const observer = new ResizeObserver(follow); // a longer finding moves the anchor
  const toggled = () => {
    follow();
    observer.observe(anchor.closest("section") ?? anchor);
  };
  const scrolled = ({ target }: Event) => {
    if (target === anchor || popover.contains(target as Node) || !opened()) return;
    if (isInSight(anchor, popover)) follow();
    else popover.hidePopover();
  };
  popover.addEventListener("toggle", toggled, { signal });
  document.addEventListener("scroll", scrolled, { capture: true, signal });
  signal.addEventListener("abort", () => observer.disconnect(), { once: true });
  return follow;
}
