import type { KeptList } from "./kept-list.ts";

/** Some elements of the list before, one after the other, with what stands between them and behind the last. */
export interface Stretch {
  /** The index of the first element, and of the one that follows the last. */
  readonly first: number;
  readonly behind: number;
  /** Where they begin and end in the list before, in bytes as it was sent. */
  readonly from: number;
  readonly to: number;
}

/** Takes what of the list before was found out. */
export interface MatchingObserver {
  /** The next elements of the list are these. */
  found(same: Stretch): void;
  /** These elements are not in the list. The bytes are the observer's to keep. */
  departed(gone: Stretch, bytes: Buffer): void;
}

/** Finds the elements of a list that the list before had too: byte for byte, as both were sent. */
export interface Matching {
  /**
   * An element begins at `at`: looks for it among those of the list before that were not found yet.
   * @returns whether one begins as the bytes go on from there: to be gone on with from `at` on
   */
  begin(bytes: Buffer, at: number): boolean;
  /**
   * Goes on with what has begun, in the bytes that follow.
   * @returns how far it goes: to the end of the bytes, when it may go on behind them. Otherwise up to an element that is
   *   another, behind the comma: it is negative, when so many bytes of that have gone by
   */
  goOn(bytes: Buffer, at: number): number;
  /** The bytes that have gone by of the element that had begun; the first `count` of them. */
  begun(count?: number): Buffer;
  /** Whether something has begun that may go on. */
  readonly isOn: boolean;
  /** Reads on in the list before, where there is room for it; waits when little is at hand. @throws {Error} when it is damaged */
  fill(): Promise<void>;
  /**
   * No element follows: what was not found has departed, and all of the list before has been read.
   * @throws {Error} when it is damaged
   */
  end(): Promise<void>;
  /** How many elements were found. */
  readonly found: number;
  /** How many elements of the list before were passed over: no element of the new list can be found to be one of them. */
  readonly departed: number;
}

/** The longest element that a list may have to be kept, in bytes as it was sent. */
export const longestElement = 512 * 1024;

/** How much of the list before is at hand: so many bytes at least, as long as there are. */
const atHand = 2 * longestElement;
const readSize = 1024 * 1024;

/**
 * How many elements of the list before are tried for an element: so many may be missing in a row. Besides, one for each
 * element in a row that was not found: it may stand for a changed one.
 */
const tried = 8;

/** How many elements in a row are not found until one is looked for in all that is at hand: that takes a while. */
const manyMissed = 32;

/** How much of an element is looked for there, in bytes, and how often. */
const needle = { least: 32, most: 256, times: 16 };

