// Numbers as typed by a user and as positions of a slider.
import type { SliderSpec } from "./types";

const TRACK = 1000;

/** What a number field accepts; a `max` of null means no upper bound. */
export type Bounds = Pick<SliderSpec, "min" | "step" | "unit"> & { max: number | null };

/** Parse what was typed: the number, or a message on what is wrong with it. */
export function parse(text: string, { min, max, step }: Bounds): number | string {
  const value = Number(text);
  if (text.trim() === "" || Number.isNaN(value)) return "enter a number";
  if (Number.isInteger(step) && !Number.isInteger(value)) return "enter a whole number";
  if (value < min) return `at least ${min}`;
  if (max !== null && value > max) return `at most ${max}`;
  return value;
}

/** Attributes of a range input; a logarithmic one has a separate track. */
export function track({ min, max, step, log }: SliderSpec): { min: string; max: string; step: string } {
  const [low, high, stride] = log ? [0, TRACK, 1] : [min, max, step];
  return { min: String(low), max: String(high), step: String(stride) };
}

/** Position of a value on the track. */
export function position(value: number, { min, max, log }: SliderSpec): number {
  const inside = Math.min(Math.max(value, min), max);
  return log ? (TRACK * Math.log(inside / min)) / Math.log(max / min) : inside;
}

/** Value at a position on the track. */
export function valueAt(place: number, { min, max, step, log }: SliderSpec): number {
  if (!log) return place;
  const value = min * (max / min) ** (place / TRACK);
  return Number((Math.round(value / step) * step).toPrecision(12));
}
