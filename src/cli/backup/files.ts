import { createHash, hash } from "node:crypto";
import { constants, createReadStream, createWriteStream } from "node:fs";
import { copyFile, mkdir, open, readdir, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { backup, DatabaseSync } from "node:sqlite";
import { setTimeout as delay } from "node:timers/promises";
import { InputError, messageOf, UnavailableError } from "#errors.ts";
import { codeOf, exists } from "#files/disk.ts";

/*
 * Copies the files of a data folder while processes write them. What is copied is what the processes would find after a power failure
 * at some moment: each file is written durably and as a whole by whoever writes it, or is a database.
 */

/** What belongs to a running process, or is made anew. */
const passing: ReadonlySet<string> = new Set([
  "service/answers",
  "service/uploads",
  "service/spill",
  "service/transfers",
  "service/list",
  "service/databases/.spill",
  "daemon/control.json",
  "daemon/lock.sqlite",
  "daemon/work",
  "daemon/reads",
  "daemon/lists",
  "daemon/shared",
]);

/** What is still being written has another name than it will have. */
const unfinished = /\.(?:new|partial|spill)$|\/\.room-\d+$|\.new\.wal$/;

/** The database that says how loads ended: it is copied after everything that they wrote. */
const last = "service/service.duckdb";

/** The files of DuckDB and SQLite beside a database: their logs. */
const ofLog = /\.duckdb\.[\w.]*wal[\w.]*$|\.sqlite-(?:wal|shm|journal)$/;

/**
 * The files of a data folder, as paths below it, in the order in which they are copied: what a later one knows of an earlier one is
 * in it. Logs of databases are not among them.
 */
export async function filesOf(data: string): Promise<string[]> {
  const found: string[] = [];
  const visit = async (path: string): Promise<void> => {
    const entries = await readdir(join(data, path), { withFileTypes: true }).catch((error: unknown) => {
      if (codeOf(error) === "ENOENT") return [];
      throw error;
    });
    for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
      const name = `${path}/${entry.name}`;
      if (passing.has(name) || unfinished.test(name) || ofLog.test(name)) continue;
      const kind = entry.isSymbolicLink() ? await stat(join(data, name)) : entry;
      if (kind.isDirectory()) await visit(name);
      else if (kind.isFile() && name !== last) found.push(name);
    }
  };
  await visit("service");
  await visit("daemon");
  const sorted = found.toSorted((a, b) => orderOf(a) - orderOf(b));
  return (await exists(join(data, last))) ? [...sorted, last] : sorted;
}

/**
 * A load leaves its folder when it is in a database. The audit log knows of a decision before the journal does, and the journal knows
 * of no plan that is not stored.
 */
function orderOf(path: string): number {
  const at = ["service/loads/", "service/databases/", "daemon/journal.json"].findIndex((each) => path.startsWith(each));
  if (at >= 0) return at;
  return path.startsWith("daemon/audit") ? 4 : 3;
}

/** How often the copy of a database is begun again when the database was checkpointed meanwhile, and the pause before it. */
const attempts = 20;
const pause = 250;

/** Copies one of `filesOf`. @returns false when it has gone meanwhile */
export async function copyOne(from: string, to: string, signal: AbortSignal): Promise<boolean> {
  await mkdir(dirname(to), { recursive: true, mode: 0o700 });
  try {
    if (from.endsWith(".duckdb")) await copyDatabase(from, to, signal);
    else if (from.endsWith(".sqlite")) await copyInbox(from, to, signal);
    else await copyWhole(from, to, signal);
    return true;
  } catch (error) {
    if (codeOf(error) === "ENOENT" && !(await exists(from))) return false;
    throw error;
  }
}

/** Copies blocks that the file system can share at once. */
async function copyWhole(from: string, to: string, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  await copyFile(from, to, constants.COPYFILE_FICLONE);
}

