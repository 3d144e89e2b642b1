// What is selected: a chip for each field, and a button that clears the selection.
import { make, pushButton } from "../dom";
import { listen } from "../models";
import { EVERYTHING } from "../picks";
import type { Board } from "./context";
import { describeField, FIELDS, isSet } from "./fields";
import type { Detail } from "./types";

/** The selected fields, in the order in which they were selected. */
export class Chips {
  readonly element = make("div", { className: "hta-chips", role: "group", "aria-label": "Selected" });
  #board: Board;
  #order: string[] = [];
  /** Label of the kernel that is shown in detail: its name may be mangled. */
  #kernel: Pick<Detail, "name" | "label"> = { name: "", label: "" };
  #everything = make("span", { className: "hta-everything" }, "everything");

  constructor(board: Board) {
    this.#board = board;
    for (const field of FIELDS) listen(board.selection, `change:${field}`, () => this.#list(), board.signal);
    this.#list();
  }

  /** Say what counts where nothing is selected, and name the kernel as the page does. */
  show(everything: string, detail: Detail | null): void {
    this.#everything.textContent = everything;
    const { name, label } = detail ?? this.#kernel;
    if (label === this.#kernel.label) return;
    this.#kernel = { name, label };
    this.#list();
  }

  /** Deselect what was selected last; return whether there was anything. */
  dropLast(): boolean {
    const last = this.#order.at(-1);
    if (last === undefined) return false;
    this.#board.select({ [last]: EVERYTHING[last] });
    return true;
  }

  #list(): void {
    const { selection } = this.#board;
    const chosen = FIELDS.filter((field) => isSet(selection.get(field)));
    this.#order = [...this.#order.filter((field) => chosen.includes(field))];
    this.#order.push(...chosen.filter((field) => !this.#order.includes(field)));
    const focused = this.element.contains(this.element.ownerDocument.activeElement);
    const chips = this.#order.map((field) => this.#chip(field));
    const rest =
      chips.length > 0 ? [this.#button("clear", "Clear the selection", EVERYTHING, "hta-clear")] : [this.#everything];
    this.element.replaceChildren(make("span", { className: "hta-label" }, "Selected:"), ...chips, ...rest);
    if (focused) this.element.querySelector<HTMLElement>("button")?.focus();
  }

  #chip(field: string): HTMLElement {
    const value = this.#board.selection.get(field);
    const isLabelled = field === "kernel" && value === this.#kernel.name;
    const words = describeField(field, isLabelled ? this.#kernel.label : value);
    const chip = this.#button(words, `Clear ${words}`, { [field]: EVERYTHING[field] }, "hta-chip");
    chip.append(" ", make("span", { "aria-hidden": "true" }, "×"));
    return chip;
  }

  #button(text: string, said: string, fields: Record<string, unknown>, className: string): HTMLButtonElement {
    const { select, signal } = this.#board;
    return pushButton(text, { className, title: said, "aria-label": said }, () => select(fields), signal);
  }
}
