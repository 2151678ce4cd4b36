import { expect, test } from "vitest";
import { Filter } from "#notify/filter.ts";
import type { FilterState } from "#notify/filter.ts";
import type { RunRecord, SyncEvent } from "#state/record.ts";
import { appliedRun, trippedLimit } from "../../support/runs.ts";

/** What people were told of these events, as `event: summary`; every failure is settled at once after it. */
function told(filter: Filter, ...events: SyncEvent[]): string[] {
  return events.flatMap((event) => {
    const result = filter.take(event);
    const telling = result !== undefined && "settle" in result ? filter.settle(result.settle) : result;
    return telling?.notices.map(({ event, summary }) => `${event}: ${summary}`) ?? [];
  });
}
const run = (record: Partial<RunRecord>): SyncEvent => ({ type: "run", run: appliedRun(record) });

test("a waiting plan is notified once, however often it is found again", () => {
  const filter = new Filter();
  const pending = run({ id: "1", state: "pending", digest: "aa" });
  const expected = [
    "pending: a plan awaits approval: 3 users created, 1 deleted; 1 group updated; 4 memberships added",
  ];
  expect(told(filter, run({ id: "1", state: "running" }), pending, pending)).toEqual(expected);
  expect(told(filter, run({ id: "2", state: "pending", digest: "aa" }))).toEqual([]);
  expect(told(filter, run({ id: "3", state: "pending", digest: "bb" }))).toHaveLength(1);
  // Other syncs have nothing to do with it.
  expect(told(filter, run({ id: "4", sync: "guests", state: "pending", digest: "bb" }))).toHaveLength(1);
});

test.each(["rejected", "expired", "applied", "no change"] as const)(
  "after it was %s, the same plan is new",
  (state) => {
    const filter = new Filter();
    expect(told(filter, run({ id: "1", state: "held", heldBy: "limits", digest: "aa" }))).toHaveLength(1);
    told(filter, run({ id: "1", state, digest: "aa" }));
    expect(told(filter, run({ id: "2", state: "held", heldBy: "limits", digest: "aa" }))).toHaveLength(1);
  },
);

test("the reason for an unusual approval is given", () => {
  const caution = "the journal was damaged";
  const [line] = told(new Filter(), run({ id: "1", state: "pending", digest: "aa", caution }));
  expect(line).toMatch(/^pending: a plan awaits approval, because the journal was damaged: /);
});

test("why a run is held is said, and a plan that is held for another reason is told again", () => {
  const filter = new Filter();
  const limits = [trippedLimit({ basis: "10% of 10" })];
  expect(
    told(
      filter,
      run({ id: "1", state: "held", heldBy: "limits", digest: "aa", limits }),
      run({ id: "2", state: "held", heldBy: "opinions", digest: "aa" }),
      run({ id: "3", state: "held", heldBy: "verification", digest: "aa" }),
    ).map((line) => line.replace(/; planned.*/, "")),
  ).toEqual([
    "held: held by the limit on deletions; nothing was applied",
    "held: held because the plan and the target's own preview differ; nothing was applied",
    "held: held after applying: the target does not match the plan",
  ]);
});

const error = { message: "source corp: no answer\nfor long", problems: [], advice: "retry" };

test("a failure that is tried again is told when it is given up; further ones are not, until a success", () => {
  const filter = new Filter();
  const failed = (id: string): SyncEvent => run({ id, state: "failed", error });
  const retry = (id: string): SyncEvent => ({ type: "retry", sync: "staff", id, at: "2026-11-21T10:00:00Z" });
  // What follows a failure may be said before it or after it.
  expect(told(filter, retry("1"), failed("1"))).toEqual([]);
  const second = filter.take(failed("2"));
  filter.take(retry("2"));
  expect(second !== undefined && "settle" in second && filter.settle(second.settle)).toBeUndefined();
  expect(told(filter, { type: "gave up", sync: "staff", id: "3", failures: 3 }, failed("3"))).toEqual([
    "failed: failed 3 times in a row, and is given up until the next slot: source corp: no answer",
  ]);
  expect(told(filter, failed("4"), { type: "gave up", sync: "staff", id: "5", failures: 3 }, failed("5"))).toEqual([]);
  expect(told(filter, run({ id: "6", state: "no change" }))).toEqual([
    "recovered: succeeded again, for the first time since 2026-11-21 10:12 UTC: nothing to change",
  ]);
  expect(told(filter, failed("7"))).toEqual(["failed: failed: source corp: no answer"]);
});

