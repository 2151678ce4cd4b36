import { closeSync, constants, fstatSync, lstatSync, openSync, readdirSync, readSync } from "node:fs";
import { mkdir, rm, stat, unlink } from "node:fs/promises";
import { basename, dirname, extname } from "node:path";
import { InputError, messageOf, reasonOf, RollcallError, UnavailableError } from "#errors.ts";
import { nearest, formatName } from "#text.ts";

/** Why a file cannot be written, independent of its content. */
export type Obstacle = "full" | "read-only" | "handles";

/**
 * What keeps a disk from being written to, where an error or what caused it says so: it is full, this account may not
 * have more of it or no larger files, it is mounted to be read only, or too many files are open. Those of DuckDB and SQLite have no such code,
 * and what DuckDB keeps on disk meanwhile may take nine tenths of what is free at its start.
 */
export function obstacleOf(error: unknown): Obstacle | undefined {
  const code = codeOf(error);
  const message = messageOf(error);
  if (codes.full.has(code) || words.full.test(message)) return "full";
  if (code === codes.readOnly || words.readOnly.test(message)) return "read-only";
  if (codes.handles.has(code) || words.handles.test(message)) return "handles";
  return error instanceof Error && error.cause !== undefined ? obstacleOf(error.cause) : undefined;
}

export function isDiskFull(error: unknown): boolean {
  return obstacleOf(error) === "full";
}

/**
 * Why something cannot be written, and what to do.
 * @param what with its path: `the ledger /var/lib/rollcall/daemon/ledgers/embedded.duckdb`
 * @returns what may go better later where it is the disk, an `InputError` otherwise
 */
export function unwritable(what: string, cause: unknown): RollcallError {
  const obstacle = obstacleOf(cause);
  if (obstacle === undefined)
    return new InputError(`${what} cannot be written: ${reasons[codeOf(cause)] ?? reasonOf(cause)}`, { cause });
  return new UnavailableError(`${what} cannot be written: ${remedies[obstacle]}, then try again`, { cause });
}

/**
 * The error of something that is whole as far as anybody knows, and that this account may not use; undefined: another error.
 * @param what with its path, as in `unwritable`
 */
export function forbidden(what: string, cause: unknown): InputError | undefined {
  if (!["EACCES", "EPERM"].includes(codeOf(cause)) && !/Permission denied/.test(messageOf(cause))) return undefined;
  return new InputError(`${what} cannot be used: ${reasons["EACCES"]}`, { cause });
}

/** An error as a person is to see it: where nothing says yet what cannot be written, that. */
export function naming(what: string, error: unknown): unknown {
  return error instanceof RollcallError || obstacleOf(error) === undefined ? error : unwritable(what, error);
}

const remedies: Readonly<Record<Obstacle, string>> = {
  full: "the disk is full; make room",
  "read-only": "its file system is read-only; mount it so that it can be written to",
  handles: "too many files and connections are open; raise the limit (ulimit -n, LimitNOFILE)",
};

const codes = {
  full: new Set(["ENOSPC", "EDQUOT", "EFBIG"]),
  readOnly: "EROFS",
  handles: new Set(["EMFILE", "ENFILE"]),
};
const words = {
  full: /No space left on device|Disk quota exceeded|File too large|max_temp_directory_size|database or disk is full/,
  readOnly: /Read-only file system|attempt to write a readonly database/,
  handles: /Too many open files/i,
};

/** By the system's code. */
const reasons: Readonly<Record<string, string>> = {
  EACCES: "permission denied (EACCES); run as the owner of the data folder",
  EISDIR: "it is a folder (EISDIR); move it away",
};

/** The system's code of an error: `ENOSPC`; empty where it has none. */
export function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";
}

/**
 * Makes a folder and those above it. Node's own `recursive` never ends where a file system says that nothing is there
 * (ENOENT) instead of why a folder cannot be made, as below /proc.
 * @throws the system's error
 */
export async function makeFolders(folder: string, mode?: number): Promise<void> {
  try {
    await mkdir(folder, { mode });
  } catch (error) {
    if (await isFolder(folder)) return;
    const parent = dirname(folder);
    if (codeOf(error) !== "ENOENT" || parent === folder) throw error;
    // Another process may have made it meanwhile.
    if (!(await isFolder(parent))) await makeFolders(parent, mode);
    await mkdir(folder, { mode }).catch(async (again: unknown) => {
      if (!(await isFolder(folder))) throw again;
    });
  }
}

/** Makes a folder that only its owner can read. What a killed process left there is removed. */
export async function emptyFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  await makeFolders(folder, 0o700);
}

