// Coverage of pixels as an image: each column is filled exactly in proportion to the covered time.
import type { ClassLook } from "./types";

/** The target: device pixels per CSS pixel, and whether the page is dark. */
export interface Surface {
  scale: number;
  onDark: boolean;
}

export interface Coverage {
  look: ClassLook;
  /** 255 for a covered pixel. */
  of: Uint8Array;
}

const ORDER = ["call", "phase", "busy", "idle"];
const IDLE_ALPHA = 0.42;
const IDLE_ALPHA_ON_DARK = 0.8; // with less, highlighted idle time would be as dark as the rest
const HATCH_ALPHA = 0.45;
const RAIL_CSS_PX = 3;
const LEAST_WITH_RAIL = 10;
const FULL = 255;

type Rgb = [red: number, green: number, blue: number];

export function rgb(color: string): Rgb {
  const value = Number.parseInt(color.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

/** Black or white, whichever reads better on a colour. */
export function inkOn(color: string): string {
  const [red, green, blue] = rgb(color).map((channel) => (channel / 255) ** 2.2) as Rgb;
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
}

/** Order from the bottom up: what the GPU does, then what it waits for. */
export function stacked(coverages: Coverage[]): Coverage[] {
  const layers = coverages.filter(({ look }) => look.group !== "rail");
  return layers.sort((one, other) => ORDER.indexOf(one.look.group) - ORDER.indexOf(other.look.group));
}

/** A colour as the four bytes of a pixel: red first. */
function packed([red, green, blue]: Rgb, alpha: number): number {
  return ((Math.round(alpha * FULL) << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** How a class fills its share of a column. */
interface Paint {
  of: Uint8Array;
  full: number;
  /** Colour between the lines of a pattern. */
  between: number;
  fill: ClassLook["fill"];
}

function paintOf({ look, of }: Coverage, onDark: boolean): Paint {
  const idle = onDark ? IDLE_ALPHA_ON_DARK : IDLE_ALPHA;
  const base = look.fill === "outline" ? 0 : look.group === "idle" ? idle : 1;
  const color = rgb(look.color);
  return { of, full: packed(color, base), between: packed(color, base * HATCH_ALPHA), fill: look.fill };
}

/** Whether a pixel is on the lines of a pattern. */
function isOnLine(fill: ClassLook["fill"], x: number, y: number, period: number): boolean {
  const half = period / 2;
  return fill === "hatched" ? (x + y) % period < half : x % period < half === y % period < half;
}

/** Pixels (RGBA) of a lane, `bins` wide and `height` high; `scale` is the number of device pixels per CSS pixel. */
export function pixels(
  coverages: Coverage[],
  bins: number,
  height: number,
  scale: number,
  onDark = false,
): Uint8ClampedArray<ArrayBuffer> {
  const whole = new Uint32Array(bins * height);
  const image = new Uint8ClampedArray(whole.buffer);
  const rail = height < LEAST_WITH_RAIL * scale ? undefined : coverages.find(({ look }) => look.group === "rail");
  const railHeight = rail ? Math.round(RAIL_CSS_PX * scale) : 0;
  const layers = stacked(coverages).map((each) => paintOf(each, onDark));
  for (let x = 0; x < bins; x += 1) {
    let sum = 0;
    let from = height;
    for (const { of, full, between, fill } of layers) {
      const here = of[x] ?? 0;
      if (here === 0) continue;
      sum = Math.min(FULL, sum + here);
      const to = height - Math.round((sum / FULL) * height);
      const isPattern = fill === "hatched" || fill === "dotted";
      for (let y = to; y < from; y += 1)
        whole[y * bins + x] = isPattern && !isOnLine(fill, x, y, 6 * scale) ? between : full;
      from = Math.min(from, to);
    }
    if (rail && (rail.of[x] ?? 0) > 0) {
      const color = rgb(rail.look.color);
      const shown = (rail.of[x] ?? 0) / FULL;
      for (let y = height - railHeight; y < height; y += 1) blend(image, (y * bins + x) * 4, color, shown);
    }
  }
  return image;
}

function blend(image: Uint8ClampedArray, at: number, color: Rgb, share: number): void {
  const under = (image[at + 3] ?? 0) / FULL;
  for (let channel = 0; channel < 3; channel += 1) {
    image[at + channel] = (image[at + channel] ?? 0) * (1 - share) + (color[channel] ?? 0) * share;
  }
  image[at + 3] = FULL * Math.max(under, share);
}

/** The image as a canvas, which can be drawn at any place and width. */
export function raster(
  coverages: Coverage[],
  bins: number,
  height: number,
  { scale, onDark }: Surface,
): HTMLCanvasElement | null {
  if (coverages.length === 0 || bins === 0) return null;
  const canvas = document.createElement("canvas");
  canvas.width = bins;
  canvas.height = height;
  const context = canvas.getContext("2d");
  if (!context) return null;
  context.putImageData(new ImageData(pixels(coverages, bins, height, scale, onDark), bins, height), 0, 0);
  return canvas;
}
