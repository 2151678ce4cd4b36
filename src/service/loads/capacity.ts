import { statfs } from "node:fs/promises";
import { InputError, UnavailableError, messageOf } from "#errors.ts";
import { isDiskFull } from "#files/disk.ts";

/** What uploads may take, in bytes. */
export interface Limits {
  readonly maxChunk: number;
  readonly maxCycle: number;
  /** What stays free on the disk of the data folder. */
  readonly minFreeDisk: number;
}

/** An upload that there is no room for: it is larger than allowed, or the disk is full. */
export class CapacityError extends InputError {
  readonly lacking: "limit" | "disk";

  constructor(lacking: "limit" | "disk", message: string, options: { cause?: unknown } = {}) {
    super(message, options);
    this.lacking = lacking;
  }
}

/** How many bytes are written between two looks at the disk. */
const stride = 32 * 2 ** 20;

/**
 * Is told of every piece of an upload before it is written.
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

/** What a failed write means: a full disk, or too little memory, is not the caller's fault, and they are told. */
export function writeError(error: unknown): unknown {
  if (isDiskFull(error)) return diskFull(error);
  return isOutOfMemory(error) ? outOfMemory(error) : error;
}

/** Of what DuckDB says, with addresses of its manual, the caller needs nothing; the log has it. */
export function isOutOfMemory(error: unknown): boolean {
  return !isDiskFull(error) && /\bOut of Memory Error\b/.test(messageOf(error));
}

function outOfMemory(cause: unknown): UnavailableError {
  return new UnavailableError(
    "There is not enough memory for the load: nothing of it was loaded. Try again when less is going on, load the rows in " +
      "several smaller loads, or have service.memory raised in the configuration of the service.",
    { cause },
  );
}

function diskFull(cause?: unknown): CapacityError {
  return new CapacityError("disk", "There is not enough free disk space for the data. Nothing of it was kept.", {
    cause,
  });
}
