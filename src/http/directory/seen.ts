import { hash } from "node:crypto";

const words = 4;
/** Many small tables: growing one large table would block the event loop. */
const tables = 256;

interface Table {
  slots: Uint32Array;
  used: number;
}

/**
 * A set of ids. It holds 128 bits of each id's hash, outside the heap: about 32 bytes per id, 32 MB for a million. Without
 * it, a record that moved between two pages could not be told from a missing one.
 */
export class Seen {
  readonly #tables: (Table | undefined)[] = Array.from({ length: tables });
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Returns false for an id that is already in the set. */
  add(id: string): boolean {
    const { place, key } = placeOf(id);
    const table = (this.#tables[place] ??= { slots: new Uint32Array(16 * words), used: 0 });
    if (!insert(table, key, 0)) return false;
    this.#size++;
    if (table.used * words * 2 > table.slots.length) grow(table);
    return true;
  }

  has(id: string): boolean {
    const { place, key } = placeOf(id);
    const table = this.#tables[place];
    return table !== undefined && table.slots[slotOf(table, key, 0)] !== 0;
  }
}

function placeOf(id: string): { readonly place: number; readonly key: Uint32Array } {
  const digest = hash("sha256", id, "buffer");
  const key = new Uint32Array(words);
  for (let word = 0; word < words; word++) key[word] = digest.readUInt32LE(word * 4);
  // A slot that starts with zero is free.
  key[0] = (key[0] ?? 0) | 1;
  return { place: digest[16] ?? 0, key };
}

/** The slot of the key at `from` in `keys`, or the free one where it belongs. */
function slotOf({ slots }: Table, keys: Uint32Array, from: number): number {
  const count = slots.length / words;
  for (let slot = (keys[from + 1] ?? 0) % count; ; slot = (slot + 1) % count) {
    if (slots[slot * words] === 0) return slot * words;
    let word = 0;
    while (word < words && slots[slot * words + word] === keys[from + word]) word++;
    if (word === words) return slot * words;
  }
}

/** Inserts the key at `from` in `keys`. Returns false when it is already there. */
function insert(table: Table, keys: Uint32Array, from: number): boolean {
  const slot = slotOf(table, keys, from);
  if (table.slots[slot] !== 0) return false;
  table.slots.set(keys.subarray(from, from + words), slot);
  table.used++;
  return true;
}

function grow(table: Table): void {
  const old = table.slots;
  table.slots = new Uint32Array(old.length * 2);
  table.used = 0;
  for (let at = 0; at < old.length; at += words) if (old[at] !== 0) insert(table, old, at);
}

/** What ids came, in any order and with those that came twice: equal for equal reads. Does not grow with them. */
export class IdDigest {
  #count = 0;
  #sum = 0n;

  get count(): number {
    return this.#count;
  }

  add(id: string): void {
    const digest = hash("sha256", id, "buffer");
    this.#count++;
    this.#sum = BigInt.asUintN(128, this.#sum + ((digest.readBigUInt64LE(0) << 64n) | digest.readBigUInt64LE(8)));
  }

  /** Equal texts for equal reads. */
  toString(): string {
    return `${this.#count}-${this.#sum.toString(16)}`;
  }

  equals(other: IdDigest): boolean {
    return this.#count === other.#count && this.#sum === other.#sum;
  }
}
