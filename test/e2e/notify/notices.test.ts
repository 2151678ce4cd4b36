import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { expect, test } from "vitest";
import { Notifications } from "#daemon/notifications.ts";
import { loadConfiguration } from "#config/load.ts";
import { literal } from "#duckdb/database.ts";
import { openMemory } from "../../support/duckdb.ts";
import { heldRun } from "../../support/notices.ts";
import { appliedRun } from "../../support/runs.ts";
import { answer, startScripted } from "../../support/scripted-server.ts";

test("another configuration takes over: nothing that happens meanwhile is lost or told twice", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-notices-"));
  const web = await startScripted({ "old/hook": answer(204), "new/hook": answer(204) });
  const file = join(folder, "rollcall.yaml");
  const configured = async (path: string) => {
    const channel = `by: webhook, url: "${web.url}/${path}/hook", secret: 0123456789abcdef`;
    await writeFile(file, `service:\nnotifications:\n  hook: { ${channel}, events: [held, applied] }\n`);
    return loadConfiguration(file, { connectors: [] });
  };
  const notices = await Notifications.open(await configured("old"), pino({ level: "silent" }));
  try {
    notices.listener({ type: "run", run: heldRun });
    await expect.poll(() => web.to("old/hook").length).toBe(1);
    const taken = notices.take(await configured("new"));
    notices.listener({ type: "run", run: heldRun });
    notices.listener({ type: "run", run: appliedRun({ id: "2" }) });
    await taken;
    notices.listener({ type: "run", run: appliedRun({ id: "3" }) });
    await expect.poll(() => web.to("new/hook").length).toBe(2);
    const runs = web.to("new/hook").map(({ body }) => JSON.parse(String(body)).notices[0].run);
    expect(runs).toEqual(["2", "3"]);
  } finally {
    await notices.close();
    await web.close();
    await rm(folder, { recursive: true });
  }
  expect(web.to("old/hook")).toHaveLength(1);
});

test("a channel with names: true is told some of who is in a plan, those to be deleted first", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-notices-"));
  const web = await startScripted({ "a/hook": answer(204) });
  const file = join(folder, "rollcall.yaml");
  const channel = `by: webhook, url: "${web.url}/a/hook", secret: 0123456789abcdef, names: true`;
  await writeFile(file, `service:\nnotifications:\n  hook: { ${channel} }\n`);
  const configuration = await loadConfiguration(file, { connectors: [] });
  await keepChanges(join(configuration.data, "daemon", "runs", heldRun.id));
  const notices = await Notifications.open(configuration, pino({ level: "silent" }));
  try {
    notices.listener({ type: "run", run: heldRun });
    // What is no longer kept keeps no notice back.
    notices.listener({ type: "run", run: appliedRun({ id: "gone", state: "pending", digest: "bb" }) });
    await expect.poll(() => web.arrived.length).toBe(2);
  } finally {
    await notices.close();
    await web.close();
    await rm(folder, { recursive: true });
  }
  const names = web.arrived.map(({ body }) => JSON.parse(String(body)).notices[0].names);
  expect(names[0]).toHaveLength(10);
  expect(names[0].slice(0, 3)).toEqual(["- user zoe", '+ user "ada 00"', '+ user "ada 01"']);
  expect(names[1]).toEqual([]);
});

async function keepChanges(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const { connection, close } = await openMemory();
  const side = (name: string): string =>
    `{ name: ${name}, display_name: 'x', description: NULL::VARCHAR, mail: NULL::VARCHAR, group_names: ['a'] }`;
  await connection.run(`COPY (
    SELECT 'delete' AS action, 'user' AS kind, 'zoe' AS name, ${side("'zoe'")} AS before, NULL AS after
    UNION ALL SELECT 'create', 'user', printf('ada %02d', n), NULL, ${side("printf('ada %02d', n)")} FROM range(20) r(n)
  ) TO ${literal(join(folder, "changes.parquet"))} (FORMAT parquet)`);
  close();
}
