import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeAuthority, makeCertificate } from "../support/certificates.ts";
import { startPostgres } from "../support/postgres.ts";
import type { PostgresServer } from "../support/postgres.ts";
import { rollcall } from "../support/rollcall/command.ts";
import { administrator, call, failToStart, login, post, startService } from "../support/rollcall/service.ts";

let server: PostgresServer;
let folder: string;
beforeAll(async () => {
  server = await startPostgres();
  folder = await mkdtemp(join(tmpdir(), "rollcall-engine-copy-"));
});
afterAll(async () => {
  await server.stop();
  await rm(folder, { recursive: true, force: true });
});

const tables = `
CREATE DATABASE IF NOT EXISTS shop;
CREATE TABLE IF NOT EXISTS shop.core_default_schema.orders (
  id BIGINT PRIMARY KEY, place VARCHAR, price DECIMAL(12, 2), share DOUBLE, part REAL, few SMALLINT, several INTEGER,
  day DATE, hour TIME, moment TIMESTAMP, known BOOLEAN, code UUID NOT NULL);
CREATE SCHEMA IF NOT EXISTS shop.other;
CREATE TABLE IF NOT EXISTS shop.other."Odd ""name" ("a ""b" VARCHAR, row_number BIGINT);
CREATE DATABASE IF NOT EXISTS "Void";
CREATE TABLE IF NOT EXISTS "Void".core_default_schema.empty (id BIGINT)`;

const rows = `
INSERT INTO shop.core_default_schema.orders SELECT i, CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'a"b\\c, é 😀
' ELSE 'x' || i END, i / 100, CASE i WHEN 7 THEN 'NaN' WHEN 8 THEN 'Infinity' ELSE 1 / (i + 1) END, 0.1 * i, i % 100, i * 7,
DATE '1900-02-28' + i::INTEGER, TIME '00:00:00.000001' + INTERVAL (i) SECOND, TIMESTAMP '2000-01-01 00:00:00.123456' + INTERVAL (i) HOUR,
i % 3 = 0, uuid() FROM range(20000) t(i);
INSERT INTO shop.other."Odd ""name" SELECT 'same', 1 FROM range(3)`;

const users = [
  { name: "ada", displayName: "Ada", description: 'a\0b\n"\\', mail: "ada@example.com", groupNames: ["staff", "All"] },
  { name: "zoë", displayName: "Zoë 😀", groupNames: ["staff"] },
].map((each) => ({ ...each, principalTypeEnum: "LOCAL_USER", password: `secret of ${each.name}` }));
const staff = { name: "staff", displayName: "Staff", groupNames: ["All"], principalTypeEnum: "LOCAL_GROUP" };

test("everything in a data folder is in PostgreSQL afterwards, and the service goes on there", async () => {
  const data = join(folder, "data");
  const definition = join(folder, "tables.sql");
  await writeFile(definition, tables);
  const embedded = { data, service: { tables: definition } };
  const config = join(folder, "rollcall.yaml");
  await writeFile(
    config,
    JSON.stringify({ service: { listen: "127.0.0.1:0", data, administrator, tables: definition } }),
  );
  const url = await server.createDatabase();
  const copy = (...more: string[]): ReturnType<typeof rollcall> =>
    rollcall(["engine", "copy", "--config", config, "--to", url, ...more]);

  const first = await startService(embedded);
  const session = await login(first.url);
  const principals = JSON.stringify([...users, staff]);
  const synced = await post(`${first.url}/tspublic/v1/user/sync`, { principals, applyChanges: "true" }, { session });
  expect(synced.status, synced.text).toBe(200);
  expect(await rollcall(["sql", "--config", config, "-d", "shop", rows])).toMatchObject({ code: 0 });
  const list = async (at: string, by: string): Promise<unknown> =>
    JSON.parse((await call(`${at}/tspublic/v1/user/list`, { session: by })).text);
  const before = await list(first.url, session);
  // While it runs, its folder cannot be copied.
  const beside = await copy();
  expect(beside.code).toBe(1);
  expect(beside.stderr).toContain("is using the data folder");
  await first.stop();

  // Without a copy, the users would be gone.
  const alone = await failToStart({ data, service: { engine: { postgres: url } } });
  expect(alone.stdout + alone.stderr).toMatch(/copy them with `.*rollcall\S* engine copy --config \S+`/);
  const wrong = await rollcall(["engine", "copy", "--config", config, "--to", "postgres://:secret-of-it@host/"]);
  expect(wrong.code).toBe(1);
  expect(wrong.stderr).toContain("--to: expected a URL like postgres://");
  expect(wrong.stderr).not.toContain("secret-of-it");

  const copied = await copy("--json");
  expect(copied.code, copied.stdout + copied.stderr).toBe(0);
  const parts = new Map(
    (JSON.parse(copied.stdout).copied as { what: string; rows: number }[]).map((part) => [part.what, part.rows]),
  );
  expect(Object.fromEntries(parts)).toEqual({
    "Void.core_default_schema.empty": 0,
    "shop.core_default_schema.orders": 20_000,
    'shop.other.Odd "name': 3,
    groups: 3,
    users: 3,
    sessions: 1,
    known_addresses: 1,
    ended_loads: 0,
  });
  const authority = await makeAuthority();
  const NODE_EXTRA_CA_CERTS = join(folder, "ca.pem");
  await writeFile(NODE_EXTRA_CA_CERTS, authority.cert);
  await server.encrypt(await makeCertificate({ ip: ["127.0.0.1"] }, { issuer: authority }));
  const again = await copy();
  expect(again.code).toBe(1);
  expect(again.stderr).toContain("has 3 users already");

  await writeFile(definition, "");
  // The service may have the password and the authority from the environment; its databases are in another process.
  const postgres = `${url.replace(/:[^:@/]+@/, "@")}?sslmode=verify-full`;
  const PGPASSWORD = new URL(url).password;
  const unnamed = await failToStart({ data, service: { engine: { postgres } }, env: { NODE_EXTRA_CA_CERTS } });
  expect(unnamed.stdout + unnamed.stderr).toMatch(/asks for a password, and there is none: write it into the URL/);
  const moved = await startService({
    data,
    service: { engine: { postgres } },
    env: { PGPASSWORD, NODE_EXTRA_CA_CERTS },
  });
  try {
    // The session, the users with their times and passwords, and the tables are the same.
    expect(await list(moved.url, session)).toEqual(before);
    await login(moved.url, { name: "zoë", password: "secret of zoë" });
  } finally {
    await moved.stop();
  }
  const client = await server.connect(new URL(url).pathname.slice(1));
  const { rows: sums } = await client.query(
    `SELECT count(*) AS all, sum(price) AS sum, count(place) AS known, max(moment)::text, min(day)::text FROM shop.orders`,
  );
  await client.end();
  expect(sums).toEqual([
    { all: "20000", sum: "1999900.00", known: "15000", max: "2002-04-13 07:00:00.123456", min: "1900-02-28" },
  ]);
});