test("a failure that a retry made good was nobody's business, and neither is that it was", () => {
  const filter = new Filter();
  filter.take({ type: "retry", sync: "staff", id: "1", at: "" });
  expect(told(filter, run({ id: "1", state: "failed", error }))).toEqual([]);
  expect(told(filter, { ...run({ id: "2", state: "no change" }), recovered: true } as SyncEvent)).toEqual([]);
  // Even when there was no time to tell it.
  const late = filter.take(run({ id: "3", state: "failed", error }));
  told(filter, run({ id: "4", state: "no change" }));
  expect(late !== undefined && "settle" in late && filter.settle(late.settle)).toBeUndefined();
});

test("who is for recoveries gets that; who is for what was applied gets this; nobody gets both", () => {
  const filter = new Filter();
  const overdue: SyncEvent = { type: "overdue", sync: "staff", since: "2026-11-20T08:00:00.000Z" };
  expect(told(filter, overdue, overdue)).toEqual([
    "overdue: has not succeeded since 2026-11-20 08:00 UTC, which is longer than overdueAfter",
  ]);
  const result = filter.take(run({ id: "1", state: "applied" }));
  expect(result !== undefined && "notices" in result && result.notices.map(({ event }) => event)).toEqual([
    "recovered",
    "applied",
  ]);
  expect(told(filter, run({ id: "2", state: "applied" }))).toHaveLength(1);
});

test("what the limits leave out of a plan whose rest is applied is told once, until it is something else", () => {
  const filter = new Filter();
  const partly = (id: string, value: number, state: "applied" | "no change" = "no change"): SyncEvent =>
    run({ id, state, waiting: ["deletes"], limits: [trippedLimit({ value })] });
  expect(told(filter, partly("1", 9, "applied"))).toEqual([
    "held: because of the limits, these wait: deletions; the rest: 3 users created, 1 deleted; 1 group updated; 4 memberships added",
    expect.stringMatching(/^applied: /),
  ]);
  expect(told(filter, partly("2", 9))).toEqual([]);
  expect(told(filter, partly("3", 12))).toEqual([expect.stringMatching(/^held: /)]);
  expect(told(filter, run({ id: "4", state: "no change" }), partly("5", 12))).toHaveLength(1);
});

test("what people were told is still known after a restart", () => {
  const before = new Filter();
  told(before, run({ id: "1", state: "failed", error }), run({ id: "2", sync: "guests", state: "pending" }));
  const after = new Filter(JSON.parse(JSON.stringify(before.state())) as FilterState);
  expect(
    told(after, run({ id: "3", state: "failed", error }), run({ id: "2", sync: "guests", state: "pending" })),
  ).toEqual([]);
  expect(told(after, run({ id: "4", state: "applied" }))[0]).toMatch(/^recovered: /);
});

test("a slot that was skipped is told as such", () => {
  expect(
    told(new Filter(), { type: "skipped", sync: "staff", at: "2026-11-21T10:15:00Z", reason: "a run is under way" }),
  ).toEqual(["skipped: the slot of 2026-11-21 10:15 UTC was skipped: a run is under way"]);
});

test("a run for some says nothing about the sync: neither a failure of it, nor its recovery", () => {
  const filter = new Filter();
  const some = { for: ["ada"] };
  expect(told(filter, run({ ...some, id: "1", state: "failed" }))).toEqual([]);
  expect(told(filter, run({ id: "2", state: "failed" }))).toHaveLength(1);
  expect(told(filter, run({ ...some, id: "3", state: "no change" }))).toEqual([]);
  expect(told(filter, run({ ...some, id: "4", state: "applied" }))).toEqual([expect.stringMatching(/^applied: /)]);
  expect(told(filter, run({ id: "5", state: "applied" }))).toEqual([
    expect.stringMatching(/^recovered: /),
    expect.stringMatching(/^applied: /),
  ]);
  // Both plans wait.
  expect(told(filter, run({ id: "6", state: "pending", digest: "aa" }))).toHaveLength(1);
  expect(told(filter, run({ ...some, id: "7", state: "pending", digest: "bb" }))).toHaveLength(1);
  expect(told(filter, run({ id: "8", state: "pending", digest: "aa" }))).toEqual([]);
});
