import { randomUUID } from "node:crypto";
import { createWriteStream } from "node:fs";
import { rm, truncate } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { abandon } from "#files/durable.ts";
import { writeError } from "./capacity.ts";
import type { Room } from "./capacity.ts";

/** The part of an upload that has arrived, in a file of its own until it is complete. */
export interface Arriving {
  readonly path: string;
  /** In bytes, so far. */
  size(): number;
  /** Writes everything, and has it on disk when it returns (A.24). @throws {CapacityError} */
  write(body: Readable, signal: AbortSignal): Promise<void>;
  /** Removes the file if it is still there: its place on the disk is free when it returns. */
  discard(): Promise<void>;
}

/** @param observe is given every piece once there is room for it */
export function createArriving(folder: string, room: Room, observe: (piece: Buffer) => void): Arriving {
  const path = join(folder, `${randomUUID()}.part`);
  let size = 0;
  async function* counted(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const piece of pieces) {
      await room(piece.length);
      size += piece.length;
      observe(piece);
      yield piece;
    }
  }

  return {
    path,
    size: () => size,
    write: async (body, signal) => {
      const file = createWriteStream(path, { flags: "wx", mode: 0o600, flush: true, highWaterMark: 2 ** 20 });
      try {
        await pipeline(body, counted, file, { signal });
      } catch (error) {
        await abandon(file);
        throw writeError(error);
      }
    },
    discard: async () => {
      // What is still open elsewhere keeps its place on the disk when it is removed, unless there is nothing in it.
      await truncate(path).catch(() => undefined);
      await rm(path, { force: true });
    },
  };
}
