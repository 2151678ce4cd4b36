import { pino } from "pino";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { Postgres } from "#postgres/database.ts";
import { migrate } from "#postgres/migrations.ts";
import { openPostgresRecords, recordsSchema } from "#service/records.ts";
import type { Records } from "#service/records.ts";
import { Sessions } from "#service/session/sessions.ts";
import { startPostgres } from "../../support/postgres.ts";
import type { PostgresServer } from "../../support/postgres.ts";

/** Sessions of two processes on one PostgreSQL. */

const minute = 60_000;
const ada = { id: "1", name: "ada" };
const clock = { time: 1_700_000_000_000 };
let server: PostgresServer;
let postgres: Postgres;
let records: Records;

beforeAll(async () => {
  server = await startPostgres();
  postgres = await Postgres.open({ postgres: await server.createDatabase(), poolSize: 4, statementTimeout: minute });
  await migrate(postgres, [recordsSchema]);
  records = { ...(await openPostgresRecords(postgres)), now: () => clock.time };
});
afterAll(async () => {
  records.close();
  await postgres.close();
  await server.stop();
});

const open = (): Promise<Sessions> =>
  Sessions.open({ records, idle: 60 * minute, remembered: 600 * minute, log: pino({ enabled: false }) });

test("0.5 a session that one process has just seen does not end at another that does not know it yet", async () => {
  const [first, second] = [await open(), await open()];
  const token = await first.open(ada, { remembered: false });
  clock.time += minute - 1;
  expect(await first.find(token)).toEqual(ada);
  clock.time += 60 * minute - 1;
  // The second knows of the login only, and tidies up.
  expect(await second.find(token, false)).toEqual(ada);
  await second.close();
  await first.close();
  const third = await open();
  expect(await third.find(token, false)).toEqual(ada);
  clock.time += 2 * minute + 1;
  expect(await third.find(token)).toBeUndefined();
  await third.close();
  expect(await postgres.rows("SELECT FROM rollcall.sessions")).toEqual([]);
});

test("0.5 a remembered session ends at its time, wherever it is used", async () => {
  const [first, second] = [await open(), await open()];
  const token = await first.open(ada, { remembered: true });
  clock.time += 600 * minute - 1;
  expect(await second.find(token)).toEqual(ada);
  clock.time += 1;
  for (const sessions of [first, second]) expect(await sessions.find(token)).toBeUndefined();
  await first.close();
  await second.close();
});

test("the database's clock counts, however wrong that of a machine is", async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 60 * minute });
  try {
    const opened = await openPostgresRecords(postgres);
    const [row] = await postgres.rows<{ now: bigint }>("SELECT (extract(epoch FROM now()) * 1000)::bigint AS now");
    expect(Math.abs(opened.now() - Number(row?.now))).toBeLessThan(10 * minute);
    opened.close();
  } finally {
    vi.useRealTimers();
  }
});
