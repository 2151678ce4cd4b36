import { statfs } from "node:fs/promises";
import { isOutOfMemory } from "#duckdb/database.ts";
import { InputError, UnavailableError } from "#errors.ts";
import { isDiskFull, obstacleOf } from "#files/disk.ts";

/** The limits on uploads, in bytes. */
export interface Limits {
  readonly maxChunk: number;
  readonly maxCycle: number;
  /** How much stays free on the disk of the data folder. */
  readonly minFreeDisk: number;
}

/** There is no room for an upload: it is larger than allowed, or the disk is full. */
export class CapacityError extends InputError {
  readonly lacking: "limit" | "disk";

  constructor(lacking: "limit" | "disk", message: string, options: { cause?: unknown } = {}) {
    super(message, options);
    this.lacking = lacking;
  }
}

/** How many bytes are written between two checks of the free disk space. */
const stride = 32 * 2 ** 20;

/**
 * Is called for every piece of an upload before it is written.
 * @param others the bytes of the cycle's other chunks, arrived or arriving
 * @throws {CapacityError}
 */
export type Room = (bytes: number) => Promise<void>;

export function createRoom(limits: Limits, folder: string, others: () => number): Room {
  let size = 0;
  let looked = -Infinity;
  return async (bytes) => {
    size += bytes;
    if (size > limits.maxChunk) {
      throw new CapacityError(
        "limit",
        `The chunk is too large: one may have ${limits.maxChunk} bytes at the most. Send the rows in several chunks.`,
      );
    }
    if (others() + size > limits.maxCycle) {
      throw new CapacityError(
        "limit",
        `The chunks of the cycle are too large: together they may have ${limits.maxCycle} bytes at the most. ` +
          "Commit what has arrived, and load the rest in another cycle.",
      );
    }
    if (size - looked < stride) return;
    looked = size;
    const { bavail, bsize } = await statfs(folder);
    if (bavail * bsize - bytes < limits.minFreeDisk) throw diskFull();
  };
}

/** The error for a failed write: a full disk, too many open files or too little memory gets a message for the caller. */
export function writeError(error: unknown): unknown {
  if (isDiskFull(error)) return diskFull(error);
  if (isOutOfHandles(error)) return outOfHandles(error);
  return isOutOfMemory(error) ? outOfMemory(error) : error;
}

/** Too many files are open: the same may go well a moment later. */
export function isOutOfHandles(error: unknown): boolean {
  return obstacleOf(error) === "handles";
}

function outOfHandles(cause: unknown): UnavailableError {
  return new UnavailableError(
    "The service has too many files and connections open. Nothing of this was kept: try again when less is going on, or " +
      "have its limit on open files raised.",
    { cause },
  );
}

export function outOfMemory(cause: unknown): UnavailableError {
  return new UnavailableError(
    "There is not enough memory for the load: nothing of it was loaded. Try again when less is going on, load the rows in " +
      "several smaller loads, or have service.memory raised in the configuration of the service.",
    { cause },
  );
}

/** The process of the databases ended again and again while a load was under way: most often the system lacked memory. */
export function databasesEnded(cause: Error): UnavailableError {
  return new UnavailableError(
    `Each time that it was begun, ${cause.message}. Nothing of the load is in the table. If the system ended it for lack ` +
      "of memory, load the rows in several smaller loads, or have service.memory lowered in the configuration of the service.",
    { cause },
  );
}

function diskFull(cause?: unknown): CapacityError {
  return new CapacityError("disk", "There is not enough free disk space for the data. Nothing of it was kept.", {
    cause,
  });
}
