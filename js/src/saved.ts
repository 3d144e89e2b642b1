// Reports that were saved to a file: their models are there, but no kernel follows them.
import type { Model } from "./models";

/** Whether no kernel will ever answer. */
export function isSaved(model: Model): boolean {
  return model.get("_saved") === true;
}
