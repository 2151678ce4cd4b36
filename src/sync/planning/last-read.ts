import { randomUUID } from "node:crypto";
import { readdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ReadContext } from "#connector.ts";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { readJson } from "#files/durable.ts";
import { makeFolder } from "#files/disk.ts";
import type { SourceCounts } from "#plan/limits.ts";
import type { Assembly } from "#principals/assembly.ts";
import { assembledTables } from "#principals/tables.ts";
import type { Sync } from "#sync/sync.ts";

/** The result of the last full read of a sync, and what shows whether it still holds. */
interface Stored {
  /** `Sync.digest`: everything that a read depends on besides the sources. */
  readonly digest: string;
  /** When the read began, ISO 8601. */
  readonly readAt: string;
  /** The version that each source reported before it was read. */
  readonly versions: Readonly<Record<string, string>>;
  readonly assembly: Omit<Assembly, "unread">;
  /** What the sources counted. Absent in what 0.1.0 stored. */
  readonly counts?: readonly SourceCounts[] | undefined;
  /** The folder of the tables. */
  readonly folder: string;
}

const tables = Object.keys(assembledTables);

export interface Reading {
  /** The result of the last full read, with its tables: nothing has changed since. Absent: the sources must be read. */
  readonly known?:
    | { readonly assembly: Assembly; readonly counts: readonly SourceCounts[]; readonly since: Date }
    | undefined;
  /** Stores what was read for the next time, where that is of use. */
  store(assembly: Assembly, counts: readonly SourceCounts[]): Promise<void>;
}

/**
 * Asks every source of a sync whether anything has changed since the last full read. The answer is no only when each has
 * a `fullReadEvery` that has not passed and reports the version it reported before that read; everything else that the
 * read depends on is the same; and no rule uses the time. In every other case the sources are read.
 * @param context `now`: in epoch milliseconds
 */
export async function beginReading(
  sync: Sync,
  connection: Connection,
  folder: string,
  { now, ...context }: ReadContext & { readonly now: number },
): Promise<Reading> {
  const began = new Date(now);
  const limits = sync.sources.map(({ fullReadEvery = 0 }) => fullReadEvery);
  const mayKnow = sync.digest !== undefined && !sync.rules.asksTime && limits.every((limit) => limit > 0);
  const versions = mayKnow ? await versionsOf(sync, context) : undefined;
  const { digest } = sync;
  if (versions === undefined || digest === undefined) return { store: async () => {} };
  const storeRead: Reading["store"] = async ({ unread, ...assembly }, counts) => {
    if (unread.length === 0)
      await store(sync, connection, folder, { digest, readAt: began.toISOString(), versions, assembly, counts });
  };
  const stored = await find(sync, folder);
  const age = stored === undefined ? Infinity : began.getTime() - Date.parse(stored.readAt);
  const isSame =
    stored?.digest === digest &&
    sync.sources.every(({ name }) => stored.versions[name] === versions[name]) &&
    age >= 0 &&
    age < Math.min(...limits);
  if (!isSame || !(await load(connection, join(folder, stored.folder)))) return { store: storeRead };
  const { assembly, counts = [], readAt } = stored;
  return { known: { assembly: { ...assembly, unread: [] }, counts, since: new Date(readAt) }, store: storeRead };
}

/** The version of every source; undefined when one cannot report it. An error will show when it is read. */
async function versionsOf({ sources }: Sync, context: ReadContext): Promise<Record<string, string> | undefined> {
  const versions: Record<string, string> = {};
  for (const { name, source } of sources) {
    try {
      const version = await source.version?.(context);
      if (version === undefined) return undefined;
      versions[name] = version;
    } catch {
      context.signal.throwIfAborted();
      return undefined;
    }
  }
  return versions;
}

async function find({ name }: Sync, folder: string): Promise<Stored | undefined> {
  return (await readJson(join(folder, `${name}.json`))) as Stored | undefined;
}

/** Makes the tables; false when they cannot be read. */
async function load(connection: Connection, folder: string): Promise<boolean> {
  try {
    for (const table of tables)
      await connection.run(
        `CREATE OR REPLACE TABLE ${table} AS FROM read_parquet(${literal(join(folder, `${table}.parquet`))})`,
      );
    return true;
  } catch {
    return false;
  }
}

/** Writes the tables first, into a folder of their own, and the file that names it last: so a read is stored whole or not at all. */
async function store(
  { name }: Sync,
  connection: Connection,
  folder: string,
  read: Omit<Stored, "folder">,
): Promise<void> {
  const own = `${name}@${randomUUID()}`;
  const beside = `${own}.json`;
  // No name of a sync has an @.
  const remove = async (which: (other: string) => boolean): Promise<void> => {
    for (const other of await readdir(folder))
      if (other.startsWith(`${name}@`) && which(other)) await rm(join(folder, other), { recursive: true, force: true });
  };
  await makeFolder(join(folder, own), "the folder of what was read");
  try {
    for (const table of tables)
      await connection.run(
        `COPY ${table} TO ${literal(join(folder, own, `${table}.parquet`))} (FORMAT parquet, COMPRESSION zstd)`,
      );
    await writeFile(join(folder, beside), JSON.stringify({ ...read, folder: own } satisfies Stored), { mode: 0o600 });
    await rename(join(folder, beside), join(folder, `${name}.json`));
  } catch (error) {
    // A disk that is full would become fuller with every attempt.
    await remove((other) => other === own || other === beside);
    throw error;
  }
  await remove((other) => other !== own);
}
