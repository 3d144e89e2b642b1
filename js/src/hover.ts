// What the pointer is on, told to all parts of a page: a moment, a rank, a kernel.

export interface Hovered {
  /** Since the first event of all ranks. */
  time_ns?: number;
  /** Since the start of the steps that are shown below each other. */
  step_ns?: number;
  rank?: number;
  /** Full name. */
  kernel?: string;
}

type Callback = (hovered: Hovered | null) => void;

const callbacks = new Set<Callback>();

/** Tell all others; null when the pointer has left. */
export function show(hovered: Hovered | null, from?: Callback): void {
  for (const callback of [...callbacks]) if (callback !== from) callback(hovered);
}

/** Tell all what an item of a field of the selection is, such as the kernel of a bar. */
export function point(picked: { field: string; item: unknown } | null): void {
  const { field, item } = picked ?? {};
  if (field === "kernel" && typeof item === "string") show({ kernel: item });
  else if (field === "ranks" && typeof item === "number") show({ rank: item });
  else show(null);
}

/** Be told until the signal aborts. */
export function listen(callback: Callback, signal: AbortSignal): void {
  callbacks.add(callback);
  signal.addEventListener("abort", () => callbacks.delete(callback), { once: true });
}
