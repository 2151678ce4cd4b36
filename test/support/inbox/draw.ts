/** Draws what a random client does. The same seed draws the same. */
export class Draw {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  /** From 0 to below `end`. */
  below(end: number): number {
    // Mulberry32.
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * end);
  }

  chance(probability: number): boolean {
    return this.below(1e6) < probability * 1e6;
  }

  one<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)] as Item;
  }

  /** Any of them. */
  some<Item>(items: readonly Item[]): Item[] {
    return items.filter(() => this.chance(0.4));
  }
}
