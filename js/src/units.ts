// Units of time and memory, and numbers formatted as Python formats them.

type Unit = readonly [symbol: string, size: number];

/** Units by their size in ns. */
export const TIMES: readonly Unit[] = [
  ["s", 1e9],
  ["ms", 1e6],
  ["µs", 1e3],
  ["ns", 1],
];

/** Units by their size in bytes. */
export const SIZES: readonly Unit[] = [
  ["TB", 1e12],
  ["GB", 1e9],
  ["MB", 1e6],
  ["kB", 1e3],
  ["B", 1],
];

/** The largest unit that is no larger than a value, or else the smallest. */
export function unitOf(units: readonly Unit[], value: number): Unit {
  return units.find(([, size]) => value >= size) ?? (units.at(-1) as Unit);
}

/** Three significant digits with separated thousands; ties are rounded as in Python, unlike in tables. */
export function threeDigits(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
}
