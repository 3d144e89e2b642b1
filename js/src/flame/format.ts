// Formats times and amounts of memory like Python does: three digits and a unit.
import { SIZES, TIMES, threeDigits, unitOf } from "../units";
import type { Unit } from "./types";

export function quantity(value: number, unit: Unit): string {
  const [symbol, size] = unitOf(unit === "bytes" ? SIZES : TIMES, value);
  return `${threeDigits(value / size)} ${symbol}`;
}

export function share(ns: number, whole: number): string {
  return `${threeDigits(whole > 0 ? (100 * ns) / whole : 0)} %`;
}
