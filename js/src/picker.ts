// A picker of integers, such as ranks: a button that shows the choice, and a popover with check boxes.
import { keepKeys, make, pushButton } from "./dom";
import { describe, filter } from "./integers";
import { float } from "./popover";

const SEARCHABLE = 12;

export interface Picker {
  button: HTMLButtonElement;
  popover: HTMLElement;
  show: (chosen: readonly number[]) => void;
  onPick: (chosen: number[]) => void;
}

interface Tick {
  value: number;
  input: HTMLInputElement;
  label: HTMLLabelElement;
}

function tick(value: number): Tick {
  const input = keepKeys(make("input", { type: "checkbox", value: String(value) }));
  return { value, input, label: make("label", {}, input, String(value)) };
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

function search(ticks: Tick[], noun: string, signal: AbortSignal, pick: (chosen: number[]) => void): HTMLInputElement {
  const properties = { type: "search", placeholder: "e.g. 3, 8-15, then Enter", "aria-label": `Filter ${noun}s` };
  const input = keepKeys(make("input", properties));
  const all = ticks.map(({ value }) => value);
  const narrow = () => {
    const wanted = new Set(filter(input.value, all));
    for (const { value, label } of ticks) label.hidden = !wanted.has(value);
  };
  const enter = (event: KeyboardEvent) => {
    if (event.key === "Enter") pick(filter(input.value, all));
  };
  input.addEventListener("input", narrow, { signal });
  input.addEventListener("keydown", enter, { signal });
  return input;
}

export function integerPicker(all: readonly number[], noun: string, id: string, signal: AbortSignal): Picker {
  const ticks = all.map(tick);
  const list = make("div", { className: "hta-ticks" }, ...ticks.map(({ label }) => label));
  const hint = make("span", { className: "hta-hint" });
  const open = pushButton("", { className: "hta-open", id });
  const said = `${noun.charAt(0).toUpperCase()}${noun.slice(1)}s`;
  const popover = make("div", { className: "hta-popover", id: `${id}-popover`, role: "group", "aria-label": said });

  const check = (chosen: readonly number[]) => {
    for (const { value, input } of ticks) input.checked = chosen.includes(value);
    hint.textContent = chosen.length === 0 ? `select at least one ${noun}` : "";
  };
  const picker: Picker = {
    button: open,
    popover,
    onPick: () => {},
    show: (chosen) => {
      open.textContent = describe(chosen, all, noun);
      check(chosen.length === 0 ? all : chosen);
    },
  };
  const pick = (chosen: readonly number[]) => {
    check(chosen);
    if (chosen.length > 0) picker.onPick(chosen.length === all.length ? [] : [...chosen]);
  };
  const ticked = () => pick(ticks.filter(({ input }) => input.checked).map(({ value }) => value));

  list.addEventListener("change", ticked, { signal });
  arrowKeys(list, ticks, signal);
  popover.setAttribute("popover", "auto");
  open.popoverTargetElement = popover;
  float(popover, open, signal);
  const head = make("div", { className: "hta-popover-head" });
  if (all.length > SEARCHABLE) head.append(search(ticks, noun, signal, pick));
  head.append(
    pushButton("All", {}, () => pick(all), signal),
    pushButton("None", {}, () => pick([]), signal),
    hint,
  );
  popover.append(head, list);
  return picker;
}
