import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { AuditEntry } from "#state/audit/entry.ts";
import { createQueue } from "#queue.ts";
import { finish, writeEnd } from "#sync/coordinator/finish.ts";
import type { FinishContext } from "#sync/coordinator/finish.ts";
import { FolderJournal } from "#state/folder/journal.ts";
import { filesIn } from "#state/folder/store.ts";
import type { RunRecord, RunState, SyncEvent } from "#state/record.ts";
import { Plans } from "#state/plans.ts";
import { endedRun } from "../../../support/runs.ts";

const now = Date.parse("2026-11-21T12:00:00Z");
const at = new Date(now).toISOString();
const [mine, other] = ["a".repeat(64), "b".repeat(64)];
const error = { message: "the server did not answer", problems: [], advice: "retry" };

let folder: string;
let context: FinishContext;
let told: AuditEntry[];
let events: Extract<SyncEvent, { type: "run" }>[];
let stopping: boolean;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-finish-"));
  [told, events, stopping] = [[], [], false];
  const audit = {
    append: async (entry: AuditEntry): Promise<void> => {
      told.push(entry);
    },
    head: () => ({ sequence: told.length, hash: "" }),
  };
  const journal = await FolderJournal.open(folder, { keep: 90 * 86_400_000, runs: 100, lists: 20 });
  context = {
    store: { journal, audit },
    plans: new Plans(filesIn(folder)),
    emit: (event) => {
      if (event.type === "run") events.push(event);
    },
    now: () => now,
    isStopping: () => stopping,
    decisions: createQueue(),
  };
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const waiting = (id: string, change: Partial<RunRecord> = {}): RunRecord =>
  endedRun({ id, state: "pending", digest: mine, kept: true, expiresAt: "2026-11-22T12:00:00.000Z", ...change });
const run = async (...records: readonly RunRecord[]): Promise<RunRecord> => {
  let last: RunRecord | undefined;
  for (const record of records) {
    const { expiresAt: _, ...running } = { ...record, state: "running" as const };
    await context.store.journal.put(running);
    last = await finish(context, record);
  }
  if (last === undefined) throw new Error("no run");
  return last;
};
const states = (): Record<string, RunState> =>
  Object.fromEntries(context.store.journal.runs.map(({ id, state }) => [id, state]));
const state = () => context.store.journal.state("staff");

describe("the same plan found again", () => {
  test.each(["pending", "held"] as const)("is no second one that is %s: it is counted at the first", async (which) => {
    const heldBy =
      which === "held"
        ? ({ heldBy: "limits", error: { ...error, problems: ["rollcall approve 1 --override x"] } } as const)
        : {};
    await run(waiting("1", { state: which, ...heldBy }));
    const again = { state: which, ...heldBy };
    const second = await run(waiting("2", again));
    expect(second).toMatchObject({ state: "superseded", sameAs: "1", kept: false, endedAt: at });
    await run(waiting("3", again));
    expect(context.store.journal.find("1")).toMatchObject({
      state: which,
      foundAgain: { count: 2, lastAt: at },
      ...heldBy,
    });
    expect(events.map(({ run }) => `${run.id} ${run.state}`)).toEqual([`1 ${which}`, "2 superseded", "3 superseded"]);
    // What is the same again is told to nobody.
    expect(told.map((entry) => "run" in entry && entry.run)).toEqual(which === "held" ? ["1"] : []);
  });

  test("what came of an attempt to approve it is over then", async () => {
    await run(waiting("1"));
    await context.store.journal.put(waiting("1", { error }));
    await run(waiting("2"));
    expect(context.store.journal.find("1")?.error).toBeUndefined();
  });

  test.each([
    [{}, { target: "elsewhere" }],
    [{ place: "here" }, { place: "there" }],
  ])("takes the place of one for a target that the sync no longer has: %j, then %j", async (before, now) => {
    await run(waiting("1", before));
    expect((await run(waiting("2", now))).state).toBe("pending");
    expect(states()).toEqual({ 1: "superseded", 2: "pending" });
  });

  test("is another one when it is held where it was pending, of another sync, no longer stored, or an undo", async () => {
    const others = [
      waiting("1", { sync: "other" }),
      waiting("2", { undoes: "0" }),
      waiting("3", { state: "held", heldBy: "limits" }),
    ];
    await run(...others);
    await context.store.journal.put(waiting("4", { kept: false, digest: other, sync: "third" }));
    expect((await run(waiting("5"))).state).toBe("pending");
    expect((await run(waiting("6", { digest: other, sync: "third" }))).state).toBe("pending");
  });
});

describe("what waits is superseded", () => {
  test("when another plan is found, or nothing is to do any more; not by a failure, nor by another sync", async () => {
    await run(waiting("1"), waiting("2", { sync: "other" }), endedRun({ id: "3", state: "failed", error }));
    expect(states()).toMatchObject({ "1": "pending" });
    await run(waiting("4", { digest: other }));
    expect(states()).toMatchObject({ "1": "superseded", "2": "pending", "4": "pending" });
    await run(endedRun({ id: "5", digest: mine }));
    expect(states()).toMatchObject({ "2": "pending", "4": "superseded" });
    expect(told.map((entry) => ("run" in entry ? `${entry.run} ${entry.event}` : ""))).toEqual(["1 ended", "4 ended"]);
  });

  test("not when the same plan is held for another reason, as with a mistyped digest", async () => {
    await run(waiting("1"), endedRun({ id: "2", state: "held", heldBy: "digest", digest: mine, error }));
    expect(states()).toEqual({ "1": "pending", "2": "held" });
  });

  test("an undo only when something was applied, or the undo is planned anew", async () => {
    const back = { undoes: "0", cause: "undo" } as const;
    await run(waiting("1", back), endedRun({ id: "2", digest: other }), waiting("3", { digest: other }));
    expect(states()).toMatchObject({ "1": "pending", "3": "pending" });
    await run(waiting("4", { ...back, digest: other }));
    expect(states()).toMatchObject({ "1": "superseded", "3": "pending", "4": "pending" });
    // Also by one that was planned before it.
    await run(endedRun({ id: "3", state: "applied", digest: other }));
    expect(states()).toMatchObject({ "3": "applied", "4": "superseded" });
  });
});

