import { randomUUID } from "node:crypto";
import { truncate } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { removeFile } from "#files/disk.ts";
import { FileWriter } from "#files/file-writer.ts";
import { destroyOnAbort } from "#http/exchange.ts";
import type { LoadParameters } from "#wire/loads.ts";
import type { Look, LookJob } from "#service/loads/direct/look.ts";
import { giveBack } from "#files/buffers.ts";
import { writeError } from "./capacity.ts";
import type { Room } from "./capacity.ts";

/** A complete chunk of a cycle. */
export interface Chunk {
  /** The name of its file, which is made of the two fields below. */
  readonly file: string;
  /** The place in the order in which uploads began. */
  readonly arrival: number;
  /** The client's id for it (A.8). */
  readonly id?: string | undefined;
  /** In bytes. */
  readonly size: number;
  /** When it was complete, in epoch milliseconds. */
  readonly complete: number;
  /** What was found out about its rows while it arrived; undefined: nothing. */
  readonly look?: Promise<Look | undefined> | undefined;
}

/** The longest id of a chunk, in bytes: it becomes part of a file name. */
export const longestId = 100;

export function fileNameOf(arrival: number, id: string | undefined): string {
  const place = String(arrival).padStart(12, "0");
  return id === undefined ? place : `${place}-${Buffer.from(id, "latin1").toString("hex")}`;
}

/** The chunk in a file. Undefined: the file is no chunk. */
export function chunkOf(file: string, size: number, complete: number): Chunk | undefined {
  const { arrival, id } = /^(?<arrival>\d{12,})(?:-(?<id>[0-9a-f]+))?$/.exec(file)?.groups ?? {};
  if (arrival === undefined) return undefined;
  return {
    file,
    arrival: Number(arrival),
    size,
    complete,
    id: id === undefined ? undefined : Buffer.from(id, "hex").toString("latin1"),
  };
}

/** The order of a cycle's rows: ids that are integers by value, then the others as they arrived (A.8). */
export function inOrder(chunks: Iterable<Chunk>): Chunk[] {
  return [...chunks].sort((a, b) => {
    const [first, second] = [integerOf(a.id), integerOf(b.id)];
    if (first !== undefined && second !== undefined && first !== second) return first < second ? -1 : 1;
    if ((first === undefined) !== (second === undefined)) return first === undefined ? 1 : -1;
    return a.arrival - b.arrival;
  });
}

function integerOf(id: string | undefined): bigint | undefined {
  return id !== undefined && /^-?\d+$/.test(id) ? BigInt(id) : undefined;
}

/** Looks at the rows of a chunk while it arrives. `reach` resolves when its file has so many bytes, or all. */
export type LookAt = (
  job: LookJob,
  signal: AbortSignal,
  reach: (size: number) => Promise<void>,
) => Promise<Look | undefined>;

/** The rows of smaller chunks are looked at when they are loaded, which takes no more time. In bytes. */
const lookedAtFrom = 4 * 2 ** 20;

/** The size of a file that grows, for one who follows it. */
class Growing {
  #size = 0;
  #waiting: { readonly size: number; readonly resolve: () => void } | undefined;

  /** Resolves when it is this large, or complete. */
  async reach(size: number): Promise<void> {
    if (this.#size >= size) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting = { size, resolve };
    await promise;
  }

  grow(size: number): void {
    this.#size = size;
    if (this.#waiting !== undefined && size >= this.#waiting.size) this.#waiting.resolve();
  }

  end(): void {
    this.grow(Infinity);
  }
}

/** An upload under way, in a file of its own until it is complete. */
export class Arriving {
  readonly path: string;
  /** In bytes, so far. */
  size = 0;
  /** What is found out about its rows, where they are looked at. */
  look: Promise<Look | undefined> | undefined;
  readonly #parameters: LoadParameters;
  readonly #room: Room;
  readonly #lookAt: LookAt;

  constructor(folder: string, parameters: LoadParameters, room: Room, lookAt: LookAt) {
    this.path = join(folder, `${randomUUID()}.part`);
    this.#parameters = parameters;
    this.#room = room;
    this.#lookAt = lookAt;
  }

  /**
   * Writes everything and syncs it to disk (A.24). When it throws, nothing is being written any more.
   * @param body its pieces are used up: the memory of the long ones is given back
   * @throws {CapacityError}
   */
  async write(body: Readable, signal: AbortSignal): Promise<void> {
    using _destroying = destroyOnAbort(signal, body);
    const stop = new AbortController();
    try {
      await using file = await FileWriter.open(this.path, "wx");
      const growing = new Growing();
      for await (const piece of body as AsyncIterable<Buffer>) {
        await this.#room(piece.length);
        this.size += piece.length;
        await file.write(piece);
        giveBack(piece);
        growing.grow(file.written);
        if (file.written >= lookedAtFrom) this.look ??= this.#look(growing, AbortSignal.any([signal, stop.signal]));
      }
      await file.flush();
      growing.end();
      await file.sync();
      signal.throwIfAborted();
    } catch (error) {
      stop.abort();
      throw writeError(error);
    }
  }

  /** The load looks at the rows itself where nothing is known of them. */
  #look(growing: Growing, signal: AbortSignal): Promise<Look | undefined> {
    const job = { path: this.path, parameters: this.#parameters };
    return this.#lookAt(job, signal, (size) => growing.reach(size)).catch(() => undefined);
  }

  /** Removes the file, if it is still there, and frees its space. */
  async discard(): Promise<void> {
    // A file that is still open elsewhere keeps its space after it is removed, unless it is empty.
    await truncate(this.path).catch(() => undefined);
    await removeFile(this.path);
  }
}
