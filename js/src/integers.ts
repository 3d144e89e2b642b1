// Sets of ranks or streams: in words, from a filter, and after a click. An empty list means all of them.

/** Describe the chosen integers compactly; the noun is what they count. */
export function describe(chosen: readonly number[], all: readonly number[], noun: string): string {
  if (chosen.length === 0 || chosen.length === all.length) {
    if (all.length === 1) return `${noun} ${all[0]}`;
    return all.length === 2 ? `both ${noun}s` : `all ${all.length} ${noun}s`;
  }
  if (chosen.length === 1) return `${noun} ${chosen[0]}`;
  if (chosen.length <= 3) return `${noun}s ${chosen.join(", ")}`;
  return `${chosen.length} of ${all.length} ${noun}s`;
}

/** The integers that a filter such as "3, 8-15" names; an empty filter names all. */
export function filter(text: string, all: readonly number[]): number[] {
  const spans = text
    .split(/[\s,;]+/)
    .filter(Boolean)
    .map(span);
  return spans.length === 0 ? [...all] : all.filter((each) => spans.some(([low, high]) => low <= each && each <= high));
}

function span(text: string): [number, number] {
  const [low = "", high = low] = text.split("-");
  return [Number(low), high === "" ? Number.POSITIVE_INFINITY : Number(high)];
}

/** Selection after a click on an item: only this item, or nothing; `add` adds or removes it. */
export function afterClick<T>(chosen: readonly T[], item: T, add: boolean): T[] {
  const rest = chosen.filter((other) => other !== item);
  const was = rest.length < chosen.length;
  if (add) return was ? rest : [...rest, item];
  return was && rest.length === 0 ? [] : [item];
}
