import pino from "pino";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { openDatabase } from "#duckdb/database.ts";
import type { Database } from "#duckdb/database.ts";
import { openEmbeddedRecords } from "#service/records.ts";
import type { Records } from "#service/records.ts";
import { Sessions } from "#service/session/sessions.ts";

const hour = 3_600_000;
const ada = { id: "1", name: "ada" };
let database: Database;
let records: Records;

function open(): Promise<Sessions> {
  return Sessions.open({ records, idle: 3 * hour, remembered: 168 * hour, log: pino({ enabled: false }) });
}

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: 1_700_000_000_000 });
  database = await openDatabase({ path: ":memory:", memory: 128 * 2 ** 20, spill: "" });
  records = await openEmbeddedRecords(database);
});

afterEach(() => {
  records.close();
  database.close();
  vi.useRealTimers();
});

describe("0.5", () => {
  test("a session ends after the idle time, counted from its last use", async () => {
    const sessions = await open();
    const token = await sessions.open(ada, { remembered: false });
    for (let use = 0; use < 5; use++) {
      vi.setSystemTime(Date.now() + 3 * hour - 1);
      expect(await sessions.find(token)).toEqual(ada);
    }
    vi.setSystemTime(Date.now() + 3 * hour);
    expect(await sessions.find(token)).toBeUndefined();
    await sessions.close();
  });

  test("a page that asks by itself sees the session, and does not prolong it", async () => {
    const sessions = await open();
    const token = await sessions.open(ada, { remembered: false });
    for (let asked = 0; asked < 3; asked++) {
      vi.setSystemTime(Date.now() + hour - 1);
      expect(await sessions.find(token, false)).toEqual(ada);
    }
    vi.setSystemTime(Date.now() + 3);
    expect(await sessions.find(token, false)).toBeUndefined();
    expect(await sessions.find(token)).toBeUndefined();
    await sessions.close();
  });

  test("a remembered session ends seven days after the login", async () => {
    const sessions = await open();
    const token = await sessions.open(ada, { remembered: true });
    vi.setSystemTime(Date.now() + 168 * hour - 1);
    expect(await sessions.find(token)).toEqual(ada);
    vi.setSystemTime(Date.now() + 1);
    expect(await sessions.find(token)).toBeUndefined();
    await sessions.close();
  });

  test("sessions survive being closed and opened again, and their last use too", async () => {
    const first = await open();
    const token = await first.open(ada, { remembered: false });
    vi.setSystemTime(Date.now() + 2 * hour);
    await first.find(token);
    await first.close();
    vi.setSystemTime(Date.now() + 2 * hour);
    const second = await open();
    expect(await second.find(token)).toEqual(ada);
    await second.close();
    vi.setSystemTime(Date.now() + 3 * hour);
    const third = await open();
    expect(await third.find(token)).toBeUndefined();
    await third.close();
  });

  test("a session survives when nothing was closed", async () => {
    const first = await open();
    const token = await first.open(ada, { remembered: false });
    const second = await open();
    expect(await second.find(token)).toEqual(ada);
    await first.close();
    await second.close();
  });

  test("a session that was ended stays ended", async () => {
    const first = await open();
    const token = await first.open(ada, { remembered: true });
    const other = await first.open(ada, { remembered: true });
    await first.end(token);
    expect(await first.find(token)).toBeUndefined();
    expect(await first.find(other)).toEqual(ada);
    await first.close();
    const second = await open();
    expect(await second.find(token)).toBeUndefined();
    expect(await second.find(other)).toEqual(ada);
    await second.close();
  });

  test("many log in and out at the same time, while last uses are stored", async () => {
    const first = await open();
    const tokens = await Promise.all(Array.from({ length: 60 }, () => first.open(ada, { remembered: false })));
    const [leaving, staying] = [tokens.slice(0, 40), tokens.slice(40)];
    await Promise.all(tokens.map((token) => first.find(token)));
    const [, later] = await Promise.all([
      first.close(),
      first.open(ada, { remembered: false }),
      ...leaving.map((token) => first.end(token)),
    ]);
    const second = await open();
    const found = async (token: string): Promise<boolean> => (await second.find(token)) !== undefined;
    expect(await Promise.all(leaving.map(found))).toEqual(leaving.map(() => false));
    expect(await Promise.all([...staying, later].map(found))).toEqual(Array.from({ length: 21 }, () => true));
    await second.close();
  });

  test("a user ends no session but their own: of more than a thousand, those not used for the longest", async () => {
    const first = await open();
    const eve = { id: "2", name: "eve" };
    const others = await first.open(ada, { remembered: false });
    const [used, unused] = [await first.open(eve, { remembered: false }), await first.open(eve, { remembered: true })];
    vi.setSystemTime(Date.now() + 1);
    await first.find(used);
    for (let count = 0; count < 999; count++) await first.open(eve, { remembered: false });
    const found = async (sessions: Sessions): Promise<boolean[]> =>
      Promise.all([others, used, unused].map(async (token) => (await sessions.find(token, false)) !== undefined));
    expect(await found(first)).toEqual([true, true, false]);
    expect(first.count()).toBe(1001);
    await first.close();
    const second = await open();
    expect(await found(second)).toEqual([true, true, false]);
    await second.close();
  });

  test("a local session outlasts idleness and logout, but not the process", async () => {
    const first = await open();
    const token = first.openLocal(ada);
    vi.setSystemTime(Date.now() + 1000 * hour);
    await first.end(token);
    expect(await first.find(token)).toEqual(ada);
    await first.close();
    const second = await open();
    expect(await second.find(token)).toBeUndefined();
    await second.close();
  });

  test("the table holds neither tokens nor sessions that have ended", async () => {
    const first = await open();
    const token = await first.open(ada, { remembered: false });
    const connection = await database.connect();
    const [row] = await connection.rows("SELECT * FROM sessions");
    expect(JSON.stringify(row, (_key, value: unknown) => String(value))).not.toContain(token);
    vi.setSystemTime(Date.now() + 4 * hour);
    await first.close();
    expect(await connection.rows("SELECT * FROM sessions")).toEqual([]);
    connection.close();
  });
});

test("0.4 a token has no `=` and no two are alike", async () => {
  const sessions = await open();
  const tokens = await Promise.all(Array.from({ length: 50 }, () => sessions.open(ada, { remembered: false })));
  expect(new Set(tokens).size).toBe(50);
  for (const token of tokens) expect(token).toMatch(/^[\w-]{43}$/);
  await sessions.close();
});
