import { pipeline, Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { IncompleteReadError, InputError } from "#errors.ts";
import { decoded } from "./decode.ts";
import { chunkSize, type OpenFile } from "./file.ts";
import type { Encoding } from "./options.ts";
import { at, type Place } from "./place.ts";

/**
 * The text of a file, in pieces of about 32 KiB, without its byte order mark.
 * @throws {IncompleteReadError} when compressed data ends early
 * @throws {InputError} when bytes are not of the encoding
 */
export async function* textOf(
  file: OpenFile,
  encoding: Encoding,
  place: Place,
  signal: AbortSignal,
): AsyncGenerator<string> {
  const head = await file.head(2);
  const isGzip = (head[0] === 0x1f && head[1] === 0x8b) || file.name.endsWith(".gz");
  const bytes = file.bytes(signal);
  yield* decoded(isGzip ? gunzipped(bytes, place) : bytes, encoding, place);
}

async function* gunzipped(bytes: AsyncIterable<Buffer>, place: Place): AsyncGenerator<Buffer> {
  // The pipeline hands every error of `bytes` to the iteration below.
  const gunzip = pipeline(Readable.from(bytes), createGunzip({ chunkSize }), () => {});
  try {
    yield* gunzip as AsyncIterable<Buffer>;
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code === "Z_BUF_ERROR") {
      const message = `${at(place)}: the compressed data ends here, before its end; write the file again`;
      throw new IncompleteReadError(message, { cause: error });
    }
    if (error instanceof Error && (code === "ERR_TRAILING_JUNK_AFTER_STREAM_END" || "errno" in error)) {
      throw new InputError(`${at(place)}: what follows is not gzip data (${error.message})`, { cause: error });
    }
    throw error;
  }
}
