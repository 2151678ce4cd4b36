import type { OpenFile } from "#files/source-file.ts";
import { contentOf } from "#files/source-file.ts";
import { decoded } from "./decode.ts";
import type { Encoding } from "./options.ts";
import { at, type Place } from "./place.ts";

/**
 * The text of a file, in pieces of about 32 KiB, without its byte order mark.
 * @throws {IncompleteReadError} when compressed data ends early
 * @throws {InputError} when bytes are not of the encoding
 */
export function textOf(file: OpenFile, encoding: Encoding, place: Place, signal: AbortSignal): AsyncGenerator<string> {
  return decoded(
    contentOf(file, () => at(place), signal),
    encoding,
    place,
  );
}
