import { afterAll, beforeAll } from "vitest";
import type { Engine } from "#service/engine/engine.ts";
import { openPostgresEngine } from "#service/engine/postgres/postgres.ts";
import { postgres as options } from "#postgres/options.ts";
import { startPostgres } from "../../support/postgres.ts";
import type { PostgresServer } from "../../support/postgres.ts";
import { engineSuite } from "./suite.ts";

let server: PostgresServer;
const urls = new Map<string, string>();

beforeAll(async () => {
  server = await startPostgres();
});
afterAll(async () => {
  await server.stop();
});

/** A database for each folder. */
const open = async (folder: string): Promise<Engine> => {
  const url = urls.get(folder) ?? (await server.createDatabase());
  urls.set(folder, url);
  return openPostgresEngine({ postgres: options.parse({ postgres: url }), folder, memory: 512 * 2 ** 20 });
};

engineSuite("PostgreSQL", open, {
  range: (n) => `generate_series(0, ${n - 1}) r(i)`,
  schema: (name) => `"shop.${name}"`,
  forever: "SELECT sum(a.i * b.i) FROM generate_series(1, 1000000) a(i), generate_series(1, 1000000) b(i)",
  refused: [
    [
      "\nCREATE TABLE IF NOT EXISTS shop.x (a INT, b MONEY, c INT[])",
      /t.sql:2: .*column b .*money.*column c .*integer\[\]/,
    ],
    ["CREATE TABLE IF NOT EXISTS shop.x (a NUMERIC)", /t.sql:1: .*column a .*numeric.*numeric\(p, s\)/],
    [
      "CREATE TABLE IF NOT EXISTS shop.x (a INT, b INT GENERATED ALWAYS AS (a + 1) STORED)",
      /t.sql:1: .*cannot be loaded/,
    ],
  ],
  unloadable: "CREATE TABLE IF NOT EXISTS other.x (a bytea)",
  counted: [["SELECT DISTINCT ON (i % 3) i FROM generate_series(0, 9) r(i) ORDER BY i % 3", 3]],
  forbidden: [
    ["made", "BEGIN", "one transaction"],
    ["made", "SELECT pg_read_file('/etc/passwd')", "permission denied"],
    [undefined, "CREATE TABLE lost (a INT)", "no schema"],
  ],
});
