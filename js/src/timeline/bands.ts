// Bands of many ranks: for each class, from the rank with the least time in it to the one with the most.
import { bytes } from "./runs";
import type { BandsAnswer, ClassLook, TimelineLayout } from "./types";
import type { Bins, Span } from "./view";

export class BandTile {
  readonly look: ClassLook;
  readonly start: number;
  readonly end: number;
  /** Shares of each pixel, 255 for the whole pixel. */
  readonly least: Uint8Array;
  readonly median: Uint8Array;
  readonly most: Uint8Array;

  constructor(look: ClassLook, { start, end }: Span, planes: Uint8Array) {
    const bins = planes.length / 3;
    this.look = look;
    this.start = start;
    this.end = end;
    this.least = planes.subarray(0, bins);
    this.median = planes.subarray(bins, 2 * bins);
    this.most = planes.subarray(2 * bins);
  }

  #bin(time: number): number {
    return ((time - this.start) / (this.end - this.start)) * this.least.length;
  }

  /** Sum of the medians (0 to 1) of the pixels in a stretch of time, and the number of these pixels. */
  sum(start: number, end: number): [sum: number, pixels: number] {
    const shown = this.median.subarray(
      Math.max(0, Math.round(this.#bin(start))),
      Math.max(0, Math.round(this.#bin(end))),
    );
    return [shown.reduce((sum, share) => sum + share, 0) / 255, shown.length];
  }

  /** Least, median and largest share (0 to 1) at a time; null where nothing is known. */
  at(time: number): [least: number, median: number, most: number] | null {
    const bin = Math.floor(this.#bin(time));
    const [least, median, most] = [this.least[bin], this.median[bin], this.most[bin]];
    if (least === undefined || median === undefined || most === undefined) return null;
    return [least / 255, median / 255, most / 255];
  }
}

type Tiles = ReadonlyMap<string, BandTile>;

interface Piece extends Span {
  tile: BandTile;
}

/** The bands in the model, overlaid with those of the window that was requested last. */
export class Bands {
  /** Bands of the newest window. */
  window: Bins | null = null;
  #layout: TimelineLayout;
  #whole: Tiles;
  #sharp: Tiles = new Map();

  constructor(layout: TimelineLayout, overview: ArrayBufferView | null) {
    const [start, end] = layout.home;
    this.#layout = layout;
    this.#whole = this.#tiles(layout.bands, { start, end }, layout.band_bins, bytes(overview));
  }

  #tiles(bands: TimelineLayout["bands"], span: Span, bins: number, all: Uint8Array): Tiles {
    return new Map(
      bands.map(({ code, at }) => {
        const look = this.#layout.classes[code] as ClassLook;
        return [look.name, new BandTile(look, span, all.subarray(at, at + 3 * bins))];
      }),
    );
  }

  /** Take over a window. */
  sharpen(answer: BandsAnswer, buffers: ArrayBufferView[]): void {
    this.window = answer;
    this.#sharp = this.#tiles(answer.bands, answer, answer.bins, bytes(buffers[0]));
  }

  /** Forget the window. */
  blur(): void {
    this.window = null;
    this.#sharp = new Map();
  }

  /** Sources of a band in a stretch of time: the window, and around it the model. */
  pieces(name: string, { start, end }: Span): Piece[] {
    const [whole, sharp] = [this.#whole.get(name), this.#sharp.get(name)];
    const from = Math.min(Math.max(sharp?.start ?? end, start), end);
    const to = Math.min(Math.max(sharp?.end ?? end, from), end);
    const found = [
      { tile: whole, start, end: from },
      { tile: sharp, start: from, end: to },
      { tile: whole, start: to, end },
    ];
    return found.filter((piece): piece is Piece => piece.tile !== undefined && piece.end > piece.start);
  }

  /** Mean of the median (0 to 1) over a stretch of time. */
  mean(name: string, start: number, end: number): number {
    let [total, length] = [0, 0];
    for (const { tile, start: from, end: to } of this.pieces(name, { start, end })) {
      const [sum, pixels] = tile.sum(from, to);
      const width = (tile.end - tile.start) / tile.median.length;
      total += sum * width;
      length += pixels * width;
    }
    return length > 0 ? total / length : (this.at(name, (start + end) / 2)?.[1] ?? 0);
  }

  /** Least, median and largest share (0 to 1) at a time; null where nothing is known. */
  at(name: string, time: number): ReturnType<BandTile["at"]> {
    return this.#sharp.get(name)?.at(time) ?? this.#whole.get(name)?.at(time) ?? null;
  }
}
