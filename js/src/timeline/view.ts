// The stretch of time in view, and how to pan and zoom it.

export interface Span {
  start: number;
  end: number;
}

/** A stretch divided into equal parts, such as pixels. */
export interface Bins extends Span {
  bins: number;
}

export const SHARPNESS = 1.3;
const LEAST_NS = 50;
const ROOM = 0.5; // share of the recording, on both sides
const SEEN = 0.04; // share of the view; anything shorter looks like a line
const MOST = 0.8; // share of a stretch that must be in view
const AROUND = 4; // times the length of the stretch

/** Whether bins are hardly longer than a pixel (ns) and longer than `least` pixels, or as short as times are exact. */
export function isSharp({ start, end, bins }: Bins, pixel: number, least = 0): boolean {
  const size = (end - start) / bins;
  return (size > least * pixel && size < SHARPNESS * pixel) || size <= 1;
}

export function clamped({ start, end }: Span, whole: Span): Span {
  const room = (whole.end - whole.start) * ROOM;
  const length = Math.min(Math.max(end - start, LEAST_NS), whole.end - whole.start + 2 * room);
  const middle = (start + end) / 2;
  const first = Math.min(Math.max(middle - length / 2, whole.start - room), whole.end + room - length);
  return { start: Math.round(first), end: Math.round(first + length) };
}

/** Zoom by a factor around a time that stays in place. */
export function zoomed({ start, end }: Span, factor: number, around: number): Span {
  return { start: around - (around - start) * factor, end: around + (end - around) * factor };
}

/** Move by a share of the view. */
export function panned({ start, end }: Span, share: number): Span {
  const by = (end - start) * share;
  return { start: start + by, end: end + by };
}

/** The view that shows a stretch with its surroundings; null if most of it is visible in this view. */
export function revealed(view: Span, { start, end }: Span, whole: Span): Span | null {
  const inView = Math.min(end, view.end) - Math.max(start, view.start);
  if (inView >= MOST * (end - start) && inView >= SEEN * (view.end - view.start)) return null;
  const length = Math.min(AROUND * (end - start), whole.end - whole.start);
  const first = Math.max(whole.start, Math.min((start + end - length) / 2, whole.end - length));
  return { start: first, end: first + length };
}
