// Times and amounts of memory in words, as Python writes them: three digits and a unit.

import type { Unit } from "./types";

const UNITS: [ns: number, symbol: string][] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
];

function threeDigits(value: number): string {
  if (value >= 100) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(3)));
}

export function duration(ns: number): string {
  const [size, symbol] = UNITS.find(([each]) => ns >= each) ?? [1, "ns"];
  return `${threeDigits(ns / size)} ${symbol}`;
}

const SIZES: [bytes: number, symbol: string][] = [
  [1e12, "TB"],
  [1e9, "GB"],
  [1e6, "MB"],
  [1e3, "kB"],
];

export function dataSize(bytes: number): string {
  const [size, symbol] = SIZES.find(([each]) => bytes >= each) ?? [1, "B"];
  return `${threeDigits(bytes / size)} ${symbol}`;
}

export function quantity(value: number, unit: Unit): string {
  return unit === "bytes" ? dataSize(value) : duration(value);
}

export function share(ns: number, whole: number): string {
  return `${threeDigits(whole > 0 ? (100 * ns) / whole : 0)} %`;
}
