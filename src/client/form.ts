import { randomUUID } from "node:crypto";
import { open, stat } from "node:fs/promises";
import type { RequestBody } from "#http/client.ts";
import { blocks } from "./blocks.ts";

/** The two encodings of a form that `user/sync` may accept (B.2). */
export type FormKind = "urlencoded" | "multipart";

/** The parameters of a form, of which the last one is a file that may be larger than memory. */
export interface Form {
  readonly fields: Readonly<Record<string, string>>;
  readonly file: { readonly field: string; readonly path: string };
}

/**
 * The body of a form. Its file is read twice: once for its encoded length, and again while it is sent. The fields come
 * first, so that the server knows them before the list.
 */
export function listBody(kind: FormKind, form: Form, signal: AbortSignal): Promise<RequestBody> {
  return kind === "urlencoded" ? urlencoded(form, signal) : multipart(form);
}

async function urlencoded({ fields, file }: Form, signal: AbortSignal): Promise<RequestBody> {
  const head = Buffer.from(new URLSearchParams({ ...fields, [file.field]: "" }).toString());
  let length = head.length;
  for await (const block of blocksOf(file.path)) {
    signal.throwIfAborted();
    length += percentEncodedLength(block);
  }
  return {
    contentType: "application/x-www-form-urlencoded",
    length,
    chunks: async function* chunks() {
      yield head;
      let [encoded, other] = [Buffer.allocUnsafeSlow(3 * blockSize), Buffer.allocUnsafeSlow(3 * blockSize)];
      for await (const block of blocksOf(file.path)) {
        yield percentEncode(block, encoded);
        [encoded, other] = [other, encoded];
      }
    },
  };
}

/**
 * Our own encoder, because `FormData` turns line ends in values into CRLF, and a password must arrive unchanged. The field
 * names are ours, so nothing in the header of a part needs quoting.
 */
async function multipart({ fields, file }: Form): Promise<RequestBody> {
  const boundary = `rollcall-${randomUUID()}`;
  const part = (name: string, more: string): string =>
    `--${boundary}\r\nContent-Disposition: form-data; name="${name}"${more}\r\n\r\n`;
  const head = Buffer.from(
    Object.entries(fields)
      .map(([name, value]) => `${part(name, "")}${value}\r\n`)
      .concat(part(file.field, `; filename="${file.field}.json"\r\nContent-Type: application/json`))
      .join(""),
  );
  const tail = Buffer.from(`\r\n--${boundary}--\r\n`);
  const { size } = await stat(file.path);
  return {
    contentType: `multipart/form-data; boundary=${boundary}`,
    length: head.length + size + tail.length,
    chunks: async function* chunks() {
      yield head;
      yield* blocksOf(file.path);
      yield tail;
    },
  };
}

/** Bytes to send as a file. */
export interface FileData {
  /** Absent: unknown. */
  readonly length?: number | undefined;
  /** A block is valid until the second one after it is asked for: by then it has been sent. */
  readonly bytes: () => AsyncIterable<Uint8Array>;
  readonly single?: boolean | undefined;
}

/** A multipart form with a single file, named `file` (specification 4.1, Load). */
export function fileBody({ length, bytes, single }: FileData): RequestBody {
  const boundary = `rollcall-${randomUUID()}`;
  const head = Buffer.from(
    `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="rows"\r\n` +
      "Content-Type: application/octet-stream\r\n\r\n",
  );
  const tail = Buffer.from(`\r\n--${boundary}--\r\n`);
  return {
    contentType: `multipart/form-data; boundary=${boundary}`,
    length: length === undefined ? undefined : head.length + length + tail.length,
    single,
    chunks: async function* chunks() {
      yield head;
      yield* bytes();
      yield tail;
    },
  };
}

/** Whether a byte needs no encoding in an urlencoded form. */
const isPlain = Uint8Array.from({ length: 256 }, (_, byte) =>
  Number(/[A-Za-z0-9*._-]/.test(String.fromCharCode(byte))),
);
const percent = 0x25;
const hexDigits = Buffer.from("0123456789ABCDEF");

/**
 * Percent-encodes bytes, not characters: a block may end within a character.
 * @param encoded where to; three times as large
 */
export function percentEncode(bytes: Uint8Array, encoded = Buffer.allocUnsafe(bytes.length * 3)): Buffer {
  let length = 0;
  for (const byte of bytes) {
    if (isPlain[byte] === 1) {
      encoded[length++] = byte;
    } else {
      encoded[length++] = percent;
      encoded[length++] = hexDigits[byte >> 4] ?? 0;
      encoded[length++] = hexDigits[byte & 15] ?? 0;
    }
  }
  return encoded.subarray(0, length);
}

/** How many bytes `percentEncode` makes of these. */
export function percentEncodedLength(bytes: Uint8Array): number {
  let length = bytes.length;
  for (const byte of bytes) if (isPlain[byte] === 0) length += 2;
  return length;
}

/** Small enough that encoding one never blocks the event loop. */
const blockSize = 64 * 1024;

async function* blocksOf(path: string): AsyncGenerator<Buffer> {
  await using file = await open(path);
  yield* blocks(async (into) => (await file.read(into)).bytesRead, blockSize);
}
