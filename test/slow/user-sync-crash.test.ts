import { mkdir, writeFile, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { group, user } from "../e2e/interface/principals.ts";
import { startAdministration } from "../e2e/interface/syncing.ts";
import { random } from "../support/random.ts";

const size = 2_000;
const rounds = 6;

let data: string;

beforeAll(async () => {
  data = await mkdtemp(join(tmpdir(), "rollcall-crash-"));
});

afterAll(() => rm(data, { recursive: true }));

/** A list in which everything is of one version: kept users and groups change, others come and go. */
function version(number: number): unknown[] {
  const description = `version ${number}`;
  const groups = [group("kept"), group(`group ${number}`)];
  const kept = Array.from({ length: size }, (_, index) => user(`kept ${index}`, ["kept", `group ${number}`]));
  const fresh = Array.from({ length: size }, (_, index) => user(`${index} of ${number}`, [`group ${number}`]));
  return [...groups, ...kept, ...fresh].map((principal) => ({ ...principal, description }));
}

test("B.8 a process that is killed in the middle of a sync has done all of it or nothing", async () => {
  const first = await startAdministration({ data });
  await first.apply(version(0), { defaultPassword: "x" });
  const started = performance.now();
  await first.apply(version(1), { defaultPassword: "x" });
  const duration = performance.now() - started;
  await first.service.kill();

  let current = 1;
  for (let round = 2; round < 2 + rounds; round++) {
    const running = await startAdministration({ data });
    const sync = running.apply(version(round), { defaultPassword: "x" }).then(
      () => "answered",
      () => "cut off",
    );
    await delay(random() * duration);
    await running.service.kill();
    const outcome = await sync;
    // What has spilled to disk may be anything.
    await mkdir(join(data, "service", "spill"), { recursive: true });
    await writeFile(join(data, "service", "spill", "duckdb_temp_storage_DEFAULT-0.tmp"), "half of a table");

    const after = await startAdministration({ data });
    const own = (await after.list()).filter(({ description }) => description !== undefined);
    const versions = new Set(own.map(({ description }) => description));
    const found = Number([...versions][0]?.slice("version ".length));
    expect(versions.size).toBe(1);
    expect(outcome === "answered" ? [round] : [current, round]).toContain(found);
    expect(own).toHaveLength(2 * size + 2);
    const names = new Set(own.map(({ name }) => name));
    for (const { groupNames } of own) for (const name of groupNames) expect(names.has(name)).toBe(true);
    expect(names.has(`group ${found}`)).toBe(true);
    for (const left of ["uploads", "spill"])
      expect(await readdir(join(data, "service", left)).catch(() => [])).toEqual([]);
    expect(await after.preview(version(found), { defaultPassword: "x" })).toMatchObject({
      usersAdded: [],
      usersUpdated: [],
    });
    current = found;
    await after.service.stop();
  }
}, 600_000);
