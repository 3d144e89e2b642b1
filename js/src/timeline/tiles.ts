// Known data of lanes: coverage and events of a window, one tile per answer.

import { Curve } from "./extremes";
import { type Coverage, raster, type Surface } from "./raster";
import { bytes } from "./runs";
import type { ClassLook, Plane, TimelineLayout, WindowAnswer } from "./types";
import type { Bins, Span } from "./view";

export interface Event {
  start: number;
  duration: number;
  row: number;
  look: ClassLook;
  name: string;
  label: string;
}

export class LaneTile {
  readonly start: number;
  readonly end: number;
  readonly bins: number;
  readonly complete: boolean;
  #coverages: Coverage[];
  #events: Columns | null;
  #spans: Map<number, Span> | null = null;
  #image: { canvas: HTMLCanvasElement | null; height: number; scale: number; onDark: boolean } | null = null;

  /** Search hits per pixel; null without a search. */
  readonly found: Uint8Array | null;
  /** The search that the hits belong to. */
  readonly sought: string;
  readonly curves: readonly Curve[];

  constructor(
    window: Bins,
    coverages: Coverage[],
    events: Columns | null = null,
    complete = false,
    found: Found = NOTHING,
    curves: readonly Curve[] = [],
  ) {
    this.start = window.start;
    this.end = window.end;
    this.bins = window.bins;
    this.complete = complete;
    this.found = found.plane;
    this.sought = found.sought;
    this.curves = curves;
    this.#coverages = coverages;
    this.#events = events;
  }

  image(height: number, surface: Surface): HTMLCanvasElement | null {
    const { scale, onDark } = surface;
    if (this.#image?.height !== height || this.#image.scale !== scale || this.#image.onDark !== onDark) {
      this.#image = { canvas: raster(this.#coverages, this.bins, height, surface), height, scale, onDark };
    }
    return this.#image.canvas;
  }

  get events(): number {
    return this.#events?.start.length ?? 0;
  }

  event(place: number): Event {
    const columns = this.#events as Columns;
    const name = columns.name[place] ?? -1;
    return {
      start: this.start + (columns.start[place] ?? 0),
      duration: columns.duration[place] ?? 0,
      row: columns.row[place] ?? -1,
      look: columns.classes[columns.code[place] ?? 0] as ClassLook,
      name: columns.names[name] ?? "",
      label: columns.labels[name] ?? "",
    };
  }

