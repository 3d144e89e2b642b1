// Asks Python for the bands of many ranks in the view if those in the model are blurred.
import type { Kernel } from "./kernel";
import { GUTTER } from "./lanes";
import type { Viewer } from "./scene";
import { type Bins, isSharp } from "./view";

/** The window to request; `true` if the model's own bands are sharp, null if nothing is missing. */
function wanted({ scene, width }: Viewer): Bins | true | null {
  const { layout, view, bands } = scene;
  const pixels = Math.min(layout.band_pixels, Math.round(width - GUTTER));
  const start = Math.max(view.start, layout.span[0]);
  const end = Math.min(view.end, layout.span[1]);
  if (pixels < 1 || end <= start || scene.aligned) return null;
  const pixel = (view.end - view.start) / pixels;
  const fits = (known: Bins) => known.start <= start && known.end >= end && isSharp(known, pixel);
  if (fits({ start: layout.home[0], end: layout.home[1], bins: layout.band_bins })) return true;
  if (bands.window && fits(bands.window)) return null;
  return { start, end, bins: Math.max(1, Math.round((end - start) / pixel)) };
}

export function sharpen(stage: Viewer, kernel: Kernel): void {
  const { layout, bands } = stage.scene;
  const asked = wanted(stage);
  if (asked === true) bands.blur();
  if (asked === true || asked === null) return;
  const { start, end, bins } = asked;
  const question = { kind: "bands", ranks: layout.ranks.map(({ rank }) => rank), start, end, pixels: bins };
  kernel.ask(
    question,
    (answer, buffers) => {
      if (answer.kind !== "bands") return;
      bands.sharpen(answer, buffers);
      stage.redraw();
    },
    question.kind,
    () => stage.refine(),
  );
}
