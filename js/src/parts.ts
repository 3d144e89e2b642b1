// Fetches bytes that Python sends in parts, because an answer must not be too large.
import type { Model } from "./models";

interface Part {
  id: string;
  problem?: string;
  bytes?: number;
}

/** All parts of what is asked for, gzipped; an error says what is wrong, or that Python does not answer. */
export async function inParts(model: Model, question: Record<string, unknown>, patience: number): Promise<Blob> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for (let offset = 0; ; ) {
    const { part, bytes } = await next(model, { ...question, offset }, patience);
    parts.push(part);
    offset += part.byteLength;
    if (offset >= bytes || part.byteLength === 0) return new Blob(parts, { type: "application/gzip" });
  }
}

function next(model: Model, question: Record<string, unknown>, patience: number) {
  return new Promise<{ part: Uint8Array<ArrayBuffer>; bytes: number }>((resolve, reject) => {
    const id = Math.random().toString(36).slice(2);
    const received = (answer: Part, [buffer]: readonly DataView[] = []) => {
      if (answer?.id !== id) return;
      done();
      const { problem, bytes } = answer;
      if (problem !== undefined || !buffer || bytes === undefined) reject(new Error(problem ?? "no answer"));
      else resolve({ part: new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength).slice(), bytes });
    };
    const timer = setTimeout(() => {
      done();
      reject(new Error("Python is not responding"));
    }, patience);
    const done = () => {
      clearTimeout(timer);
      model.off("msg:custom", received);
    };
    model.on("msg:custom", received);
    model.send({ ...question, id });
  });
}
