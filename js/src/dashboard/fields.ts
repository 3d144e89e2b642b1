// Describes the fields of a selection in words.

import { EVERYTHING } from "../picks";
import { TIMES, unitOf } from "../units";

export const FIELDS: readonly string[] = Object.keys(EVERYTHING);

const LONGEST = 36;
/** Whether a value selects less than everything. */
export function isSet(value: unknown): boolean {
  return Array.isArray(value) ? value.length > 0 : value !== "" && value !== null && value !== undefined;
}

/** Numbers in compact form: "0–2, 4". */
export function ranges(numbers: readonly number[]): string {
  const runs: [number, number][] = [];
  for (const each of [...numbers].sort((one, other) => one - other)) {
    const last = runs.at(-1);
    if (last && each === last[1] + 1) last[1] = each;
    else runs.push([each, each]);
  }
  return runs.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`)).join(", ");
}

/** A stretch of time in one unit, with enough digits to show its length. */
export function stretch([start, end]: readonly [number, number]): string {
  const [unit, ns] = unitOf(TIMES, Math.max(Math.abs(start), Math.abs(end)));
  const most = Math.round(Math.log10(ns));
  const digits = Math.min(Math.max(2 - Math.floor(Math.log10((end - start) / ns)), 0), most);
  return `${(start / ns).toFixed(digits)}–${(end / ns).toFixed(digits)} ${unit}`;
}

/** A text of at most a few words, cut in the middle. */
export function shortened(text: string, longest = LONGEST): string {
  const half = Math.floor((longest - 1) / 2);
  return text.length <= longest ? text : `${text.slice(0, half)}…${text.slice(-half)}`;
}

function counted(noun: string, numbers: readonly number[]): string {
  return `${noun}${numbers.length > 1 ? "s" : ""} ${shortened(ranges(numbers))}`;
}

function named(noun: string, names: readonly string[]): string {
  return names.length === 1 ? shortened(names[0] ?? "") : `${names.length} ${noun}s`;
}

/** Input shapes of an operator, as charts write them: "8×64, 64". */
function sizes(shape: string): string {
  const each = shape.match(/\[(\d+(?:, ?\d+)*)\]/g) ?? [];
  return each.map((one) => one.slice(1, -1).replace(/, ?/g, "×")).join(", ") || shape;
}

/** What a field selects, in words. */
export function describeField(field: string, value: unknown): string {
  switch (field) {
    case "ranks":
      return counted("rank", value as number[]);
    case "steps":
      return counted("step", value as number[]);
    case "streams":
      return counted("stream", value as number[]);
    case "operators":
      return named("operator", value as string[]);
    case "shapes":
      return named("shape", (value as string[]).map(sizes));
    case "modules":
      return named(
        "module",
        (value as string[]).map((path) => path.split(" › ").at(-1) ?? path),
      );
    case "window_ns":
      return stretch(value as [number, number]);
    case "finding":
      return `finding ${(value as number) + 1}`;
    default:
      return shortened(String(value));
  }
}
