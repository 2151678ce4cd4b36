import { describe, expect, test } from "vitest";
import type { Limits } from "#plan/limits.ts";
import { HeldError } from "#errors.ts";
import { useStaff } from "../e2e/sync/staff.ts";

const { people, syncOf, runIt, users } = useStaff();
const hour = 3_600_000;
const names = (from: number, to: number): string[] =>
  Array.from({ length: to - from }, (_, index) => `user${String(from + index).padStart(3, "0")}`);
const limited = (limits: Partial<Limits>) =>
  syncOf({}, { limits: { sources: {}, floor: 2, action: "hold", ...limits } });

/** The error of a run that must be held. */
async function held(work: Promise<unknown>): Promise<HeldError> {
  const error: unknown = await work.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (error instanceof HeldError) return error;
  throw new Error("it was not held", { cause: error });
}

describe("a limit that is tripped", () => {
  test("holds the run, dry or not, and says which, by how much, and how exactly this plan passes", async () => {
    const sync = limited({ deletes: { percent: 10, per: "day" } });
    await people(...names(0, 30));
    await runIt(sync);
    await people(...names(0, 26));
    for (const apply of [false, true]) {
      const error = await held(runIt(sync, apply));
      expect(error.message).toBe("target analytics: held by the limit on deletions; nothing was applied");
      expect(error.problems[0]).toBe("deletes: 4 users, at most 3 (10% of 30)");
      expect(error.next).toMatch(/rollcall apply staff --override deletes --digest [0-9a-f]{12}$/);
    }
    expect(await users()).toHaveLength(31);

    const { digest } = await runIt(sync, false, { overrides: ["deletes"] });
    const other = digest.replace(/^./, (digit) => (digit === "0" ? "1" : "0"));
    await expect(runIt(sync, true, { overrides: ["deletes"], digest: other })).rejects.toThrow(
      /the changes differ from the plan/,
    );
    await people(...names(0, 25));
    await expect(runIt(sync, true, { overrides: ["deletes"], digest })).rejects.toThrow(
      /the changes differ from the plan/,
    );
    await people(...names(0, 26));
    expect(await runIt(sync, true, { overrides: ["deletes"], digest })).toMatchObject({ outcome: "applied" });
    expect(await users()).toHaveLength(27);
    // What a person has let pass is not held against the next runs.
    await people(...names(0, 24));
    expect(await runIt(sync)).toMatchObject({ outcome: "applied" });
  });

  test("or lets the rest be applied: what it is about waits, and is still there the next time", async () => {
    const sync = limited({ deletes: { count: 1, per: "run" }, action: "apply-the-rest" });
    await people(...names(0, 5));
    await runIt(sync);
    await people(...names(3, 6));
    const result = await runIt(sync);
    expect(result).toMatchObject({
      outcome: "applied",
      waiting: ["deletes"],
      counts: { users: { create: 1, delete: 0 } },
    });
    expect(await users()).toEqual(["admin", ...names(0, 6)]);
    expect(await runIt(sync)).toMatchObject({ outcome: "no change", waiting: ["deletes"] });
    const { digest } = await runIt(sync, false, { overrides: ["deletes"] });
    await runIt(sync, true, { overrides: ["deletes"], digest });
    expect(await users()).toEqual(["admin", ...names(3, 6)]);
  });

  test("holds a source that has lost too much also where nobody leaves yet, and there is nothing to approve", async () => {
    const departures = { after: 7 * 24 * hour, renames: "apply", reusedNames: "hold", administrators: [] } as const;
    const limits = { sources: {}, floor: 2, action: "hold", shrink: { percent: 20, per: "day" } } as const;
    const sync = syncOf({}, { limits, departures });
    await people(...names(0, 30));
    await runIt(sync);
    await people(...names(0, 10));
    for (const approval of ["automatic", "automatic-within-limits", "required"] as const) {
      let kept = 0;
      const store = async (): Promise<void> => {
        kept += 1;
      };
      const error = await held(runIt(sync, true, { approval, store }));
      expect(error.problems[0]).toBe("shrink: 20 users of company fewer than before, at most 6 (20% of 30)");
      // So that it can be approved, and is not told of again at every run.
      expect(kept).toBe(1);
    }
    expect(await runIt(sync, true, { approval: "automatic-within-limits", overrides: ["shrink"] })).toMatchObject({
      outcome: "no change",
    });
    expect(await runIt(sync, true, { approval: "automatic-within-limits" })).toMatchObject({ outcome: "no change" });
    expect(await users()).toHaveLength(31);
  });

  test("creations that wait are neither made nor owned", async () => {
    const sync = limited({ creates: { count: 1, per: "run" }, action: "apply-the-rest" });
    await people(...names(0, 2));
    expect(await runIt(sync)).toMatchObject({ outcome: "no change", waiting: ["creates"] });
    expect(await users()).toEqual(["admin"]);
    await people(...names(0, 1));
    expect(await runIt(sync)).toMatchObject({ outcome: "applied", waiting: [] });
  });
});

