// The nodes of a flame graph: their paths, what a search finds, and what a node selects.
import { finder } from "../cells";
import type { Pick } from "../picks";
import type { Column, FlameMessage, Unit } from "./types";

const TYPES = {
  i1: Int8Array,
  u1: Uint8Array,
  i2: Int16Array,
  u2: Uint16Array,
  i4: Int32Array,
  u4: Uint32Array,
  f4: Float32Array,
  f8: Float64Array,
};
export const MODULE = "nn.Module: ";
const SEPARATOR = " › ";

export type Numbers = ArrayLike<number>;

export function decode(column: Column): Numbers {
  if (Array.isArray(column)) return column;
  const bytes = Uint8Array.from(atob(column.bdata), (char) => char.charCodeAt(0));
  return new TYPES[column.dtype as keyof typeof TYPES](bytes.buffer);
}

/** In a trace of a Transformer with stacks, each of the first 27 rows was a single box. */
const TRUNK = 0.95;

export class Graph {
  readonly parent: Numbers;
  readonly depth: Numbers;
  readonly start: Numbers;
  readonly total: Numbers;
  readonly own: Numbers;
  readonly folded: Numbers;
  readonly root: string[];
  readonly sandwich: string;
  readonly all: number;
  readonly unit: Unit;
  readonly size: number;
  #names: string[];
  #labels: string[];
  #kinds: string[];
  #name: Numbers;
  #kind: Numbers;

  constructor(message: FlameMessage) {
    this.#names = message.names;
    this.#labels = message.labels;
    this.#kinds = message.kinds;
    this.#name = decode(message.name);
    this.#kind = decode(message.kind);
    this.parent = decode(message.parent);
    this.depth = decode(message.depth);
    this.start = decode(message.start);
    this.total = decode(message.total);
    this.own = decode(message.own);
    this.folded = decode(message.folded);
    this.root = message.root;
    this.sandwich = message.sandwich;
    this.all = message.all;
    this.unit = message.unit;
    this.size = this.parent.length;
  }

  /** The innermost of the nested calls that have nearly all of the time. */
  trunk(): number {
    let last = 0;
    for (let node = 1; node < this.size; node++) {
      if (this.parent[node] === last && (this.total[node] ?? 0) >= TRUNK * (this.total[0] ?? 0)) last = node;
    }
    return last;
  }

  name(node: number): string {
    return this.#names[this.#name[node] ?? 0] ?? "";
  }

  label(node: number): string {
    return this.#labels[this.#name[node] ?? 0] ?? "";
  }

  kind(node: number): string {
    return this.#kinds[this.#kind[node] ?? 0] ?? "";
  }

  /** Whether a node is a caller of the name in the sandwich, and is drawn above the root. */
  isCaller(node: number): boolean {
    return (this.depth[node] ?? 0) < 0;
  }

  /** Names from the outermost call through the root to a node; for a caller, from it inwards to the sandwich's name. */
  path(node: number): string[] {
    const below: string[] = [];
    if (this.isCaller(node)) {
      for (let at = node; at > 0; at = this.parent[at] ?? 0) below.push(this.name(at));
      return [...below, ...this.root];
    }
    for (let at = node; at > 0; at = this.parent[at] ?? 0) below.unshift(this.name(at));
    return [...this.root, ...below];
  }

  /** What a click on a node selects. */
  pick(node: number): Pick | null {
    if (node === 0 && this.root.length === 0) return null;
    const [name, kind] = [this.name(node), this.kind(node)];
    if (kind === "kernel") return { field: "kernel", item: name };
    if (kind === "cpu_op") return { field: "operators", item: name };
    if (kind !== "python" || !name.startsWith(MODULE)) return null;
    if (this.sandwich !== "") return null;
    const modules = this.path(node).filter((each) => each.startsWith(MODULE));
    return { field: "modules", item: modules.map((each) => each.slice(MODULE.length)).join(SEPARATOR) };
  }

  /** Nodes inside a node, or callers of it, in drawing order. */
  inside(node: number, callers = false): number[] {
    const found: number[] = [];
    for (let at = node + 1; at < this.size; at++)
      if (this.parent[at] === node && this.isCaller(at) === callers) found.push(at);
    return found.sort((one, other) => (this.start[one] ?? 0) - (this.start[other] ?? 0));
  }

  /** Whether each node matches, and the sum over the outermost matches; over callers if only callers match. */
  search(text: string): { found: boolean[]; count: number; sum: number } {
    const finds = finder(text);
    const fits = typeof finds === "string" ? () => false : finds;
    const known = this.#names.map((name, at) => fits(name) || fits(this.#labels[at] ?? ""));
    const found: boolean[] = [];
    const covered: boolean[] = [];
    let [count, below, above] = [0, 0, 0];
    for (let node = 0; node < this.size; node++) {
      const here = (known[this.#name[node] ?? 0] ?? false) && this.folded[node] === 0;
      const around = covered[this.parent[node] ?? -1] ?? false;
      found.push(here);
      covered.push(here || around);
      if (here) count += 1;
      if (!here || around) continue;
      if (this.isCaller(node)) above += this.total[node] ?? 0;
      else below += this.total[node] ?? 0;
    }
    return { found, count, sum: below || above };
  }
}
