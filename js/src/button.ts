// A button that runs a method of the panel in Python, one at a time.
import type { ControlContext } from "./context";
import { keepKeys, make } from "./dom";
import { listen } from "./models";
import type { ButtonSpec } from "./types";

const TIMEOUT = 600_000; // a large file takes long to write

export function actionButton({ name, label }: ButtonSpec, { model, send, signal }: ControlContext): HTMLButtonElement {
  const button = keepKeys(make("button", { type: "button" }, label));
  const running = () => model.get("_action").number !== model.get("_answer").number;
  const update = () => {
    button.setAttribute("aria-disabled", String(running()));
    button.setAttribute("aria-busy", String(running() && model.get("_action").name === name));
  };
  const press = () => {
    if (!running()) send({ _action: { name, number: (model.get("_action").number ?? 0) + 1 } }, model, TIMEOUT);
  };
  button.addEventListener("click", press, { signal });
  listen(model, "change:_action", update, signal);
  listen(model, "change:_answer", update, signal);
  update();
  return button;
}
