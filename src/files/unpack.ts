import type { Transform } from "node:stream";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { InputError, messageOf, reasonOf } from "#errors.ts";
import { foreignContent } from "#files/content.ts";

/** A compression. */
interface Packing {
  readonly name: string;
  readonly extension: string;
  /** The first packed bytes. No UTF-8 text begins with them. */
  readonly magic: Buffer;
  unpack(): Transform & { readonly bytesWritten: number };
}

const size = { chunkSize: 256 * 1024 };

export const packings: readonly Packing[] = [
  { name: "gzip", extension: ".gz", magic: Buffer.from([0x1f, 0x8b]), unpack: () => createGunzip(size) },
  {
    name: "zstd",
    extension: ".zst",
    magic: Buffer.from([0x28, 0xb5, 0x2f, 0xfd]),
    unpack: () => createZstdDecompress(size),
  },
];

/** How many bytes `packingOf` needs. */
const longestMagic = 4;

/** The compression of bytes that begin like this; undefined: none. */
export function packingOf(start: Buffer): Packing | undefined {
  return packings.find(({ magic }) => start.subarray(0, magic.length).equals(magic));
}

/**
 * The bytes of a stream, unpacked if they are packed. Destroying it destroys the stream. Fails with an `InputError` that
 * names it, also when they are no table of text.
 */
export function unpacked(name: string, packed: Readable, mayBeJson = false): Readable {
  const bytes = Readable.from(tables(name, unpack(name, packed), mayBeJson), { objectMode: false });
  const destroy = bytes._destroy.bind(bytes);
  // First: the generator may be waiting for bytes that never come.
  bytes._destroy = (error, callback) => {
    packed.destroy();
    destroy(error, callback);
  };
  return bytes;
}

/** The same pieces, once the first of them is found to begin a table of text. */
async function* tables(name: string, pieces: AsyncIterable<Buffer>, mayBeJson: boolean): AsyncGenerator<Buffer> {
  let isFirst = true;
  for await (const piece of pieces) {
    if (isFirst) refuseForeign(name, piece, mayBeJson);
    isFirst = false;
    yield piece;
  }
}

async function* unpack(name: string, packed: Readable): AsyncGenerator<Buffer> {
  const pieces = packed[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  let packing: Packing | undefined;
  try {
    let start = Buffer.alloc(0);
    while (start.length < longestMagic) {
      const { done, value } = await pieces.next();
      if (done === true) break;
      start = Buffer.concat([start, value]);
    }
    let length = 0;
    const all = async function* all(): AsyncGenerator<Buffer> {
      length += start.length;
      yield start;
      for (;;) {
        const { done, value } = await pieces.next();
        if (done === true) return;
        length += value.length;
        yield value;
      }
    };
    packing = packingOf(start);
    if (packing === undefined) {
      yield* all();
      return;
    }
    const unpacking = packing.unpack();
    // Its errors are thrown to whoever reads `unpacking`.
    pipeline(all, unpacking).catch(() => undefined);
    yield* unpacking as AsyncIterable<Buffer>;
    // Without an error where no further frame follows, unlike gzip.
    if (packing.name === "zstd" && unpacking.bytesWritten < length)
      throw new InputError(`${name} is damaged: the data after the zstd frame is not zstd`);
  } catch (error) {
    if (error instanceof InputError) throw error;
    const isDamaged = error instanceof Error && "code" in error && /^Z(?:STD)?_/.test(String(error.code));
    throw new InputError(
      isDamaged && packing !== undefined
        ? `${name} is damaged or incomplete: it cannot be unpacked as ${packing.name} (${messageOf(error)})`
        : `${name} cannot be read: ${reasonOf(error)}`,
      { cause: error },
    );
  }
}

/** @throws {InputError} when a file that begins like this is no table of text */
export function refuseForeign(name: string, start: Buffer, mayBeJson: boolean): void {
  const content = foreignContent(start, mayBeJson);
  if (content !== undefined)
    throw new InputError(`${name} is ${content.is}, not CSV or delimited text; ${content.advice}`);
}
