// The list of a combobox: the options that match the typed text, one of them active.
import { make } from "./dom";
import type { Option } from "./types";

const SHOWN_AT_MOST = 100;

interface Item {
  option: Option;
  element: HTMLElement;
}

/** The name in a value; values of a dashboard's search are JSON of a field and what it selects. */
function named(value: string): string {
  if (!value.startsWith('["')) return value;
  try {
    return [JSON.parse(value)[1]].flat().join(" ");
  } catch {
    return value; // an operator name may look like JSON at the start
  }
}

/** The options whose label or name contains every word of a text. */
export function matches(options: readonly Option[], text: string): Option[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return options.filter(([label, value]) => {
    const searched = `${label} ${named(value)}`.toLowerCase();
    return words.every((word) => searched.includes(word));
  });
}

function item(option: Option, id: string): Item {
  const [label, value, detail] = option;
  const parts = [make("span", {}, label), make("span", { className: "hta-detail" }, detail)];
  return { option, element: make("li", { id, title: named(value), role: "option" }, ...parts) };
}

export class Options {
  readonly element: HTMLElement;
  #items: Item[] = [];
  #active = 0;
  #input: HTMLInputElement;

  constructor(id: string, label: string, input: HTMLInputElement) {
    this.#input = input;
    this.element = make("ul", { className: "hta-options", id, role: "listbox", "aria-label": label });
  }

  /** Show options, one of them active; returns a message about those that are not shown. */
  fill(options: readonly Option[], active: number): string {
    this.#items = options.slice(0, SHOWN_AT_MOST).map((option, place) => item(option, `${this.element.id}-${place}`));
    this.element.replaceChildren(...this.#items.map(({ element }) => element));
    this.#activate(active);
    const left = options.length - this.#items.length;
    if (options.length === 0) return "No matches";
    return left > 0 ? `${left.toLocaleString("en")} more; type to search` : "";
  }

  /** Make another one active; steps of one wrap around. */
  move(step: number): void {
    const count = this.#items.length;
    const next = this.#active + step;
    if (count === 0) return;
    this.#activate(Math.abs(step) === 1 ? (next + count) % count : Math.min(Math.max(next, 0), count - 1));
  }

  get active(): Option | undefined {
    return this.#items[this.#active]?.option;
  }

  /** The option that a page element belongs to. */
  at(target: Node): Option | undefined {
    return this.#items.find(({ element }) => element.contains(target))?.option;
  }

  #activate(active: number): void {
    this.#active = active;
    for (const [place, { element }] of this.#items.entries()) {
      element.setAttribute("aria-selected", String(place === active));
    }
    const element = this.#items[active]?.element;
    this.#input.setAttribute("aria-activedescendant", element?.id ?? "");
    element?.scrollIntoView({ block: "nearest" });
  }
}
