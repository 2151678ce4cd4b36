import { randomUUID } from "node:crypto";
import { truncate } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { removeFile } from "#files/disk.ts";
import { FileWriter } from "#files/file-writer.ts";
import { destroyOnAbort } from "#http/exchange.ts";
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

/** An upload under way, in a file of its own until it is complete. */
export class Arriving {
  readonly path: string;
  /** In bytes, so far. */
  size = 0;
  readonly #room: Room;

  constructor(folder: string, room: Room) {
    this.path = join(folder, `${randomUUID()}.part`);
    this.#room = room;
  }

  /**
   * Writes everything and syncs it to disk (A.24). When it throws, nothing is being written any more.
   * @param body its pieces are used up: the memory of the long ones is given back
   * @throws {CapacityError}
   */
  async write(body: Readable, signal: AbortSignal): Promise<void> {
    using _destroying = destroyOnAbort(signal, body);
    try {
      await using file = await FileWriter.open(this.path, "wx");
      for await (const piece of body as AsyncIterable<Buffer>) {
        await this.#room(piece.length);
        this.size += piece.length;
        await file.write(piece);
        giveBack(piece);
      }
      await file.sync();
      signal.throwIfAborted();
    } catch (error) {
      throw writeError(error);
    }
  }

  /** Removes the file, if it is still there, and frees its space. */
  async discard(): Promise<void> {
    // A file that is still open elsewhere keeps its space after it is removed, unless it is empty.
    await truncate(this.path).catch(() => undefined);
    await removeFile(this.path);
  }
}
