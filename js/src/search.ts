// A combobox: a field that filters a long list, usable by keyboard and mouse.
import { keepKeys, make } from "./dom";
import { matches, Options } from "./options";
import { float } from "./popover";
import type { Option, SearchSpec } from "./types";

const STEPS: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 };

function field(id: string, list: string): HTMLInputElement {
  const said = { role: "combobox", "aria-autocomplete": "list", "aria-controls": list, "aria-expanded": "false" };
  return keepKeys(make("input", { type: "text", id, autocomplete: "off", spellcheck: false, ...said }));
}

export class Combobox {
  readonly input: HTMLInputElement;
  readonly popover: HTMLElement;
  #spec: SearchSpec;
  #pick: (value: string) => void;
  #options: Options;
  #rest = make("p", { className: "hta-rest" });
  #place: () => void;
  #value = "";

  constructor(spec: SearchSpec, id: string, signal: AbortSignal, pick: (value: string) => void) {
    this.#spec = spec;
    this.#pick = pick;
    this.input = field(id, `${id}-options`);
    this.#options = new Options(`${id}-options`, spec.label, this.input);
    this.popover = make("div", { className: "hta-popover hta-search-list" }, this.#options.element, this.#rest);
    this.popover.setAttribute("popover", "manual");
    this.#place = float(this.popover, this.input, signal);
    this.#listenToField(signal);
    this.#listenToList(signal);
  }

  show(value: string): void {
    this.#value = value;
    this.input.title = value;
    if (!this.#isOpen) this.input.value = this.#label(value);
  }

  #listenToField(signal: AbortSignal): void {
    this.input.addEventListener("click", () => this.#clicked(), { signal });
    this.input.addEventListener("input", () => this.#open(this.input.value), { signal });
    this.input.addEventListener("keydown", (event) => this.#key(event), { signal });
    this.input.addEventListener("blur", () => this.#isOpen && this.#close(), { signal });
  }

  #listenToList(signal: AbortSignal): void {
    // Keep the focus in the field.
    this.popover.addEventListener("mousedown", (event) => event.preventDefault(), { signal });
    const clicked = ({ target }: Event) => this.#choose(this.#options.at(target as Node));
    this.popover.addEventListener("click", clicked, { signal });
    // The page was scrolled.
    const toggled = () => this.popover.matches(":popover-open") || !this.#isOpen || this.#close();
    this.popover.addEventListener("toggle", toggled, { signal });
  }

  get #isOpen(): boolean {
    return this.input.getAttribute("aria-expanded") === "true";
  }

  #label(value: string): string {
    return this.#spec.options.find((option) => option[1] === value)?.[0] ?? value;
  }

  #found(text: string): Option[] {
    const list = matches(this.#spec.options, text);
    const known = list.some((option) => option.includes(text));
    return this.#spec.free_text && text.trim() && !known ? [...list, [`“${text}”`, text, "as typed"]] : list;
  }

  #open(text: string): void {
    const list = this.#found(text);
    this.input.setAttribute("aria-expanded", "true");
    this.popover.showPopover();
    const active = text ? 0 : list.findIndex((option) => option[1] === this.#value);
    this.#rest.textContent = this.#options.fill(list, active);
    this.#place();
  }

  #close(): void {
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
    this.input.value = this.#label(this.#value);
    this.popover.hidePopover();
  }

  #choose(option: Option | undefined): void {
    if (!option) return;
    const changed = option[1] !== this.#value;
    this.#value = option[1];
    this.#close();
    if (changed) this.#pick(this.#value);
  }

  #clicked(): void {
    if (this.#isOpen) return;
    this.input.select();
    this.#open("");
  }

  #key(event: KeyboardEvent): void {
    const step = STEPS[event.key];
    if (step !== undefined) this.#isOpen ? this.#options.move(step) : this.#open("");
    else if (this.#isOpen && event.key === "Enter") this.#choose(this.#options.active);
    else if (this.#isOpen && event.key === "Escape") this.#close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
