import type { Readable } from "node:stream";
import { InputError, messageOf } from "#errors.ts";
import { readMultipart } from "#http/multipart.ts";
import { giveBack } from "#files/buffers.ts";

/** What the fields of a form go into. */
export interface FormFields {
  /** Called for each field in order. Returns where its decoded value goes, or undefined to skip it. */
  open(name: string): FieldSink | undefined;
  /** Resolves when more can be written. @throws when writing has failed */
  room(): Promise<void>;
}

export interface FieldSink {
  /** Takes a copy of the next bytes of the value. */
  write(bytes: Buffer): void;
}

/**
 * Reads a form as it arrives: `application/x-www-form-urlencoded`,
 * or `multipart/form-data` with or without filenames (B.2).
 * @returns false when the content type is neither
 * @throws {InputError} when the body is no such form
 */
export async function readForm(body: Readable, contentType: string | undefined, fields: FormFields): Promise<boolean> {
  const type = contentType?.split(";", 1)[0]?.trim().toLowerCase();
  if (type === "multipart/form-data") await readParts(body, contentType ?? "", fields);
  else if (type === "application/x-www-form-urlencoded") await readUrlencoded(body, fields);
  else return false;
  return true;
}

function readParts(body: Readable, contentType: string, fields: FormFields): Promise<void> {
  return readMultipart(body, contentType, {
    take: async ({ name, content }) => {
      const sink = fields.open(name);
      for await (const bytes of content as AsyncIterable<Buffer>) {
        sink?.write(bytes);
        giveBack(bytes);
        await fields.room();
      }
    },
    malformed: (cause) => new InputError(`the body is not valid multipart/form-data: ${messageOf(cause)}`, { cause }),
  });
}

async function readUrlencoded(body: Readable, fields: FormFields): Promise<void> {
  const parser = new UrlencodedParser((name) => fields.open(name));
  // The request stays open when the form is refused, for the answer.
  for await (const chunk of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    parser.write(chunk);
    giveBack(chunk);
    await fields.room();
  }
  parser.end();
}

const ampersand = 0x26;
const equals = 0x3d;
const percent = 0x25;
const plus = 0x2b;
const space = 0x20;
const nothing = Buffer.alloc(0);
/** In bytes. */
const joinedAtOnce = 64;

/** Longer field names are cut off; no known field has one. In encoded bytes. */
const longestName = 256;

/**
 * Takes an `application/x-www-form-urlencoded` body apart as it arrives, as `URLSearchParams` does, except that a value comes
 * in pieces, as bytes.
 */
export class UrlencodedParser {
  readonly #open: (name: string) => FieldSink | undefined;
  /** Undefined while a name is read. */
  #value: { readonly sink: FieldSink | undefined } | undefined;
  #name: Buffer[] = [];
  #nameLength = 0;
  /** The end of the value so far, when it may be the start of an escape. */
  #escape = nothing;

  /** @param open returns where the value of a field goes, or undefined to skip it; called in order */
  constructor(open: (name: string) => FieldSink | undefined) {
    this.#open = open;
  }

  /** Takes the next bytes of the body and decodes them in place: the caller must not use them again. */
  write(bytes: Buffer): void {
    for (let at = 0; at < bytes.length;) {
      const found = bytes.indexOf(ampersand, at);
      const end = found < 0 ? bytes.length : found;
      const field = bytes.subarray(at, end);
      const nameEnd = this.#value === undefined ? field.indexOf(equals) : -1;
      if (nameEnd >= 0) {
        this.#take(field.subarray(0, nameEnd));
        this.#openValue();
      }
      this.#take(field.subarray(nameEnd + 1));
      if (found >= 0) this.end();
      at = end + 1;
    }
  }

  /** The field, or the body, has ended. */
  end(): void {
    if (this.#value === undefined && this.#nameLength > 0) this.#openValue();
    if (this.#escape.length > 0) this.#value?.sink?.write(decode(this.#escape));
    this.#escape = nothing;
    this.#value = undefined;
  }

  #take(bytes: Buffer): void {
    if (this.#value === undefined) {
      if (this.#nameLength <= longestName) this.#name.push(Buffer.from(bytes));
      this.#nameLength += bytes.length;
    } else if (this.#value.sink !== undefined) {
      this.#decode(this.#value.sink, bytes);
    }
  }

  #decode(sink: FieldSink, bytes: Buffer): void {
    let left = bytes;
    while (left.length > 0) {
      // What an escape began before goes on in the next few bytes. Joining it with all of them would copy them all.
      const some = this.#escape.length === 0 ? left : Buffer.concat([this.#escape, left.subarray(0, joinedAtOnce)]);
      left = some === left ? nothing : left.subarray(joinedAtOnce);
      const end = some.length - unfinished(some);
      this.#escape = Buffer.from(some.subarray(end));
      if (end > 0) sink.write(decode(some.subarray(0, end)));
    }
  }

  #openValue(): void {
    this.#value = { sink: this.#open(decode(Buffer.concat(this.#name)).toString("utf8")) };
    this.#name = [];
    this.#nameLength = 0;
  }
}

/** The byte that two hexadecimal digits stand for, by the two of them; -1 for every other pair of bytes. */
const escapes = new Int16Array(65_536).fill(-1);
for (let byte = 0; byte < 256; byte++) {
  const [high, low] = byte.toString(16).padStart(2, "0") as unknown as [string, string];
  for (const first of [high, high.toUpperCase()]) {
    for (const second of [low, low.toUpperCase()]) {
      escapes[(first.charCodeAt(0) << 8) | second.charCodeAt(0)] = byte;
    }
  }
}

/** Decodes in place: `+` is a space, and an invalid escape stands for itself. @returns the decoded part */
function decode(bytes: Buffer): Buffer {
  const last = bytes.length - 2;
  let to = 0;
  for (let from = 0; from < bytes.length; from++) {
    let byte = bytes[from] as number;
    if (byte === percent) {
      const escape =
        from < last ? (escapes[((bytes[from + 1] as number) << 8) | (bytes[from + 2] as number)] as number) : -1;
      if (escape >= 0) {
        byte = escape;
        from += 2;
      }
    } else if (byte === plus) {
      byte = space;
    }
    bytes[to++] = byte;
  }
  return bytes.subarray(0, to);
}

/** How many bytes at the end may turn out to be the start of an escape. */
function unfinished(bytes: Buffer): number {
  const { length } = bytes;
  if (bytes[length - 1] === percent) return 1;
  return bytes[length - 2] === percent ? 2 : 0;
}
