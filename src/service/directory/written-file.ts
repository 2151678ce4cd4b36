import { once } from "node:events";
import { createWriteStream } from "node:fs";
import type { WriteStream } from "node:fs";

/**
 * Creates a file, readable by its owner alone, that is written while a list arrives. That it cannot be written is found out
 * by who waits: for room, or for its end.
 * @param highWaterMark how many bytes may wait to be written; absent: as many as Node has it
 */
export function createWrittenFile(path: string, highWaterMark?: number): WriteStream {
  const file = createWriteStream(path, { flags: "wx", mode: 0o600, highWaterMark });
  return file.on("error", () => undefined);
}

/** Resolves when there is room for more. @throws when it cannot be written */
export async function roomIn(file: WriteStream): Promise<void> {
  if (file.errored !== null) throw file.errored;
  if (file.writableNeedDrain) await once(file, "drain");
}
