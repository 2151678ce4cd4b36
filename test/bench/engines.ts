import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { parseArgs } from "node:util";
import { openDatabase } from "#duckdb/database.ts";
import { Postgres } from "#postgres/database.ts";
import { migrate } from "#postgres/migrations.ts";
import { Directory } from "#service/directory/directory.ts";
import { openEmbeddedStore } from "#service/directory/embedded.ts";
import { directorySchema, PostgresStore } from "#service/directory/postgres.ts";
import type { DirectoryStore } from "#service/directory/store.ts";
import { Progress } from "#service/progress.ts";
import { startPostgres } from "../support/postgres.ts";
import { callSync } from "../support/rollcall/sync-call.ts";
import { writeDirectory } from "./directory.ts";
import { machine, median, seconds, table, wholeNumber } from "./measure.ts";
import type { Figure } from "./results.ts";

/** A directory of one engine, and what ends it. */
interface Opened {
  run(operation: Operation, lists: Lists): Promise<number>;
  close(): Promise<void>;
}

interface Lists {
  readonly actual: string;
  readonly drifted: string;
}

const operations = ["unchanged", "preview", "apply", "list"] as const;
type Operation = (typeof operations)[number] | "first load";

/**
 * `npm run bench -- engines [--n 100000] [--rounds 5]`: what the users and groups take with PostgreSQL beside the engine
 * duckdb, in turns: a first list, the same list again, one with 1 % drift, the way back, and `user/list`.
 */
export async function engines(args: readonly string[]): Promise<Figure[]> {
  const { values } = parseArgs({
    args: [...args],
    options: { n: { type: "string", default: "100000" }, rounds: { type: "string", default: "5" } },
  });
  const compared: Compared[] = [];
  for (const users of values.n.split(",").map(wholeNumber))
    compared.push(...(await at(users, wholeNumber(values.rounds))));
  const rows = compared.map(({ users, operation, postgres, duckdb }) => [
    users.toLocaleString("en"),
    operation,
    seconds(postgres),
    seconds(duckdb),
    `${(postgres / duckdb).toFixed(1)} ×`,
  ]);
  console.log(`${machine()}; PostgreSQL 18 on the same machine, as it comes.\n`);
  console.log(table(["users", "operation", "PostgreSQL", "duckdb", "ratio"], rows));
  return compared.map(({ users, operation, postgres, duckdb }) => ({
    what: `${users.toLocaleString("en")} users in PostgreSQL: ${operation}`,
    value: postgres,
    unit: "ms",
    limit: { by: "engine duckdb", value: duckdb },
    goal: 2,
  }));
}

/** Medians, in milliseconds. */
interface Compared {
  readonly users: number;
  readonly operation: string;
  readonly postgres: number;
  readonly duckdb: number;
}

async function at(users: number, rounds: number): Promise<Compared[]> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-bench-engines-"));
  const server = await startPostgres({ settings: {} });
  const lists = { actual: join(folder, "actual.json"), drifted: join(folder, "drifted.json") };
  await writeDirectory(lists.actual, users, "actual");
  await writeDirectory(lists.drifted, users, "drifted");
  const opened = {
    postgres: await open(join(folder, "postgres"), await server.createDatabase()),
    duckdb: await open(join(folder, "duckdb")),
  };
  const times: Record<string, Record<keyof typeof opened, number[]>> = {};
  const measure = async (operation: Operation): Promise<void> => {
    const own = (times[operation] ??= { postgres: [], duckdb: [] });
    for (const engine of ["postgres", "duckdb"] as const) own[engine].push(await opened[engine].run(operation, lists));
    console.error(`${users}: ${operation} ${seconds(own.postgres.at(-1))}, duckdb ${seconds(own.duckdb.at(-1))}`);
  };
  try {
    await measure("first load");
    for (let round = 0; round < rounds; round++) for (const operation of operations) await measure(operation);
  } finally {
    for (const each of Object.values(opened)) await each.close();
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  }
  return Object.entries(times).map(([operation, { postgres, duckdb }]) => ({
    users,
    operation,
    postgres: median(postgres),
    duckdb: median(duckdb),
  }));
}

async function open(folder: string, url?: string): Promise<Opened> {
  await mkdir(folder);
  const database = await openDatabase({
    path: join(folder, "service.duckdb"),
    memory: 2 ** 30,
    spill: join(folder, "spill"),
  });
  const { store, end } = url === undefined ? await embedded(database) : await inPostgres(url, folder);
  const administrator = { name: "admin", password: "a-password-for-a-bench" };
  const directory = await Directory.open({ store, database, folder, administrator, progress: new Progress() });
  const timed = async (work: () => ReturnType<typeof directory.list>): Promise<number> => {
    const started = performance.now();
    await pipeline(await work(), async (bytes: AsyncIterable<Buffer>) => {
      for await (const _ of bytes);
    });
    return performance.now() - started;
  };
  const sync = (list: string, apply: boolean): Promise<number> =>
    timed(() => callSync(directory, folder, { list, apply, removeDeleted: true, defaultPassword: "for-new-users" }));
  return {
    run: async (operation, { actual, drifted }) => {
      if (operation === "list") return timed(() => directory.list(AbortSignal.timeout(3_600_000)));
      if (operation === "preview") return sync(drifted, false);
      if (operation !== "apply") return sync(actual, true);
      const time = await sync(drifted, true);
      await sync(actual, true);
      return time;
    },
    close: async () => {
      await directory.close();
      await end();
      database.close();
    },
  };
}

interface OpenedStore {
  readonly store: DirectoryStore;
  readonly end: () => Promise<void>;
}

async function embedded(database: Parameters<typeof openEmbeddedStore>[0]): Promise<OpenedStore> {
  return { store: await openEmbeddedStore(database), end: async () => {} };
}

async function inPostgres(url: string, folder: string): Promise<OpenedStore> {
  const postgres = await Postgres.open({ postgres: url, poolSize: 4, statementTimeout: 600_000 });
  await migrate(postgres, [directorySchema]);
  return { store: new PostgresStore(postgres, folder), end: () => postgres.close() };
}
