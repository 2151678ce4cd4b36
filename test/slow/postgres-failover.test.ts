import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { noPatroni, startPatroni } from "../support/patroni.ts";
import type { Failover, PatroniCluster } from "../support/patroni.ts";
import { startPgBouncer } from "../support/pgbouncer.ts";
import { cases, random } from "../support/random.ts";
import { board, Clients, rowsPerLoad, tables } from "../support/rollcall/clients.ts";
import { login, startService } from "../support/rollcall/service.ts";
import type { TestService } from "../support/rollcall/service.ts";

const absent = await noPatroni();

/** ROLLCALL_TEST_RUNS=5 adds four rounds with every kind, in an order that the seed decides. */
const rounds: readonly (readonly Failover[])[] = [
  ["kill", "switchover"],
  ...Array.from({ length: cases(1) - 1 }, () => shuffled(["kill", "switchover", "lose", "hang"])),
];

function shuffled(kinds: readonly Failover[]): Failover[] {
  const places = new Map(kinds.map((kind) => [kind, random()]));
  return kinds.toSorted((a, b) => (places.get(a) ?? 0) - (places.get(b) ?? 0));
}

describe.skipIf(absent !== undefined)(`PostgreSQL with Patroni (${absent ?? "15"})`, () => {
  let cluster: PatroniCluster;
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "rollcall-failover-"));
    cluster = await startPatroni();
  });
  afterAll(async () => {
    await cluster.stop();
    await rm(folder, { recursive: true });
  });

  const start = async (name: string, url: string): Promise<TestService> => {
    const place = join(folder, name);
    await mkdir(join(place, "pinboards"), { recursive: true });
    await writeFile(join(place, "tables.sql"), tables);
    await writeFile(join(place, "pinboards", "board.yaml"), board);
    return startService({
      data: join(place, "data"),
      service: {
        engine: { postgres: url },
        tables: join(place, "tables.sql"),
        pinboards: join(place, "pinboards"),
        loads: { minFreeDisk: "1MiB" },
      },
    });
  };

  test("services go on through failovers, and what they said is true", async () => {
    const behind = await cluster.createDatabase();
    const bouncer = await startPgBouncer(behind);
    onTestFinished(bouncer.stop);
    const ways = {
      haproxy: await cluster.createDatabase(),
      "pgbouncer before haproxy": bouncer.through(behind),
      "all hosts in the URL": cluster.direct(await cluster.createDatabase()),
    };
    const services = await Promise.all(
      Object.entries(ways).map(async ([way, url], index) => {
        const service = await start(String(index), url);
        onTestFinished(service.kill);
        const clients = new Clients(service.url, await login(service.url));
        const work = Promise.all([clients.load(), clients.sync(), clients.login(), clients.query()]);
        work.catch(() => undefined);
        return { way, database: new URL(url.replace(/,[^/]*/, "")).pathname.slice(1), service, clients, work };
      }),
    );
    // A client that finds something wrong ends the test at once.
    const working = (): Promise<unknown> =>
      Promise.race([
        Promise.all(services.map(({ clients }) => clients.working())),
        ...services.map(({ way, service, work }) =>
          work.catch((cause: unknown) => {
            const log = service.running.output().split("\n");
            const errors = log.filter((line) => /"level":"(?:warn|error)"/.test(line)).slice(-5);
            throw new Error(`${way}: ${String(cause)}\n${errors.join("\n")}`, { cause });
          }),
        ),
      ]);
    await working();
    for (const [nth, how] of rounds.flat().entries()) {
      if (nth > 0) await cluster.restore();
      await cluster.failover(how);
      await working();
    }
    for (const { clients } of services) clients.end();
    for (const { way, database, service, clients, work } of services) {
      const [loaded] = await work;
      // Nobody noticed any of it.
      expect(clients.errors, way).toEqual([]);
      const client = await cluster.connect(database);
      const loads = async (table: string): Promise<unknown> => {
        const sql = `SELECT load::integer AS load, count(*)::integer AS rows FROM d.${table} GROUP BY load ORDER BY load`;
        return (await client.query(sql)).rows;
      };
      expect(await loads("plain"), way).toEqual(loaded.plain.map((load) => ({ load, rows: rowsPerLoad })));
      expect(await loads("keyed"), way).toEqual([{ load: loaded.keyed.at(-1), rows: rowsPerLoad }]);
      await client.end();
      await service.stop();
    }
  });
});
