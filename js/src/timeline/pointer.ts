// Mouse, pen and touch: hover, brush, pan, zoom.
import { timeAt } from "./hits";
import { brushed, click, letGo } from "./select";
import type { Stage } from "./stage";
import { panned, zoomed } from "./view";

const CLICK_PX = 4;
const ZOOM_PER_PX = 1.002;
const DOUBLE_MS = 300; // between the clicks of a double click

export function followPointer(stage: Stage, signal: AbortSignal): void {
  const { canvas } = stage;
  let from: { x: number; y: number; time: number; pans: boolean; moved: boolean } | null = null;
  let leaving: ReturnType<typeof setTimeout> | undefined;

  const place = (event: MouseEvent) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const time = (x: number) => {
    const painter = stage.painter();
    return painter ? timeAt(painter, x) : 0;
  };

  const down = (event: PointerEvent) => {
    if (event.button !== 0) return;
    clearTimeout(leaving);
    canvas.focus({ preventScroll: true, focusVisible: false } as FocusOptions);
    const { x, y } = place(event);
    const { at } = stage.hit(x, y);
    const starts = at === "lane" || at === "axis" || at === "nothing";
    from = { x, y, time: time(x), pans: event.shiftKey || at === "axis" || stage.scene.aligned, moved: false };
    if (starts) canvas.setPointerCapture?.(event.pointerId);
  };
  const move = (event: PointerEvent) => {
    const { x, y } = place(event);
    if (!from) return stage.follower.point(stage.hit(x, y), x, y);
    if (!from.moved && Math.abs(x - from.x) < CLICK_PX) return;
    if (!from.moved) stage.follower.leave();
    from.moved = true;
    if (from.pans) {
      const { view } = stage.scene;
      stage.show(panned(view, (from.time - time(x)) / (view.end - view.start)));
    } else {
      const { start, end } = stage.scene.view; // the pointer may have left the canvas
      const inside = (ns: number) => Math.min(Math.max(ns, start), end);
      stage.brush({ start: inside(from.time), end: inside(time(x)) });
    }
  };
  const up = (event: PointerEvent) => {
    if (!from) return;
    const { moved } = from;
    const start = from;
    from = null;
    if (moved) return brushed(stage);
    const hit = stage.hit(start.x, start.y);
    const found = click(stage, hit, event.shiftKey || event.ctrlKey || event.metaKey);
    if (!found) leaving = setTimeout(() => letGo(stage), DOUBLE_MS);
  };
  const wheel = (event: WheelEvent) => {
    if (!event.ctrlKey && !event.metaKey) return; // the plain wheel scrolls the notebook
    event.preventDefault();
    const { x } = place(event);
    stage.show(zoomed(stage.scene.view, ZOOM_PER_PX ** event.deltaY, time(x)));
  };
  const cancel = () => {
    from = null;
    stage.brush(null);
  };
  canvas.addEventListener("pointerdown", down, { signal });
  canvas.addEventListener("pointermove", move, { signal });
  canvas.addEventListener("pointerup", up, { signal });
  canvas.addEventListener("pointercancel", cancel, { signal });
  const giveUp = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !from) return;
    event.stopPropagation(); // keep the previous selection
    cancel();
  };
  canvas.addEventListener("keydown", giveUp, { signal });
  canvas.addEventListener("pointerleave", () => !from && stage.follower.leave(), { signal });
  const twice = () => {
    clearTimeout(leaving);
    stage.fit();
  };
  canvas.addEventListener("dblclick", twice, { signal });
  signal.addEventListener("abort", () => clearTimeout(leaving), { once: true });
  canvas.addEventListener("wheel", wheel, { signal, passive: false });
}
