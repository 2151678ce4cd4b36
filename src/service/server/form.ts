import type { Readable } from "node:stream";
import { InputError, messageOf } from "#errors.ts";
import { readMultipart } from "#http/multipart.ts";

/** What the fields of a form go into. */
export interface FormFields {
  /** Called for each field in order. Returns where its decoded value goes, or undefined to skip it. */
  open(name: string): FieldSink | undefined;
  /** Resolves when more can be written. @throws when writing has failed */
  room(): Promise<void>;
}

export interface FieldSink {
  /** Takes the next bytes of the value; the caller does not touch them again. */
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
        sink?.write(bytes.length <= longestReused ? Buffer.from(bytes) : bytes);
        await fields.room();
      }
    },
    malformed: (cause) => new InputError(`the body is not valid multipart/form-data: ${messageOf(cause)}`, { cause }),
  });
}

/**
 * Bytes that looked like the start of a boundary come out of the parser's own buffer, which it reuses: they are copied.
 * They are shorter than the boundary, which is shorter than what Node accepts as headers. In bytes.
 */
const longestReused = 16 * 1024;

async function readUrlencoded(body: Readable, fields: FormFields): Promise<void> {
  const parser = createUrlencodedParser((name) => fields.open(name));
  // The request stays open when the form is refused, for the answer.
  for await (const chunk of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    parser.write(chunk);
    await fields.room();
  }
  parser.end();
}

/** Takes an `application/x-www-form-urlencoded` body apart as it arrives. */
export interface UrlencodedParser {
  /** Takes the next bytes of the body and decodes them in place: the caller must not use them again. */
  write(bytes: Buffer): void;
  /** The body has ended. */
  end(): void;
}

const ampersand = 0x26;
const equals = 0x3d;
const percent = 0x25;
const plus = 0x2b;
const space = 0x20;
const nothing = Buffer.alloc(0);

/** Longer field names are cut off; no known field has one. In encoded bytes. */
const longestName = 256;

/**
 * Reads a form as `URLSearchParams` does, except that a value comes in pieces, as bytes.
 * @param open returns where the value of a field goes, or undefined to skip it; called in order
 */
export function createUrlencodedParser(open: (name: string) => FieldSink | undefined): UrlencodedParser {
  /** Undefined while a name is read. */
  let value: { readonly sink: FieldSink | undefined } | undefined;
  let name: Buffer[] = [];
  let nameLength = 0;
  /** The end of the value so far, when it may be the start of an escape. */
  let escape = nothing;

  function take(bytes: Buffer): void {
    if (value === undefined) {
      if (nameLength <= longestName) name.push(Buffer.from(bytes));
      nameLength += bytes.length;
    } else if (value.sink !== undefined) {
      const all = escape.length === 0 ? bytes : Buffer.concat([escape, bytes]);
      const end = all.length - unfinished(all);
      escape = Buffer.from(all.subarray(end));
      if (end > 0) value.sink.write(decode(all.subarray(0, end)));
    }
  }

  function openValue(): void {
    value = { sink: open(decode(Buffer.concat(name)).toString("utf8")) };
    name = [];
    nameLength = 0;
  }

  function endField(): void {
    if (value === undefined && nameLength > 0) openValue();
    if (escape.length > 0) value?.sink?.write(decode(escape));
    escape = nothing;
    value = undefined;
  }

  return {
    write: (bytes) => {
      for (let at = 0; at < bytes.length;) {
        const found = bytes.indexOf(ampersand, at);
        const end = found < 0 ? bytes.length : found;
        const field = bytes.subarray(at, end);
        const nameEnd = value === undefined ? field.indexOf(equals) : -1;
        if (nameEnd >= 0) {
          take(field.subarray(0, nameEnd));
          openValue();
        }
        take(field.subarray(nameEnd + 1));
        if (found >= 0) endField();
        at = end + 1;
      }
    },
    end: endField,
  };
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
