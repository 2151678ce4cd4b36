import { hash } from "node:crypto";

/**
 * Which ids have been seen. It knows them by 128 bits of their hash, outside of the heap: about 32 bytes for each, so
 * that a million take 32 MB. That is the one thing here that grows with the directory; without it, a resource that
 * moved between two pages could not be told from one that is missing.
 */
export interface Seen {
  readonly size: number;
  /** False when it was seen before. */
  add(id: string): boolean;
}

const words = 4;
/** Many small tables rather than a large one: growing it would let nothing else run. */
const tables = 256;

interface Table {
  slots: Uint32Array;
  used: number;
}

export function createSeen(): Seen {
  const shards = Array.from({ length: tables }, (): Table => ({ slots: new Uint32Array(16 * words), used: 0 }));
  let size = 0;
  return {
    get size() {
      return size;
    },
    add(id) {
      const digest = hash("sha256", id, "buffer");
      const key = new Uint32Array(words);
      for (let word = 0; word < words; word++) key[word] = digest.readUInt32LE(word * 4);
      // All zeros is a free slot.
      key[0] = (key[0] ?? 0) | 1;
      const shard = shards[digest[16] ?? 0];
      if (shard === undefined || !insert(shard, key, 0)) return false;
      size++;
      if (shard.used * words * 2 > shard.slots.length) grow(shard);
      return true;
    },
  };
}

/** Whether the key at `from` in `keys` was new. */
function insert(table: Table, keys: Uint32Array, from: number): boolean {
  const { slots } = table;
  const count = slots.length / words;
  for (let slot = (keys[from + 1] ?? 0) % count; ; slot = (slot + 1) % count) {
    const at = slot * words;
    if (slots[at] === 0) {
      slots.set(keys.subarray(from, from + words), at);
      table.used++;
      return true;
    }
    let word = 0;
    while (word < words && slots[at + word] === keys[from + word]) word++;
    if (word === words) return false;
  }
}

function grow(table: Table): void {
  const old = table.slots;
  table.slots = new Uint32Array(old.length * 2);
  table.used = 0;
  for (let at = 0; at < old.length; at += words) if (old[at] !== 0) insert(table, old, at);
}
