import { pipeline, Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { IncompleteReadError, InputError } from "#errors.ts";
import { chunkSize, type OpenFile } from "./file.ts";

/**
 * The bytes of a file, unpacked where they are gzip, which the first of them or the file's name tell.
 * @param at where the reader stands when something is wrong, for the message
 * @throws {IncompleteReadError} when compressed data ends early
 * @throws {InputError} when something that is not gzip follows
 */
export async function* contentOf(file: OpenFile, at: () => string, signal: AbortSignal): AsyncGenerator<Buffer> {
  const head = await file.head(2);
  const isGzip = (head[0] === 0x1f && head[1] === 0x8b) || file.name.endsWith(".gz");
  const bytes = file.bytes(signal);
  yield* isGzip ? gunzipped(bytes, at) : bytes;
}

async function* gunzipped(bytes: AsyncIterable<Buffer>, at: () => string): AsyncGenerator<Buffer> {
  // The pipeline hands every error of `bytes` to the iteration below.
  const gunzip = pipeline(Readable.from(bytes), createGunzip({ chunkSize }), () => {});
  try {
    yield* gunzip as AsyncIterable<Buffer>;
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code === "Z_BUF_ERROR") {
      const message = `${at()}: the compressed data ends here, before its end; write the file again`;
      throw new IncompleteReadError(message, { cause: error });
    }
    if (error instanceof Error && (code === "ERR_TRAILING_JUNK_AFTER_STREAM_END" || "errno" in error)) {
      throw new InputError(`${at()}: what follows is not gzip data (${error.message})`, { cause: error });
    }
    throw error;
  }
}
