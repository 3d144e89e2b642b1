// What the pointer is on (a time, a rank, a kernel), shared with all parts of a page.

export interface Hovered {
  /** Time since the first event of all ranks. */
  time_ns?: number;
  /** Time since the start of the steps that are shown one below the other. */
  step_ns?: number;
  rank?: number;
  /** Full name. */
  kernel?: string;
}

type Callback = (hovered: Hovered | null) => void;

const callbacks = new Set<Callback>();

/** Tell all other parts; null when the pointer has left. */
export function show(hovered: Hovered | null, from?: Callback): void {
  for (const callback of [...callbacks]) if (callback !== from) callback(hovered);
}

/** Tell all parts about an item of a selection field, such as the kernel of a bar. */
export function point(picked: { field: string; item: unknown } | null): void {
  const { field, item } = picked ?? {};
  if (field === "kernel" && typeof item === "string") show({ kernel: item });
  else if (field === "ranks" && typeof item === "number") show({ rank: item });
  else show(null);
}

/** Listen until the signal aborts. */
export function listen(callback: Callback, signal: AbortSignal): void {
  callbacks.add(callback);
  signal.addEventListener("abort", () => callbacks.delete(callback), { once: true });
}
