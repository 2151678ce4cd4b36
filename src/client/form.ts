import { randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import type { RequestBody } from "#http/client.ts";
import { percentEncode, percentEncodedLength } from "./percent.ts";

/** The two ways `user/sync` takes a form (B.2). */
export type FormKind = "urlencoded" | "multipart";

/** The parameters of a form, of which the last one is a file that may be larger than memory. */
export interface Form {
  readonly fields: Readonly<Record<string, string>>;
  readonly file: { readonly field: string; readonly path: string };
}

/**
 * The body of a form whose file is read while it is sent, and once before, to know its encoded length. The fields come
 * first, so that the server knows them before the list.
 */
export function listBody(kind: FormKind, form: Form, signal: AbortSignal): Promise<RequestBody> {
  return kind === "urlencoded" ? urlencoded(form, signal) : multipart(form);
}

async function urlencoded({ fields, file }: Form, signal: AbortSignal): Promise<RequestBody> {
  const head = Buffer.from(new URLSearchParams({ ...fields, [file.field]: "" }).toString());
  let length = head.length;
  for await (const block of blocks(file.path)) {
    signal.throwIfAborted();
    length += percentEncodedLength(block);
  }
  return {
    contentType: "application/x-www-form-urlencoded",
    length,
    chunks: async function* chunks() {
      yield head;
      for await (const block of blocks(file.path)) yield percentEncode(block);
    },
  };
}

/**
 * An encoder of our own, since a `FormData` turns the line ends of its values into CRLF: a password is to arrive as it
 * is. The field names are ours, so nothing in a part's header needs quoting.
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
      yield* blocks(file.path);
      yield tail;
    },
  };
}

/** Bytes to be sent as a file. */
export interface FileData {
  /** Absent: unknown. */
  readonly length?: number;
  bytes(): AsyncIterable<Uint8Array>;
  readonly single?: boolean;
}

/** A multipart form of nothing but a file, named `file` (specification 4.1, Load). */
export function fileBody({ length, bytes, single }: FileData): RequestBody {
  const boundary = `rollcall-${randomUUID()}`;
  const head = Buffer.from(
    `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="rows"\r\n` +
      "Content-Type: application/octet-stream\r\n\r\n",
  );
  const tail = Buffer.from(`\r\n--${boundary}--\r\n`);
  return {
    contentType: `multipart/form-data; boundary=${boundary}`,
    ...(length === undefined ? {} : { length: head.length + length + tail.length }),
    ...(single === undefined ? {} : { single }),
    chunks: async function* chunks() {
      yield head;
      yield* bytes();
      yield tail;
    },
  };
}

/** Small enough that the event loop is never kept waiting for the encoding of one. */
const blockSize = 64 * 1024;

async function* blocks(path: string): AsyncGenerator<Buffer> {
  for await (const block of createReadStream(path, { highWaterMark: blockSize })) yield block as Buffer;
}
