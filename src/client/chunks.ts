import type { Readable } from "node:stream";
import type { LoadParameters } from "#wire/loads.ts";
import { createCuts } from "./cuts.ts";
import { fileChunks } from "./file-chunks.ts";
import type { FileData } from "./form.ts";
import { streamChunks } from "./stream-chunks.ts";

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
}

export interface ChunkOptions {
  readonly parameters: LoadParameters;
  /** About how large a chunk of a file is, in bytes. A smaller file is sent without being looked at. */
  readonly fileChunk: number;
  /** About how large a chunk of a stream is, in bytes. It is held in memory until it has arrived. */
  readonly streamChunk: number;
  readonly signal: AbortSignal;
}

/**
 * The chunks that sources are sent in, in the order of their rows. Each holds whole rows (A.7); every source has at least
 * one. They throw `InputError` where a source cannot be read.
 */
export async function* chunksOf(sources: readonly LoadSource[], options: ChunkOptions): AsyncGenerator<FileData> {
  const cutsOf = createCuts(options.parameters);
  for (const source of sources) {
    yield* "path" in source ? fileChunks(source, cutsOf, options) : streamChunks(source, cutsOf, options);
  }
}
