// Shades the sides of a table that scrolls sideways, where there are more columns.
import { make } from "./dom";

const LEAST = 1; // px; widths are rounded

/** Put a frame that scrolls into an element that shades its sides. */
export function withEdges(frame: HTMLElement, content: HTMLElement, signal: AbortSignal): HTMLElement {
  const element = make("div", { className: "hta-table-edges" }, frame);
  const shade = () => {
    const { scrollLeft, scrollWidth, clientWidth, clientHeight } = frame;
    element.classList.toggle("hta-more-left", scrollLeft > LEAST);
    element.classList.toggle("hta-more-right", scrollWidth - clientWidth - scrollLeft > LEAST);
    // Beside the scroll bars, which belong to the frame.
    element.style.setProperty("--hta-right", `${frame.offsetWidth - frame.clientLeft - clientWidth}px`);
    element.style.setProperty("--hta-bottom", `${frame.offsetHeight - frame.clientTop - clientHeight}px`);
  };
  frame.addEventListener("scroll", shade, { signal, passive: true });
  const observer = new ResizeObserver(shade);
  for (const each of [frame, content]) observer.observe(each);
  signal.addEventListener("abort", () => observer.disconnect(), { once: true });
  return element;
}
