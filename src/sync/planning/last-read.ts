import type { ReadContext } from "#connector.ts";
import type { Connection } from "#duckdb/database.ts";
import type { SourceCounts } from "#plan/limits.ts";
import type { Assembly } from "#principals/assembly.ts";
import { assembledTables } from "#principals/tables.ts";
import type { Sync } from "#sync/sync.ts";
import { findSnapshot, storeSnapshot } from "./snapshot.ts";

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
}

const tables = Object.fromEntries(Object.keys(assembledTables).map((table) => [table, `FROM ${table}`]));

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
 * read depends on is the same; and no rule uses the time, or gives names by what is in the target. In every other case the sources are read.
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
  const mayKnow =
    sync.digest !== undefined &&
    !sync.rules.asksTime &&
    Object.keys(sync.rules.namings).length === 0 &&
    limits.every((limit) => limit > 0);
  const versions = mayKnow ? await versionsOf(sync, context) : undefined;
  const { digest } = sync;
  if (versions === undefined || digest === undefined) return { store: async () => {} };
  const storeRead: Reading["store"] = async ({ unread, ...assembly }, counts) => {
    if (unread.length === 0)
      await storeSnapshot(connection, { folder, name: sync.name, what: "the folder of what was read" }, tables, {
        digest,
        readAt: began.toISOString(),
        versions,
        assembly,
        counts,
      } satisfies Stored);
  };
  const snapshot = await findSnapshot<Stored>(folder, sync.name);
  const stored = snapshot?.document;
  const age = stored === undefined ? Infinity : began.getTime() - Date.parse(stored.readAt);
  const isSame =
    stored?.digest === digest &&
    sync.sources.every(({ name }) => stored.versions[name] === versions[name]) &&
    age >= 0 &&
    age < Math.min(...limits);
  if (!isSame) return { store: storeRead };
  for (const table of Object.keys(tables))
    if ((await snapshot?.load(connection, table, table)) !== true) return { store: storeRead };
  const { assembly, counts = [], readAt } = stored;
  return { known: { assembly: { ...assembly, unread: [] }, counts, since: new Date(readAt) }, store: storeRead };
}

/** The version of every source; undefined when one cannot report it. An error will show when it is read. */
export async function versionsOf(
  { sources }: Pick<Sync, "sources">,
  context: ReadContext,
): Promise<Record<string, string> | undefined> {
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
