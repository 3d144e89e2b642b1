// The row of controls. Each one follows its trait, which the user, Python or jslink can change.
import { actionButton } from "./button";
import type { ControlContext } from "./context";
import { keepKeys, make } from "./dom";
import { listen } from "./models";
import { type Bounds, parse, position, track, valueAt } from "./numbers";
import { integerPicker } from "./picker";
import { Combobox } from "./search";
import type { ChoiceSpec, ControlSpec, PickerSpec, SearchSpec, SliderSpec, ToggleSpec } from "./types";

const SEGMENTS = 4;

function follow(name: string, { model, signal }: ControlContext, show: (value: unknown) => void): void {
  const update = () => show(model.get(name));
  listen(model, `change:${name}`, update, signal);
  update();
}

function row(kind: string, ...children: Node[]): HTMLElement {
  return make("div", { className: `hta-control hta-${kind}` }, ...children);
}

interface NumberField {
  input: HTMLInputElement;
  elements: Node[];
  show: (value: number) => void;
}

function numberField(id: string, spec: Bounds, signal: AbortSignal, commit: (value: number) => void): NumberField {
  const hint = make("span", { className: "hta-hint", id: `${id}-hint`, role: "alert" });
  const bounds = {
    min: String(spec.min),
    step: String(spec.step),
    ...(spec.max !== null && { max: String(spec.max) }),
  };
  const input = keepKeys(make("input", { type: "number", id, ...bounds, "aria-describedby": hint.id }));
  const judge = (words: string) => {
    hint.textContent = words;
    input.setAttribute("aria-invalid", String(words !== ""));
  };
  let known: number | undefined;
  const read = () => {
    const value = parse(input.value, spec);
    judge(typeof value === "string" ? value : "");
    if (typeof value === "string" || value === known) return;
    known = value;
    commit(value);
  };
  input.addEventListener("change", read, { signal });
  // In JupyterLab, Enter causes no change event.
  input.addEventListener("keydown", ({ key }) => key === "Enter" && read(), { signal });
  const show = (value: number) => {
    known = value;
    input.value = String(value);
    judge("");
  };
  return { input, elements: [input, make("span", { className: "hta-unit" }, spec.unit), hint], show };
}

function slider(spec: SliderSpec, context: ControlContext): HTMLElement {
  const id = `${context.prefix}-${spec.name}`;
  const range = keepKeys(make("input", { type: "range", id, ...track(spec) }));
  const bounds = { ...spec, max: spec.open_ended ? null : spec.max };
  const commit = (value: number) => context.send({ [spec.name]: value });
  const field = numberField(`${id}-number`, bounds, context.signal, commit);
  field.input.setAttribute("aria-label", spec.label);
  const drag = () => {
    const value = valueAt(range.valueAsNumber, spec);
    field.show(value);
    commit(value);
  };
  range.addEventListener("input", drag, { signal: context.signal });
  follow(spec.name, context, (value) => {
    range.value = String(position(value as number, spec));
    range.setAttribute("aria-valuetext", `${value} ${spec.unit}`.trim());
    field.show(value as number);
  });
  return row("slider", make("label", { htmlFor: id }, spec.label), range, ...field.elements);
}

function segments(spec: ChoiceSpec, context: ControlContext): HTMLElement {
  const group = `${context.prefix}-${spec.name}`;
  const label = make("span", { className: "hta-label", id: `${group}-label` }, spec.label);
  const inputs = spec.options.map(([, value]) => {
    const input = keepKeys(make("input", { type: "radio", name: group, value: String(value) }));
    input.addEventListener("change", () => context.send({ [spec.name]: value }), { signal: context.signal });
    return input;
  });
  const choices = inputs.map((input, index) =>
    make("label", {}, input, make("span", {}, spec.options[index]?.[0] ?? "")),
  );
  const box = make("div", { className: "hta-segments", role: "radiogroup", "aria-labelledby": label.id }, ...choices);
  follow(spec.name, context, (value) => {
    for (const input of inputs) input.checked = input.value === String(value);
  });
  return row("choice", label, box);
}

function menu(spec: ChoiceSpec, context: ControlContext): HTMLElement {
  const id = `${context.prefix}-${spec.name}`;
  const options = spec.options.map(([label, value]) => make("option", { value: String(value) }, label));
  const select = keepKeys(make("select", { id }, ...options));
  const choose = () => context.send({ [spec.name]: spec.options[select.selectedIndex]?.[1] });
  select.addEventListener("change", choose, { signal: context.signal });
  follow(spec.name, context, (value) => {
    select.value = String(value);
  });
  return row("choice", make("label", { htmlFor: id }, spec.label), select);
}

function toggle(spec: ToggleSpec, context: ControlContext): HTMLElement {
  const input = keepKeys(make("input", { type: "checkbox" }));
  input.addEventListener("change", () => context.send({ [spec.name]: input.checked }), { signal: context.signal });
  follow(spec.name, context, (value) => {
    input.checked = Boolean(value);
  });
  return row("toggle", make("label", {}, input, spec.label));
}

function search(spec: SearchSpec, context: ControlContext): HTMLElement {
  const id = `${context.prefix}-${spec.name}`;
  const box = new Combobox(spec, id, context.signal, (value) => context.send({ [spec.name]: value }));
  follow(spec.name, context, (value) => box.show(String(value)));
  return row("search", make("label", { htmlFor: id }, spec.label), box.input, box.popover);
}

function picker({ name, label: words, noun, options }: PickerSpec, context: ControlContext): HTMLElement {
  const { selection, send, signal, prefix } = context;
  const picker = integerPicker(options, noun, `${prefix}-${name}`, signal);
  const label = make("span", { className: "hta-label", id: `${prefix}-${name}-label` }, words);
  picker.button.setAttribute("aria-describedby", label.id);
  selection.then((model) => {
    picker.onPick = (chosen) => send({ [name]: chosen }, model);
    const update = () => picker.show(model.get(name) as number[]);
    listen(model, `change:${name}`, update, signal);
    update();
  });
  return row("picker", label, picker.button, picker.popover);
}

/** The element of a control; hidden if there is nothing to choose. */
export function control(spec: ControlSpec, context: ControlContext): HTMLElement {
  const element = build(spec, context);
  element.classList.toggle("hta-of-charts", "of_charts" in spec && spec.of_charts);
  element.hidden = "options" in spec && spec.options.length < 2 && !("free_text" in spec && spec.free_text);
  return element;
}

function build(spec: ControlSpec, context: ControlContext): HTMLElement {
  switch (spec.kind) {
    case "slider":
      return slider(spec, context);
    case "choice":
      return spec.options.length > SEGMENTS ? menu(spec, context) : segments(spec, context);
    case "toggle":
      return toggle(spec, context);
    case "search":
      return search(spec, context);
    case "button":
      return row("button", ...actionButton(spec, context));
    case "picker":
      return picker(spec, context);
  }
}
