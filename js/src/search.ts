// A combobox: a field that narrows a long list down, worked with the keyboard or the mouse.
import { keepKeys, make } from "./dom";
import { matches, Options } from "./options";
import { float } from "./popover";
import type { Option, SearchSpec } from "./types";

const STEPS: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 };

export interface Combobox {
  input: HTMLInputElement;
  popover: HTMLElement;
  show: (value: string) => void;
}

function field(id: string, list: string): HTMLInputElement {
  const input = keepKeys(make("input", { type: "text", id, autocomplete: "off", spellcheck: false }));
  const attributes = { role: "combobox", "aria-autocomplete": "list", "aria-controls": list, "aria-expanded": "false" };
  for (const [name, value] of Object.entries(attributes)) input.setAttribute(name, value);
  return input;
}

export function combobox(spec: SearchSpec, id: string, signal: AbortSignal, pick: (value: string) => void): Combobox {
  const input = field(id, `${id}-options`);
  const options = new Options(`${id}-options`, spec.label, input);
  const rest = make("p", { className: "hta-rest" });
  const popover = make("div", { className: "hta-popover hta-search-list" }, options.element, rest);
  popover.setAttribute("popover", "manual");
  const stay = float(popover, input, signal);
  let current = "";

  const opened = () => input.getAttribute("aria-expanded") === "true";
  const label = (value: string) => spec.options.find((option) => option[1] === value)?.[0] ?? value;
  const found = (text: string): Option[] => {
    const list = matches(spec.options, text);
    const known = list.some((option) => option.includes(text));
    return spec.free_text && text.trim() && !known ? [...list, [`“${text}”`, text, "as typed"]] : list;
  };
  const open = (text: string) => {
    const list = found(text);
    input.setAttribute("aria-expanded", "true");
    popover.showPopover();
    rest.textContent = options.fill(list, text ? 0 : list.findIndex((option) => option[1] === current));
    stay();
  };
  const close = () => {
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    input.value = label(current);
    popover.hidePopover();
  };
  const choose = (option: Option | undefined) => {
    if (!option) return;
    const changed = option[1] !== current;
    current = option[1];
    close();
    if (changed) pick(current);
  };
  const key = (event: KeyboardEvent) => {
    const step = STEPS[event.key];
    if (step !== undefined) opened() ? options.move(step) : open("");
    else if (opened() && event.key === "Enter") choose(options.active);
    else if (opened() && event.key === "Escape") close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const click = () => {
    if (opened()) return;
    input.select();
    open("");
  };

  input.addEventListener("click", click, { signal });
  input.addEventListener("input", () => open(input.value), { signal });
  input.addEventListener("keydown", key, { signal });
  input.addEventListener("blur", () => opened() && close(), { signal });
  popover.addEventListener("mousedown", (event) => event.preventDefault(), { signal }); // keeps the focus in the field
  popover.addEventListener("click", ({ target }) => choose(options.at(target as Node)), { signal });
  // The page was scrolled.
  popover.addEventListener("toggle", () => popover.matches(":popover-open") || !opened() || close(), { signal });
  const show = (value: string) => {
    current = value;
    input.title = value;
    if (!opened()) input.value = label(value);
  };
  return { input, popover, show };
}
