import type { KeptList } from "./kept-list.ts";
import { readOrdinary } from "./ordinary.ts";

/** Finds the elements of a list that the list before had too, byte for byte. */
export interface Matching {
  /**
   * An element begins at `from`, an object.
   * @returns where it has ended, when the list before has the same one and it was not found yet; -1 otherwise
   */
  find(bytes: Buffer, from: number): number;
  /** Reads on in the list before, as far as it is needed for the next `blockSize` bytes. @throws {Error} when it is damaged */
  fill(): Promise<void>;
  /**
   * No element follows: what was not found yet has departed, and all of the list before has been read.
   * @throws {Error} when it is damaged
   */
  end(): Promise<void>;
  /** Where the element that was found last begins and ends in the list before, with its line end and the spaces around it. */
  readonly line: { readonly from: number; readonly to: number };
  /** How many elements were found. */
  readonly found: number;
  /** How many elements of the list before were passed over: no element of the new list can be found to be one of them. */
  readonly departed: number;
}

/** How many bytes of a list are looked at in one go. An element that lies across two is not found. */
export const blockSize = 512 * 1024;

/** How much of the list before is at hand: so many bytes at least, as long as there are. */
const atHand = 2 * blockSize;

/**
 * How many elements of the list before are tried for an element: so many may be missing in a row. Besides, one for each
 * element in a row that was not found: it may stand for a changed one.
 */
const tried = 8;

/** How many elements in a row are not found until one is looked for in all that is at hand: that takes a while. */
const manyMissed = 32;

const newline = 0x0a;
const space = 0x20;

/** @param depart takes the lines of the list before that were passed over, as they are found out */
export function createMatching(kept: KeptList, depart: (lines: Buffer) => void): Matching {
  const window = Buffer.allocUnsafe(2 * atHand);
  /** The next line begins at `next`; there are whole lines up to `whole`, and bytes up to `filled`. */
  let next = 0;
  let whole = 0;
  let filled = 0;
  /** How many bytes of the list were before those in the window. */
  let gone = 0;
  const line = { from: 0, to: 0 };
  let found = 0;
  let departed = 0;
  /** How many elements in a row were not found. */
  let missed = 0;

  /** The element on the line at `start` was found; `passed` elements before it were not. */
  function take(start: number, lineEnd: number, passed: number): void {
    if (passed > 0) {
      depart(Buffer.from(window.subarray(next, start)));
      departed += passed;
    }
    line.from = gone + (passed > 0 ? start : next);
    next = lineEnd + 1;
    line.to = gone + next;
    found++;
    missed = 0;
  }

  function tryNext(bytes: Buffer, from: number): number {
    const most = tried + Math.min(missed, manyMissed);
    let start = next;
    for (let passed = 0; passed < most && start < whole;) {
      while (window[start] === space) start++;
      const lineEnd = window.indexOf(newline, start);
      let end = lineEnd;
      while (end > start && window[end - 1] === space) end--;
      const to = from + end - start;
      if (end > start && to <= bytes.length && window.compare(bytes, from, to, start, end) === 0) {
        take(start, lineEnd, passed);
        return to;
      }
      if (end > start) passed++;
      start = lineEnd + 1;
    }
    return -1;
  }

  /** Looks for an element in all that is at hand, where many may be missing in a row. */
  function search(bytes: Buffer, from: number): number {
    const to = readOrdinary(bytes, from, { ordered: true, password: false });
    if (to < 0) return -1;
    const start = window.subarray(0, whole).indexOf(bytes.subarray(from, to), next);
    if (start < 0) return -1;
    let lineStart = start;
    while (lineStart > next && window[lineStart - 1] === space) lineStart--;
    if (lineStart > next && window[lineStart - 1] !== newline) return -1;
    const lineEnd = window.indexOf(newline, start);
    if (window.subarray(start + to - from, lineEnd).some((byte) => byte !== space)) return -1;
    take(start, lineEnd, linesIn(window.subarray(next, lineStart)));
    return to;
  }

  async function fill(): Promise<void> {
    while (filled - next < atHand) {
      window.copyWithin(0, next, filled);
      gone += next;
      filled -= next;
      whole -= next;
      next = 0;
      const count = await kept.read(window, filled);
      if (count === 0) return;
      const last = window.subarray(filled, filled + count).lastIndexOf(newline);
      if (last >= 0) whole = filled + last + 1;
      filled += count;
    }
  }

  return {
    find: (bytes, from) => {
      const to = tryNext(bytes, from);
      if (to >= 0) return to;
      missed++;
      // At every power of two only: many that are new come in a row too.
      return missed >= manyMissed && (missed & (missed - 1)) === 0 ? search(bytes, from) : -1;
    },
    fill,
    end: async () => {
      for (;;) {
        departed += linesIn(window.subarray(next, whole));
        depart(Buffer.from(window.subarray(next, whole)));
        next = whole;
        const before = filled - next;
        await fill();
        if (filled - next === before) break;
      }
      if (filled > next) throw new Error("its last line has no end");
    },
    line,
    get found() {
      return found;
    },
    get departed() {
      return departed;
    },
  };
}

/** How many lines have anything in them. */
function linesIn(bytes: Buffer): number {
  let lines = 0;
  for (let start = 0; start < bytes.length;) {
    const end = bytes.indexOf(newline, start);
    let at = start;
    while (bytes[at] === space) at++;
    if (at < end) lines++;
    start = end + 1;
  }
  return lines;
}
