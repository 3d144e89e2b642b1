// The keys and pointer gestures of the timeline, as a list over the page.
import { make, pushButton } from "../dom";
import { float } from "../popover";

const USES: readonly (readonly [keys: string, use: string])[] = [
  ["drag", "select a window of time"],
  ["click", "select a step, rank, kernel, operator or module; with Shift, add to the selection"],
  ["F", "zoom to the selection"],
  ["W S, Ctrl-wheel", "zoom in and out; the keys zoom around the selection"],
  ["A D, Shift-drag", "pan"],
  ["double-click, Home", "show the analysed steps; again, the whole recording"],
  ["\u2191 \u2193", "choose a lane"],
  ["\u2190 \u2192", "previous or next event of the same name, or module"],
  ["Enter", "select the current rank, kernel, operator or module"],
  ["L", "go from GPU work to its launch, and back"],
  ["O, \u25b8", "expand a rank into its streams and threads"],
  ["M", "mark a time; two marks show the time between them"],
  ["?", "this list"],
];

export class Help {
  readonly button = pushButton("?", { "aria-label": "Keys of the timeline" });
  readonly list = make("dl", { className: "hta-popover hta-help", popover: "auto" });

  constructor(signal: AbortSignal) {
    this.button.popoverTargetElement = this.list;
    this.list.append(...USES.flatMap(([keys, use]) => [make("dt", {}, keys), make("dd", {}, use)]));
    float(this.list, this.button, signal);
  }

  toggle(): void {
    this.list.togglePopover();
  }
}