/**
 * Copies a DuckDB database and its logs. A commit appends to a log; only a checkpoint changes what the file's header leads to. So the
 * logs come first, as long as they are now, and then the file, which has every block that they name; if the header is another one
 * afterwards, it is done again.
 */
async function copyDatabase(from: string, to: string, signal: AbortSignal): Promise<void> {
  for (let attempt = 1; attempt <= attempts; attempt++) {
    const before = await stateOf(from);
    for (const [name, { size }] of before.logs)
      await copyStart(
        join(dirname(from), name),
        join(dirname(to), basename(to) + name.slice(basename(from).length)),
        size,
        signal,
      );
    await copyWhole(from, to, signal);
    const after = await stateOf(from);
    const isSame = [...before.logs].every(([name, { inode, size }]) => {
      const now = after.logs.get(name);
      return now?.inode === inode && now.size >= size;
    });
    if (isSame && after.header === before.header) return;
    await delay(pause, undefined, { signal });
  }
  throw new UnavailableError(
    `the database ${from} is rewritten again and again while it is copied; try again when less is loaded`,
  );
}

/**
 * Copies the database of an inbox as of one moment, in one step: between steps, a push would make it begin anew.
 * @throws {InputError} when it is damaged
 */
async function copyInbox(from: string, to: string, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  using database = new DatabaseSync(from, { readOnly: true, timeout: 5_000 });
  try {
    await backup(database, to, { rate: 2 ** 31 - 1 });
    const found = checkOf(to);
    if (found !== "ok") throw new Error(`malformed: ${found}`);
  } catch (error) {
    const why = messageOf(error);
    if (!/not a database|malformed/.test(why)) throw error;
    throw new InputError(`the inbox ${from} is damaged (${why}): restore it from an earlier backup, then try again`);
  }
}

/** @returns `ok`, or what is damaged first */
function checkOf(path: string): string {
  using copy = new DatabaseSync(path);
  return String(copy.prepare("PRAGMA quick_check(1)").get()?.["quick_check"]);
}

interface DatabaseState {
  /** The digest of the headers, which name the last checkpoint. */
  readonly header: string;
  readonly logs: ReadonlyMap<string, { readonly inode: number; readonly size: number }>;
}

/** The main header and the two of the database, in bytes. */
const headers = 3 * 4096;

async function stateOf(path: string): Promise<DatabaseState> {
  const name = basename(path);
  const logs = new Map<string, { inode: number; size: number }>();
  for (const each of await readdir(dirname(path))) {
    if (!each.startsWith(`${name}.`) || !ofLog.test(each)) continue;
    const found = await stat(join(dirname(path), each)).catch(() => undefined);
    if (found !== undefined) logs.set(each, { inode: found.ino, size: found.size });
  }
  await using handle = await open(path);
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(headers), 0, headers, 0);
  return { header: hash("sha256", buffer.subarray(0, bytesRead)), logs };
}

async function copyStart(from: string, to: string, size: number, signal: AbortSignal): Promise<void> {
  if (size === 0) return writeFile(to, "", { mode: 0o600 });
  // It may have gone: then the header is another one, too.
  await pipeline(createReadStream(from, { end: size - 1 }), createWriteStream(to, { mode: 0o600 }), { signal }).catch(
    (error: unknown) => {
      if (codeOf(error) !== "ENOENT") throw error;
    },
  );
}

/** The size of a file and its SHA-256. */
export async function digestOf(path: string): Promise<{ readonly size: number; readonly sha256: string }> {
  const hash = createHash("sha256");
  let size = 0;
  for await (const chunk of createReadStream(path, { highWaterMark: 1024 ** 2 })) {
    hash.update(chunk as Buffer);
    size += (chunk as Buffer).length;
  }
  return { size, sha256: hash.digest("hex") };
}

/** The files below a folder, as paths. */
export async function allFiles(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => !entry.isDirectory());
  return files.map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1)).toSorted();
}
