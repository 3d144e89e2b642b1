// The known part of a curve: the minimum and maximum of each pixel of a window.

/** Extremes of the pixels of a window, NaN where nothing is known. */
export class Curve {
  readonly start: number;
  readonly end: number;
  readonly low: Float32Array;
  readonly high: Float32Array;

  constructor(start: number, end: number, low: Float32Array, high: Float32Array) {
    this.start = start;
    this.end = end;
    this.low = low;
    this.high = high;
  }

  #bin(time: number): number {
    return Math.floor(((time - this.start) / (this.end - this.start)) * this.low.length);
  }

  /** Minimum and maximum in the pixel at a time; null if unknown. */
  at(time: number): [low: number, high: number] | null {
    const bin = this.#bin(time);
    const [low, high] = [this.low[bin], this.high[bin]];
    return low === undefined || high === undefined || Number.isNaN(high) ? null : [low, high];
  }

  /** Extremes of a stretch of time; null if unknown. */
  within(start: number, end: number): [low: number, high: number] | null {
    let [least, most] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    const last = Math.min(this.low.length, this.#bin(end) + 1);
    for (let bin = Math.max(0, this.#bin(start)); bin < last; bin += 1) {
      const [low = Number.NaN, high = Number.NaN] = [this.low[bin], this.high[bin]];
      if (Number.isNaN(high)) continue;
      least = Math.min(least, low);
      most = Math.max(most, high);
    }
    return most === Number.NEGATIVE_INFINITY ? null : [least, most];
  }
}
