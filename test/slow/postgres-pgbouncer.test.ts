import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Engine } from "#service/engine/engine.ts";
import { openPostgresEngine } from "#service/engine/postgres/postgres.ts";
import { Postgres } from "#postgres/database.ts";
import { postgres as options } from "#postgres/options.ts";
import { postgresDialect } from "../contract/engine/postgres-dialect.ts";
import { engineSuite } from "../contract/engine/suite.ts";
import { missing } from "../support/ldap/debian.ts";
import { pgbouncerPackages, startPgBouncer } from "../support/pgbouncer.ts";
import type { PgBouncer } from "../support/pgbouncer.ts";
import { startPostgres } from "../support/postgres.ts";
import type { PostgresServer } from "../support/postgres.ts";

const absent = await missing(pgbouncerPackages());
describe.skipIf(absent !== undefined)(`behind pgbouncer (${absent ?? "transaction mode"})`, () => {
  let server: PostgresServer;
  let bouncer: PgBouncer;
  const urls = new Map<string, string>();

  beforeAll(async () => {
    server = await startPostgres();
    bouncer = await startPgBouncer(await server.createDatabase());
  });
  afterAll(async () => {
    await bouncer.stop();
    await server.stop();
  });

  const open = async (folder: string): Promise<Engine> => {
    const url = urls.get(folder) ?? (await server.createDatabase());
    urls.set(folder, url);
    // No more than pgbouncer has: a query that waits there is not told apart from one that runs.
    const postgres = options.parse({ postgres: bouncer.through(url), poolSize: 4 });
    return openPostgresEngine({ postgres, folder, memory: 512 * 2 ** 20 });
  };

  engineSuite("PostgreSQL behind pgbouncer", open, postgresDialect);

  test("a connection is as it was after every transaction", async () => {
    const url = await server.createDatabase();
    const pool = await Postgres.open(options.parse({ postgres: bouncer.through(url) }));
    const states = async (): Promise<unknown> =>
      Promise.all(
        Array.from({ length: 8 }, () =>
          pool.rows("SELECT current_setting('timezone') AS zone, current_setting('statement_timeout') AS timeout"),
        ),
      );
    const before = await states();
    await Promise.all(
      Array.from({ length: 8 }, (_, index) =>
        pool.transaction(
          async (transaction) => {
            await transaction.lock("the same");
            await transaction.run("CREATE TEMPORARY TABLE scratch (a integer) ON COMMIT DROP");
            if (index % 2 === 0) throw new Error("rolled back");
          },
          { settings: { timezone: "Asia/Tokyo" } },
        ),
      ).map((work) => work.catch(() => undefined)),
    );
    expect(await states()).toEqual(before);
    await pool.close();
  });

  test("statements are stopped also when every connection of pgbouncer is taken", async () => {
    const url = await server.createDatabase();
    const pool = await Postgres.open(options.parse({ postgres: bouncer.through(url) }));
    const stop = new AbortController();
    const reason = new Error("the service stops");
    const sleeping = Array.from({ length: 6 }, () =>
      pool
        .transaction(async (transaction) => transaction.rows("SELECT pg_sleep(600)"), {
          signal: stop.signal,
          timeout: 5_000,
        })
        .catch((error: unknown) => error),
    );
    const watcher = await server.connect(new URL(url).pathname.slice(1));
    const asleep =
      "SELECT count(*)::integer AS n FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'";
    await expect.poll(async () => (await watcher.query(asleep)).rows).toEqual([{ n: 4 }]);
    stop.abort(reason);
    expect(await Promise.all(sleeping)).toEqual(sleeping.map(() => reason));
    // Those that lost their connection end by their time.
    await expect.poll(async () => (await watcher.query(asleep)).rows).toEqual([{ n: 0 }]);
    expect(await pool.rows("SELECT 1 AS one")).toEqual([{ one: 1 }]);
    await watcher.end();
    await pool.close();
  });
});
