import { mkdir, stat } from "node:fs/promises";
import { InputError, messageOf } from "#errors.ts";

/**
 * Makes a folder that only its owner may look into, and those above it.
 * @param what what it is, for the message
 * @throws {InputError} naming the folder and what keeps it from being made
 */
export async function makeFolder(folder: string, what: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : messageOf(error);
    throw new InputError(`${what}, ${folder}, cannot be made: ${reasons[code] ?? code}`, { cause: error });
  }
}

/** Is there anything with this path? What is in the way of a file shows when it is opened. */
export async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

/** By the system's code. */
const reasons: Readonly<Record<string, string>> = {
  EACCES: "this account may not write there (EACCES); give it the folder, or choose another `service.data`",
  EEXIST: "a file has that name (EEXIST); move it away, or choose another `service.data`",
  ENOTDIR: "a part of the path is a file (ENOTDIR); move it away, or choose another `service.data`",
  // Of a folder that cannot be made with those above it, when the topmost one that is missing cannot.
  ENOENT: "nothing can be made there (ENOENT); is its file system read-only?",
  EROFS: "the file system is read-only (EROFS); choose another `service.data`",
  ENOSPC: "the disk is full (ENOSPC); make room, or choose another `service.data`",
};
