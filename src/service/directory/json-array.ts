import { pause } from "./array-scanner.ts";
import type { ArrayObserver, ArrayScanner } from "./array-scanner.ts";

const space = 0x20;
const newline = 0x0a;
const carriageReturn = 0x0d;
const tab = 0x09;
const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const backslash = 0x5c;
const openArray = 0x5b;
const closeArray = 0x5d;
const openObject = 0x7b;
const closeObject = 0x7d;
const letterU = 0x75;

// Where in the grammar of RFC 8259 the next byte is. From `inWord` on it is inside a token.
const atStart = 0;
const atValue = 1;
const atFirstValue = 2;
const atKey = 3;
const atFirstKey = 4;
const afterKey = 5;
const afterValue = 6;
const atEnd = 7;
const inWord = 8;
const inString = 9;
const inEscape = 10;
const inHex = 11;

const expected: Readonly<Record<number, string>> = {
  [atStart]: "an array in [ ]",
  [atValue]: "a value",
  [atFirstValue]: "a value or ]",
  [atKey]: "a key in double quotes",
  [atFirstKey]: "a key in double quotes, or }",
  [afterKey]: "a colon",
  [afterValue]: "a comma, or the end of the array or object",
  [atEnd]: "nothing behind the array",
  [inWord]: "true, false, null or a number",
  [inString]: "a double quote at the end of the string, and control characters only as escapes",
  [inEscape]: 'one of "\\/bfnrtu behind the backslash',
  [inHex]: "four hexadecimal digits behind \\u",
};

