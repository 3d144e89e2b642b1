// Requests for views: one in flight, the newest values win; and what the kernel is known to be doing.
import { listen, type Model, viewOf, write } from "./models";
import { isSaved } from "./saved";
import type { PanelState } from "./types";

/** Whether the view matches the controls, and if not, why. */
export type Progress = "idle" | "busy" | "interrupted" | "silent" | "gone";
type Values = Record<string, unknown>;

export class Requests {
  #model: Model<PanelState>;
  #report: (progress: Progress) => void;
  #timeout: number;
  #longest: number; // longest timeout of the pending requests
  #pending = new Map<Model, Values>();
  #awaited: number | null = null;
  #last = 0;
  #gone = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(model: Model<PanelState>, signal: AbortSignal, report: (progress: Progress) => void, timeout = 20_000) {
    this.#model = model;
    this.#report = report;
    this.#timeout = this.#longest = timeout;
    listen(model, "change:_view", () => this.#answered(), signal);
    listen(model, "change:_activity", () => this.#tell(), signal);
    listen(model, "comm_live_update", () => this.#lost(), signal);
    signal.addEventListener("abort", () => clearTimeout(this.#timer), { once: true });
    if (model.get("_activity") !== "idle") this.#tell();
  }

  /** Set values of the panel's model, or another one (the selection), and request a new view if a kernel can make one. */
  send(values: Values, target: Model = this.#model, timeout = this.#timeout): void {
    if (isSaved(this.#model)) {
      if (target !== this.#model) write(target, values); // what the browser draws itself follows
      return;
    }
    this.#longest = Math.max(this.#longest, timeout);
    this.#pending.set(target, { ...this.#pending.get(target), ...values });
    this.#flush();
  }

  /** Whether a newer view is on its way. */
  get waiting(): boolean {
    return this.#awaited !== null;
  }

  /** Report the progress. */
  #tell(): void {
    const activity = this.waiting ? "computing" : this.#model.get("_activity");
    if (this.#gone) this.#report("gone");
    else this.#report(activity === "computing" ? "busy" : activity);
  }

  #flush(): void {
    if (this.waiting || this.#pending.size === 0) return;
    // A second view of this panel counts requests on the same model.
    this.#last = Math.max(this.#last, this.#model.get("_req")) + 1;
    this.#awaited = this.#last;
    const values = this.#pending.get(this.#model);
    this.#pending.delete(this.#model);
    for (const [target, wanted] of this.#pending) write(target, wanted);
    this.#pending.clear();
    write(this.#model, { ...values, _req: this.#awaited });
    if (this.#gone)
      this.#awaited = null; // an answer may never come
    else this.#wait(this.#longest);
    this.#longest = this.#timeout;
    this.#tell();
  }

  #answered(): void {
    this.#gone = false;
    if (this.#awaited !== null && viewOf(this.#model).rev < this.#awaited) return;
    this.#stop();
    this.#tell();
    this.#flush();
  }

  #wait(timeout: number): void {
    this.#timer = setTimeout(() => this.#silence(timeout), timeout);
  }

  #silence(timeout: number): void {
    // A cell is computing this panel: the request is handled next.
    if (this.#model.get("_activity") === "computing") this.#wait(timeout);
    else {
      this.#awaited = null;
      this.#report("silent");
    }
  }

  /** The kernel has stopped; it is back only when it sends a view. */
  #lost(): void {
    this.#stop();
    this.#pending.clear();
    this.#gone = true;
    this.#tell();
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#awaited = null;
  }
}
