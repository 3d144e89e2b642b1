// Formats times, and places the ticks of an axis.
import { withMinus } from "../cells";
import { roundStep } from "../ticks";
import { SIZES, TIMES, threeDigits, unitOf } from "../units";

/** A duration with three digits: "12.4 ms". */
export function duration(ns: number): string {
  const size = Math.abs(ns);
  const [name, unit] = unitOf(TIMES, size);
  const value = ns / unit;
  const digits = Math.abs(value) >= 100 || unit === 1 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return `${withMinus(value.toFixed(digits))}\u00a0${name}`;
}

/** A time, as exact as the window it is shown in requires. */
export function moment(ns: number, span: number): string {
  const [name, unit] = unitOf(TIMES, Math.max(Math.abs(ns), span));
  const digits = Math.max(0, Math.min(9, Math.ceil(Math.log10((unit / span) * 1000))));
  return `${withMinus((ns / unit).toFixed(unit === 1 ? 0 : digits))}\u00a0${name}`;
}

export interface Tick {
  ns: number;
  label: string;
}

/** About `count` round times between two times. */
export function ticks(start: number, end: number, count: number): Tick[] {
  const step = Math.max(1, roundStep((end - start) / Math.max(1, count)));
  const reach = Math.max(Math.abs(start), Math.abs(end));
  const [name, unit] = unitOf(TIMES, reach);
  const digits = Math.max(0, Math.min(9, -Math.floor(Math.log10(step / unit) + 1e-9)));
  const found: Tick[] = [];
  for (let place = Math.ceil(start / step); place * step <= end; place += 1) {
    const value = withMinus(((place * step) / unit).toFixed(digits));
    found.push({ ns: place * step, label: found.length === 0 ? `${value}\u00a0${name}` : value });
  }
  return found;
}

/** A value of a curve with its unit: "6.63 GB", "111 operations", "0.12 GB/s". */
export function amount(value: number, unit: string): string {
  if (unit === "GB/s" && value > 0 && value < 0.1) return `${threeDigits(value * 1e3)}\u00a0MB/s`;
  if (unit !== "bytes")
    return `${threeDigits(value)}\u00a0${value === 1 ? unit.replace(/^op(eration)?s$/, "op$1") : unit}`;
  const [name, size] = unitOf(SIZES, value);
  return `${threeDigits(value / size)}\u00a0${name}`;
}
