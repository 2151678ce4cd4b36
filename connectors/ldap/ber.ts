/** A place in bytes of BER: every function below moves it past what it read. */
export interface Cursor {
  readonly bytes: Buffer;
  at: number;
}

/** Tags of what LDAP messages are made of (RFC 4511). */
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

/** The bytes are not what LDAP says they are. */
export class MalformedError extends Error {}

/** A group with its members is one message: millions of them have room. */
const longestMessage = 256 * 2 ** 20;

/**
 * Enters what begins here: moves to its content.
 * @returns where the content ends
 * @throws {MalformedError} when something else begins here, or ends after the bytes do
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

/** Text in UTF-8; what is none becomes U+FFFD. */
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

/** A whole number of at most six bytes. */
export function readInteger(cursor: Cursor, tag: number = tags.integer): number {
  const end = enter(cursor, tag);
  const length = end - cursor.at;
  if (length < 1 || length > 6) throw new MalformedError("a message with a number that LDAP does not allow");
  const value = cursor.bytes.readIntBE(cursor.at, length);
  cursor.at = end;
  return value;
}

/** Passes over whatever begins here. */
export function skip(cursor: Cursor): void {
  cursor.at = enter(cursor, cursor.bytes[cursor.at] ?? 0);
}

/**
 * Cuts what arrives into messages. The function that is returned takes the next bytes.
 * @throws {MalformedError} from that function, when the bytes are no messages
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
      // A long message is put together once, not at every chunk.
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

/** How long the message is that begins here; undefined when that has not arrived yet. */
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
