import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Agent } from "undici";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { into, loadingOf } from "../e2e/interface/loading.ts";
import { pinboard, pinboardOf, visualization } from "../e2e/interface/pinboards.ts";
import { group, list, sync, user } from "../e2e/interface/principals.ts";
import { startPostgres } from "../support/postgres.ts";
import type { PostgresServer } from "../support/postgres.ts";
import { call, login, post, startService } from "../support/rollcall/service.ts";
import type { Answer, TestService } from "../support/rollcall/service.ts";

/** Three processes of one configuration on one PostgreSQL, all of them started for the first time at the same moment. */

const tables = `
CREATE SCHEMA IF NOT EXISTS d;
CREATE TABLE IF NOT EXISTS d.t (id bigint PRIMARY KEY, name text);
CREATE INDEX IF NOT EXISTS t_name ON d.t (name);
ALTER TABLE d.t ADD COLUMN IF NOT EXISTS more text;
CREATE OR REPLACE VIEW d.v AS SELECT id FROM d.t;
CREATE OR REPLACE FUNCTION d.wait() RETURNS integer LANGUAGE plpgsql AS
  $$ BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN 1; END $$;
`;

let server: PostgresServer;
let folder: string;
let url: string;
let replicas: readonly TestService[];
let administrator: { name: string; password: string };
/** The administrator's. */
let session: string;

beforeAll(async () => {
  server = await startPostgres();
  folder = await mkdtemp(join(tmpdir(), "rollcall-replicas-"));
  await writeFile(join(folder, "tables.sql"), tables);
  await mkdir(join(folder, "pinboards"));
  await writeFile(join(folder, "pinboards", "test.yaml"), pinboardOf(["SELECT count(*) AS n, d.wait() AS w FROM t"]));
  url = await server.createDatabase();
  const service = {
    engine: { postgres: url },
    tables: join(folder, "tables.sql"),
    pinboards: join(folder, "pinboards"),
    loads: { minFreeDisk: "1MiB" },
    administrator: { name: "admin" },
    logins: { attempts: 4 },
  };
  replicas = await Promise.all([1, 2, 3].map(() => startService({ service })));
  const printed = (): string[] =>
    replicas.flatMap(({ running }) => /The password of admin is (\S+)/.exec(running.output())?.[1] ?? []);
  await Promise.race(replicas.map(({ running }) => running.wrote("The password of admin is ")));
  administrator = { name: "admin", password: printed()[0] ?? "" };
  session = await login(urlOf(0), administrator);
});
afterAll(async () => {
  await Promise.all(replicas.map((replica) => replica.stop()));
  await server.stop();
  await rm(folder, { recursive: true });
});

const urlOf = (index: number): string => replicas[index % 3]?.url ?? "";

describe("0.5, 0.6: a second after one process has answered, the others know", () => {
  const statuses = (of: string): Promise<readonly number[]> =>
    Promise.all([0, 1, 2].map(async (index) => (await list(urlOf(index), of)).status));

  test("that a session was opened and ended", async () => {
    const own = await login(urlOf(1), administrator);
    expect(await statuses(own)).toEqual([200, 200, 200]);
    await call(`${urlOf(2)}/tspublic/v1/session/logout`, { method: "POST", session: own });
    await delay(1_000);
    expect(await statuses(own)).toEqual([401, 401, 401]);
  });

  test("which groups a user is in, and that there is no such user any more", async () => {
    await sync(urlOf(0), session, [user("ada")]);
    const own = await login(urlOf(1), { name: "ada", password: "ada's password" });
    expect(await statuses(own)).toEqual([403, 403, 403]);
    await sync(urlOf(1), session, [user("ada", ["inner"]), group("inner", ["Administrator"]), group("Administrator")]);
    expect(await statuses(own)).toEqual([200, 200, 200]);
    await sync(urlOf(2), session, [user("ada")]);
    expect(await statuses(own)).toEqual([403, 403, 403]);
    await sync(urlOf(0), session, [user("ben")]);
    expect(await statuses(own)).toEqual([401, 401, 401]);
  });
});

describe("0.8: failed logins count together", () => {
  const logIn = (index: number, from: string, name: string, password: string): Promise<Answer> =>
    post(
      `${urlOf(index)}/tspublic/v1/session/login`,
      { username: name, password },
      { dispatcher: new Agent({ localAddress: from }) },
    );

  test("guesses at three processes are no more than guesses at one", async () => {
    const answers = await Promise.all(
      Array.from({ length: 24 }, (_, index) => logIn(index, "127.0.0.2", "admin", "wrong")),
    );
    const counts = [401, 429].map((status) => answers.filter((answer) => answer.status === status).length);
    expect(counts).toEqual([4, 20]);
    for (const index of [0, 1, 2]) {
      const refused = await logIn(index, "127.0.0.2", administrator.name, administrator.password);
      expect(refused.status).toBe(429);
      expect(Number(refused.headers["retry-after"])).toBeLessThanOrEqual(300);
      expect((await logIn(index, "127.0.0.3", administrator.name, administrator.password)).status).toBe(204);
    }
  });

  test("who has logged in from an address at one process is not refused at another for what others try from there", async () => {
    expect((await logIn(0, "127.0.0.4", administrator.name, administrator.password)).status).toBe(204);
    await Promise.all(Array.from({ length: 50 }, (_, index) => logIn(index, "127.0.0.4", `name ${index}`, "wrong")));
    expect((await logIn(1, "127.0.0.4", "ben", "ben's password")).status).toBe(429);
    expect((await logIn(1, "127.0.0.4", administrator.name, administrator.password)).status).toBe(204);
  });
});

test("a pinboard asked for a second after a load at another process shows it, though the same query is still running", async () => {
  const client = await server.connect(new URL(url).pathname.slice(1));
  await client.query("SELECT pg_advisory_lock(42)");
  const ask = async (): Promise<unknown> => {
    const query = new URLSearchParams({ id: pinboard, vizid: visualization(0) });
    const { text } = await call(`${urlOf(1)}/tspublic/v1/pinboarddata?${query.toString()}`, { session });
    return JSON.parse(text)[visualization(0)]?.data ?? text;
  };
  const running = async (): Promise<unknown> =>
    (await client.query("SELECT count(*)::integer AS n FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"))
      .rows[0];
  const before = ask();
  await expect.poll(running).toEqual({ n: 1 });
  const status = await loadingOf(urlOf(0), session).load(into("t"), "1,a,\n2,b,\n");
  expect(status.status.code).toBe("OK");
  await delay(1_000);
  const after = [ask(), ask()];
  await expect.poll(running).toEqual({ n: 3 });
  await client.query("SELECT pg_advisory_unlock(42)");
  expect(await before).toEqual([[0, 1]]);
  expect(await Promise.all(after)).toEqual([[[2, 1]], [[2, 1]]]);
  await client.end();
});
