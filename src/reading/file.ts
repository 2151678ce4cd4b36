import type { BigIntStats } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";
import { resolve } from "node:path";
import { IncompleteReadError, messageOf, type RollcallError, UnavailableError } from "#errors.ts";
import { type Checks, checked, expectedChecksum } from "./checks.ts";
import { settle } from "./settle.ts";

/** In bytes. Small enough that parsing a chunk takes a few milliseconds, in which nothing else can run. */
export const chunkSize = 32 * 1024;

/** A file that is open for one read. */
export interface OpenFile {
  /** As it stands in the configuration. */
  readonly name: string;
  /** Its first bytes: `length`, or fewer when the file is shorter. */
  head(length: number): Promise<Buffer>;
  /**
   * Its bytes, from the start. Throws the signal's reason when aborted.
   * @throws {IncompleteReadError} at their end, when they do not have the checksum they were to have
   */
  bytes(signal: AbortSignal): AsyncGenerator<Buffer>;
  /** @throws {IncompleteReadError} when the file is no longer what it was when it was opened */
  assertUnchanged(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Opens a file for one read.
 * @throws {IncompleteReadError} when there is no such file, it may not be read, or it does not come to rest
 * @throws {UnavailableError} when the system cannot tell
 */
export async function openFile(
  name: string,
  folder: string,
  { settled, checksum }: Checks,
  signal: AbortSignal,
): Promise<OpenFile> {
  const path = resolve(folder, name);
  const attempt = async <T>(action: () => Promise<T>): Promise<T> => {
    try {
      return await action();
    } catch (error) {
      throw unreadable(name, error);
    }
  };
  // Asked first: opening a pipe would wait for its writer.
  if (!(await attempt(() => stat(path))).isFile()) throw new IncompleteReadError(`${name} is not a file`);
  if (settled !== undefined) await settle(name, settled, () => attempt(() => stat(path, { bigint: true })), signal);
  const expected = checksum === undefined ? undefined : await expectedChecksum(name, folder, checksum);
  const handle = await attempt(() => open(path));
  const before = await attempt(() => handle.stat({ bigint: true })).catch(async (error: unknown) => {
    await handle.close();
    throw error;
  });

  return {
    name,
    head: (length) => attempt(() => readAt(handle, 0, length)),
    bytes(signal) {
      const bytes = bytesOf((position) => attempt(() => readAt(handle, position, chunkSize)), signal);
      if (checksum === undefined || expected === undefined) return bytes;
      return checked(bytes, { name, algorithm: checksum, expected });
    },
    async assertUnchanged() {
      // The path too: a file that was replaced leaves the open one as it was.
      const after = await attempt(() => Promise.all([handle.stat({ bigint: true }), stat(path, { bigint: true })]));
      if (after.every((now) => isSame(before, now))) return;
      throw new IncompleteReadError(
        `${name} changed while it was being read; read it again when nothing writes to it ` +
          "(an export should be written under another name and then renamed)",
      );
    },
    close: () => handle.close(),
  };
}

async function* bytesOf(read: (position: number) => Promise<Buffer>, signal: AbortSignal): AsyncGenerator<Buffer> {
  for (let position = 0; ;) {
    signal.throwIfAborted();
    const chunk = await read(position);
    if (chunk.length === 0) return;
    position += chunk.length;
    yield chunk;
  }
}

async function readAt(handle: FileHandle, position: number, length: number): Promise<Buffer> {
  const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(length), 0, length, position);
  return buffer.subarray(0, bytesRead);
}

function isSame(before: BigIntStats, now: BigIntStats): boolean {
  return before.dev === now.dev && before.ino === now.ino && before.size === now.size && before.mtimeNs === now.mtimeNs;
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: "does not exist; check the path, which is relative to the configuration's folder, and the export",
  ENOTDIR: "does not exist: part of its path is a file, not a folder",
  EACCES: "may not be read; allow the account that runs this program to read it",
  EPERM: "may not be read; allow the account that runs this program to read it",
};

/** The system's own messages hold the absolute path; these name the file as the configuration does. */
function unreadable(name: string, cause: unknown): RollcallError {
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : messageOf(cause);
  const reason = reasons[code];
  if (reason !== undefined) return new IncompleteReadError(`${name} ${reason}`, { cause });
  return new UnavailableError(`${name} cannot be read now (${code})`, { cause });
}
