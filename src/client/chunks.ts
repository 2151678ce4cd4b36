import { isUtf8 } from "node:buffer";
import type { BigIntStats } from "node:fs";
import { open } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import type { Readable } from "node:stream";
import { InputError, reasonOf, RollcallError } from "#errors.ts";
import type { LoadParameters } from "#wire/loads.ts";
import type { FileData } from "./form.ts";
import { blocks } from "./blocks.ts";
import { blockSize, createStarts, endingInReturns, refuseSeparatorLine } from "./cuts.ts";
import type { Cuts } from "./cuts.ts";

/** Rows. */
export type LoadSource = FileSource | StreamSource;

export interface FileSource {
  readonly name: string;
  readonly path: string;
}

/** It is read once, and destroyed when the load ends. */
export interface StreamSource {
  readonly name: string;
  readonly stream: Readable | (() => Readable);
  /** Another program writes it, and its end doesn't tell whether that program has failed. */
  readonly isPipe?: boolean | undefined;
}

export interface ChunkOptions {
  readonly parameters: LoadParameters;
  /** About how large a chunk of a file is, in bytes. A smaller file is sent whole, without searching for row ends. */
  readonly fileChunk: number;
  /** About how large a chunk of a stream is, in bytes. It is held in memory until it has arrived. */
  readonly streamChunk: number;
  readonly signal: AbortSignal;
}

/** Reads the first block of a source. @throws {InputError} when its lines end in a way that loses rows */
type Start = (name: string, block: Buffer, isWhole: boolean) => Cuts | undefined;

/**
 * The chunks that sources are sent in, in the order of their rows. Each holds whole rows (A.7); every source has at least
 * one. They throw `InputError` where a source cannot be read, where its first line is for spreadsheets, where its lines end
 * in `\r` alone, where nothing but headers, or a pipe without a byte, would replace the rows of a table, and where a header without rows
 * is no text.
 */
export async function* chunksOf(sources: readonly LoadSource[], options: ChunkOptions): AsyncGenerator<FileData> {
  const startOf = createStarts(options.parameters);
  let isEmpty = true;
  let hasRows = false;
  const start: Start = (name, block, isWhole) => {
    const found = startOf(block, isWhole);
    if (found.endInReturns) throw endingInReturns(name);
    refuseSeparatorLine(name, block);
    if (!found.hasRows && (!isUtf8(block) || block.includes(0)))
      throw new InputError(
        `${name}: its only line would be taken for the header, but is not text in UTF-8; ` +
          "convert it, for instance: iconv -f latin1 -t utf-8",
      );
    isEmpty &&= block.length === 0;
    hasRows ||= found.hasRows;
    return found.cuts;
  };
  for (const source of sources) {
    yield* "path" in source ? fileChunks(source, start, options) : streamChunks(source, start, options);
  }
  if (!options.parameters.load_options.empty_target) return;
  const pipe = isEmpty ? sources.find((source) => "stream" in source && source.isPipe) : undefined;
  if (pipe !== undefined)
    throw new InputError(
      `${pipe.name} ended without any data, which would leave the table empty: has the program that writes it failed? ` +
        "To empty the table, load an empty file",
    );
  if (!isEmpty && !hasRows)
    throw new InputError(
      `${sources.map(({ name }) => name).join(", ")}: a header without rows would leave the table empty; ` +
        "to empty it, load an empty file",
    );
}

/** The chunks of a file: ranges of its bytes, which are read when they are sent. */
async function* fileChunks(
  { name, path }: FileSource,
  start: Start,
  { fileChunk, signal }: ChunkOptions,
): AsyncGenerator<FileData> {
  await using file = await open(path).catch((error: unknown) => {
    throw unreadable(name, error);
  });
  try {
    const found = await file.stat({ bigint: true });
    const size = Number(found.size);
    const range = (from: number, to: number): FileData => rangeOf({ name, path, found }, from, to);
    const buffer = Buffer.allocUnsafeSlow(Math.min(blockSize, Math.max(size, 1)));
    const read = async (at: number): Promise<Buffer> => {
      signal.throwIfAborted();
      return buffer.subarray(0, await readAt(file, name, buffer, at, size));
    };
    const first = await read(0);
    const cuts = start(name, first, first.length === size);
    const most = cuts === undefined ? Infinity : fileChunk;
    let begin = 0;
    for (let at = 0; size - begin > most && at < size;) {
      const block = await read(at);
      if (block.length === 0) break;
      for (const end of cuts?.(block, (end) => at + end >= begin + most) ?? []) {
        yield range(begin, at + end);
        begin = at + end;
      }
      at += block.length;
    }
    yield range(begin, size);
  } catch (error) {
    throw error instanceof RollcallError || signal.aborted ? error : unreadable(name, error);
  }
}

