// Keys of the whole dashboard, for those that none of its parts handles.

interface Acts {
  search: () => void;
  /** Deselect what was selected last; return whether there was anything. */
  drop: () => boolean;
  undo: () => void;
}

const TYPED = "input:not([type=checkbox], [type=radio], [type=range]), select, textarea, [contenteditable=true]";

/** "/" searches, Escape removes the last chip, Ctrl-Z undoes one change. */
export function followKeys(root: HTMLElement, { search, drop, undo }: Acts, signal: AbortSignal): void {
  root.tabIndex = -1; // a click gives it the focus, and therefore the keys
  const press = (event: KeyboardEvent) => {
    const { key, ctrlKey, metaKey, altKey, shiftKey, target } = event;
    const command = ctrlKey || metaKey;
    if (event.defaultPrevented || altKey || (target as Element).matches(TYPED)) return;
    if ((target as Element).closest("[popover]")) return;
    if (key === "/" && !command) search();
    else if (key.toLowerCase() === "z" && command && !shiftKey) undo();
    else if (key !== "Escape" || !drop()) return;
    event.preventDefault();
    event.stopPropagation();
  };
  root.addEventListener("keydown", press, { signal });
}
