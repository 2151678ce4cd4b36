import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import type { Readable } from "node:stream";
import { InputError, messageOf } from "#errors.ts";
import type { LoadRequest } from "#wire/loads.ts";
import type { FileData } from "./form.ts";

/** Rows, in a file or from a stream that is read once and destroyed when the load ends early. */
export type LoadSource =
  | { readonly name: string; readonly path: string }
  | { readonly name: string; readonly stream: Readable | (() => Readable) };

/** As much as is read of a file at a time. */
const blockSize = 1024 * 1024;

/** The chunks that sources are sent in, in the order of their rows. Each holds whole rows (A.7). */
export async function* chunksOf(sources: readonly LoadSource[], _request: LoadRequest): AsyncGenerator<FileData> {
  for (const source of sources) {
    yield "path" in source
      ? await wholeFile(source.name, source.path)
      : wholeStream(typeof source.stream === "function" ? source.stream() : source.stream);
  }
}

async function wholeFile(name: string, path: string): Promise<FileData> {
  const { size } = await stat(path).catch((error: unknown) => {
    throw new InputError(`${name} cannot be read: ${messageOf(error)}`, { cause: error });
  });
  return {
    length: size,
    bytes: async function* bytes() {
      if (size === 0) return;
      for await (const block of createReadStream(path, { highWaterMark: blockSize, end: size - 1 })) {
        yield block as Buffer;
      }
    },
  };
}

function wholeStream(stream: Readable): FileData {
  return { single: true, bytes: () => stream };
}
