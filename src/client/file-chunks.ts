import { open } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { InputError, RollcallError } from "#errors.ts";
import type { ChunkOptions, FileSource } from "./chunks.ts";
import type { CutsOf } from "./cuts.ts";
import type { FileData } from "./form.ts";
import { blockSize, unreadable } from "./reading.ts";

/** The chunks of a file: ranges of its bytes, which are read when they are sent. */
export async function* fileChunks(
  { name, path }: FileSource,
  cutsOf: CutsOf,
  { fileChunk, parameters, signal }: ChunkOptions,
): AsyncGenerator<FileData> {
  const file = await open(path).catch((error: unknown) => {
    throw unreadable(name, error);
  });
  try {
    const { size } = await file.stat();
    const buffer = Buffer.allocUnsafeSlow(Math.min(blockSize, Math.max(size, 1)));
    const read = async (at: number): Promise<Buffer> => {
      signal.throwIfAborted();
      return buffer.subarray(0, await readAt(file, name, buffer, at, size));
    };
    const isLooked = size > fileChunk || parameters.format.has_header_row;
    const cuts = isLooked ? cutsOf(await read(0)) : undefined;
    let begin = 0;
    if (cuts !== undefined && size > fileChunk) {
      for (let at = 0; size - begin > fileChunk && at < size;) {
        const block = await read(at);
        if (block.length === 0) break;
        let start = 0;
        for (;;) {
          const end = cuts.find(block, start, begin + fileChunk - at);
          if (end === -1) break;
          yield range(name, path, begin, at + end);
          begin = at + end;
          start = end;
        }
        at += block.length;
      }
    }
    yield range(name, path, begin, size);
  } catch (error) {
    throw error instanceof RollcallError || signal.aborted ? error : unreadable(name, error);
  } finally {
    await file.close();
  }
}

/** Bytes of a file from `begin` to `end`. */
function range(name: string, path: string, begin: number, end: number): FileData {
  return {
    length: end - begin,
    bytes: async function* bytes() {
      const file = await open(path).catch((error: unknown) => {
        throw unreadable(name, error);
      });
      try {
        for (let at = begin; at < end;) {
          // Not one buffer for all: what was read is sent while more is read.
          const block = Buffer.allocUnsafeSlow(Math.min(blockSize, end - at));
          const length = await readAt(file, name, block, at, end);
          if (length === 0) throw new InputError(`${name} has become shorter while it was being loaded`);
          at += length;
          yield block.subarray(0, length);
        }
      } finally {
        await file.close();
      }
    },
  };
}

async function readAt(file: FileHandle, name: string, buffer: Buffer, at: number, end: number): Promise<number> {
  try {
    const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, end - at), at);
    return bytesRead;
  } catch (error) {
    throw unreadable(name, error);
  }
}
