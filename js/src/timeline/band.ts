// Draws a band: solid up to what all ranks do, a line where the median is, pale up to what one does.
import type { BandTile } from "./bands";
import { GUTTER, type Lane } from "./lanes";
import type { Painter } from "./painter";

const FILL = 0.35;
const LABEL_LEFT = 4;

export function paintBand(painter: Painter, lane: Lane, y: number): void {
  const { bands, view } = painter.scene;
  for (const { tile, start, end } of bands.pieces(lane.key, view)) {
    const [from, to] = [painter.x(start), painter.x(end)];
    painter.clipped(from, y, to - from, lane.height, () => paintTile(painter, tile, lane, y));
  }
}

function paintTile(painter: Painter, band: BandTile, lane: Lane, y: number): void {
  const { context, width } = painter;
  const left = painter.x(band.start);
  const bins = band.least.length;
  const size = (painter.x(band.end) - left) / bins;
  const first = Math.max(0, Math.floor((GUTTER - left) / size));
  const last = Math.min(bins, Math.ceil((width - left) / size));
  const height = (share = 0) => (share / 255) * (lane.height - 1);
  const alpha = context.globalAlpha;
  context.fillStyle = band.look.fill === "outline" ? painter.look.quiet : band.look.color;
  context.globalAlpha = alpha * FILL;
  context.beginPath();
  for (let bin = first; bin < last; bin += 1) {
    const [low, high] = [height(band.least[bin]), height(band.most[bin])];
    if (high > low) context.rect(left + bin * size, y + lane.height - high, size, high - low);
  }
  context.fill();
  context.globalAlpha = alpha;
  context.beginPath();
  for (let bin = first; bin < last; bin += 1) {
    const [low, middle] = [height(band.least[bin]), height(band.median[bin])];
    if (low > 0) context.rect(left + bin * size, y + lane.height - low, size, low);
    if (middle > low) context.rect(left + bin * size, y + lane.height - middle, size, Math.min(1.5, middle - low));
  }
  context.fill();
}

/** The label on up to two lines. */
export function paintBandLabel(painter: Painter, lane: Lane, y: number): void {
  const { context, look } = painter;
  const room = GUTTER - LABEL_LEFT - 4;
  const words = lane.label.split(" ");
  let count = words.length;
  while (count > 1 && context.measureText(words.slice(0, count).join(" ")).width > room) count -= 1;
  const [first, second] = [words.slice(0, count).join(" "), words.slice(count).join(" ")];
  painter.text(first, LABEL_LEFT, y + (second ? 7 : lane.height / 2), look.ink, room);
  if (second) painter.text(second, LABEL_LEFT, y + 19, look.ink, room);
}
