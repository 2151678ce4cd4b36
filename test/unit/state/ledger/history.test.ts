import fc from "fast-check";
import { beforeEach, expect, test } from "vitest";
import { serviceAttributes } from "#principals/attributes.ts";
import { tablesOf } from "#plan/tables.ts";
import { addHistory, createHistory, leavingSince, readHistory } from "#state/ledger/history.ts";
import { idAfter, laterTimes } from "#state/runs.ts";
import type { RunRecord } from "#state/record.ts";
import type { LimitCheck } from "#plan/limits.ts";
import { useConnection } from "../../../support/duckdb.ts";
import { cases } from "../../../support/random.ts";
import { endedRun } from "../../../support/runs.ts";

const connection = useConnection();
const tables = tablesOf(serviceAttributes);
const hour = 3_600_000;
const day = 24 * hour;
const year = 365 * day;
const start = Date.UTC(2026, 10, 21);

async function createLedger(): Promise<void> {
  await connection().run("DETACH DATABASE IF EXISTS owned; ATTACH ':memory:' AS owned");
  await createHistory(connection());
}
beforeEach(createLedger);

interface Given {
  readonly later?: readonly number[];
  readonly gone?: readonly string[];
  readonly deleted?: number;
  readonly size?: number;
  readonly checks?: readonly LimitCheck[];
  /** Groups that lose a member, and whether that is more than they may lose. */
  readonly losing?: Readonly<Record<string, boolean>>;
}

/** A run that finds out who is gone, and since when, and writes it down. */
async function run(now: number, { later, gone = [], deleted = 0, size = 100, checks = [], losing = {} }: Given = {}) {
  for (const table of ["leaving_since", "lost_recently", "gone", "frozen", "desired", "group_loss"] as const)
    await connection().run(`CREATE OR REPLACE TEMP TABLE ${table} (${tables[table].replaceAll(" NOT NULL", "")})`);
  const history = await readHistory(connection(), "staff", now);
  for (const name of gone)
    await connection().rows("INSERT INTO desired BY NAME SELECT 'user' AS kind, ? AS name, [] AS group_names", [name]);
  for (const [name, beyond] of Object.entries(losing))
    await connection().rows("INSERT INTO group_loss BY NAME SELECT ? AS name, 1 AS lost, ? AS beyond", [name, beyond]);
  // As `depart` does.
  await connection().run(
    `INSERT INTO gone SELECT kind, name, coalesce(since, ${now}) FROM desired LEFT JOIN leaving_since USING (kind, name)`,
  );
  await addHistory(connection(), "staff", {
    now,
    later,
    amounts: [{ measure: "deletes", of: "users", amount: deleted, base: 100 }],
    scope: { sizes: [{ source: "hr", kind: "user", size }] },
    declared: serviceAttributes,
    checks,
  });
  const rows = await connection().rows<{ name: string; since: number }>(
    "SELECT name, since::DOUBLE AS since FROM gone ORDER BY name",
  );
  return { history, since: Object.fromEntries(rows.map(({ name, since }) => [name, since])) };
}

/** What the clock has shown before it was set back. */
const shown: number[] = [];
beforeEach(() => {
  shown.length = 0;
});

async function sinceOf(now: number, ...gone: readonly string[]) {
  const { since } = await run(now, { gone, later: shown.filter((time) => time > now) });
  shown.push(now);
  return since;
}

test("whoever leaves while the clock is behind has the whole grace period once it is right", async () => {
  await sinceOf(start + 2 * day);
  await sinceOf(start);
  const behind = start - year;
  // As long as it is wrong, the grace period goes on by that clock.
  expect(await sinceOf(behind, "ann")).toEqual({ ann: behind });
  expect(await sinceOf(behind + 2 * day, "ann", "bob")).toEqual({ ann: behind, bob: behind + 2 * day });
  expect(await sinceOf(start + day, "ann", "bob")).toEqual({ ann: start, bob: start });
});

test("whoever had left before the clock fell behind goes on as before once it is right", async () => {
  await sinceOf(start, "ann");
  const behind = start - year;
  expect(await sinceOf(behind, "ann")).toEqual({ ann: behind });
  expect(await sinceOf(behind + hour, "ann")).toEqual({ ann: behind });
  // Set back once more: no time has passed that anybody knows of.
  expect(await sinceOf(behind - year, "ann")).toEqual({ ann: behind - year });
  expect(await sinceOf(start + day, "ann")).toEqual({ ann: start });
});

