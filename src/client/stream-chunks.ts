import { RollcallError } from "#errors.ts";
import type { Readable } from "node:stream";
import type { ChunkOptions, StreamSource } from "./chunks.ts";
import type { Cuts, CutsOf } from "./cuts.ts";
import type { FileData } from "./form.ts";
import { blockSize, unreadable } from "./reading.ts";

/** A chunk that has grown so many times larger than it should, without an end of a row, is held no longer. */
const patience = 4;

/** The chunks of a stream: each is held in memory, so that it can be sent again, unless its rows are too long for that. */
export async function* streamChunks(
  { name, stream: source }: StreamSource,
  cutsOf: CutsOf,
  { streamChunk, signal }: ChunkOptions,
): AsyncGenerator<FileData> {
  const stream = typeof source === "function" ? source() : source;
  const destroy = (): void => {
    stream.destroy();
  };
  signal.addEventListener("abort", destroy);
  try {
    signal.throwIfAborted();
    const blocks = blocksOf(name, stream, signal);
    let held: Buffer[] = [];
    let length = 0;
    let cuts: Cuts | undefined;
    let isFirst = true;
    for (;;) {
      const { done, value } = await blocks.next();
      if (done === true) break;
      let block = value;
      if (isFirst) cuts = cutsOf(block);
      isFirst = false;
      let start = 0;
      for (;;) {
        const end = cuts?.find(block, start, streamChunk - length + start) ?? -1;
        if (end === -1) break;
        held.push(block.subarray(start, end));
        yield inMemory(held);
        block = block.subarray(end);
        held = [];
        length = 0;
        start = 0;
      }
      held.push(block.subarray(start));
      length += block.length - start;
      if (length > streamChunk * (cuts === undefined ? 1 : patience)) {
        const { promise, resolve } = Promise.withResolvers<void>();
        signal.addEventListener("abort", () => {
          resolve();
        });
        yield passing(held, blocks, resolve);
        // Until then the stream is not this generator's to end.
        await promise;
        return;
      }
    }
    yield inMemory(held);
  } finally {
    signal.removeEventListener("abort", destroy);
    destroy();
  }
}

function inMemory(blocks: readonly Buffer[]): FileData {
  return {
    length: blocks.reduce((sum, block) => sum + block.length, 0),
    bytes: async function* bytes() {
      yield* blocks;
    },
  };
}

/** What was held of a stream and all that follows, once. */
function passing(held: readonly Buffer[], rest: AsyncGenerator<Buffer>, sent: () => void): FileData {
  return {
    single: true,
    bytes: async function* bytes() {
      try {
        yield* held;
        yield* rest;
      } finally {
        sent();
      }
    },
  };
}

/** The bytes of a stream in blocks that are not small: each has its price on the way. */
async function* blocksOf(name: string, stream: Readable, signal: AbortSignal): AsyncGenerator<Buffer> {
  let gathered: Buffer[] = [];
  let length = 0;
  try {
    for await (const piece of stream) {
      const bytes = Buffer.isBuffer(piece) ? piece : Buffer.from(piece as Uint8Array | string);
      gathered.push(bytes);
      length += bytes.length;
      if (length < blockSize) continue;
      yield Buffer.concat(gathered);
      gathered = [];
      length = 0;
    }
  } catch (error) {
    signal.throwIfAborted();
    throw error instanceof RollcallError ? error : unreadable(name, error);
  }
  signal.throwIfAborted();
  if (length > 0) yield Buffer.concat(gathered);
}
