// Lanes added below those of the ranks: the chosen kinds, and the lanes of these kinds that each rank has.
import type { Kernel } from "./kernel";
import type { KindOfLane, LaneName } from "./types";

export class AddedLanes {
  /** Lanes of the chosen kinds, by rank. */
  readonly byRank = new Map<number, LaneName[]>();
  #kinds: readonly string[] = [];
  #asked = new Set<number>();
  #kernel: Kernel;
  #came: () => void;
  #say: (text: string) => void;

  constructor(kernel: Kernel, came: () => void, say: (text: string) => void) {
    this.#kernel = kernel;
    this.#came = came;
    this.#say = say;
  }

  get chosen(): readonly string[] {
    return this.#kinds;
  }

  choose(kinds: readonly string[]): void {
    if (kinds.join() === this.#kinds.join()) return;
    this.#kinds = kinds;
    this.#asked.clear();
    this.byRank.clear();
  }

  /** Take over the lanes of a saved page. */
  know(rank: number, lanes: LaneName[]): void {
    this.byRank.set(rank, lanes);
    this.#asked.add(rank);
  }

  /** Request the lanes of ranks that are shown in full. */
  want(ranks: readonly number[]): void {
    if (this.#kinds.length === 0) return;
    for (const rank of ranks) if (!this.#asked.has(rank)) this.#ask(rank);
  }

  #ask(rank: number): void {
    const lanes = this.#kinds;
    this.#asked.add(rank);
    const question = { kind: "added", rank, lanes };
    const slot = `added ${rank}`;
    const show: Parameters<Kernel["ask"]>[1] = (answer) => {
      if (answer.kind !== "added" || lanes !== this.#kinds) return;
      this.byRank.set(rank, answer.lanes);
      if (answer.none.length > 0) this.#say(`rank ${rank}: ${answer.none.join("; ")}`);
      this.#came();
    };
    this.#kernel.ask(question, show, slot);
  }

  /** Request the available kinds. */
  kinds(show: (kinds: KindOfLane[]) => void): void {
    this.#kernel.ask({ kind: "kinds" }, (answer) => {
      if (answer.kind === "kinds") show(answer.kinds);
    });
  }
}