describe("how a sync fares", () => {
  test("failures are counted until a run ends in another way; that is told once", async () => {
    await run(endedRun({ id: "1", state: "failed", error }), endedRun({ id: "2", state: "failed", error }));
    expect(state().failures).toEqual({ count: 2, since: at });
    stopping = true;
    await run(endedRun({ id: "3", state: "failed", error }));
    expect(state().failures?.count).toBe(2);
    stopping = false;
    await run(endedRun({ id: "4" }), endedRun({ id: "5" }));
    expect(state()).toEqual({ skipped: [], lastSuccessAt: "2026-11-21T10:12:40.000Z" });
    expect(events.map(({ recovered = false }) => recovered)).toEqual([false, false, false, true, false]);
  });

  test.each(["expired", "rejected"] as const)(
    "what is %s says nothing of that, nor supersedes anything",
    async (end) => {
      await run(waiting("1"), waiting("2", { undoes: "0" }), endedRun({ id: "3", state: "failed", error }));
      await writeEnd(context, waiting("2", { state: end }));
      expect(state().failures?.count).toBe(1);
      expect(events.at(-1)).toMatchObject({ run: { id: "2", state: end } });
      expect(events.at(-1)?.recovered).toBeUndefined();
      expect(states()).toMatchObject({ "1": "pending" });
    },
  );

  test("an approval that came to nothing neither: what waits is as it was; the audit log tells of it", async () => {
    await run(
      waiting("1"),
      waiting("2", { undoes: "0", digest: other }),
      endedRun({ id: "3", state: "failed", error }),
    );
    const decisions = [{ decision: "approved", at, by: waiting("2").by, digest: other }] as const;
    const tried = waiting("2", { undoes: "0", digest: other, decisions, error });
    await context.store.journal.put({ ...tried, state: "running" });
    expect(await finish(context, tried)).toEqual(tried);
    expect(states()).toMatchObject({ "1": "pending", "2": "pending" });
    expect(state().failures?.count).toBe(1);
    expect(events.at(-1)?.recovered).toBeUndefined();
    expect(told.at(-1)).toMatchObject({ event: "ended", run: "2", result: "pending", error: error.message });
  });

  test("after a run was undone, caution stays until a person approves another", async () => {
    const by = { name: "ada", from: "command line" };
    const approved = (name: string) => ({ decision: "approved", at, by: { ...by, name }, digest: mine }) as const;
    await run(endedRun({ id: "1", state: "applied", undoes: "0", decisions: [approved("failed"), approved("ada")] }));
    expect(state().caution).toEqual({ since: at, reason: "ada has undone the run 0" });
    await run(endedRun({ id: "2" }), waiting("3"), endedRun({ id: "4", state: "failed", error }));
    expect(state().caution).toBeDefined();
    await run(endedRun({ id: "5", state: "applied", decisions: [approved("eve")] }));
    expect(state().caution).toBeUndefined();
  });
});

test("what a run that is under way has kept stays, although the journal does not know of it yet", async () => {
  for (const name of ["1", "2.partial", "3"]) await mkdir(join(folder, "runs", name), { recursive: true });
  await context.store.journal.put(endedRun({ id: "1", state: "running", sync: "other" }));
  await context.store.journal.put(endedRun({ id: "2", state: "running", sync: "third" }));
  await run(endedRun({ id: "4" }));
  expect((await readdir(join(folder, "runs"))).toSorted()).toEqual(["1", "2.partial"]);
});

describe("a run for some", () => {
  const some = { for: ["ada", "zoe"] };

  test("and one for everybody wait beside each other; the same again is one", async () => {
    const same = waiting("3", { for: ["zoe", "ada"] });
    await run(waiting("1", { digest: other }), waiting("2", some), same, waiting("4", { digest: other }));
    expect(states()).toEqual({ 1: "pending", 2: "pending", 3: "superseded", 4: "superseded" });
    await run(endedRun({ id: "5", state: "no change", ...some }));
    expect(states()).toMatchObject({ 1: "pending", 2: "superseded" });
    await run(endedRun({ id: "6", state: "applied", digest: "c".repeat(64), for: ["kim"] }));
    expect(states()).toMatchObject({ 1: "superseded" });
  });

  test("is neither a success of its sync nor a failure", async () => {
    await run(endedRun({ id: "1", state: "failed" }));
    const before = context.store.journal.state("staff");
    await run(endedRun({ id: "2", state: "applied", ...some }), endedRun({ id: "3", state: "failed", ...some }));
    expect(context.store.journal.state("staff")).toEqual(before);
    expect(events.some(({ recovered }) => recovered === true)).toBe(false);
  });
});