/** Removes a file, if it is there. `rm` asks the system twice more, each time through a thread that others wait for. */
export async function removeFile(path: string): Promise<void> {
  await unlink(path).catch((error: unknown) => {
    if (codeOf(error) !== "ENOENT") throw error;
  });
}

export function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}

/**
 * Makes a folder that only its owner may look into, and those above it.
 * @param what what it is, for the message
 * @throws {InputError} naming the folder and what keeps it from being made
 */
export async function makeFolder(folder: string, what: string): Promise<void> {
  try {
    await makeFolders(folder, 0o700);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : messageOf(error);
    throw new InputError(`${what}, ${folder}, cannot be made: ${folderReasons[code] ?? code}`, { cause: error });
  }
}

/**
 * The error of a file that a person named and that cannot be read, without the system's own text where a plainer one says more.
 * @param name as it was given; `path` is absolute
 */
export function unreadable(name: string, path: string, cause: unknown): InputError {
  const code = codeOf(cause);
  if (code === "ENOENT") return new InputError(`${name} does not exist ${lookedIn(path)}`, { cause });
  return new InputError(`${name} cannot be read: ${reasonOf(cause)}`, { cause });
}

/** A file that is larger than expected, or no file at all; the message names neither. */
export class UnfitFileError extends InputError {}

/**
 * Reads a file that a person named and that is small, whole. Never waits: a named pipe has no writer yet, a device no end.
 * @param limit in bytes
 * @throws {UnfitFileError} when it is something else than a file, or larger; also the system's error
 */
export function readSmallFile(path: string, limit: number): Buffer {
  const fd = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  try {
    const found = fstatSync(fd);
    if (!found.isFile() && !found.isDirectory())
      throw new UnfitFileError("it is a device or a pipe, not a regular file");
    // Files of /proc have no size.
    const bytes = Buffer.alloc(Math.max(Math.min(found.size, limit), 4096) + 1);
    const parts: Buffer[] = [];
    let length = 0;
    for (;;) {
      const count = readSync(fd, bytes);
      if (count === 0) return Buffer.concat(parts);
      length += count;
      if (length > limit) throw new UnfitFileError(`it is larger than ${sizeInWords(limit)}`);
      parts.push(Buffer.from(bytes.subarray(0, count)));
    }
  } finally {
    closeSync(fd);
  }
}

function sizeInWords(bytes: number): string {
  return bytes < 1024 ** 2 ? `${bytes / 1024} KiB` : `${bytes / 1024 ** 2} MiB`;
}

/** Where a file that does not exist was looked for, and what was probably meant: `(looked in /etc/rollcall); there is people.csv`. */
export function lookedIn(path: string): string {
  if (isLink(path)) return `(looked in ${dirname(path)}, where it is a link to a file that is not there)`;
  const meant = fileLike(path);
  return `(looked in ${dirname(path)})${meant === undefined ? "" : `; there is ${meant}`}`;
}

/** Is it a link, whether or not to anything? */
export function isLink(path: string): boolean {
  try {
    return lstatSync(path).isSymbolicLink();
  } catch {
    return false;
  }
}

/** The name of the file beside a missing one that was probably meant. */
export function fileLike(path: string): string | undefined {
  const [name, extension] = [basename(path), extname(path)];
  let names: readonly string[];
  try {
    names = readdirSync(dirname(path));
  } catch {
    return undefined;
  }
  if (names.includes(name)) return undefined;
  const alike = names.filter((each) => extension !== "" && extname(each) === extension);
  const meant = nearest(name, names) ?? (alike.length === 1 ? alike[0] : undefined);
  return meant === undefined ? undefined : formatName(meant);
}

/** Is there anything with this path? @throws the system's error when that cannot be known: unknown is not absent */
export async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    (error: unknown) => {
      if (!absent.has(codeOf(error))) throw error;
      return false;
    },
  );
}

/** The system's codes where nothing has such a path. */
const absent = new Set(["ENOENT", "ENOTDIR", "ELOOP", "ENAMETOOLONG"]);

/** By the system's code. */
const folderReasons: Readonly<Record<string, string>> = {
  EACCES: "permission denied (EACCES); give this account write access, or choose another folder",
  EEXIST:
    "a file, or a link to a folder that does not exist, has that name (EEXIST); move it away, or choose another folder",
  ENOTDIR: "a part of the path is a file (ENOTDIR); move it away, or choose another folder",
  // `mkdir -p` says so when the topmost missing folder cannot be made.
  ENOENT: "no folder can be created there (ENOENT); is its file system read-only?",
  EROFS: "the file system is read-only (EROFS); choose another folder",
  ENOSPC: "the disk is full (ENOSPC); make room, or choose another folder",
};
