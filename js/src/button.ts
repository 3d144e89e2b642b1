// A button that runs a method of the panel in Python, one run at a time, with a field for the output folder.
import type { ControlContext } from "./context";
import { keepKeys, make, pushButton } from "./dom";
import { listen } from "./models";
import { float } from "./popover";
import { isSaved } from "./saved";
import type { ButtonSpec } from "./types";

const TIMEOUT = 600_000; // writing a large file takes long

/** The button and, if it accepts a folder, a button that opens a field for one. */
export function actionButton(spec: ButtonSpec, context: ControlContext): HTMLElement[] {
  const { name, label } = spec;
  const { model, send, signal } = context;
  const button = pushButton(label);
  const running = () => model.get("_action").number !== model.get("_answer").number;
  const update = () => {
    button.setAttribute("aria-disabled", String(running()));
    button.setAttribute("aria-busy", String(running() && model.get("_action").name === name));
  };
  const run = (folder: string) => {
    const action = { name, number: (model.get("_action").number ?? 0) + 1, ...(folder && { folder }) };
    if (!running()) send({ _action: action }, model, TIMEOUT);
  };
  button.addEventListener("click", () => run(""), { signal });
  listen(model, "change:_action", update, signal);
  listen(model, "change:_answer", update, signal);
  update();
  button.disabled = isSaved(model);
  return spec.takes_folder && !button.disabled ? [button, ...folderField(spec, context, run)] : [button];
}

/** The typed folder stays in the page, because a notebook is saved with the state of its models. */
function folderField({ name, label }: ButtonSpec, { signal, prefix }: ControlContext, run: (folder: string) => void) {
  const id = `${prefix}-${name}-folder`;
  const said = `${label} to a folder`;
  const open = pushButton("", { className: "hta-open", title: said, "aria-label": said });
  const input = keepKeys(make("input", { type: "text", id, placeholder: "default folder" }));
  const write = pushButton("Write");
  const popover = make(
    "div",
    { className: "hta-popover", popover: "auto", role: "dialog", "aria-label": said },
    make("label", { htmlFor: id }, "Folder"),
    input,
    write,
  );
  open.popoverTargetElement = popover;
  float(popover, open, signal);
  const done = () => {
    popover.hidePopover();
    run(input.value.trim());
  };
  write.addEventListener("click", done, { signal });
  input.addEventListener("keydown", ({ key }) => key === "Enter" && done(), { signal });
  return [open, popover];
}
