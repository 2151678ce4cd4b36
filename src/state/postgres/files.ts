import { randomUUID } from "node:crypto";
import { open, readdir, rename, rm, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { InputError } from "#errors.ts";
import { makeFolder } from "#files/disk.ts";
import { syncFolder } from "#files/durable.ts";
import type { Postgres, Transaction } from "#postgres/database.ts";
import type { Schema } from "#postgres/migrations.ts";
import { createQueue } from "#queue.ts";
import { hashesOf, hashOf, openIfThere, partSize, readPart, writePart } from "#state/parts.ts";
import type { Hashes } from "#state/parts.ts";
import type { StateFiles } from "#state/store.ts";
import type { Node } from "./nodes.ts";

export const filesSchema: Schema = {
  part: "files",
  migrations: [
    `CREATE TABLE IF NOT EXISTS rollcall.files (
       path text NOT NULL, part integer NOT NULL, hash bytea NOT NULL, content bytea NOT NULL, PRIMARY KEY (path, part));
     ALTER TABLE rollcall.files ALTER content SET STORAGE EXTERNAL`,
  ],
};

/** How many parts travel at once. */
const batch = 16;

/** Both sides of a file. */
interface Sides {
  readonly here: readonly string[];
  readonly there: readonly string[];
}

/**
 * The files of the state in PostgreSQL. The folder of each machine has copies. A file is stored in parts, of which only those
 * that have changed travel.
 */
export class PostgresFiles implements StateFiles {
  readonly folder: string;
  readonly isCopy = true;
  readonly #postgres: Postgres;
  readonly #node: Pick<Node, "fenced"> | undefined;
  readonly #working = createQueue();

  /** @param node absent: they are only read, and copies go with what they are copies of */
  constructor(postgres: Postgres, folder: string, node?: Pick<Node, "fenced">) {
    this.#postgres = postgres;
    this.folder = folder;
    this.#node = node;
  }

  fetch(beginnings: readonly string[]): Promise<void> {
    return this.#working(async () => {
      const { folder } = this;
      // Before the database: what another process has brought here meanwhile is not taken for something too many.
      const here = await hashesOf(folder, beginnings);
      await this.#postgres.transaction(
        async (transaction) => {
          const there = await hashesIn(transaction, beginnings);
          for (const [path, hashes] of there) {
            const own = here.get(path) ?? [];
            if (!isSame(own, hashes)) await fetchFile(transaction, folder, path, { here: own, there: hashes });
          }
          for (const path of here.keys()) if (!there.has(path)) await remove(folder, path);
        },
        { readOnly: true, snapshot: true },
      );
      if (this.#node === undefined) await this.#removeEndedRuns();
    });
  }

  save(beginnings: readonly string[]): Promise<void> {
    return this.#working(async () => {
      const { folder } = this;
      const here = await hashesOf(folder, beginnings);
      await this.#fenced(async (transaction) => {
        const there = await hashesIn(transaction, beginnings);
        const gone = [...there.keys()].filter((path) => !here.has(path));
        for (const [path, hashes] of here) {
          const stored = there.get(path) ?? [];
          if (isSame(hashes, stored)) continue;
          if (!(await sendFile(transaction, folder, path, { here: hashes, there: stored }))) gone.push(path);
        }
        const ledger = gone.find((path) => path.endsWith(".duckdb"));
        if (ledger !== undefined)
          throw new InputError(
            `${join(folder, ledger)} is gone: no run removes a ledger. It is still in the database ${this.#postgres.place}, and the next run uses that`,
          );
        if (gone.length > 0) await removeFiles(transaction, gone);
      });
    });
  }

  async prune(below: string, isKept: (name: string) => boolean): Promise<void> {
    const rows = await this.#postgres.rows<{ path: string }>(
      "SELECT DISTINCT path FROM rollcall.files WHERE starts_with(path, $1)",
      [`${below}/`],
    );
    const going = rows
      .map(({ path }) => path)
      .filter((path) => !isKept(path.slice(below.length + 1).split("/", 1)[0] ?? ""));
    if (going.length > 0) await this.#fenced((transaction) => removeFiles(transaction, going));
  }

  #fenced(work: (transaction: Transaction) => Promise<unknown>): Promise<unknown> {
    if (this.#node === undefined) throw new Error("these files are only read");
    return this.#node.fenced(work);
  }

  /** Removes the copies of runs whose plans are not stored any more. */
  async #removeEndedRuns(): Promise<void> {
    const here = await readdir(join(this.folder, "runs")).catch(() => []);
    if (here.length === 0) return;
    const there = await this.#postgres.rows<{ run: string }>(
      "SELECT DISTINCT split_part(path, '/', 2) AS run FROM rollcall.files WHERE starts_with(path, 'runs/')",
    );
    const stored = new Set(there.map(({ run }) => run));
    for (const run of here)
      if (!stored.has(run)) await rm(join(this.folder, "runs", run), { recursive: true, force: true });
  }
}

async function removeFiles(transaction: Transaction, paths: readonly string[]): Promise<void> {
  await transaction.rows("DELETE FROM rollcall.files WHERE path = ANY ($1)", [paths]);
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
async function sendFile(
  transaction: Transaction,
  folder: string,
  path: string,
  { here, there }: Sides,
): Promise<boolean> {
  const changed = here.flatMap((hash, part) => (hash === there[part] ? [] : [part]));
  await using handle = await openIfThere(join(folder, path));
  if (handle === undefined) return false;
  await insertParts(transaction, path, changed, (part) => readPart(handle, part));
  await transaction.rows("DELETE FROM rollcall.files WHERE path = $1 AND part >= $2", [path, here.length]);
  return true;
}

/** Writes parts of a file into the database. */
export async function insertParts(
  transaction: Transaction,
  path: string,
  parts: readonly number[],
  read: (part: number) => Promise<Buffer>,
): Promise<void> {
  for (let at = 0; at < parts.length; at += batch) {
    const some = parts.slice(at, at + batch);
    await transaction.rows(
      `INSERT INTO rollcall.files (path, part, hash, content)
       SELECT $1, part, sha256(content), content FROM unnest($2::integer[], $3::bytea[]) AS t (part, content)
       ON CONFLICT (path, part) DO UPDATE SET hash = excluded.hash, content = excluded.content`,
      [path, some, await Promise.all(some.map(read))],
    );
  }
}

/** Another process may be reading the file that is replaced: it goes on with that. */
async function fetchFile(
  transaction: Transaction,
  folder: string,
  path: string,
  { here, there }: Sides,
): Promise<void> {
  const target = join(folder, path);
  const beside = `${target}.${randomUUID()}.new`;
  await makeFolder(dirname(target), "the daemon's folder");
  await using source = here.length === 0 ? undefined : await openIfThere(target);
  await using handle = await open(beside, "wx", 0o600);
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
        await writePart(handle, content, part * partSize);
      }
    }
    await handle.sync();
    await rename(beside, target);
  } catch (error) {
    await rm(beside, { force: true });
    throw error;
  }
  await syncFolder(dirname(target));
}

function damaged(path: string, part: number): InputError {
  return new InputError(
    `the file ${path} in the database is damaged (part ${part} of 256 KiB): restore the database from a backup`,
  );
}

/** Removes a file, and its folder when that is empty then. */
async function remove(folder: string, path: string): Promise<void> {
  await rm(join(folder, path), { force: true });
  if (dirname(path) !== ".") await rmdir(join(folder, dirname(path))).catch(() => undefined);
}
