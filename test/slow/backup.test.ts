import { cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { request } from "undici";
import { expect, onTestFinished, test } from "vitest";
import { rollcall } from "../support/rollcall/command.ts";
import { makeCompany, people } from "../support/rollcall/company.ts";
import type { CompanyFolder } from "../support/rollcall/company.ts";
import { startRollcall, stopRollcall } from "../support/rollcall/rollcall.ts";

const tables = `CREATE DATABASE IF NOT EXISTS hr;
CREATE TABLE IF NOT EXISTS hr.core_default_schema.batches (batch BIGINT, number BIGINT, word VARCHAR);`;

async function company(): Promise<CompanyFolder> {
  const made = await makeCompany((yaml) =>
    yaml.replace("data: data", "data: data\n  tables: tables.sql").replace("0 0 1 1 *", "*/2 * * * * *"),
  );
  await made.write("tables.sql", tables);
  onTestFinished(() => made.remove());
  return made;
}

/** How many rows each batch has. */
const rows = 20_000;

/** Writes batches one after the other, as commands on the machine may; each is a transaction. */
async function write(data: string, from: number, done: { batch: number }, signal: AbortSignal): Promise<void> {
  for (let batch = from; !signal.aborted; batch++) {
    const { url, session } = JSON.parse(await readFile(join(data, "service.json"), "utf8")) as Record<string, string>;
    const sql = `INSERT INTO hr.core_default_schema.batches SELECT ${batch}, range, uuid()::VARCHAR FROM range(${rows})`;
    const answer = await request(`${url}/local/sql`, {
      method: "POST",
      headers: { cookie: `JSESSIONID=${session}`, "content-type": "application/json" },
      body: JSON.stringify({ sql }),
    });
    expect(await answer.body.text(), String(answer.statusCode)).toContain("totalRowCount");
    done.batch = batch;
  }
}

/** Restores a backup into a folder of its own. @returns the last batch that is in it, and what it has of each */
async function restored(from: CompanyFolder, file: string): Promise<{ batches: number; last: number }> {
  const folder = `${file}.restored`;
  await mkdir(folder);
  for (const name of ["rollcall.yaml", "tables.sql", "people.csv", "groups.csv"])
    await cp(join(from.folder, name), join(folder, name));
  const config = join(folder, "rollcall.yaml");
  const run = (...args: readonly string[]) => rollcall([...args, "--config", config]);
  const made = await run("restore", file);
  expect(made.code, made.stdout + made.stderr).toBe(0);
  const sql = "SELECT count(DISTINCT batch), max(batch), count(*) FROM hr.core_default_schema.batches";
  const found = await run("sql", sql, "--json");
  const [[batches, last, count] = []] = (JSON.parse(found.stdout) as { rows: (string | number)[][] }).rows;
  expect(Number(count)).toBe(Number(batches) * rows);
  // Of everybody who was created since the first run, the daemon's state knows that it owns them: as if they had left.
  await writeFile(join(folder, "people.csv"), people);
  const plan = await run("plan", "--json");
  expect(JSON.parse(plan.stdout).runs[0].plan.counts.users.after, plan.stdout + plan.stderr).toBe(4);
  expect((await run("audit", "verify")).code).toBe(0);
  await rm(folder, { recursive: true });
  return { batches: Number(batches), last: Number(last) };
}

test("a backup while everything is at work has all that was there when it began, and every transaction whole", async () => {
  const made = await company();
  const data = join(made.folder, "data");
  const running = startRollcall(["start", "--config", made.config]);
  onTestFinished(() => void running.process.kill("SIGKILL"));
  await running.wrote("applied and verified");
  const stop = new AbortController();
  const done = { batch: 0 };
  const writing = write(data, 1, done, stop.signal);
  const changing = (async (): Promise<void> => {
    for (let person = 100; !stop.signal.aborted; person++) {
      await made.write(
        "people.csv",
        `${await readFile(join(made.folder, "people.csv"), "utf8")}${person},u${person},U ${person},,active,staff\n`,
      );
      await delay(500);
    }
  })();
  onTestFinished(async () => {
    stop.abort();
    await Promise.allSettled([writing, changing]);
  });
  for (let number = 0; number < 2; number++) {
    await delay(1500);
    const before = done.batch;
    const file = join(made.folder, `${number}.tar.zst`);
    const { code, stdout, stderr } = await rollcall(["backup", file, "--config", made.config]);
    expect(code, stdout + stderr).toBe(0);
    const { last, batches } = await restored(made, file);
    expect(batches).toBe(last);
    expect(last).toBeGreaterThanOrEqual(before);
  }
  // Whoever kills it leaves nothing under the name, and what runs goes on.
  for (const after of [300, 800]) {
    const killed = startRollcall(["backup", join(made.folder, "killed"), "--config", made.config]);
    await delay(after);
    killed.process.kill("SIGKILL");
    const { signal } = await killed.ended;
    if (signal === "SIGKILL") expect(await readdir(made.folder)).not.toContain("killed");
    await rm(join(made.folder, "killed"), { force: true });
  }
  const next = await rollcall(["backup", join(made.folder, "killed"), "--config", made.config]);
  expect(next.code, next.stderr).toBe(0);
  expect((await readdir(made.folder)).filter((name) => name.includes("partial"))).toEqual([]);
  stop.abort();
  await Promise.all([writing, changing]);
  const { code } = await stopRollcall(running);
  expect(code).toBe(0);
});

test("a service that is killed during a backup leaves a good backup or none", async () => {
  const made = await company();
  const data = join(made.folder, "data");
  for (const after of [300, 700]) {
    const running = startRollcall(["start", "--config", made.config]);
    onTestFinished(() => void running.process.kill("SIGKILL"));
    await running.wrote(/applied and verified|no change/);
    const stop = new AbortController();
    const done = { batch: 0 };
    const writing = write(data, after * 1000, done, stop.signal).catch(() => undefined);
    await delay(1000);
    const file = join(made.folder, `after-${after}`);
    const backup = startRollcall(["backup", file, "--config", made.config]);
    await delay(after);
    running.process.kill("SIGKILL");
    stop.abort();
    const { code, stdout, stderr } = await backup.ended;
    await writing;
    if (code === 0) await restored(made, file);
    else
      expect([stdout, stderr.length > 20, await readdir(made.folder)]).toEqual([
        "",
        true,
        expect.not.arrayContaining([file]),
      ]);
  }
});
