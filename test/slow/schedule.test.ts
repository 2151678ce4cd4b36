import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { RunRecord, SyncState } from "#state/record.ts";
import { companyOfEachTest } from "../support/rollcall/company.ts";
import { startProxy } from "../support/proxy.ts";
import { stopRollcall } from "../support/rollcall/rollcall.ts";
import { call, startService } from "../support/rollcall/service.ts";

const company = companyOfEachTest();
const { start } = company;

async function journal(): Promise<{ runs: readonly RunRecord[]; state: SyncState }> {
  const text = await readFile(join(company.folder, "data", "daemon", "journal.json"), "utf8");
  const { runs, syncs } = JSON.parse(text) as { runs: RunRecord[]; syncs: Record<string, SyncState> };
  return { runs, state: syncs["staff"]! };
}

/** The causes of all runs so far. */
async function causes(): Promise<string[]> {
  return (await journal()).runs.map(({ cause }) => cause);
}

test("a sync runs at its slots; a restart with nothing missed runs nothing", async () => {
  const first = start();
  await first.wrote("applied and verified");
  await stopRollcall(first);
  for (let restart = 0; restart < 2; restart++) {
    const next = start();
    await next.wrote(/sync staff: its next slot is at \d{4}-01-01T/);
    await stopRollcall(next);
  }
  expect(await causes()).toEqual(["start"]);
  await company.configure((yaml) => yaml.replace('"0 0 1 1 *"', '"* * * * * *"'));
  const fast = start("--verbose");
  await fast.wrote(/sync staff: no change \(.*sync staff: no change \(/s);
  await stopRollcall(fast);
  expect((await causes()).slice(-1)).toEqual(["schedule"]);
});

/** Slots so far apart that none comes while a test runs. */
const monthly = '"0 0 1 * *"';
const days = (count: number): number => count * 86_400_000;

test("slots that were missed while it was down are made up for by one run", async () => {
  await company.configure((yaml) => yaml.replace('"0 0 1 1 *"', '"* * * * * *"'));
  const first = start();
  await first.wrote("applied and verified");
  await stopRollcall(first);
  const before = await causes();
  await company.configure((yaml) => yaml.replace('"* * * * * *"', monthly));
  const { state } = await journal();
  await rewind(state, days(70));
  const second = start();
  await second.wrote("no change");
  await stopRollcall(second);
  expect(await causes()).toEqual([...before, "catch-up"]);
});

test("with `catchUp: false` a missed slot is recorded, and nothing runs", async () => {
  const first = start();
  await first.wrote("applied and verified");
  await stopRollcall(first);
  await company.configure((yaml) => yaml.replace('"0 0 1 1 *"', `${monthly}\n    catchUp: false`));
  await rewind((await journal()).state, days(70));
  const second = start();
  await second.wrote("was skipped");
  await stopRollcall(second);
  expect(await causes()).toEqual(["start"]);
  expect((await journal()).state.skipped).toHaveLength(1);
});

/** Makes the journal of a daemon that is down believe that its last slot was so long ago. */
async function rewind(state: SyncState, milliseconds: number): Promise<void> {
  const file = join("data", "daemon", "journal.json");
  const text = await readFile(join(company.folder, file), "utf8");
  const lastSlotAt = new Date(Date.now() - milliseconds).toISOString();
  expect(state.lastSlotAt).toBeDefined();
  await company.write(file, text.replaceAll(state.lastSlotAt!, lastSlotAt));
}

test("a slot that comes while a run is under way is skipped, recorded and said", async () => {
  await company.write("slow.ts", slowConnector);
  await company.configure((yaml) =>
    yaml
      .replace('"0 0 1 1 *"', '"* * * * * *"')
      .replace(/connector: csv\n(?: {4}.*\n)+/, "connector: ./slow.ts\n")
      .replace(/ {4}groups:\n(?: {6}.*\n)+/, ""),
  );
  const daemon = start();
  await daemon.wrote(/the slot of \S+ was skipped: the previous run is still running/);
  await daemon.wrote("no change (");
  await stopRollcall(daemon);
  const { runs, state } = await journal();
  expect(runs[0]?.state).toBe("no change");
  expect(state.skipped.length).toBeGreaterThan(0);
});

const slowConnector = `
import { setTimeout as delay } from "node:timers/promises";
import { z } from ${JSON.stringify(import.meta.resolve("zod"))};
export default {
  name: "slow",
  options: z.strictObject({}),
  open: () => ({
    async *read() {
      await delay(3000);
    },
  }),
};
`;

test("a run that fails is tried again, given up, and recovers by itself when the target is back", async () => {
  await using service = await startService();
  const proxy = await startProxy(service.url);
  onTestFinished(() => proxy.close());
  proxy.cut();
  const { name, password } = service.administrator;
  await company.configure((yaml) =>
    yaml
      .replace(
        "analytics: embedded",
        `analytics: { url: "${proxy.url}", username: ${name}, password: ${JSON.stringify(password)} }`,
      )
      .replace('"0 0 1 1 *"', '"0 0 1 1 *"\n    retries: { attempts: 2, first: 1s, most: 1s }'),
  );
  const daemon = start("--only", "daemon");
  await daemon.wrote(/next attempt at.*next attempt at/s);
  await daemon.wrote("failed 3 times in a row; the next attempt is at the next slot");
  expect(await causes()).toEqual(["start", "retry", "retry"]);
  await company.configure((yaml) => yaml.replace("attempts: 2", "attempts: 100"));
  daemon.process.kill("SIGHUP");
  await daemon.wrote("the configuration was reloaded");
  daemon.process.kill("SIGUSR1");
  await daemon.wrote(/at the next slot.*next attempt at/s);
  proxy.forward(service.url);
  await daemon.wrote("applied and verified");
  await stopRollcall(daemon);
  expect((await causes()).slice(0, 4)).toEqual(["start", "retry", "retry", "demand"]);
  expect((await journal()).runs.at(-1)).toMatchObject({ cause: "retry", state: "applied" });
});

test("a failure that trying again would not help is not tried again", async () => {
  await company.configure((yaml) => yaml.replace("file: people.csv, id: id", "file: people.csv, id: nothing"));
  const daemon = start();
  await daemon.wrote("no retry before its next slot");
  await stopRollcall(daemon);
  expect(await causes()).toEqual(["start"]);
});

test("a sync without a success for too long is overdue: said once, over restarts, and /readyz says so until the next", async () => {
  await company.configure((yaml) =>
    yaml.replace('"0 0 1 1 *"', '"0 0 1 1 *"\n    overdueAfter: 1s').replace("file: people.csv", "file: nobody.csv"),
  );
  const first = start();
  await first.wrote(/no run has succeeded since/);
  const { url } = JSON.parse(await readFile(join(company.folder, "data", "service.json"), "utf8"));
  const failing = await call(`${url}/readyz`);
  expect(failing.status).toBe(503);
  expect(JSON.parse(failing.text)).toMatchObject({ reasons: ["no success for too long: staff"] });
  await stopRollcall(first);
  const { overdueSince } = (await journal()).state;
  await company.configure((yaml) =>
    yaml.replace("nobody.csv", "people.csv").replace("overdueAfter: 1s", "overdueAfter: 1h"),
  );
  const second = start();
  await second.wrote("applied and verified");
  const again = JSON.parse(await readFile(join(company.folder, "data", "service.json"), "utf8"));
  expect((await call(`${again.url}/readyz`)).status).toBe(200);
  await stopRollcall(second);
  expect(overdueSince).toBeDefined();
  expect((await journal()).state.overdueSince).toBeUndefined();
});
