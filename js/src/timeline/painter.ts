// A canvas with a scene: positions of times and lanes, and drawing tools that all parts share.
import { cut } from "../cut";
import { make } from "../dom";
import { isDark } from "../theme";
import { GUTTER, type Lane } from "./lanes";
import type { Scene } from "./scene";

export const HEAD = 20;
export const FOOT = 18;

export interface Look {
  font: string;
  ink: string;
  quiet: string;
  line: string;
  faint: string;
  page: string;
  accent: string;
  scale: number;
  onDark: boolean;
}

/** Device pixels per CSS pixel. */
export function pixelScale(): number {
  return Math.max(1, globalThis.devicePixelRatio || 1);
}

/** The font and the colours of the page around an element. */
export function lookOf(element: HTMLElement): Look {
  const probe = element.appendChild(make("span"));
  const color = (name: string) => {
    probe.style.color = `var(--hta-${name})`;
    return getComputedStyle(probe).color;
  };
  const [ink, quiet, line, faint, page, accent] = ["fg", "quiet", "line", "faint", "page", "accent"].map(color);
  const font = `11.5px ${getComputedStyle(element).fontFamily}`;
  probe.remove();
  return { font, ink, quiet, line, faint, page, accent, scale: pixelScale(), onDark: isDark(element) } as Look;
}

export class Painter {
  readonly context: CanvasRenderingContext2D;
  readonly scene: Scene;
  readonly look: Look;
  readonly width: number;
  readonly height: number;

  constructor(context: CanvasRenderingContext2D, scene: Scene, look: Look, width: number, height: number) {
    this.context = context;
    this.scene = scene;
    this.look = look;
    this.width = width;
    this.height = height;
  }

  /** Position of a time on the axis. */
  x(time: number): number {
    const { start, end } = this.scene.view;
    return GUTTER + ((time - start) / (end - start)) * (this.width - GUTTER);
  }

  top(lane: Lane): number {
    return HEAD + 3 + lane.y - this.scene.scroll;
  }

  clipped(x: number, y: number, width: number, height: number, paint: () => void): void {
    const { context } = this;
    context.save();
    context.beginPath();
    context.rect(x, y, Math.max(0, width), Math.max(0, height));
    context.clip();
    paint();
    context.restore();
  }

  text(text: string, x: number, y: number, color: string, room?: number): void {
    const { context } = this;
    context.fillStyle = color;
    const measure = (part: string) => context.measureText(part).width;
    const fits = room === undefined || measure(text) <= room;
    context.fillText(fits ? text : cut(text, room, measure), x, y);
  }

  fill(color: string, x: number, y: number, width: number, height: number): void {
    this.context.fillStyle = color;
    this.context.fillRect(x, y, width, height);
  }

  ring(x: number, y: number, width: number, height: number): void {
    const { context, look } = this;
    context.strokeStyle = look.accent;
    context.lineWidth = 2;
    context.strokeRect(x, y, width, height);
  }
}