export function createMatching(kept: KeptList, observer: MatchingObserver): Matching {
  const { lengths } = kept;
  /** The last one is never found: what stands behind it is no comma. */
  const last = lengths.length - 1;
  const window = Buffer.allocUnsafeSlow(atHand + 3 * readSize);
  /** How many bytes of the list were before those in the window, and up to where there are some in it. */
  let gone = 0;
  let filled = 0;
  let reading: Promise<void> | undefined;
  let isRead = false;

  /** The first element that was not found yet, and where it begins in the list. */
  let next = 0;
  let nextAt = kept.start;
  /** While something goes on: the element it goes on in, where that begins, and up to where it is the same. */
  let isOn = false;
  let element = 0;
  let elementAt = 0;
  let same = 0;

  let found = 0;
  let departed = 0;
  /** How many elements in a row were not found. */
  let missed = 0;

  const lengthOf = (index: number): number => lengths[index] as number;

  function depart(behind: number, to: number): void {
    if (behind === next) return;
    const bytes = Buffer.from(window.subarray(nextAt - gone, to - gone));
    observer.departed({ first: next, behind, from: nextAt, to }, bytes);
    departed += behind - next;
    next = behind;
    nextAt = to;
  }

  /** Whether an element of the list before is what the bytes go on with, as far as they go. */
  function isSame(bytes: Buffer, at: number, index: number, start: number): boolean {
    const count = Math.min(lengthOf(index), bytes.length - at);
    const from = start - gone;
    return from + count <= filled && bytes.compare(window, from, from + count, at, at + count) === 0;
  }

  function start(index: number, at: number): boolean {
    isOn = true;
    element = index;
    elementAt = at;
    same = at;
    return true;
  }

  function tryNext(bytes: Buffer, at: number): boolean {
    const most = Math.min(last, next + tried + Math.min(missed, manyMissed));
    let from = nextAt;
    for (let index = next; index < most; index++) {
      if (isSame(bytes, at, index, from)) return start(index, from);
      from += lengthOf(index);
    }
    return false;
  }

  /** Looks for an element in all that is at hand, where many may be missing in a row. */
  function search(bytes: Buffer, at: number): boolean {
    const part = bytes.subarray(at, at + needle.most);
    if (part.length < needle.least) return false;
    const there = window.subarray(0, filled);
    let index = next;
    let from = nextAt;
    let place = nextAt - gone;
    for (let times = 0; times < needle.times; times++) {
      place = there.indexOf(part, place);
      if (place < 0) return false;
      while (index < last && from < gone + place) from += lengthOf(index++);
      if (index === last) return false;
      if (from === gone + place && isSame(bytes, at, index, from)) return start(index, from);
      place++;
    }
    return false;
  }

  async function read(): Promise<void> {
    const count = await kept.read(window.subarray(filled, filled + readSize));
    filled += count;
    if (count === 0) isRead = true;
    reading = undefined;
  }

  /** Begins to read what there is room for, unless that is being done. */
  function readOn(): void {
    if (reading !== undefined || isRead) return;
    if (filled + readSize > window.length) {
      const before = nextAt - gone;
      // Moving what is left is worth while only now and then.
      if (before < readSize) return;
      window.copyWithin(0, before, filled);
      gone += before;
      filled -= before;
    }
    reading = read();
    reading.catch(() => undefined);
  }

  async function fill(): Promise<void> {
    readOn();
    while (reading !== undefined && gone + filled - nextAt < atHand) {
      await reading;
      readOn();
    }
  }

  return {
    begin: (bytes, at) => {
      if (tryNext(bytes, at)) return true;
      missed++;
      // At every power of two only: many that are new come in a row too.
      return missed >= manyMissed && (missed & (missed - 1)) === 0 && search(bytes, at);
    },
    goOn: (bytes, at) => {
      const before = same;
      const first = element;
      const from = elementAt;
      const count = Math.min(bytes.length - at, gone + filled - same);
      same += commonLength(bytes, at, window, same - gone, count);
      while (element < last && elementAt + lengthOf(element) <= same) elementAt += lengthOf(element++);
      if (element > first) {
        depart(first, from);
        observer.found({ first, behind: element, from, to: elementAt });
        found += element - first;
        missed = 0;
        next = element;
        nextAt = elementAt;
      }
      isOn = same - before === bytes.length - at;
      return isOn ? bytes.length : at + elementAt - before;
    },
    begun: (count = same - elementAt) => Buffer.from(window.subarray(elementAt - gone, elementAt - gone + count)),
    get isOn() {
      return isOn;
    },
    fill,
    end: async () => {
      for (;;) {
        let behind = next;
        let to = nextAt;
        while (behind < lengths.length && to + lengthOf(behind) <= gone + filled) to += lengthOf(behind++);
        depart(behind, to);
        readOn();
        if (reading === undefined) break;
        await reading;
      }
      if (next < lengths.length || nextAt < gone + filled) throw new Error("its elements are not as long as it is");
    },
    get found() {
      return found;
    },
    get departed() {
      return departed;
    },
  };
}

/** How many bytes are the same, one after the other, from two places on; not more than `count`. */
function commonLength(left: Buffer, leftFrom: number, right: Buffer, rightFrom: number, count: number): number {
  const isSame = (from: number, to: number): boolean =>
    left.compare(right, rightFrom + from, rightFrom + to, leftFrom + from, leftFrom + to) === 0;
  if (isSame(0, count)) return count;
  let from = 0;
  // Twice as much each time, and then half as much, is as quick where much is the same as where little is.
  let size = 1024;
  while (isSame(from, Math.min(from + size, count))) {
    from += size;
    size *= 2;
  }
  let to = Math.min(from + size, count);
  while (to - from > 1) {
    const middle = (from + to) >>> 1;
    if (isSame(from, middle)) from = middle;
    else to = middle;
  }
  return from;
}
