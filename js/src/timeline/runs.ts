// Bytes that Python sends as runs of equal bytes; see in_runs in hta_widgets/panels/timeline/encoding.py.
import type { TimelineLayout } from "./types";

export function bytes(view: ArrayBufferView | null | undefined): Uint8Array {
  return view ? new Uint8Array(view.buffer, view.byteOffset, view.byteLength) : new Uint8Array();
}

/** The overview in the model: planes of the ranks, then bands. */
export function overviewBytes(layout: TimelineLayout, sent: ArrayBufferView | null): Uint8Array {
  if (!sent) return new Uint8Array();
  const ends = layout.ranks.flatMap(({ planes }) => planes.map(({ at }) => at + layout.bins));
  const endsOfBands = layout.bands.map(({ at }) => at + 3 * layout.band_bins);
  return fromRuns(sent, Math.max(0, ...ends, ...endsOfBands));
}

/** The `size` decoded bytes; Python sends them as they are if runs would not be shorter. */
export function fromRuns(sent: ArrayBufferView, size: number): Uint8Array {
  const runs = bytes(sent);
  if (runs.length >= size) return runs;
  const decoded = new Uint8Array(size);
  const count = runs.length / 2;
  let at = 0;
  for (let run = 0; run < count; run += 1) {
    const end = at + (runs[count + run] as number) + 1;
    decoded.fill(runs[run] as number, at, end);
    at = end;
  }
  return decoded;
}
