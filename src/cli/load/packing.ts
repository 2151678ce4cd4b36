import { Readable } from "node:stream";
import type { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { InputError, messageOf } from "#errors.ts";

/** A way in which files are packed. */
interface Packing {
  readonly name: string;
  readonly extension: string;
  /** What packed bytes begin with. No text in UTF-8 does. */
  readonly magic: Buffer;
  unpack(): Transform;
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

/** How many first bytes `packingOf` looks at. */
export const longestMagic = 4;

/** How bytes that begin like this are packed; undefined: not at all. */
export function packingOf(start: Buffer): Packing | undefined {
  return packings.find(({ magic }) => start.subarray(0, magic.length).equals(magic));
}

/**
 * The bytes of a stream, unpacked when its first ones say that it is packed. Both are destroyed together.
 * It fails with an `InputError` that names the stream.
 */
export function unpacked(name: string, packed: Readable): Readable {
  const bytes = Readable.from(unpack(name, packed), { objectMode: false });
  const destroy = bytes._destroy.bind(bytes);
  // Before the generator is asked to end: it may be waiting for bytes that never come.
  bytes._destroy = (error, callback) => {
    packed.destroy();
    destroy(error, callback);
  };
  return bytes;
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
    const all = async function* all(): AsyncGenerator<Buffer> {
      yield start;
      for (;;) {
        const { done, value } = await pieces.next();
        if (done === true) return;
        yield value;
      }
    };
    packing = packingOf(start);
    if (packing === undefined) {
      yield* all();
      return;
    }
    const unpacking = packing.unpack();
    // What breaks it is thrown where it is read.
    pipeline(all, unpacking).catch(() => undefined);
    yield* unpacking as AsyncIterable<Buffer>;
  } catch (error) {
    const isDamaged = error instanceof Error && "code" in error && /^Z(?:STD)?_/.test(String(error.code));
    throw new InputError(
      isDamaged && packing !== undefined
        ? `${name} is damaged or incomplete: it cannot be unpacked as ${packing.name} (${messageOf(error)})`
        : `${name} cannot be read: ${messageOf(error)}`,
      { cause: error },
    );
  }
}
