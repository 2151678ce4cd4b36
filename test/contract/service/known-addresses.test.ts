import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openDatabase } from "#duckdb/database.ts";
import type { Database } from "#duckdb/database.ts";
import { Postgres } from "#postgres/database.ts";
import { migrate } from "#postgres/migrations.ts";
import { openEmbeddedRecords, openPostgresRecords, recordsSchema } from "#service/records.ts";
import type { Records } from "#service/records.ts";
import { KnownAddresses } from "#service/session/known-addresses.ts";
import { startPostgres } from "../../support/postgres.ts";
import type { PostgresServer } from "../../support/postgres.ts";

/** One suite for both engines. */

let server: PostgresServer;
let postgres: Postgres;
let database: Database;
beforeAll(async () => {
  server = await startPostgres();
  postgres = await Postgres.open({ postgres: await server.createDatabase(), poolSize: 4, statementTimeout: 60_000 });
  await migrate(postgres, [recordsSchema]);
  database = await openDatabase({ path: ":memory:", memory: 2 ** 27, spill: "" });
});
afterAll(async () => {
  await postgres.close();
  await server.stop();
  database.close();
});

const opening = {
  embedded: () => openEmbeddedRecords(database),
  PostgreSQL: () => openPostgresRecords(postgres),
};
const open = (records: Records): Promise<KnownAddresses> => KnownAddresses.open(records, pino({ enabled: false }));
const rowsOf = (records: Records): Promise<object[]> =>
  records.rows(`SELECT name, address FROM ${records.table("known_addresses")} ORDER BY name`);

describe.each(["embedded", "PostgreSQL"] as const)("0.8 %s", (engine) => {
  test("an address that a name has logged in from is known from then on, and after a restart", async () => {
    const records = await opening[engine]();
    const first = await open(records);
    expect(await first.has("ada", "10.0.0.1")).toBe(false);
    await first.add("ada", "10.0.0.1");
    await first.add("ada", "10.0.0.1");
    for (const known of [first, await open(records)]) {
      expect(await known.has("ada", "10.0.0.1")).toBe(true);
      expect(await known.has("ada", "10.0.0.2")).toBe(false);
      expect(await known.has("ben", "10.0.0.1")).toBe(false);
    }
    expect(await rowsOf(records)).toEqual([{ name: "ada", address: "10.0.0.1" }]);
    records.close();
  });
});

describe("0.8 two processes on PostgreSQL", () => {
  test("what one of them adds is known to the other, also if it was committed late, and stored once", async () => {
    const records = await openPostgresRecords(postgres);
    const [first, second, third] = [await open(records), await open(records), await open(records)];
    await first.add("cleo", "10.0.0.3");
    await expect.poll(() => second.has("cleo", "10.0.0.3")).toBe(true);
    const late = BigInt(records.now() - 30_000);
    await records.run("INSERT INTO rollcall.known_addresses VALUES ('dora', '10.0.0.4', $1)", [late]);
    await expect.poll(() => second.has("dora", "10.0.0.4")).toBe(true);
    // The third has not asked, and so does not know them yet.
    await third.add("cleo", "10.0.0.3");
    await third.add("dora", "10.0.0.4");
    expect((await rowsOf(records)).filter((row) => /cleo|dora/.test(JSON.stringify(row)))).toHaveLength(2);
    records.close();
  });

  test("however many ask, the table is read twice a second", async () => {
    const records = await openPostgresRecords(postgres);
    let reads = 0;
    const readsOf = (): number => reads;
    const rows: Records["rows"] = (sql, values) => {
      reads += 1;
      return records.rows(sql, values);
    };
    const known = await open({ ...records, rows });
    const started = performance.now();
    const ask = async (): Promise<boolean> => known.has("nobody", "10.9.9.9");
    do await Promise.all(Array.from({ length: 50 }, ask));
    while (readsOf() < 3);
    expect(performance.now() - started).toBeGreaterThan(900);
    records.close();
  });
});
