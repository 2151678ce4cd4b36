/** A position in BER-encoded bytes. Every function below moves it past what it read. */
export interface Cursor {
  readonly bytes: Buffer;
  at: number;
}

/** Tags in LDAP messages (RFC 4511). */
export const tags = {
  integer: 0x02,
  octets: 0x04,
  enumerated: 0x0a,
  sequence: 0x30,
  set: 0x31,
  bindResponse: 0x61,
  searchEntry: 0x64,
  searchDone: 0x65,
  searchReference: 0x73,
  extendedResponse: 0x78,
  controls: 0xa0,
  referral: 0xa3,
  responseName: 0x8a,
  responseValue: 0x8b,
} as const;

/** The bytes are not a valid LDAP message. */
export class MalformedError extends Error {}

/** In bytes. A group with millions of members is one message. */
export const longestMessage = 256 * 2 ** 20;

/**
 * Moves to the content of the element at the cursor.
 * @returns the offset where the content ends
 * @throws {MalformedError} another tag, or an element that is longer than the bytes
 */
export function enter(cursor: Cursor, tag: number): number {
  const { bytes } = cursor;
  if (bytes[cursor.at] !== tag) throw new MalformedError(`a message with unexpected content at byte ${cursor.at}`);
  let length = bytes[cursor.at + 1] ?? 0;
  cursor.at += 2;
  if (length >= 0x80) {
    const count = length & 0x7f;
    if (count === 0 || count > 4)
      throw new MalformedError("a message with a length of its parts that LDAP does not allow");
    length = cursor.at + count <= bytes.length ? bytes.readUIntBE(cursor.at, count) : bytes.length;
    cursor.at += count;
  }
  const end = cursor.at + length;
  if (end > bytes.length) throw new MalformedError("a message that ends before its parts do");
  return end;
}

/** UTF-8 text; invalid bytes become U+FFFD. */
export function readText(cursor: Cursor, tag: number = tags.octets): string {
  const end = enter(cursor, tag);
  const text = cursor.bytes.toString("utf8", cursor.at, end);
  cursor.at = end;
  return text;
}

export function readBytes(cursor: Cursor, tag: number = tags.octets): Buffer {
  const end = enter(cursor, tag);
  const bytes = cursor.bytes.subarray(cursor.at, end);
  cursor.at = end;
  return bytes;
}

/** An integer of at most six bytes. */
export function readInteger(cursor: Cursor, tag: number = tags.integer): number {
  const end = enter(cursor, tag);
  const length = end - cursor.at;
  if (length < 1 || length > 6) throw new MalformedError("a message with a number that LDAP does not allow");
  const value = cursor.bytes.readIntBE(cursor.at, length);
  cursor.at = end;
  return value;
}

/** Skips the element at the cursor. */
function skip(cursor: Cursor): void {
  cursor.at = enter(cursor, cursor.bytes[cursor.at] ?? 0);
}

/**
 * Splits a stream into messages. The returned function takes the next bytes.
 * @throws {MalformedError} from that function, when the bytes are not LDAP messages
 */
export function messagesOf(receive: (message: Buffer) => void): (chunk: Buffer) => void {
  let parts: Buffer[] = [];
  let size = 0;
  let needed = 0;
  return (chunk) => {
    let bytes = chunk;
    if (size > 0) {
      parts.push(chunk);
      size += chunk.length;
      // A long message is joined once, not at every chunk.
      if (size < needed) return;
      bytes = Buffer.concat(parts);
    }
    let at = 0;
    for (;;) {
      const length = messageLength(bytes, at);
      if (length === undefined || at + length > bytes.length) {
        parts = at < bytes.length ? [bytes.subarray(at)] : [];
        size = bytes.length - at;
        needed = length ?? size + 1;
        return;
      }
      receive(bytes.subarray(at, at + length));
      at += length;
    }
  };
}