test("whoever leaves while the clock is ahead, or soon after, has a grace period from when it is right", async () => {
  expect(await sinceOf(start + year, "ann")).toEqual({ ann: start + year });
  expect(await sinceOf(start + day, "ann", "bob")).toEqual({ ann: start + day, bob: start + day });
  expect(await sinceOf(start + 2 * day, "ann", "bob")).toEqual({ ann: start + day, bob: start + day });
  // As everybody reads it who does not run the sync.
  const rows = await connection().rows(
    `SELECT name, since::DOUBLE AS since FROM (${leavingSince(start + 2 * day, true)})`,
  );
  expect(rows).toContainEqual({ name: "ann", since: start + day });
  // Who returns begins anew.
  expect(await sinceOf(start + 3 * day, "bob")).toEqual({ bob: start + day });
  expect(await sinceOf(start + 4 * day, "ann", "bob")).toMatchObject({ ann: start + 4 * day });
});

test("once the clock is right, nobody has left before the last run with a right clock that knew them, however it was set", async () => {
  const step = fc.record({
    passed: fc.constantFrom(hour / 12, hour, day),
    wrong: fc.constantFrom(0, 0, 0, 3 * hour, 2 * day, year, -3 * hour, -2 * day, -year),
    isGone: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 12 }), async (steps) => {
      await createLedger();
      const runs: RunRecord[] = [];
      let [time, lastRight, isGone, earliest] = [start, -Infinity, false, -Infinity];
      for (const { passed, wrong, isGone: leaves } of steps) {
        time += passed;
        const now = time + wrong;
        runs.push(endedRun({ id: idAfter(runs.at(-1)?.id, now), startedAt: new Date(now).toISOString() }));
        if (wrong === 0) lastRight = time;
        if (leaves && !isGone) earliest = lastRight;
        isGone ||= leaves;
        const { since } = await run(now, { gone: isGone ? ["ann"] : [], later: laterTimes(runs, now) });
        if (!isGone) continue;
        expect(since["ann"]).toBeLessThanOrEqual(now);
        if (wrong === 0) expect(since["ann"]).toBeGreaterThanOrEqual(earliest);
      }
    }),
    { numRuns: cases(4) },
  );
});

test("what was applied and read while the clock was ahead counts no longer than a day after it is right", async () => {
  await run(start, { size: 100 });
  await run(start + year, { deleted: 30, size: 500 });
  await run(start + hour, { deleted: 5, size: 110 });
  expect((await run(start + 2 * hour, { size: 120 })).history).toMatchObject({
    applied: [{ measure: "deletes", of: "users", amount: 5 }],
    reads: [{ source: "hr", kind: "user", size: 110, most: 110 }],
  });
  // By less than a day: it counts, as what is in doubt should.
  await run(start + 12 * hour, { deleted: 7, size: 130 });
  expect((await run(start + 3 * hour)).history).toMatchObject({
    applied: [{ amount: 12 }],
    reads: [{ size: 120, most: 130 }],
  });
});

const check = (limit: LimitCheck["limit"], of: string, overridden: boolean): LimitCheck => {
  return { limit, of, value: 90, earlier: 0, bound: 20, basis: "20% of 100", tripped: true, overridden };
};

/** What the next run, an hour later, finds of one. */
async function nextAfter(given: Given) {
  await run(start);
  await run(start + hour, given);
  const { history, since } = await run(start + 2 * hour);
  const lost = await connection().rows<{ name: string }>("SELECT name FROM lost_recently ORDER BY name");
  return { ...history, since, lost: lost.map(({ name }) => name) };
}

test.each(["shrink", "minUsers"] as const)(
  "a source that has too little (%s) is compared with what it had before, and nobody is leaving",
  async (limit) => {
    const tooLittle = { size: 10, gone: ["ada"], checks: [check(limit, "users of hr", false)] };
    const { reads } = await nextAfter(tooLittle);
    expect(reads).toEqual([{ source: "hr", kind: "user", size: 100, most: 100 }]);
    const known = "SELECT name FROM owned.leaving";
    await run(start + 3 * hour, tooLittle);
    expect(await connection().rows(known)).toEqual([]);
    await run(start + 4 * hour, { ...tooLittle, checks: [] });
    expect(await connection().rows(known)).toEqual([{ name: "ada" }]);
  },
);

test("a source whose shrinking was overridden is compared with what it has now", async () => {
  const { reads } = await nextAfter({ size: 10, checks: [check("shrink", "users of hr", true)] });
  expect(reads[0]?.most).toBe(10);
});

test("what was overridden does not count against the limits of the day", async () => {
  const counted = await nextAfter({ deleted: 9, losing: { staff: false, ops: true } });
  expect(counted).toMatchObject({ applied: [{ measure: "deletes", of: "users", amount: 9 }], lost: ["ops", "staff"] });
  await createLedger();
  const checks = [check("deletes", "users", true), check("membershipsLost.perGroup", "groups", true)];
  const overridden = await nextAfter({ deleted: 9, losing: { staff: false, ops: true }, checks });
  expect(overridden).toMatchObject({ applied: [], lost: ["staff"] });
});
