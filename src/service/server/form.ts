import { once } from "node:events";
import type { Readable } from "node:stream";
import { Busboy } from "@fastify/busboy";
import { InputError, messageOf } from "#errors.ts";

/** What the fields of a form go into. */
export interface FormFields {
  /** The next field: where its value goes, decoded; undefined: nowhere. */
  open(name: string): FieldSink | undefined;
  /** Resolves when there is room for more. @throws when what came before cannot be written */
  room(): Promise<void>;
}

export interface FieldSink {
  /** The next bytes of the value. They are the sink's to keep. */
  write(bytes: Buffer): void;
}

/**
 * Reads a form as it arrives: `application/x-www-form-urlencoded`, or `multipart/form-data`, whose parts may carry a filename (B.2).
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
 * What may be the beginning of a boundary the parser gives out, when it was none, as memory that it uses again. It is shorter
 * than the boundary, and that than what Node takes for headers, in bytes.
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
  /** The next bytes of the body. They are decoded where they are: the caller must not use them any more. */
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

/** A longer field name is cut: no field that anybody asks for has one. In bytes, encoded. */
const longestName = 256;

/**
 * Reads a form as `URLSearchParams` does, except that a value comes in pieces, as bytes.
 * @param open is called with the name of each field, in order, and says where its value goes; undefined: nowhere
 */
export function createUrlencodedParser(open: (name: string) => FieldSink | undefined): UrlencodedParser {
  /** Undefined while a name is read. */
  let value: { readonly sink: FieldSink | undefined } | undefined;
  let name: Buffer[] = [];
  let nameLength = 0;
  /** What may be the beginning of an escape, at the end of what has come of a value. */
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

/** Decodes bytes in place: a `+` is a space, what is no escape stands for itself. @returns the part of them that holds the result */
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

/** How many bytes at the end may become an escape once more bytes are there. */
function unfinished(bytes: Buffer): number {
  const { length } = bytes;
  if (bytes[length - 1] === percent) return 1;
  return bytes[length - 2] === percent ? 2 : 0;
}

/** One part of a `multipart/form-data` body. */
export interface Part {
  readonly name: string;
  /** Undefined: it carries none. */
  readonly filename: string | undefined;
  readonly content: Readable;
}

export interface PartReader {
  /** Is given one part after the other, in order, and reads each to its end. */
  take(part: Part): Promise<void>;
  /** What is thrown when the body is not what it must be. */
  malformed(cause: unknown): Error;
}

/**
 * Reads a `multipart/form-data` body as it arrives. It ends when the body has, and the last part is taken; when it throws, the
 * part that is being taken is destroyed, and its `take` may still be running.
 * @throws what `malformed` makes, and what `take` throws
 */
export async function readMultipart(
  body: Readable,
  contentType: string,
  { take, malformed }: PartReader,
): Promise<void> {
  const parser = createParser(contentType, malformed);
  const failure = createFailure();
  parser.once("error", (cause: unknown) => {
    failure.set(malformed(cause));
  });

  /** A part is announced while the one before it is still being read. */
  let current: Readable | undefined;
  let taken = Promise.resolve();
  parser.on("file", (name: string | undefined, content: Readable, filename: string | undefined) => {
    content.on("error", (cause) => {
      // A part that is destroyed was given up by `take`, which says why itself.
      if (!content.destroyed) failure.set(malformed(cause));
    });
    taken = taken.then(() => {
      current = content;
      return take({ name: name ?? "", filename, content });
    });
    taken.catch(failure.set);
  });

  const finished = once(parser, "finish");
  finished.catch(() => undefined);
  try {
    // The request stays open when it is refused, for the answer.
    for await (const bytes of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      await failure.unless((resolve) => {
        parser.write(bytes, () => {
          resolve();
        });
      });
    }
    parser.end();
    await Promise.race([failure.unless(() => undefined), finished]);
    await Promise.race([failure.unless(() => undefined), taken]);
  } catch (error) {
    // Its reader ends, with an error.
    current?.destroy();
    throw error;
  }
}

interface Failure {
  set(cause: unknown): void;
  /** Waits for `work` to say that it is done, unless anything goes wrong before. */
  unless(work: (done: () => void) => void): Promise<void>;
}

/** What has gone wrong meanwhile. To race with one promise for every piece of a body would make it remember them all. */
function createFailure(): Failure {
  let failed: { readonly cause: unknown } | undefined;
  let fail: ((cause: unknown) => void) | undefined;
  return {
    set: (cause) => {
      failed ??= { cause };
      fail?.(cause);
    },
    unless: (work) =>
      new Promise<void>((resolve, reject) => {
        fail = reject;
        if (failed === undefined) work(resolve);
        else reject(failed.cause);
      }),
  };
}

function createParser(contentType: string, malformed: PartReader["malformed"]): InstanceType<typeof Busboy> {
  try {
    return new Busboy({ headers: { "content-type": contentType }, fileHwm: 2 ** 20, isPartAFile: () => true });
  } catch (cause) {
    throw malformed(cause);
  }
}
