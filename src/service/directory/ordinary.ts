import { compareBytes, fieldOf, groupNames, password } from "./fields.ts";

const space = 0x20;
const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const openArray = 0x5b;
const backslash = 0x5c;
const closeArray = 0x5d;
const closeObject = 0x7d;

/** What was seen in the elements that were read so far. */
export interface Seen {
  /** Every `groupNames` is sorted by code point and names no group twice. */
  ordered: boolean;
  /** Some element gives a password. */
  password: boolean;
}

/**
 * Reads an element as almost all of them are: an object with fields of a principal, each of them once, that are strings
 * without escapes, or arrays of such strings for `groupNames`, without line ends. These functions stand by themselves,
 * and look at no byte behind the last: that is what the engine compiles once, and well.
 * @param from where the object begins
 * @returns where it has ended; -1 when it is another, or goes on behind `bytes`: then `seen` is as it was
 */
export function readOrdinary(bytes: Buffer, from: number, seen: Seen): number {
  const last = bytes.length - 1;
  let inOrder = seen.ordered;
  let given = 0;
  let at = from;
  do {
    const key = skip(bytes, Math.min(at + 1, last), last);
    if (bytes[key] !== quote) return -1;
    const keyEnd = endOfString(bytes, Math.min(key + 1, last), last);
    const field = fieldOf(bytes, key + 1, keyEnd);
    if (bytes[keyEnd] !== quote || field < 0 || (given & (1 << field)) !== 0) return -1;
    given |= 1 << field;
    at = skip(bytes, Math.min(keyEnd + 1, last), last);
    if (bytes[at] !== colon) return -1;
    at = skip(bytes, Math.min(at + 1, last), last);
    if (field === groupNames) {
      const end = readNames(bytes, at, last);
      if (end === 0) return -1;
      inOrder &&= end > 0;
      at = Math.abs(end);
    } else {
      if (bytes[at] !== quote) return -1;
      at = endOfString(bytes, Math.min(at + 1, last), last);
      if (bytes[at] !== quote) return -1;
    }
    at = skip(bytes, Math.min(at + 1, last), last);
  } while (bytes[at] === comma && at < last);
  if (bytes[at] !== closeObject) return -1;
  seen.ordered = inOrder;
  if ((given & (1 << password)) !== 0) seen.password = true;
  return at + 1;
}

/** @returns where the `]` is, negative when the names are not in order; 0 when it is no array of strings without escapes */
function readNames(bytes: Buffer, from: number, last: number): number {
  if (bytes[from] !== openArray) return 0;
  let at = skip(bytes, Math.min(from + 1, last), last);
  let inOrder = true;
  let before = -1;
  let beforeEnd = -1;
  while (bytes[at] === quote && at < last) {
    const name = at + 1;
    const end = endOfString(bytes, name, last);
    if (bytes[end] !== quote) return 0;
    inOrder &&= before < 0 || compareBytes(bytes, before, beforeEnd, bytes, name, end) < 0;
    before = name;
    beforeEnd = end;
    at = skip(bytes, Math.min(end + 1, last), last);
    if (bytes[at] !== comma) break;
    at = skip(bytes, Math.min(at + 1, last), last);
    if (bytes[at] !== quote) return 0;
  }
  if (bytes[at] !== closeArray) return 0;
  return inOrder ? at : -at;
}

/** Bytes that end the plain part of a string: a quote, an escape, a control character. */
const special = new Uint8Array(256);
special.fill(1, 0, space);
special[quote] = 1;
special[backslash] = 1;

/** Where the first byte is, from `from` on, that is special in a string; `last`, when none is before it. */
function endOfString(bytes: Buffer, from: number, last: number): number {
  let at = from;
  while (at < last && special[bytes[at] as number] === 0) at++;
  return at;
}

/** Where the first byte is, from `from` on, that is no space; `last`, when none is before it. */
function skip(bytes: Buffer, from: number, last: number): number {
  let at = from;
  while (at < last && bytes[at] === space) at++;
  return at;
}
