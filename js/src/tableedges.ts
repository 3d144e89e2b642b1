// Shades the sides of a wide table where more columns are hidden, and says how many.
import { make, pushButton } from "./dom";

const LEAST = 1; // px; widths are rounded
const PADDING = 12; // px of a cell; hiding only this does not count

interface Edges {
  element: HTMLElement;
  /** Says how many columns are hidden on the right, and scrolls to them. */
  more: HTMLButtonElement;
}

/** Put a scrolling frame into an element that shades its sides. */
export function withEdges(frame: HTMLElement, content: HTMLElement, signal: AbortSignal): Edges {
  const element = make("div", { className: "hta-table-edges" }, frame);
  const scroll = () => frame.scrollBy({ left: frame.clientWidth / 2 });
  const more = pushButton("", { className: "hta-columns", hidden: true }, scroll, signal);
  const shade = () => {
    const { scrollLeft, scrollWidth, clientWidth, clientHeight } = frame;
    const headings = [...content.querySelectorAll("th")];
    const hidden = headings.filter(({ offsetLeft, offsetWidth }) => {
      return offsetLeft + offsetWidth - scrollLeft > clientWidth + PADDING;
    }).length;
    more.hidden = hidden === 0;
    more.textContent = `${hidden} more ${hidden === 1 ? "column" : "columns"} ▸`;
    element.classList.toggle("hta-more-left", scrollLeft > LEAST);
    element.classList.toggle("hta-more-right", scrollWidth - clientWidth - scrollLeft > LEAST);
    // Next to the scroll bars, which belong to the frame.
    element.style.setProperty("--hta-right", `${frame.offsetWidth - frame.clientLeft - clientWidth}px`);
    element.style.setProperty("--hta-bottom", `${frame.offsetHeight - frame.clientTop - clientHeight}px`);
  };
  frame.addEventListener("scroll", shade, { signal, passive: true });
  const observer = new ResizeObserver(shade);
  for (const each of [frame, content]) observer.observe(each);
  signal.addEventListener("abort", () => observer.disconnect(), { once: true });
  return { element, more };
}