/** A value without quotes or brackets. */
const word = /^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)$/;
const escape = /^["\\/bfnrtu]$/;
const hexadecimal = /^[\da-fA-F]$/;

const deepest = 1000;
/** How much of a token is kept when it comes in several pieces. A word may not be longer. */
const longestToken = 1024;

/**
 * A scanner for one JSON array. It is as strict as `JSON.parse`, but takes for granted that whoever reads the array
 * refuses bytes that are not UTF-8. More than 1,000 arrays and objects inside one another are a problem.
 */
export function createArrayScanner(observer: ArrayObserver): ArrayScanner {
  let state = atStart;
  let depth = 0;
  /** The opening bytes of what is open. */
  const open = new Uint8Array(deepest + 1);
  /** How many bytes were scanned before the current ones. */
  let offset = 0;
  /** How many were skipped. */
  let skipped = 0;
  let problem: { readonly at: number; readonly expected: string | undefined } | undefined;
  let isTooDeep = false;
  let elements = 0;
  let line = 0;
  let longestLine = 0;

  let paused = false;
  let isKey = false;
  let escaped = false;
  /** How many digits of a `\u` escape have been. */
  let digits = 0;
  /** The beginning of a token that started in the bytes before. */
  let carried: Buffer | undefined;

  function fail(at: number): void {
    const what = isTooDeep ? `no more than ${deepest} arrays and objects in one another` : expected[state];
    problem ??= { at: offset + at, expected: what };
  }

  function endLine(at: number): void {
    longestLine = Math.max(longestLine, offset + at - line);
    line = offset + at + 1;
    elements++;
  }

  function showString(text: Buffer): void {
    observer.string(depth, isKey, text, 0, text.length);
  }

  /** The token's bytes, once it has ended. */
  function wholeToken(bytes: Buffer, from: number, to: number): Buffer {
    const rest = bytes.subarray(from, to);
    const whole = carried === undefined ? rest : Buffer.concat([carried, rest]);
    carried = undefined;
    return whole;
  }

  /**
   * Goes on with a token, whose bytes begin or go on at `from`.
   * @returns where it has ended; behind the last byte, when it has not
   */
  function token(bytes: Buffer, from: number): number {
    const { length } = bytes;
    for (let at = from; at < length; at++) {
      const byte = bytes[at] as number;
      if (state === inWord) {
        if (!endsWord(byte)) continue;
        const whole = wholeToken(bytes, from, at);
        if (whole.length <= longestToken && word.test(whole.toString("latin1"))) state = afterValue;
        else fail(at);
        return at;
      }
      if (state === inString) {
        if (byte === quote) {
          const whole = wholeToken(bytes, from, at);
          if (depth <= 3) {
            if (whole.length > longestToken) observer.string(depth, isKey, whole, 0, -1);
            else showString(escaped ? unescape(whole) : whole);
          }
          escaped = false;
          state = isKey ? afterKey : afterValue;
          return at + 1;
        }
        if (byte === backslash) {
          escaped = true;
          digits = 0;
          state = inEscape;
        } else if (byte < space) {
          fail(at);
          return at;
        }
      } else {
        const isWell = (state === inEscape ? escape : hexadecimal).test(String.fromCharCode(byte));
        if (!isWell) {
          fail(at);
          return at;
        }
        if (state === inHex) digits++;
        state = (state === inEscape && byte !== letterU) || digits === 4 ? inString : inHex;
      }
    }
    if (carried === undefined || carried.length <= longestToken) {
      const rest = bytes.subarray(from);
      carried = carried === undefined ? Buffer.from(rest) : Buffer.concat([carried, rest]);
    }
    return length;
  }

  /**
   * Goes on between tokens, and over the strings that end in these bytes and have no escapes: almost everything.
   * Locals make it several times faster; it is optimised sooner for leaving out what is rare.
   * @returns where a token begins that is left to `token`, or an object before which the observer wants to stop: then
   *   `paused` is set; behind the last byte, when there is none
   */
  function structure(bytes: Buffer, from: number): number {
    const { length } = bytes;
    let at = from;
    let now = state;
    let level = depth;
    while (at < length) {
      const byte = bytes[at] as number;
      if (byte === quote) {
        isKey = now === atKey || now === atFirstKey;
        if (!isKey && now !== atValue && now !== atFirstValue) break;
        if (!isKey && level <= 3) observer.value(level, byte);
        const start = ++at;
        let next = 0;
        while (at < length) {
          next = bytes[at] as number;
          if (next === quote || next === backslash || next < space) break;
          at++;
        }
        if (at === length || next !== quote) {
          state = inString;
          depth = level;
          return start;
        }
        now = isKey ? afterKey : afterValue;
        if (level <= 3) observer.string(level, isKey, bytes, start, at);
        at++;
        continue;
      }
      if (byte === comma) {
        if (now !== afterValue) break;
        now = open[level] === openObject ? atKey : atValue;
        if (level === 1) {
          bytes[at] = newline;
          endLine(at);
        }
      } else if (byte === colon) {
        if (now !== afterKey) break;
        now = atValue;
      } else if (byte === openObject || byte === openArray) {
        if (now === atStart ? byte === openObject : now !== atValue && now !== atFirstValue) break;
        if (level === deepest) {
          isTooDeep = true;
          break;
        }
        if (level === 1 && byte === openObject) {
          const end = observer.element(bytes, at);
          if (end >= 0) {
            now = afterValue;
            at = end;
            continue;
          }
          if (end === pause) {
            paused = true;
            state = now;
            depth = level;
            return at;
          }
        }
        if (level <= 3) observer.value(level, byte);
        if (level === 0) bytes[at] = space;
        open[++level] = byte;
        now = byte === openObject ? atFirstKey : atFirstValue;
      } else if (byte === closeObject || byte === closeArray) {
        if (open[level] !== (byte === closeObject ? openObject : openArray)) break;
        if (now !== afterValue && now !== (byte === closeObject ? atFirstKey : atFirstValue)) break;
        level--;
        now = level === 0 ? atEnd : afterValue;
        if (level === 0) {
          bytes[at] = newline;
          endLine(at);
        }
      } else if (byte === newline || byte === carriageReturn) {
        bytes[at] = space;
      } else if (byte !== space && byte !== tab) {
        if (now !== atValue && now !== atFirstValue) break;
        if (level <= 3) observer.value(level, byte);
        state = inWord;
        depth = level;
        return at;
      }
      at++;
    }
    state = now;
    depth = level;
    if (at < length) fail(at);
    return at;
  }

  function scan(bytes: Buffer): number {
    paused = false;
    let at = state >= inWord ? token(bytes, 0) : 0;
    while (at < bytes.length) {
      if (problem !== undefined) return bytes.length;
      at = structure(bytes, at);
      if (paused) break;
      if (state >= inWord && problem === undefined) at = token(bytes, at);
    }
    offset += at;
    return at;
  }

  return {
    scan: (bytes) => (problem === undefined ? scan(bytes) : bytes.length),
    skip: (count, bytes) => {
      elements += count;
      skipped += bytes;
      if (count > 0) state = atValue;
    },
    end: () => {
      if (state !== atEnd) fail(0);
    },
    get problem() {
      return problem && `not valid JSON at byte ${skipped + problem.at}: expected ${problem.expected}`;
    },
    get elements() {
      return elements;
    },
    get line() {
      return line;
    },
    get scanned() {
      return offset;
    },
    get longestLine() {
      return longestLine;
    },
  };
}

/** What a string stands for that has escapes. */
function unescape(text: Buffer): Buffer {
  return Buffer.from(JSON.parse(`"${text.toString("utf8")}"`) as string);
}

/** Whether a value without quotes or brackets ends before this byte. */
function endsWord(byte: number): boolean {
  return byte <= space || byte === comma || byte === closeArray || byte === closeObject;
}
