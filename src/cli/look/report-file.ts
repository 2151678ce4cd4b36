import { randomUUID } from "node:crypto";
import { open, realpath, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { InputError, firstLineOf } from "#errors.ts";
import type { RollcallError } from "#errors.ts";
import { obstacleOf, unwritable } from "#files/disk.ts";

/**
 * Writes a report to a file, which is there whole or as it was before: an older report is replaced, as by a shell's `>`.
 * What is no ordinary file, like a pipe, is written to as it is.
 * @throws {InputError} when it cannot be written
 */
export async function writeReport(path: string, parts: AsyncIterable<string>): Promise<void> {
  const file = await realpath(path).catch(() => resolve(path));
  const isOrdinary = await stat(file).then(
    (found) => found.isFile(),
    () => true,
  );
  const partial = isOrdinary ? join(dirname(file), `.${basename(file)}.${randomUUID()}`) : file;
  const handle = await open(partial, isOrdinary ? "wx" : "w").catch((error: unknown) => {
    throw unusable(path, error);
  });
  try {
    try {
      for await (const part of parts) await handle.writeFile(part);
    } finally {
      await handle.close();
    }
    if (isOrdinary) await rename(partial, file);
  } catch (error) {
    if (isOrdinary) await rm(partial, { force: true });
    if (!(error instanceof Error && "syscall" in error)) throw error;
    throw unusable(path, error);
  }
}

function unusable(path: string, cause: unknown): RollcallError {
  return obstacleOf(cause) === undefined
    ? new InputError(`the report cannot be written to ${path}: ${firstLineOf(cause)}`, { cause })
    : unwritable(`the report ${path}`, cause);
}
