// What many ranks do together: for each class a band from the rank that does least of it to the one that does most.
import type { ClassLook, TimelineLayout } from "./types";

export class BandTile {
  readonly look: ClassLook;
  readonly start: number;
  readonly end: number;
  /** Shares of each pixel, 255 for all of it. */
  readonly least: Uint8Array;
  readonly median: Uint8Array;
  readonly most: Uint8Array;

  constructor(look: ClassLook, [start, end]: [number, number], planes: Uint8Array) {
    const bins = planes.length / 3;
    this.look = look;
    this.start = start;
    this.end = end;
    this.least = planes.subarray(0, bins);
    this.median = planes.subarray(bins, 2 * bins);
    this.most = planes.subarray(2 * bins);
  }

  /** Mean of the median (0 to 1) over a stretch of time. */
  mean(start: number, end: number): number {
    const bin = (time: number) => Math.round(((time - this.start) / (this.end - this.start)) * this.median.length);
    const shown = this.median.subarray(Math.max(0, bin(start)), Math.max(0, bin(end)));
    return shown.length > 0 ? shown.reduce((sum, share) => sum + share, 0) / shown.length / 255 : 0;
  }

  /** Least, median and largest share (0 to 1) at a time; null where nothing is known. */
  at(time: number): [least: number, median: number, most: number] | null {
    const bin = Math.floor(((time - this.start) / (this.end - this.start)) * this.least.length);
    const [least, median, most] = [this.least[bin], this.median[bin], this.most[bin]];
    if (least === undefined || median === undefined || most === undefined) return null;
    return [least / 255, median / 255, most / 255];
  }
}

/** The bands as the model carries them, by name of the class. */
export function bandTiles(layout: TimelineLayout, overview: ArrayBufferView | null): Map<string, BandTile> {
  const all = overview ? new Uint8Array(overview.buffer, overview.byteOffset, overview.byteLength) : new Uint8Array();
  return new Map(
    layout.bands.map(({ code, at }) => {
      const look = layout.classes[code] as ClassLook;
      return [look.name, new BandTile(look, layout.home, all.subarray(at, at + 3 * layout.band_bins))];
    }),
  );
}
