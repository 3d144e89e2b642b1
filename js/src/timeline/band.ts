// Draws a band: solid up to the minimum of the ranks, a line at the median, pale up to the maximum.
import { make } from "../dom";
import type { BandTile } from "./bands";
import type { Lane } from "./lanes";
import type { Painter } from "./painter";

const FILL = 0.35;
const LINE = 1.5;
const IMAGES = new WeakMap<BandTile, { canvas: HTMLCanvasElement; key: string }>();

export function paintBand(painter: Painter, lane: Lane, y: number): void {
  const { bands, view } = painter.scene;
  for (const { tile, start, end } of bands.pieces(lane.key, view)) {
    const [from, to] = [painter.x(start), painter.x(end)];
    painter.clipped(from, y, to - from, lane.height, () => paintTile(painter, tile, lane, y));
  }
}

function paintTile(painter: Painter, band: BandTile, lane: Lane, y: number): void {
  const { context, look } = painter;
  const color = band.look.fill === "outline" ? look.quiet : band.look.color;
  const image = imageOf(band, color, Math.round(lane.height * look.scale), look.scale);
  if (!image) return;
  const left = painter.x(band.start);
  context.imageSmoothingEnabled = false;
  context.drawImage(image, left, y, painter.x(band.end) - left, lane.height);
}

/** A band as an image, one pixel wide per bin, which can be drawn at any place and width: rectangles take longer. */
function imageOf(band: BandTile, color: string, height: number, scale: number): HTMLCanvasElement | null {
  const key = `${color} ${height} ${scale}`;
  const known = IMAGES.get(band);
  if (known?.key === key) return known.canvas;
  const canvas = make("canvas", { width: band.least.length, height });
  const context = canvas.getContext("2d");
  if (!context || canvas.width === 0) return null;
  const upTo = (share = 0) => (share / 255) * (height - scale);
  context.fillStyle = color;
  for (let bin = 0; bin < canvas.width; bin += 1) {
    const [low, middle, high] = [band.least[bin], band.median[bin], band.most[bin]].map(upTo) as [
      number,
      number,
      number,
    ];
    context.globalAlpha = FILL;
    context.fillRect(bin, height - high, 1, high - low);
    context.globalAlpha = 1;
    context.fillRect(bin, height - low, 1, low);
    context.fillRect(bin, height - middle, 1, Math.min(LINE * scale, middle - low));
  }
  IMAGES.set(band, { canvas, key });
  return canvas;
}
