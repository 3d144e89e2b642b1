// Reports saved to a file: they have models, but no kernel.
import type { Model } from "./models";

/** Whether no kernel will ever answer. */
export function isSaved(model: Model): boolean {
  return model.get("_saved") === true;
}
