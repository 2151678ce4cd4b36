import { statfs } from "node:fs/promises";
import { InputError, messageOf } from "#errors.ts";

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

/** What a failed write means: a full disk is not the caller's fault, and they are told. */
export function writeError(error: unknown): unknown {
  return isDiskFull(error) ? diskFull(error) : error;
}

/** DuckDB's errors have no code. What it keeps on disk meanwhile may take nine tenths of what is free at its start. */
function isDiskFull(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  if (code === "ENOSPC" || code === "EDQUOT") return true;
  return /No space left on device|Disk quota exceeded|max_temp_directory_size/.test(messageOf(error));
}

function diskFull(cause?: unknown): CapacityError {
  return new CapacityError("disk", "There is not enough free disk space for the data. Nothing of it was kept.", {
    cause,
  });
}