/** The length of the message that starts here; undefined when its header has not arrived yet. */
function messageLength(bytes: Buffer, at: number): number | undefined {
  if (at >= bytes.length) return undefined;
  if (bytes[at] !== tags.sequence) throw new MalformedError("an answer that is not LDAP");
  const first = bytes[at + 1];
  if (first === undefined) return undefined;
  if (first < 0x80) return 2 + first;
  const count = first & 0x7f;
  if (count === 0 || count > 4) throw new MalformedError("an answer that is not LDAP");
  if (at + 2 + count > bytes.length) return undefined;
  const length = 2 + count + bytes.readUIntBE(at + 2, count);
  if (length > longestMessage) throw new MalformedError(`a message of ${length} bytes, more than is ever needed`);
  return length;
}

/** LDAPResult (RFC 4511, 4.1.9). */
export interface Result {
  readonly code: number;
  /** The existing part of a name that does not exist. */
  readonly matchedDn: string;
  /** The server's diagnostic message. */
  readonly message: string;
  /** URLs of other servers, when `code` is 10. */
  readonly referrals: readonly string[];
  /** The name of an extended operation. */
  readonly name?: string | undefined;
  readonly value?: Buffer | undefined;
  /** The cookie of a page (RFC 2696), empty after the last; undefined when the server did not page. */
  readonly cookie: Buffer | undefined;
}

const pagedResults = "1.2.840.113556.1.4.319";

/** @param cursor at the operation of the message */
export function readResult(cursor: Cursor): Result {
  const end = enter(cursor, cursor.bytes[cursor.at] ?? 0);
  const code = readInteger(cursor, tags.enumerated);
  const matchedDn = readText(cursor);
  const message = readText(cursor);
  let referrals: string[] = [];
  const extension: { name?: string; value?: Buffer } = {};
  while (cursor.at < end) {
    const tag = cursor.bytes[cursor.at];
    if (tag === tags.referral) referrals = readTexts(cursor, tags.referral);
    else if (tag === tags.responseName) extension.name = readText(cursor, tag);
    else if (tag === tags.responseValue) extension.value = readBytes(cursor, tag);
    else skip(cursor);
  }
  const cookie = readCookie(cursor);
  return { code, matchedDn, message, referrals, ...extension, cookie };
}

/** The texts in a sequence with this tag. */
export function readTexts(cursor: Cursor, tag: number): string[] {
  const end = enter(cursor, tag);
  const texts: string[] = [];
  while (cursor.at < end) texts.push(readText(cursor));
  return texts;
}

function readCookie(cursor: Cursor): Buffer | undefined {
  if (cursor.at >= cursor.bytes.length || cursor.bytes[cursor.at] !== tags.controls) return undefined;
  const end = enter(cursor, tags.controls);
  while (cursor.at < end) {
    const controlEnd = enter(cursor, tags.sequence);
    const type = readText(cursor);
    // The optional criticality is between type and value.
    while (cursor.at < controlEnd && cursor.bytes[cursor.at] !== tags.octets) skip(cursor);
    if (type === pagedResults && cursor.at < controlEnd) {
      const value: Cursor = { bytes: readBytes(cursor), at: 0 };
      enter(value, tags.sequence);
      skip(value);
      return Buffer.from(readBytes(value));
    }
    cursor.at = controlEnd;
  }
  return undefined;
}

/** Bytes that are converted at once. */
const size = 16 * 1024;

/** The UTF-8 text between two offsets; invalid bytes become U+FFFD. */
export type TextAt = (from: number, to: number) => string;

/**
 * Reads many short texts from bytes. Converting each on its own would cost more than all the rest of reading an entry,
 * so a window of bytes is converted at once, as Latin-1, and ASCII texts are sliced from it.
 */
export function windowOn(bytes: Buffer): TextAt {
  let start = 0;
  let end = -1;
  let characters = "";
  return (from, to) => {
    for (let at = from; at < to; at++) if ((bytes[at] ?? 0) > 0x7f) return bytes.toString("utf8", from, to);
    if (from < start || to > end) {
      if (to - from > size) return bytes.toString("latin1", from, to);
      start = from;
      end = Math.min(from + size, bytes.length);
      characters = bytes.toString("latin1", start, end);
    }
    return characters.slice(from - start, to - start);
  };
}
