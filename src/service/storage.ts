import { mkdir, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Logger } from "pino";
import { InputError, firstLineOf } from "#errors.ts";
import type { RollcallError } from "#errors.ts";
import { lockHolder, openDatabase } from "#duckdb/database.ts";
import type { Database } from "#duckdb/database.ts";
import { emptyFolder, forbidden, makeFolder, obstacleOf, unwritable } from "#files/disk.ts";
import { openEmbeddedStore } from "#service/directory/embedded.ts";
import { directorySchema, PostgresStore } from "#service/directory/postgres.ts";
import { Throttle } from "#throttle.ts";
import type { ThrottleOptions } from "#throttle.ts";
import type { Postgres } from "#postgres/database.ts";
import type { DirectoryStore } from "#service/directory/store.ts";
import { openEmbeddedRecords, openPostgresRecords, recordsSchema } from "./records.ts";
import type { Records } from "./records.ts";
import type { Nodes } from "#service/loads/nodes.ts";
import type { ServiceSettings } from "./options.ts";

/** The service's files. */
export interface Storage {
  /** Holds everything where nothing else does. Its lock keeps other processes off the folder. */
  readonly database: Database;
  readonly folder: string;
  /** The folder for uploads in progress. Emptied at the start: what a killed process left may hold passwords. */
  readonly uploads: string;
  /** Whether the files are still where they were opened: a file system may be unmounted, or a folder moved. */
  isInPlace(): Promise<boolean>;
}

/**
 * Opens `service` below the data folder, readable by its owner alone.
 * @param memory DuckDB's limit in bytes
 * @throws {InputError} when another process uses the data folder, or its database cannot be opened; {UnavailableError}
 *   when
 *   the disk is full
 */
export async function openStorage(data: string, memory: number): Promise<Storage> {
  const folder = join(data, "service");
  const uploads = join(folder, "uploads");
  await makeFolder(folder, "the service's folder");
  const spill = join(folder, "spill");
  const path = join(folder, "service.duckdb");
  const database = await openDatabase({ path, memory, spill }).catch((cause: unknown) => {
    const holder = lockHolder(cause);
    throw holder === undefined ? unusable(path, cause) : inUse(data, holder.pid, cause);
  });
  for (const left of [uploads, spill]) await rm(left, { recursive: true, force: true });
  await mkdir(uploads, { mode: 0o700 });
  const opened = await stat(path);
  const isInPlace = (): Promise<boolean> =>
    stat(path).then(
      ({ dev, ino }) => dev === opened.dev && ino === opened.ino,
      () => false,
    );
  return { database, folder, uploads, isInPlace };
}

/** What stores the users and groups, the small tables, and how many logins have failed. */
export interface Stores {
  readonly directory: DirectoryStore;
  readonly records: Records;
  throttle(options: Omit<ThrottleOptions, "now">): Throttle;
  /** The processes that share them; undefined: they are this one's alone. */
  readonly nodes: Nodes | undefined;
  close(): Promise<void>;
}

/**
 * Opens the stores in the service's own database, or in PostgreSQL.
 * @param lostAfter how long another process may be away until what it had is lost, in milliseconds
 * @throws {UnavailableError} when PostgreSQL does not answer; {InputError} when a newer program uses its database
 */
export async function openStores(
  { database, folder }: Storage,
  engine: ServiceSettings["engine"],
  { lostAfter, log }: { readonly lostAfter: number; readonly log: Logger },
): Promise<Stores> {
  if (engine === "duckdb") {
    const [directory, records] = [await openEmbeddedStore(database), await openEmbeddedRecords(database)];
    return {
      directory,
      records,
      throttle: (options) => new Throttle({ ...options, now: () => performance.now() }),
      nodes: undefined,
      close: async () => {
        records.close();
      },
    };
  }
  // Its driver is only loaded where it is used.
  const [{ Postgres: Connected }, { migrate }, { CountsInPostgres, throttleSchema }, { joinNodes, nodesSchema }] =
    await Promise.all([
      import("#postgres/database.ts"),
      import("#postgres/migrations.ts"),
      import("#postgres/failed-logins.ts"),
      import("#service/loads/nodes.ts"),
    ]);
  const postgres = await Connected.open(engine);
  try {
    await migrate(postgres, [directorySchema, recordsSchema, throttleSchema, nodesSchema]);
    await refuseOtherEngine(database, postgres);
    const transfers = join(folder, "transfers");
    await emptyFolder(transfers);
    const directory = new PostgresStore(postgres, transfers);
    const records = await openPostgresRecords(postgres);
    const nodes = await joinNodes({ postgres, lease: lostAfter, log });
    return {
      directory,
      records,
      throttle: (options) => {
        const timed = { ...options, now: () => records.now() };
        return new Throttle(timed, new CountsInPostgres(timed, postgres));
      },
      nodes,
      close: async () => {
        await nodes.close();
        records.close();
        await postgres.close();
      },
    };
  } catch (error) {
    await postgres.close();
    throw error;
  }
}

/** After a change of engine, a service would have none of its users, and the next sync would create them all anew. */
async function refuseOtherEngine(database: Database, postgres: Postgres): Promise<void> {
  const [there] = await postgres.rows("SELECT FROM rollcall.users LIMIT 1");
  if (there !== undefined) return;
  const [here] = await database.use((connection) =>
    connection.rows(
      "FROM duckdb_tables() WHERE schema_name = 'directory' AND table_name = 'users' AND estimated_size > 0",
    ),
  );
  if (here === undefined) return;
  throw new InputError(
    `the data folder has the users of a service with the engine duckdb, and the database ${postgres.place} has none: ` +
      "copy them with `rollcall engine copy`, or give this service another `service.data`",
  );
}

function inUse(data: string, pid: number | undefined, cause: unknown): InputError {
  return new InputError(
    `another process${pid === undefined ? "" : ` (${pid})`} is using the data folder ${data}: ` +
      "stop it first, or give this service another `service.data`",
    { cause },
  );
}

function unusable(path: string, cause: unknown): RollcallError {
  const what = `the service's database ${path}`;
  if (obstacleOf(cause) !== undefined) return unwritable(what, cause);
  const damaged = new InputError(
    `${what} cannot be opened: it is damaged (${firstLineOf(cause)}). Restore the folder ${dirname(path)} from a backup as a whole; where there is none, move ` +
      "it away: the service then starts empty, without its users, groups and tables",
    { cause },
  );
  return forbidden(what, cause) ?? damaged;
}