describe("slow bleeding", () => {
  test("is caught over 24 hours, and over as soon as they are", async () => {
    const sync = limited({ deletes: { percent: 10, per: "day" } });
    const start = Date.UTC(2026, 0, 1);
    await people(...names(0, 40));
    await runIt(sync, true, { now: start });
    await people(...names(0, 38));
    await runIt(sync, true, { now: start + hour });
    await people(...names(0, 36));
    await runIt(sync, true, { now: start + 2 * hour });
    await people(...names(0, 35));
    const error = await held(runIt(sync, true, { now: start + 24 * hour }));
    expect(error.problems[0]).toBe("deletes: 5 users in 24 hours, 4 of them already, at most 4 (10% of 40)");
    expect(await runIt(sync, true, { now: start + 26 * hour })).toMatchObject({ outcome: "applied" });
    expect(await users()).toHaveLength(36);
  });

  test("a source is compared with the most of 24 hours; a read that was held is no good one", async () => {
    const sync = limited({ shrink: { percent: 10, per: "day" } });
    const start = Date.UTC(2026, 0, 1);
    await people(...names(0, 40));
    await runIt(sync, true, { now: start });
    await people(...names(0, 37));
    await runIt(sync, true, { now: start + hour });
    await people(...names(0, 34));
    for (const later of [2, 3]) {
      const error = await held(runIt(sync, true, { now: start + later * hour }));
      expect(error.problems[0]).toBe("shrink: 6 users of company fewer than before, at most 4 (10% of 40)");
    }
    // A day later the read of 37 is the last good one.
    expect(await runIt(sync, true, { now: start + 27 * hour })).toMatchObject({ outcome: "applied" });
  });

  test("a source that has shrunk to what a person has let pass is compared with that from then on", async () => {
    const sync = limited({ shrink: { count: 2, per: "day" } });
    await people(...names(0, 10));
    await runIt(sync);
    await people(...names(0, 5));
    const { digest } = await runIt(sync, false, { overrides: ["shrink"] });
    await runIt(sync, true, { overrides: ["shrink"], digest });
    expect(await runIt(sync)).toMatchObject({ outcome: "no change" });
    await people(...names(0, 2));
    expect((await held(runIt(sync))).problems[0]).toBe(
      "shrink: 3 users of company fewer than before, at most 2 (as configured)",
    );
  });
});

test("too few users in scope hold a run that would change nothing, too", async () => {
  const sync = limited({ minUsers: 3 });
  await people("a", "b");
  expect((await held(runIt(sync, false))).problems[0]).toBe("minUsers: 2 users, at least 3 (in scope)");
  await people("a", "b", "c");
  expect(await runIt(sync)).toMatchObject({ outcome: "applied" });
});

test("the time of who is gone runs from the first run that found it so, and anew when it was back in between", async () => {
  const sync = syncOf({}, { departures: { ...syncOf().departures, after: 7 * 24 * hour } });
  const start = Date.UTC(2026, 0, 1);
  const onDay = (day: number) => runIt(sync, true, { now: start + day * 24 * hour });
  await people("a", "b");
  await onDay(0);
  await people("a");
  await onDay(1);
  await runIt(sync, false, { now: start + 30 * 24 * hour });
  await onDay(7);
  expect(await users()).toEqual(["a", "admin", "b"]);
  await people("a", "b");
  expect(await onDay(7.5)).toMatchObject({ outcome: "no change" });
  await people("a");
  await onDay(9);
  await onDay(15);
  expect(await users()).toEqual(["a", "admin", "b"]);
  expect(await onDay(16)).toMatchObject({ outcome: "applied" });
  expect(await users()).toEqual(["a", "admin"]);
});
