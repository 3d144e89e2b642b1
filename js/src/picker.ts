// The rank picker: a button that says what is chosen, and a popover with a tick per rank.
import { keepKeys, make } from "./dom";
import { describeRanks, filterRanks } from "./ranks";

const SEARCHABLE = 12;

export interface RankPicker {
  button: HTMLButtonElement;
  popover: HTMLElement;
  show: (chosen: readonly number[]) => void;
  onPick: (chosen: number[]) => void;
}

interface Tick {
  rank: number;
  input: HTMLInputElement;
  label: HTMLLabelElement;
}

function tick(rank: number): Tick {
  const input = keepKeys(make("input", { type: "checkbox", value: String(rank) }));
  return { rank, input, label: make("label", {}, input, String(rank)) };
}

function button(text: string, signal: AbortSignal, act: () => void): HTMLButtonElement {
  const element = keepKeys(make("button", { type: "button" }, text));
  element.addEventListener("click", act, { signal });
  return element;
}

function place(popover: HTMLElement, anchor: HTMLElement): void {
  const { left, top, bottom } = anchor.getBoundingClientRect();
  const { width, height } = popover.getBoundingClientRect();
  const below = bottom + 4 + height <= innerHeight || top < height;
  popover.style.left = `${Math.max(4, Math.min(left, innerWidth - width - 4))}px`;
  popover.style.top = `${below ? bottom + 4 : top - height - 4}px`;
}

function float(popover: HTMLElement, anchor: HTMLElement, signal: AbortSignal): void {
  const opened = () => popover.matches(":popover-open");
  const follow = () => opened() && place(popover, anchor);
  const observer = new ResizeObserver(follow); // a longer finding moves the button
  const toggled = () => {
    follow();
    observer.observe(anchor.closest("section") ?? anchor);
  };
  const scrolled = (event: Event) => {
    if (!popover.contains(event.target as Node) && opened()) popover.hidePopover();
  };
  popover.addEventListener("toggle", toggled, { signal });
  document.addEventListener("scroll", scrolled, { capture: true, signal });
  signal.addEventListener("abort", () => observer.disconnect(), { once: true });
}

function arrowKeys(list: HTMLElement, ticks: Tick[], signal: AbortSignal): void {
  const steps: Record<string, number> = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };
  const move = (event: KeyboardEvent) => {
    const step = steps[event.key];
    const shown = ticks.filter(({ label }) => !label.hidden).map(({ input }) => input);
    const here = shown.indexOf(event.target as HTMLInputElement);
    if (step === undefined || here < 0) return;
    event.preventDefault();
    shown[(here + step + shown.length) % shown.length]?.focus();
  };
  list.addEventListener("keydown", move, { signal });
}

function search(ticks: Tick[], signal: AbortSignal, pick: (ranks: number[]) => void): HTMLInputElement {
  const input = keepKeys(make("input", { type: "search", placeholder: "3, 8-15: Enter picks them" }));
  input.setAttribute("aria-label", "Filter ranks");
  const all = ticks.map(({ rank }) => rank);
  const filter = () => {
    const wanted = new Set(filterRanks(input.value, all));
    for (const { rank, label } of ticks) label.hidden = !wanted.has(rank);
  };
  const enter = (event: KeyboardEvent) => {
    if (event.key === "Enter") pick(filterRanks(input.value, all));
  };
  input.addEventListener("input", filter, { signal });
  input.addEventListener("keydown", enter, { signal });
  return input;
}

export function rankPicker(all: readonly number[], id: string, signal: AbortSignal): RankPicker {
  const ticks = all.map(tick);
  const list = make("div", { className: "hta-ticks" }, ...ticks.map(({ label }) => label));
  const hint = make("span", { className: "hta-hint" });
  const open = keepKeys(make("button", { type: "button", className: "hta-open", id }));
  const popover = make("div", { className: "hta-popover", id: `${id}-popover` });

  const check = (chosen: readonly number[]) => {
    for (const { rank, input } of ticks) input.checked = chosen.includes(rank);
    hint.textContent = chosen.length === 0 ? "tick at least one rank" : "";
  };
  const picker: RankPicker = {
    button: open,
    popover,
    onPick: () => {},
    show: (chosen) => {
      open.textContent = describeRanks(chosen, all);
      check(chosen.length === 0 ? all : chosen);
    },
  };
  const pick = (chosen: readonly number[]) => {
    check(chosen);
    if (chosen.length > 0) picker.onPick(chosen.length === all.length ? [] : [...chosen]);
  };
  const ticked = () => pick(ticks.filter(({ input }) => input.checked).map(({ rank }) => rank));

  list.addEventListener("change", ticked, { signal });
  arrowKeys(list, ticks, signal);
  popover.setAttribute("popover", "auto");
  popover.setAttribute("role", "group");
  popover.setAttribute("aria-label", "Ranks");
  open.popoverTargetElement = popover;
  float(popover, open, signal);
  const head = make("div", { className: "hta-popover-head" });
  if (all.length > SEARCHABLE) head.append(search(ticks, signal, pick));
  head.append(button("All", signal, () => pick(all)), button("None", signal, () => pick([])), hint);
  popover.append(head, list);
  return picker;
}
