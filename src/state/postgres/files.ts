import { createHash, randomUUID } from "node:crypto";
import { open, readdir, rename, rm, rmdir, stat } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { dirname, join } from "node:path";
import { InputError } from "#errors.ts";
import { codeOf, makeFolder } from "#files/disk.ts";
import { syncFolder } from "#files/durable.ts";
import type { Postgres, Transaction } from "#postgres/database.ts";
import type { Schema } from "#postgres/migrations.ts";
import { createQueue } from "#queue.ts";
import type { Node } from "./nodes.ts";

/**
 * The files of the daemon's folder that must not be lost, in PostgreSQL: ledgers, stored plans, baselines. The folder of each
 * machine has copies. A file is stored in parts, of which only those that have changed travel. What is meant is said by the
 * beginnings of paths: `ledgers/embedded.duckdb`, `runs/20261121-101235-4f9c2e/`.
 */
export interface SharedFiles {
  /**
   * Makes those files of the folder what the database has. Each is replaced as a whole.
   * @throws {InputError} when one is damaged in the database; {UnavailableError} when PostgreSQL does not answer
   */
  pull(beginnings: readonly string[]): Promise<void>;
  /**
   * Makes the database have those files as the folder has them: all of them or nothing.
   * @throws {InputError} when a ledger is not there any more; then the database keeps it
   * @throws {UnavailableError} when the lease is lost, or PostgreSQL does not answer
   */
  push(beginnings: readonly string[]): Promise<void>;
  /** Removes files of a folder from the database, except those below a name that is kept. */
  prune(folder: string, isKept: (name: string) => boolean): Promise<void>;
}

export const filesSchema: Schema = {
  part: "files",
  migrations: [
    `CREATE TABLE IF NOT EXISTS rollcall.files (
       path text NOT NULL, part integer NOT NULL, hash bytea NOT NULL, content bytea NOT NULL, PRIMARY KEY (path, part));
     ALTER TABLE rollcall.files ALTER content SET STORAGE EXTERNAL`,
  ],
};

/** The size of DuckDB's blocks, of which a run changes few; in bytes. */
const partSize = 256 * 1024;

/** How many parts travel at once. */
const batch = 16;

/** The hashes of the parts of each file. An empty file has one part, an empty one. */
export type Hashes = ReadonlyMap<string, readonly string[]>;

/** Both sides of a file. */
interface Sides {
  readonly here: readonly string[];
  readonly there: readonly string[];
}

/** @param node absent: nothing is pushed */
export function openSharedFiles(postgres: Postgres, folder: string, node?: Pick<Node, "fenced">): SharedFiles {
  const working = createQueue();
  const fenced: Node["fenced"] = (work) => {
    if (node === undefined) throw new Error("these files are only read");
    return node.fenced(work);
  };
  return {
    pull: (beginnings) =>
      working(async () => {
        // Before the database: what another process has brought here meanwhile is not taken for something too many.
        const here = await hashesOf(folder, beginnings);
        await postgres.transaction(
          async (transaction) => {
            const there = await hashesIn(transaction, beginnings);
            for (const [path, hashes] of there) {
              const own = here.get(path) ?? [];
              if (!isSame(own, hashes)) await fetch(transaction, folder, path, { here: own, there: hashes });
            }
            for (const path of here.keys()) if (!there.has(path)) await remove(folder, path);
          },
          { readOnly: true, snapshot: true },
        );
      }),
    push: (beginnings) =>
      working(async () => {
        const here = await hashesOf(folder, beginnings);
        await fenced(async (transaction) => {
          const there = await hashesIn(transaction, beginnings);
          const gone = [...there.keys()].filter((path) => !here.has(path));
          for (const [path, hashes] of here) {
            const stored = there.get(path) ?? [];
            if (isSame(hashes, stored)) continue;
            if (!(await send(transaction, folder, path, { here: hashes, there: stored }))) gone.push(path);
          }
          const ledger = gone.find((path) => path.endsWith(".duckdb"));
          if (ledger !== undefined)
            throw new InputError(
              `${join(folder, ledger)} is gone: no run removes a ledger. It is still in the database ${postgres.place}, and the next run uses that`,
            );
          if (gone.length > 0) await transaction.rows("DELETE FROM rollcall.files WHERE path = ANY ($1)", [gone]);
        });
      }),
    prune: async (of, isKept) => {
      const rows = await postgres.rows<{ path: string }>(
        "SELECT DISTINCT path FROM rollcall.files WHERE starts_with(path, $1)",
        [`${of}/`],
      );
      const going = rows
        .map(({ path }) => path)
        .filter((path) => !isKept(path.slice(of.length + 1).split("/", 1)[0] ?? ""));
      if (going.length === 0) return;
      await fenced((transaction) => transaction.rows("DELETE FROM rollcall.files WHERE path = ANY ($1)", [going]));
    },
  };
}

function isSame(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((hash, part) => hash === other[part]);
}

/** The files of the database whose paths begin so. */
export async function hashesIn(transaction: Pick<Transaction, "rows">, beginnings: readonly string[]): Promise<Hashes> {
  const rows = await transaction.rows<{ path: string; hashes: string[] }>(
    `SELECT path, array_agg(encode(hash, 'hex') ORDER BY part) AS hashes FROM rollcall.files
     WHERE EXISTS (SELECT FROM unnest($1::text[]) b WHERE starts_with(path, b)) GROUP BY path`,
    [beginnings],
  );
  return new Map(rows.map(({ path, hashes }) => [path, hashes]));
}

