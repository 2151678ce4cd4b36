import type { Readable } from "node:stream";
import { Ber, BerReader, BerWriter } from "ldapts";

/** A message of the LDAP protocol (RFC 4511, 4.1.1) as far as a server or a proxy must understand it. */
export interface LdapMessage {
  readonly id: number;
  /** The tag of the operation: one of `operation`. */
  readonly operation: number;
  /** The content of the operation. */
  readonly body: Buffer;
  readonly controls: readonly LdapControl[];
  /** The message as received. */
  readonly bytes: Buffer;
}

export interface LdapControl {
  readonly oid: string;
  readonly value?: Buffer;
}

export const operation = {
  bindRequest: 0x60,
  bindResponse: 0x61,
  unbindRequest: 0x42,
  searchRequest: 0x63,
  searchResultEntry: 0x64,
  searchResultDone: 0x65,
  searchResultReference: 0x73,
  extendedRequest: 0x77,
  extendedResponse: 0x78,
} as const;

export const resultCode = {
  success: 0,
  operationsError: 1,
  protocolError: 2,
  timeLimitExceeded: 3,
  sizeLimitExceeded: 4,
  referral: 10,
  adminLimitExceeded: 11,
  unavailableCriticalExtension: 12,
  noSuchObject: 32,
  invalidCredentials: 49,
  insufficientAccessRights: 50,
  busy: 51,
  unavailable: 52,
  unwillingToPerform: 53,
  other: 80,
} as const;

const pagedResults = "1.2.840.113556.1.4.319";

/** The messages that arrive on a connection, until it ends. */
export async function* messagesOf(stream: Readable): AsyncGenerator<LdapMessage> {
  let held: Buffer = Buffer.alloc(0);
  for await (const block of stream as AsyncIterable<Buffer>) {
    held = held.length === 0 ? block : Buffer.concat([held, block]);
    for (let length = frame(held); length !== undefined; length = frame(held)) {
      yield decode(held.subarray(0, length));
      held = held.subarray(length);
    }
  }
}

/** How many bytes the first message has; undefined while it is not all there. */
function frame(bytes: Buffer): number | undefined {
  const reader = new BerReader(bytes);
  const start = bytes.length < 2 ? null : reader.readLength(1);
  if (start === null || start + reader.length > bytes.length) return undefined;
  return start + reader.length;
}

function decode(bytes: Buffer): LdapMessage {
  const reader = new BerReader(bytes);
  reader.readSequence();
  const id = reader.readInt() ?? 0;
  const tag = reader.peek() ?? 0;
  const body = reader.readString(tag, true) ?? Buffer.alloc(0);
  return { id, operation: tag, body, controls: reader.peek() === 0xa0 ? decodeControls(reader) : [], bytes };
}

function decodeControls(reader: BerReader): LdapControl[] {
  reader.readSequence(0xa0);
  const end = reader.offset + reader.length;
  const controls: LdapControl[] = [];
  while (reader.offset < end) {
    reader.readSequence();
    const endOfControl = reader.offset + reader.length;
    const oid = reader.readString() ?? "";
    if (reader.offset < endOfControl && reader.peek() === Ber.Boolean) reader.readBoolean();
    const value = reader.offset < endOfControl ? reader.readString(Ber.OctetString, true) : null;
    controls.push(value === null ? { oid } : { oid, value });
  }
  return controls;
}

/** A message in bytes. */
export function encode(id: number, tag: number, body: Buffer, controls: readonly LdapControl[] = []): Buffer {
  const writer = new BerWriter();
  writer.startSequence();
  writer.writeInt(id);
  writer.writeBuffer(body, tag);
  if (controls.length > 0) {
    writer.startSequence(0xa0);
    for (const { oid, value } of controls) {
      writer.startSequence();
      writer.writeString(oid);
      if (value !== undefined) writer.writeBuffer(value, Ber.OctetString);
      writer.endSequence();
    }
    writer.endSequence();
  }
  writer.endSequence();
  return writer.buffer;
}

/** The body of an answer that ends an operation. */
export function result(code: number, message = "", referrals: readonly string[] = []): Buffer {
  const parts = [
    write((writer) => writer.writeEnumeration(code)),
    write((writer) => writer.writeString("")),
    write((writer) => writer.writeString(message)),
  ];
  if (referrals.length > 0) {
    parts.push(
      write((writer) => {
        writer.startSequence(0xa3);
        for (const url of referrals) writer.writeString(url);
        writer.endSequence();
      }),
    );
  }
  return Buffer.concat(parts);
}

/** The body of a search entry, with values as they are given. */
export function entry(dn: string, attributes: Iterable<readonly [string, readonly (string | Buffer)[]]>): Buffer {
  const name = write((writer) => writer.writeString(dn));
  const list = write((writer) => {
    writer.startSequence();
    for (const [type, values] of attributes) {
      writer.startSequence();
      writer.writeString(type);
      writer.startSequence(0x31);
      for (const value of values) writer.writeBuffer(Buffer.from(value), Ber.OctetString);
      writer.endSequence();
      writer.endSequence();
    }
    writer.endSequence();
  });
  return Buffer.concat([name, list]);
}

/** The body of a search reference. */
export function reference(urls: readonly string[]): Buffer {
  return Buffer.concat(urls.map((url) => write((writer) => writer.writeString(url))));
}

/** The paged results control of a message (RFC 2696): a size or estimate, and the cookie. */
export function pageOf({ controls }: LdapMessage): { readonly size: number; readonly cookie: Buffer } | undefined {
  const value = controls.find(({ oid }) => oid === pagedResults)?.value;
  if (value === undefined) return undefined;
  const reader = new BerReader(value);
  reader.readSequence();
  return { size: reader.readInt() ?? 0, cookie: reader.readString(Ber.OctetString, true) ?? Buffer.alloc(0) };
}

export function page(size: number, cookie: Buffer | string): LdapControl {
  const value = write((writer) => {
    writer.startSequence();
    writer.writeInt(size);
    writer.writeBuffer(Buffer.from(cookie), Ber.OctetString);
    writer.endSequence();
  });
  return { oid: pagedResults, value };
}

function write(fill: (writer: BerWriter) => void): Buffer {
  const writer = new BerWriter();
  fill(writer);
  return writer.buffer;
}
