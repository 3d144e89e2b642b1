/** As much of a text as fits into a width, with "…" at the end if it is cut. */
export function cut(text: string, width: number, measure: (text: string) => number): string {
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (measure(`${text.slice(0, middle)}…`) <= width) low = middle;
    else high = middle - 1;
  }
  return low === 0 ? "" : `${text.slice(0, low)}…`;
}
