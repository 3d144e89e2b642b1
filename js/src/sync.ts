// One request in flight, the newest values win, and a timeout reports a kernel that does not answer.
import { listen, type Model, viewOf } from "./models";
import type { PanelState } from "./types";

export type Progress = "idle" | "busy" | "silent";
type Values = Record<string, unknown>;

export class Requests {
  #model: Model<PanelState>;
  #report: (progress: Progress) => void;
  #timeout: number;
  #longest: number; // of what is pending
  #pending = new Map<Model, Values>();
  #awaited: number | null = null;
  #last = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(model: Model<PanelState>, signal: AbortSignal, report: (progress: Progress) => void, timeout = 20_000) {
    this.#model = model;
    this.#report = report;
    this.#timeout = this.#longest = timeout;
    listen(model, "change:_view", () => this.#answered(), signal);
    signal.addEventListener("abort", () => clearTimeout(this.#timer), { once: true });
  }

  /** Set values of the panel's model, or of another one (the selection), and request a new view. */
  send(values: Values, target: Model = this.#model, timeout = this.#timeout): void {
    this.#longest = Math.max(this.#longest, timeout);
    this.#pending.set(target, { ...this.#pending.get(target), ...values });
    this.#flush();
  }

  /** Whether a newer view is on its way. */
  get waiting(): boolean {
    return this.#awaited !== null;
  }

  #flush(): void {
    if (this.#awaited !== null || this.#pending.size === 0) return;
    // A second view of this panel counts on the same model.
    this.#last = Math.max(this.#last, this.#model.get("_req")) + 1;
    this.#awaited = this.#last;
    const values = this.#pending.get(this.#model);
    this.#pending.delete(this.#model);
    for (const [target, wanted] of this.#pending) write(target, wanted);
    this.#pending.clear();
    write(this.#model, { ...values, _req: this.#awaited });
    this.#report("busy");
    this.#timer = setTimeout(() => this.#silence(), this.#longest);
    this.#longest = this.#timeout;
  }

  #answered(): void {
    if (this.#awaited !== null && viewOf(this.#model).rev < this.#awaited) return;
    clearTimeout(this.#timer);
    this.#awaited = null;
    this.#report("idle");
    this.#flush();
  }

  #silence(): void {
    this.#awaited = null;
    this.#report("silent");
  }
}

function write(model: Model, values: Values): void {
  for (const [name, value] of Object.entries(values)) model.set(name, value);
  model.save_changes();
}
