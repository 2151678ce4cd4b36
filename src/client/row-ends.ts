import type { LoadParameters } from "#wire/loads.ts";

/**
 * Finds where rows end as the service does (A.7, A.23), in bytes that come in blocks. It looks for what may hide the end
 * of a row and skips all that is between: a newline that is enclosed or escaped is data.
 */
export interface RowEnds {
  /**
   * Goes on from `start` to the first end of a row that `accepts`. There, a row begins and the next call goes on.
   * @param from the least index that is of use
   * @returns the index behind it; -1 when there is none: then all bytes were looked at, and others may follow
   */
  find(bytes: Buffer, start: number, from: number, accepts: (end: number) => boolean): number;
}

const newline = 0x0a;

/** Undefined: it takes characters that are several bytes long to tell. Such data is not cut. */
export function createRowEnds({ format }: LoadParameters): RowEnds | undefined {
  const mark = format.type === "csv" ? format.enclosing_character : format.escape_character;
  if (mark === "") return plain();
  const bytes = Buffer.from(mark);
  const [byte] = bytes;
  if (byte === undefined || bytes.length > 1) return undefined;
  return format.type === "csv" ? enclosed(byte, Buffer.from(format.field_separator)) : escaped(byte);
}

function plain(): RowEnds {
  return {
    find: (bytes, start, from, accepts) => {
      for (let at = Math.max(start, from - 1); ;) {
        const end = bytes.indexOf(newline, at) + 1;
        if (end === 0 || accepts(end)) return end === 0 ? -1 : end;
        at = end;
      }
    },
  };
}

function escaped(escape: number): RowEnds {
  /** Whether the block before ended with an escape character that makes the next byte data. */
  let isOpen = false;
  return {
    find: (bytes, start, from, accepts) => {
      const isData = (at: number): boolean => {
        let first = at;
        while (first > start && bytes[first - 1] === escape) first -= 1;
        return (at - first) % 2 === (first === start && isOpen ? 0 : 1);
      };
      for (let at = Math.max(start, from - 1); ;) {
        const end = bytes.indexOf(newline, at) + 1;
        if (end === 0) {
          isOpen = isData(bytes.length);
          return -1;
        }
        if (!isData(end - 1) && accepts(end)) {
          isOpen = false;
          return end;
        }
        at = end;
      }
    },
  };
}

/** What a block may end in. */
const outside = 0;
const inside = 1;
/** Behind an enclosing character that ends the field, unless another one follows. */
const behind = 2;

function enclosed(enclosing: number, separator: Buffer): RowEnds {
  const [separatorByte] = separator;
  let state = outside;
  /** The last bytes of the block before; at first, as behind a row. */
  let before = Buffer.from([newline]);

  /** Whether a field begins at `at`, outside of enclosing characters: then one there encloses it. */
  function beginsField(bytes: Buffer, start: number, at: number): boolean {
    if (at > start) {
      const last = bytes[at - 1];
      if (last === newline) return true;
      if (separator.length === 1) return last === separatorByte;
    }
    const context = Buffer.concat([before, bytes.subarray(Math.max(start, at - separator.length), at)]);
    return context.at(-1) === newline || context.subarray(-separator.length).equals(separator);
  }

  return {
    find: (bytes, start, from, accepts) => {
      const block = wordsOf(bytes, enclosing);
      const { length } = bytes;
      let at = start;
      /** The first newline behind what was looked at, as far as that is known. */
      let line = Math.max(start, from - 1);
      if (state === behind && at < length) {
        state = bytes[at] === enclosing ? inside : outside;
        if (state === inside) at += 1;
      }
      while (at < length) {
        if (state === outside) {
          const mark = at === start ? nativeIndexOf(bytes, enclosing, at) : nextIn(block, at);
          line = Math.max(line, at);
          while (line < mark) {
            line = nativeIndexOf(bytes, newline, line);
            if (line >= mark) break;
            line += 1;
            if (accepts(line)) {
              before = Buffer.from([newline]);
              return line;
            }
          }
          if (mark < length && beginsField(bytes, start, mark)) state = inside;
          at = mark + 1;
        } else {
          const mark = nextIn(block, at);
          if (mark >= length) break;
          // Doubled, it is data.
          const isDoubled = bytes[mark + 1] === enclosing;
          at = isDoubled ? mark + 2 : mark + 1;
          if (!isDoubled) state = at === length ? behind : outside;
        }
      }
      before = Buffer.concat([before, bytes.subarray(Math.max(start, bytes.length - 4))]).subarray(-4);
      return -1;
    },
  };
}

/** Fast over long distances; a call costs as much as looking at a hundred bytes. */
function nativeIndexOf(bytes: Buffer, byte: number, from: number): number {
  const found = bytes.indexOf(byte, from);
  return found === -1 ? bytes.length : found;
}

/** A block in which a byte is looked for, four at a time: there may be millions of them to be found. */
interface Words {
  readonly bytes: Buffer;
  readonly byte: number;
  /** The byte four times. */
  readonly pattern: number;
  /** Where the words begin in `bytes`. */
  readonly aligned: number;
  readonly words: Int32Array;
}

function wordsOf(bytes: Buffer, byte: number): Words {
  const { buffer, byteOffset, length } = bytes;
  const aligned = Math.min(length, (4 - (byteOffset % 4)) % 4);
  const words = new Int32Array(buffer, byteOffset + aligned, (length - aligned) >> 2);
  return { bytes, byte, pattern: (byte * 0x01010101) | 0, aligned, words };
}

/** The index of the byte from an index on, or the length. */
function nextIn({ bytes, byte, pattern, aligned, words }: Words, from: number): number {
  const { length } = bytes;
  let at = from;
  while (at < length && ((at - aligned) & 3) !== 0) {
    if (bytes[at] === byte) return at;
    at += 1;
  }
  let word = (at - aligned) >> 2;
  const count = words.length;
  while (word < count) {
    const difference = (words[word] as number) ^ pattern;
    // Some byte of it is zero.
    if (((difference - 0x01010101) & ~difference & 0x80808080) !== 0) break;
    word += 1;
  }
  at = Math.max(at, aligned + word * 4);
  while (at < length && bytes[at] !== byte) at += 1;
  return at;
}