  /** Span of each row, from the start of its first event to the end of its last. */
  get spans(): ReadonlyMap<number, Span> {
    if (this.#spans) return this.#spans;
    this.#spans = new Map();
    for (let place = 0; place < this.events; place += 1) {
      const { row, start, duration } = this.event(place);
      this.#spans.set(row, { start: this.#spans.get(row)?.start ?? start, end: start + duration });
    }
    return this.#spans;
  }

  /** Position of the first event that ends after a time. */
  firstAfter(time: number): number {
    const columns = this.#events;
    if (!columns) return 0;
    let low = 0;
    let high = columns.start.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const end = this.start + (columns.start[middle] ?? 0) + (columns.duration[middle] ?? 0);
      if (end <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Runs of pixels with search hits, between two pixels. */
  *runs(from: number, to: number): Generator<[first: number, last: number]> {
    const { found } = this;
    if (!found) return;
    for (let first = Math.max(0, from); first < Math.min(to, this.bins); first += 1) {
      if (!found[first]) continue;
      let last = first;
      while (last < this.bins && found[last]) last += 1;
      yield [first, last];
      first = last;
    }
  }

  /** Mean shares (0 to 1) of the classes in a stretch of time. */
  means(start: number, end: number): { look: ClassLook; share: number }[] {
    const bin = (time: number) => Math.round(((time - this.start) / (this.end - this.start)) * this.bins);
    const [first, last] = [Math.max(0, bin(start)), Math.min(this.bins, bin(end))];
    return this.#coverages
      .map(({ look, of }) => ({ look, share: mean(of.subarray(first, Math.max(first, last))) }))
      .filter(({ share }) => share > 0)
      .sort((one, other) => other.share - one.share);
  }

  /** Shares (0 to 1) of the classes in the pixel at a time. */
  shares(time: number): { look: ClassLook; share: number }[] {
    const bin = Math.floor(((time - this.start) / (this.end - this.start)) * this.bins);
    return this.#coverages
      .map(({ look, of }) => ({ look, share: (of[bin] ?? 0) / 255 }))
      .filter(({ share }) => share > 0);
  }
}

interface Found {
  plane: Uint8Array | null;
  sought: string;
}

const NOTHING: Found = { plane: null, sought: "" };

interface Columns {
  start: Float64Array;
  duration: Float64Array;
  row: Int32Array;
  code: Uint8Array;
  name: Int32Array;
  names: string[];
  labels: string[];
  classes: ClassLook[];
}

function mean(of: Uint8Array): number {
  let sum = 0;
  for (const each of of) sum += each;
  return of.length > 0 ? sum / of.length / 255 : 0;
}

/** A copy, because views of the message may not be aligned to 8 bytes. */
function aligned(view: ArrayBufferView): ArrayBuffer {
  return bytes(view).slice().buffer as ArrayBuffer;
}

/** Values from their differences, each from the previous one. */
function summed<T extends Float64Array | Int32Array>(values: T): T {
  let sum = 0;
  for (const [place, each] of values.entries()) values[place] = sum += each;
  return values;
}

function coveragesOf(planes: Plane[], all: Uint8Array, bins: number, classes: ClassLook[]): Coverage[] {
  return planes.map(({ code, at }) => ({ look: classes[code] as ClassLook, of: all.subarray(at, at + bins) }));
}

/** The tiles of an answer, by the place of the lane in the request. */
export function tilesOf(
  answer: WindowAnswer,
  buffers: ArrayBufferView[],
  classes: ClassLook[],
  sought: string,
): Map<number, LaneTile> {
  const [planes, start, duration, row, code, name, values] = buffers as [ArrayBufferView, ...ArrayBufferView[]];
  const extremes = new Float32Array(values ? aligned(values) : new ArrayBuffer(0));
  const all = bytes(planes);
  const starts = summed(new Float64Array(aligned(start as ArrayBufferView)));
  const durations = new Float64Array(aligned(duration as ArrayBufferView));
  const rows = summed(new Int32Array(aligned(row as ArrayBufferView)));
  const codes = bytes(code);
  const names = new Int32Array(aligned(name as ArrayBufferView));
  const { start: from, end: to, bins } = answer;
  const curveAt = (at: number) =>
    new Curve(from, to, extremes.subarray(at, at + bins), extremes.subarray(at + bins, at + 2 * bins));
  return new Map(
    answer.lanes.map(({ lane, found, curves, planes, first, count, complete }) => {
      const columns = {
        start: starts.subarray(first, first + count),
        duration: durations.subarray(first, first + count),
        row: rows.subarray(first, first + count),
        code: codes.subarray(first, first + count),
        name: names.subarray(first, first + count),
        names: answer.names,
        labels: answer.labels,
        classes,
      };
      const plane = found === null ? null : all.subarray(found, found + answer.bins);
      const coverages = coveragesOf(planes, all, answer.bins, classes);
      return [lane, new LaneTile(answer, coverages, columns, complete, { plane, sought }, curves.map(curveAt))];
    }),
  );
}

/** The lanes of all ranks in the model, without events. */
export function overviewTiles(layout: TimelineLayout, overview: ArrayBufferView | null): Map<number, LaneTile> {
  const all = bytes(overview);
  const [start, end] = layout.home;
  const window = { start, end, bins: layout.bins };
  return new Map(
    layout.ranks.map(({ rank, planes }) => [
      rank,
      new LaneTile(window, coveragesOf(planes, all, layout.bins, layout.classes)),
    ]),
  );
}
