// Questions to Python about a timeline: one of each kind is in flight, and the newest wins.
import { listen, type Model } from "../models";
import type { Answer, TimelineState } from "./types";

type Question = { kind: string; [field: string]: unknown };
type Callback = (answer: Answer, buffers: ArrayBufferView[]) => void;

const PATIENCE_MS = 20_000;

/** Buffers that were compressed together. */
async function split(packed: ArrayBufferView<ArrayBuffer>, sizes: number[]): Promise<ArrayBufferView[]> {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const whole = await new Response(stream).arrayBuffer();
  let at = 0;
  return sizes.map((size) => {
    at += size;
    return new Uint8Array(whole, at - size, size);
  });
}

interface Slot {
  id: number;
  answered: Callback;
  timer: ReturnType<typeof setTimeout>;
  next: (() => void) | null;
}

let last = 0;

export class Kernel {
  #model: Model<TimelineState>;
  #slots = new Map<string, Slot>();
  #report: (error: string) => void;

  constructor(model: Model<TimelineState>, signal: AbortSignal, report: (error: string) => void) {
    this.#model = model;
    this.#report = report;
    const receive = async (content: Answer, buffers?: ArrayBufferView<ArrayBuffer>[]) => {
      const unpacked = content.sizes && buffers?.[0] ? await split(buffers[0], content.sizes) : (buffers ?? []);
      if (!signal.aborted) this.#receive(content, unpacked);
    };
    listen(model, "msg:custom", receive, signal);
    signal.addEventListener("abort", () => this.#stop(), { once: true });
  }

  /** Ask, replacing a waiting question of the same slot. If it must wait and `again` is given, that is called in its turn. */
  ask(question: Question, answered: Callback, slot = question.kind, again?: () => void): void {
    const busy = this.#slots.get(slot);
    const send = () => this.#send(slot, question, answered);
    if (busy) busy.next = again ?? send;
    else send();
  }

  #send(slot: string, question: Question, answered: Callback): void {
    last += 1;
    const timer = setTimeout(() => this.#give_up(slot), PATIENCE_MS);
    this.#slots.set(slot, { id: last, answered, timer, next: null });
    try {
      this.#model.send({ ...question, id: last });
    } catch {
      clearTimeout(timer); // without a kernel
      this.#slots.delete(slot);
    }
  }

  /** No answer came: ask the waiting question, as the kernel may be busy or restarted. */
  #give_up(slot: string): void {
    const waited = this.#slots.get(slot)?.next;
    this.#slots.delete(slot);
    waited?.();
  }

  #receive(answer: Answer, buffers: ArrayBufferView[]): void {
    for (const [name, slot] of this.#slots) {
      if (slot.id !== answer.id) continue;
      clearTimeout(slot.timer);
      this.#slots.delete(name);
      if (answer.kind === "refused") this.#report(answer.error);
      else slot.answered(answer, buffers);
      slot.next?.();
    }
  }

  #stop(): void {
    for (const { timer } of this.#slots.values()) clearTimeout(timer);
    this.#slots.clear();
  }
}
