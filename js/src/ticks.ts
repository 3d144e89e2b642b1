// Tick labels for a stretch that is enlarged without Python, in the unit of Python's labels.

interface Ticks {
  tickvals?: number[];
  ticktext?: string[];
}

const WANTED = 8;

/** The shortest step of 1, 2, 5, 10, … that is at least as long. */
export function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * ([1, 2, 5].find((digit) => digit * power >= least * 0.999) ?? 10);
}

/** Round labels in a stretch; the existing labels if their unit is unknown. */
export function ticksIn([start, end]: [number, number], written: Ticks): Ticks {
  const [from, to] = (written.tickvals ?? []) as [number?, number?];
  const [low, high] = (written.ticktext ?? []).map((text) => Number(text.replaceAll(",", "").replace("−", "-")));
  const unit = ((to ?? Number.NaN) - (from ?? Number.NaN)) / ((high ?? Number.NaN) - (low ?? Number.NaN));
  if (!(unit > 0)) return written;
  const step = roundStep((end - start) / unit / WANTED);
  const digits = Math.max(0, -Math.floor(Math.log10(step)));
  const first = Math.ceil(start / unit / step);
  const count = Math.floor(end / unit / step) - first + 1;
  const values = Array.from({ length: count }, (_, place) => (first + place) * step);
  return {
    tickvals: values.map((value) => value * unit),
    ticktext: values.map((value) =>
      value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }),
    ),
  };
}
