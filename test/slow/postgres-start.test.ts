import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { startPostgres } from "../support/postgres.ts";
import type { PostgresServer } from "../support/postgres.ts";
import { startProxy } from "../support/proxy.ts";
import { everyThird } from "../support/random.ts";
import { startRollcall } from "../support/rollcall/rollcall.ts";
import type { Running } from "../support/rollcall/rollcall.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());

/** Starts a program that has everything in a database, or only its state (`daemon`) or only its users and tables (`service`). */
async function begin(url: string, only?: "service" | "daemon"): Promise<Running> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-start-"));
  await writeFile(
    join(folder, "rollcall.yaml"),
    `service: { listen: 127.0.0.1:0, data: data, engine: { postgres: "${url}" } }
daemon: { state: postgres }
targets: { analytics: embedded }
sources: { company: { connector: csv, users: { file: people.csv, id: id } } }
syncs: { staff: { from: [company], to: analytics, users: { name: entry.id, displayName: entry.id } } }
`,
  );
  await writeFile(join(folder, "people.csv"), "id\n1\n");
  const running = startRollcall(["start", ...(only === undefined ? [] : ["--only", only])], { cwd: folder });
  onTestFinished(async () => {
    running.process.kill("SIGKILL");
    await running.ended;
    await rm(folder, { recursive: true, force: true });
  });
  return running;
}

/** What says that it runs. */
const up = { all: /now runs the schedules/, service: "the service is listening" } as const;

test.for(["service", "daemon", undefined] as const)(
  "a start while PostgreSQL lets nobody in any more waits until it is back (%s)",
  async (only) => {
    const url = await server.createDatabase();
    const client = await server.connect();
    // What the server tells a client that it ends.
    client.on("error", () => undefined);
    const halted = server.halt("SIGTERM");
    const running = await begin(url, only);
    await delay(4_000);
    await client.end();
    await halted;
    await delay(1_000);
    await server.start();
    await running.wrote(only === "service" ? up.service : up.all);
    running.process.kill("SIGTERM");
    expect((await running.ended).code).toBe(0);
  },
);

test("a start during which PostgreSQL is restarted, at any of its statements, goes on", async () => {
  /** What the program sent before it was up, in parts; and at which of them the server is restarted. */
  const run = async (only: "service" | "daemon", point?: number): Promise<number> => {
    const url = await server.createDatabase();
    let count = 0;
    let isUp = false;
    let restarted: Promise<void> | undefined;
    const proxy = await startProxy(url, {
      before: async () => {
        if (isUp) return;
        count += 1;
        if (count !== point) return;
        restarted = server.halt().then(() => server.start());
        await restarted;
      },
    });
    const through = url.replace(/@[^/]*/, `@${new URL(proxy.url).host}`);
    const running = await begin(through, only);
    await running.wrote(only === "service" ? up.service : up.all);
    isUp = true;
    await restarted;
    running.process.kill("SIGTERM");
    expect((await running.ended).code).toBe(0);
    await proxy.close();
    return count;
  };
  for (const only of ["service", "daemon"] as const) {
    const all = await run(only);
    const points = Array.from({ length: all }, (_, index) => index + 1);
    for (const point of everyThird(everyThird(points))) await run(only, point);
  }
});