/** A file, and what it was when it was cut into ranges: in another one, they begin and end within rows. */
interface CutFile extends FileSource {
  readonly found: BigIntStats;
}

/** Bytes of a file from `begin` to `end`. */
function rangeOf({ name, path, found }: CutFile, begin: number, end: number): FileData {
  return {
    length: end - begin,
    bytes: async function* bytes() {
      await using file = await open(path).catch((error: unknown) => {
        throw unreadable(name, error);
      });
      await assertSame(file, name, found);
      let at = begin;
      const read = async (into: Buffer): Promise<number> => {
        if (at === end) return 0;
        const length = await readAt(file, name, into, at, end);
        if (length === 0) throw changed(name);
        at += length;
        // Before the last bytes: with them, the chunk has arrived.
        if (at === end) await assertSame(file, name, found);
        return length;
      };
      yield* blocks(read, Math.min(blockSize, end - begin));
    },
  };
}

/** @throws {InputError} the file at a path is another one, or somebody has written to it */
async function assertSame(file: FileHandle, name: string, found: BigIntStats): Promise<void> {
  const { dev, ino, size, mtimeNs } = await file.stat({ bigint: true });
  if (dev !== found.dev || ino !== found.ino || size !== found.size || mtimeNs !== found.mtimeNs) throw changed(name);
}

function changed(name: string): InputError {
  return new InputError(`${name} changed while it was being loaded; load it again when nothing writes to it`);
}

async function readAt(file: FileHandle, name: string, buffer: Buffer, at: number, end: number): Promise<number> {
  try {
    const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, end - at), at);
    return bytesRead;
  } catch (error) {
    throw unreadable(name, error);
  }
}

/** A chunk is no longer held in memory once it is this many times too large and still has no row end. */
const patience = 4;

/** The chunks of a stream: each is held in memory, so that it can be sent again, unless its rows are too long for that. */
async function* streamChunks(
  { name, stream: source }: StreamSource,
  start: Start,
  { streamChunk, signal }: ChunkOptions,
): AsyncGenerator<FileData> {
  const stream = typeof source === "function" ? source() : source;
  const passedOn = Promise.withResolvers<void>();
  const stop = (): void => {
    stream.destroy();
    passedOn.resolve();
  };
  signal.addEventListener("abort", stop);
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
      // A block that is not full is the whole stream.
      if (isFirst) cuts = start(name, value, value.length < blockSize);
      isFirst = false;
      let begin = 0;
      for (const end of cuts?.(value, (end) => length + end - begin >= streamChunk) ?? []) {
        held.push(value.subarray(begin, end));
        yield inMemory(held);
        held = [];
        length = 0;
        begin = end;
      }
      held.push(value.subarray(begin));
      length += value.length - begin;
      if (length > streamChunk * (cuts === undefined ? 1 : patience)) {
        yield passing(held, blocks, passedOn.resolve);
        // The stream must not be destroyed before all of it was passed on.
        await passedOn.promise;
        return;
      }
    }
    yield inMemory(held);
  } finally {
    signal.removeEventListener("abort", stop);
    stop();
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

/** The part of a stream that was held in memory, then the rest. Can be read once. */
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

/** The bytes of a stream, in larger blocks: each block costs time on its way. */
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

/** The error of a source that cannot be read. */
function unreadable(name: string, error: unknown): InputError {
  return new InputError(`${name} cannot be read: ${reasonOf(error)}`, { cause: error });
}