/** @returns false when the file has gone meanwhile */
async function send(transaction: Transaction, folder: string, path: string, { here, there }: Sides): Promise<boolean> {
  const changed = here.flatMap((hash, part) => (hash === there[part] ? [] : [part]));
  const handle = await openIfThere(join(folder, path));
  if (handle === undefined) return false;
  try {
    for (let at = 0; at < changed.length; at += batch) {
      const parts = changed.slice(at, at + batch);
      const contents = await Promise.all(parts.map((part) => readPart(handle, part)));
      await transaction.rows(
        `INSERT INTO rollcall.files (path, part, hash, content)
         SELECT $1, part, sha256(content), content FROM unnest($2::integer[], $3::bytea[]) AS t (part, content)
         ON CONFLICT (path, part) DO UPDATE SET hash = excluded.hash, content = excluded.content`,
        [path, parts, contents],
      );
    }
  } finally {
    await handle.close();
  }
  await transaction.rows("DELETE FROM rollcall.files WHERE path = $1 AND part >= $2", [path, here.length]);
  return true;
}

/** Another process may be reading the file that is replaced: it goes on with that. */
async function fetch(transaction: Transaction, folder: string, path: string, { here, there }: Sides): Promise<void> {
  const target = join(folder, path);
  const beside = `${target}.${randomUUID()}.new`;
  await makeFolder(dirname(target), "the daemon's folder");
  const source = here.length === 0 ? undefined : await openIfThere(target);
  const handle = await open(beside, "wx", 0o600);
  try {
    for (let at = 0; at < there.length; at += batch) {
      const parts = there.slice(at, at + batch).map((_, index) => at + index);
      const contents = new Map<number, Buffer>();
      for (const part of parts) {
        if (source === undefined || here[part] !== there[part]) continue;
        const content = await readPart(source, part);
        // Another process may have replaced the file meanwhile.
        if (hashOf(content) === there[part]) contents.set(part, content);
      }
      const rows = await transaction.rows<{ part: number; content: Buffer }>(
        "SELECT part, content FROM rollcall.files WHERE path = $1 AND part = ANY ($2::integer[])",
        [path, parts.filter((part) => !contents.has(part))],
      );
      for (const { part, content } of rows) contents.set(part, content);
      for (const part of parts) {
        const content = contents.get(part);
        if (content === undefined || hashOf(content) !== there[part]) throw damaged(path, part);
        await writeAll(handle, content, part * partSize);
      }
    }
    await handle.sync();
    await rename(beside, target);
  } catch (error) {
    await rm(beside, { force: true });
    throw error;
  } finally {
    await handle.close();
    await source?.close();
  }
  await syncFolder(dirname(target));
}

function damaged(path: string, part: number): InputError {
  return new InputError(
    `the file ${path} in the database is damaged (part ${part} of 256 KiB): restore the database from a backup`,
  );
}

/** What is still being written has another name than it will have. */
const unfinished = /\.(?:new|partial|spill)$/;

/** The files of a folder whose paths begin so. */
export async function hashesOf(folder: string, beginnings: readonly string[]): Promise<Hashes> {
  const found = new Map<string, readonly string[]>();
  const isMeant = (path: string): boolean => beginnings.some((beginning) => path.startsWith(beginning));
  const visit = async (path: string): Promise<void> => {
    const names = await readdir(join(folder, path), { withFileTypes: true }).catch((error: unknown) => {
      // What cannot be read is not gone.
      if (codeOf(error) === "ENOENT") return [];
      throw error;
    });
    for (const entry of names) {
      const name = path === "" ? entry.name : `${path}/${entry.name}`;
      if (unfinished.test(name)) continue;
      const mayHold = beginnings.some((beginning) => beginning.startsWith(`${name}/`)) || isMeant(`${name}/`);
      if (!mayHold && !isMeant(name)) continue;
      // A folder may be on another disk, behind a link.
      const kind = entry.isSymbolicLink() ? await stat(join(folder, name)) : entry;
      if (kind.isDirectory() && mayHold) await visit(name);
      else if (kind.isFile() && isMeant(name)) {
        const hashes = await hashesOfFile(join(folder, name));
        if (hashes !== undefined) found.set(name, hashes);
      }
    }
  };
  await visit("");
  return found;
}

/** @returns undefined when it has gone meanwhile */
async function hashesOfFile(path: string): Promise<string[] | undefined> {
  const handle = await openIfThere(path);
  if (handle === undefined) return undefined;
  try {
    const parts = Math.max(1, Math.ceil((await handle.stat()).size / partSize));
    const hashes: string[] = [];
    for (let part = 0; part < parts; part++) hashes.push(hashOf(await readPart(handle, part)));
    return hashes;
  } finally {
    await handle.close();
  }
}

function hashOf(content: Buffer): string {
  return createHash("sha256").update(content).digest("hex");
}

/** The part of a file; shorter where the file ends. */
async function readPart(handle: FileHandle, part: number): Promise<Buffer> {
  const buffer = Buffer.alloc(partSize);
  let length = 0;
  for (;;) {
    const { bytesRead } = await handle.read(buffer, length, partSize - length, part * partSize + length);
    length += bytesRead;
    if (bytesRead === 0 || length === partSize) return buffer.subarray(0, length);
  }
}

async function writeAll(handle: FileHandle, content: Buffer, position: number): Promise<void> {
  for (let done = 0; done < content.length;) {
    const { bytesWritten } = await handle.write(content, done, content.length - done, position + done);
    done += bytesWritten;
  }
}

async function openIfThere(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** Removes a file, and its folder when that is empty then. */
async function remove(folder: string, path: string): Promise<void> {
  await rm(join(folder, path), { force: true });
  if (dirname(path) !== ".") await rmdir(join(folder, dirname(path))).catch(() => undefined);
}
