import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { RunRecord, RunState, SyncEvent, SyncState } from "#state/record.ts";
import { isOverdue, Scheduler, standingOf } from "#daemon/scheduler.ts";
import type { ScheduledSync } from "#daemon/scheduler.ts";
import { runOf } from "../../support/runs.ts";

const minute = 60_000;
const hour = 60 * minute;

const staff: ScheduledSync = {
  name: "staff",
  slots: { expression: "0 * * * *", timezone: "UTC" },
  jitter: 0,
  catchUp: true,
  retries: { attempts: 2, first: minute, most: 15 * minute },
};

/** A coordinator of the smallest kind, that remembers: runs end as they are told to. */
function openMemory() {
  const began: RunRecord[] = [];
  const events: SyncEvent[] = [];
  const logged: string[] = [];
  const listeners = new Set<(event: SyncEvent) => void>();
  const underWay = new Map<string, (run: RunRecord) => void>();
  const states = new Map<string, SyncState>();
  const state = (sync: string): SyncState => states.get(sync) ?? { skipped: [] };
  const emit = (event: SyncEvent): void => {
    events.push(event);
    for (const listener of listeners) listener(event);
  };
  const note = (sync: string, patch: object): void => {
    states.set(sync, JSON.parse(JSON.stringify({ ...state(sync), ...patch })));
  };
  const end = (run: RunRecord, outcome: RunState, advice = "retry"): void => {
    const endedAt = new Date().toISOString();
    const failed = outcome === "failed";
    const ended = {
      ...run,
      state: outcome,
      endedAt,
      ...(failed ? { error: { message: "", problems: [], advice } } : {}),
    };
    note(
      run.sync,
      failed ? { failures: { count: 1, since: endedAt } } : { lastSuccessAt: endedAt, failures: undefined },
    );
    underWay.get(run.id)?.(ended);
    underWay.delete(run.id);
    emit({ type: "run", run: ended });
  };
  return {
    began,
    events,
    logged,
    end,
    state,
    note,
    /** Ends the run that is under way. */
    async ended(outcome: RunState, advice?: string): Promise<void> {
      end(began.at(-1)!, outcome, advice);
      await vi.advanceTimersByTimeAsync(0);
    },
    /** The syncs whose sources providers are pushing to. */
    pushed: new Set<string>(),
    open(): Scheduler {
      const { pushed } = this;
      const push = logged.push.bind(logged);
      const log = { debug: push, info: push, warn: push, error: push };
      return new Scheduler({
        seed: "this daemon",
        log,
        waits: (sync) => pushed.has(sync),
        memory: { state, note, emit },
        coordinator: {
          begin: async ({ sync, cause, by, slot }) => {
            const { promise, resolve } = Promise.withResolvers<RunRecord>();
            const run = runOf({
              id: String(began.length),
              sync,
              cause,
              by,
              startedAt: new Date().toISOString(),
              state: "running",
            });
            began.push(run);
            // As the coordinator does, with the run.
            if (slot !== undefined) note(sync, { lastSlotAt: slot });
            underWay.set(run.id, resolve);
            emit({ type: "run", run });
            return { run, ended: promise };
          },
          syncs: () =>
            [...states.keys()].map((sync) => {
              const running = began.findLast((run) => run.sync === sync && underWay.has(run.id))?.id;
              return { sync, target: "analytics", overdue: false, skipped: [], ...(running ? { running } : {}) };
            }),
          subscribe: (listener) => {
            listeners.add(listener);
            return () => listeners.delete(listener);
          },
        },
      });
    },
  };
}

let memory: ReturnType<typeof openMemory>;
let scheduler: Scheduler;
beforeEach(() => {
  vi.useFakeTimers({ now: Date.parse("2026-11-21T10:20Z") });
  memory = openMemory();
  scheduler = memory.open();
});
afterEach(() => {
  scheduler.stop();
  vi.useRealTimers();
});

const pass = (milliseconds: number) => vi.advanceTimersByTimeAsync(milliseconds);
const began = () => memory.began.map(({ cause, startedAt }) => `${cause} ${startedAt.slice(11, 19)}`);
const told = (type: SyncEvent["type"]) => memory.events.filter((event) => event.type === type);

/** The machine sleeps, or the clock is set: time passes, and no timer notices. */
function jump(milliseconds: number): void {
  vi.setSystemTime(Date.now() + milliseconds);
}

/** A sync that has run before and succeeded, after which the daemon was stopped. */
async function ranBefore(sync = staff): Promise<void> {
  scheduler.update([sync]);
  await memory.ended("no change");
  scheduler.stop();
  memory.began.length = 0;
  scheduler = memory.open();
}

test("a sync runs when it is first known, and then at its slots", async () => {
  scheduler.update([staff]);
  expect(began()).toEqual(["start 10:20:00"]);
  expect(scheduler.nextSlotAt("staff")).toBe("2026-11-21T11:00:00.000Z");
  await memory.ended("no change");
  await pass(40 * minute);
  await memory.ended("no change");
  await pass(hour);
  expect(began()).toEqual(["start 10:20:00", "schedule 11:00:00", "schedule 12:00:00"]);
  expect(memory.began[1]?.by).toEqual({ name: "rollcall", from: "schedule" });
  expect(memory.state("staff").lastSlotAt).toBe("2026-11-21T12:00:00.000Z");
});

test("restarts within a slot's time run nothing", async () => {
  for (let start = 0; start < 20; start++) {
    scheduler.update([staff]);
    await memory.ended("no change");
    scheduler.stop();
    scheduler = memory.open();
  }
  expect(began()).toEqual(["start 10:20:00"]);
});

test("a restart after a failure, or before any success, runs at once", async () => {
  scheduler.update([staff]);
  await memory.ended("failed", "fix");
  scheduler.stop();
  scheduler = memory.open();
  scheduler.update([staff]);
  expect(began()).toEqual(["start 10:20:00", "start 10:20:00"]);
});

test("slots that were missed while nothing ran are made up for once", async () => {
  await ranBefore();
  jump(3 * hour);
  scheduler.update([staff]);
  expect(began()).toEqual(["catch-up 13:20:00"]);
  await memory.ended("no change");
  await pass(40 * minute);
  expect(began()).toEqual(["catch-up 13:20:00", "schedule 14:00:00"]);
});

test("with `catchUp: false` a missed slot is recorded, and the next one waited for", async () => {
  const patient = { ...staff, catchUp: false };
  await ranBefore(patient);
  jump(3 * hour);
  scheduler.update([patient]);
  expect(began()).toEqual([]);
  const [skipped] = memory.state("staff").skipped;
  expect(skipped).toMatchObject({ at: "2026-11-21T13:00:00.000Z" });
  expect(skipped?.reason).toContain("catchUp");
  await pass(40 * minute);
  expect(began()).toEqual(["schedule 14:00:00"]);
});

test("a machine that slept makes up for its slots within half a minute, once", async () => {
  await ranBefore();
  scheduler.update([staff]);
  await pass(5 * minute);
  jump(9 * hour);
  await pass(30_000);
  expect(began()).toEqual(["catch-up 19:25:30"]);
  await memory.ended("no change");
  await pass(hour);
  expect(began()).toEqual(["catch-up 19:25:30", "schedule 20:00:00"]);
});

test("a clock that jumps by years and back runs the sync once for each, and then goes on", async () => {
  await ranBefore();
  scheduler.update([staff]);
  jump(20 * 365 * 24 * hour);
  await pass(minute);
  await memory.ended("no change");
  expect(memory.began).toHaveLength(1);
  jump(-20 * 365 * 24 * hour);
  await pass(hour);
  expect(memory.began).toHaveLength(2);
  expect(began()[1]).toBe("schedule 11:00:00");
  await memory.ended("no change");
  await pass(hour);
  expect(began()[2]).toBe("schedule 12:00:00");
});

test("after the clock was set back, slots count from now, whether a scheduler was there or begins then", async () => {
  await ranBefore();
  scheduler.update([staff]);
  jump(48 * hour);
  await pass(minute);
  await memory.ended("no change");
  jump(-48 * hour);
  await pass(minute);
  // What takes slots must know it, too: others may have taken them.
  expect(memory.state("staff").lastSlotAt).toBe("2026-11-21T10:21:30.000Z");
  expect(scheduler.nextSlotAt("staff")).toBe("2026-11-21T11:00:00.000Z");
  memory.note("staff", { lastSlotAt: "2026-11-23T10:00:00.000Z" });
  scheduler.stop();
  scheduler = memory.open();
  scheduler.update([staff]);
  expect(memory.state("staff").lastSlotAt).toBe("2026-11-21T10:22:00.000Z");
  expect(memory.logged.slice(-2)).toEqual([
    "sync staff: its next slot is at 2026-11-21T11:00:00.000Z",
    "sync staff: the clock was set back; the next slot counts from now",
  ]);
  await pass(hour);
  expect(began().at(-1)).toBe("schedule 11:00:00");
});

test("after the clock was set back, a retry waits no longer than any other", async () => {
  await ranBefore();
  scheduler.update([staff]);
  await pass(40 * minute);
  jump(48 * hour);
  await memory.ended("failed");
  jump(-48 * hour);
  await pass(20 * minute);
  expect(began()).toEqual(["schedule 11:00:00", "retry 11:19:15"]);
});

test("after the clock was set back, a sync is overdue no later than as if it had succeeded then", async () => {
  const { slots: _, ...onDemand } = staff;
  const watched = { ...onDemand, overdueAfter: 26 * hour };
  memory.note("staff", { knownSince: "2027-11-21T10:00:00.000Z", lastSuccessAt: "2027-11-21T10:20:00.000Z" });
  scheduler.update([watched]);
  expect(memory.state("staff")).toMatchObject({
    knownSince: "2026-11-21T10:20:00.000Z",
    lastSuccessAt: "2026-11-21T10:20:00.000Z",
  });
  await pass(26 * hour);
  expect(told("overdue")).toEqual([]);
  await pass(minute);
  expect(told("overdue")).toHaveLength(1);
});

test("a slot that comes while a run is under way is skipped and recorded", async () => {
  scheduler.update([staff]);
  await pass(2 * hour);
  expect(began()).toEqual(["start 10:20:00"]);
  const reason = "the previous run is still running";
  expect(memory.state("staff").skipped).toEqual([
    { at: "2026-11-21T11:00:00.000Z", reason },
    { at: "2026-11-21T12:00:00.000Z", reason },
  ]);
  expect(told("skipped")).toHaveLength(2);
  await pass(30 * hour);
  expect(memory.state("staff").skipped).toHaveLength(20);
  await memory.ended("no change");
  await pass(hour);
  expect(memory.began).toHaveLength(2);
});

test("a slot that comes while providers are pushing is left to the run that follows", async () => {
  await ranBefore();
  memory.pushed.add("staff");
  scheduler.update([staff]);
  await pass(2 * hour);
  expect([began(), memory.state("staff").skipped]).toEqual([[], []]);
  memory.pushed.clear();
  await pass(hour);
  expect(began()).toEqual(["schedule 13:00:00"]);
});

test("the slots of one sync do not wait for another", async () => {
  scheduler.update([staff, { ...staff, name: "partners" }]);
  memory.end(memory.began[1]!, "applied");
  await pass(40 * minute);
  expect(memory.began.map(({ sync, cause }) => `${sync} ${cause}`)).toEqual([
    "staff start",
    "partners start",
    "partners schedule",
  ]);
});

test("jitter delays a run within its bound, and skips none", async () => {
  const late = { ...staff, jitter: 10 * minute };
  await ranBefore(late);
  scheduler.update([late]);
  for (let slot = 0; slot < 5; slot++) {
    await pass(hour);
    await memory.ended("no change");
  }
  const minutes = memory.began.map(({ startedAt }) => (Date.parse(startedAt) / minute) % 60);
  expect(memory.began.map(({ cause }) => cause)).toEqual(Array(5).fill("schedule"));
  expect(Math.max(...minutes)).toBeLessThanOrEqual(10);
  expect(new Set(minutes).size).toBe(5);
});

test("a failed run is tried again with growing waits, then given up until the next slot", async () => {
  scheduler.update([staff]);
  await memory.ended("failed");
  expect(told("retry")).toHaveLength(1);
  await pass(minute - 1);
  expect(memory.began).toHaveLength(1);
  await pass(minute / 4 + 2);
  expect(memory.began).toHaveLength(2);
  await memory.ended("failed");
  await pass(3 * minute);
  expect(memory.began).toHaveLength(3);
  expect(told("gave up")).toEqual([]);
  await memory.ended("failed");
  expect(told("gave up")).toEqual([{ type: "gave up", sync: "staff", id: "2", failures: 3 }]);
  await pass(30 * minute);
  expect(memory.began.map(({ cause }) => cause)).toEqual(["start", "retry", "retry"]);
  await pass(10 * minute);
  expect(began()[3]).toBe("schedule 11:00:00");
  await memory.ended("failed");
  expect(told("retry"), "the next slot begins anew").toHaveLength(3);
});

test("a retry that succeeds ends it", async () => {
  scheduler.update([staff]);
  await memory.ended("failed");
  await pass(2 * minute);
  await memory.ended("applied");
  await pass(30 * minute);
  expect(memory.began.map(({ cause }) => cause)).toEqual(["start", "retry"]);
});

test.each(["fix", "stop"])("a failure of which the advice is to %s is not tried again", async (advice) => {
  scheduler.update([staff]);
  await memory.ended("failed", advice);
  await pass(30 * minute);
  expect(memory.began).toHaveLength(1);
  expect(memory.logged.join("\n")).toContain("sync staff: no retry before its next slot");
  expect(told("gave up")).toEqual([]);
});

test("attempts: 0 tries nothing again", async () => {
  scheduler.update([{ ...staff, retries: { ...staff.retries, attempts: 0 } }]);
  await memory.ended("failed");
  await pass(30 * minute);
  expect(memory.began).toHaveLength(1);
});

test("a slot during the wait takes the place of the retry", async () => {
  scheduler.update([{ ...staff, retries: { attempts: 3, first: hour, most: hour } }]);
  await memory.ended("failed");
  await pass(40 * minute);
  expect(began()).toEqual(["start 10:20:00", "schedule 11:00:00"]);
  await memory.ended("no change");
  await pass(50 * minute);
  expect(memory.began).toHaveLength(2);
});

test("a run on demand begins for every sync, with a schedule or without; once after one that is under way", async () => {
  const { slots: _, ...onDemand } = staff;
  scheduler.update([staff, { ...onDemand, name: "partners" }]);
  const by = { name: "rollcall", from: "signal" };
  scheduler.trigger(by);
  const causes = () => memory.began.map(({ sync, cause }) => `${sync} ${cause}`);
  expect(causes()).toEqual(["staff start", "partners demand"]);
  expect(memory.began[1]?.by).toEqual(by);
  scheduler.trigger(by);
  memory.end(memory.began[0]!, "applied");
  await pass(0);
  expect(causes()).toEqual(["staff start", "partners demand", "staff demand"]);
  expect(scheduler.nextSlotAt("partners")).toBeUndefined();
});

test("no success for too long is told once, until there is one; over restarts too", async () => {
  const { slots: _, ...onDemand } = staff;
  const watched = { ...onDemand, overdueAfter: 26 * hour };
  scheduler.update([watched]);
  await pass(26 * hour);
  expect(isOverdue(watched, memory, Date.now())).toBe(false);
  await pass(minute);
  const overdue = { type: "overdue", sync: "staff", since: "2026-11-21T10:20:00.000Z" };
  expect(told("overdue")).toEqual([overdue]);
  expect(isOverdue(watched, memory, Date.now())).toBe(true);
  scheduler.stop();
  scheduler = memory.open();
  scheduler.update([watched]);
  await pass(50 * hour);
  expect(told("overdue")).toEqual([overdue]);
  scheduler.trigger({ name: "rollcall", from: "signal" });
  await memory.ended("applied");
  expect(isOverdue(watched, memory, Date.now())).toBe(false);
  expect(memory.state("staff").overdueSince).toBeUndefined();
  await pass(27 * hour);
  expect(told("overdue")).toHaveLength(2);
});

test("another schedule counts from now on, and the run under way is still known", async () => {
  scheduler.update([staff]);
  scheduler.update([{ ...staff, slots: { expression: "*/5 * * * *", timezone: "UTC" } }]);
  await pass(5 * minute);
  expect(began()).toEqual(["start 10:20:00"]);
  expect(memory.state("staff").skipped).toHaveLength(1);
  await memory.ended("no change");
  await pass(5 * minute);
  expect(began()).toEqual(["start 10:20:00", "schedule 10:30:00"]);
});

test("a sync that is no longer there runs no more, a new one at once", async () => {
  await ranBefore();
  scheduler.update([staff]);
  scheduler.update([{ ...staff, name: "partners" }]);
  await pass(2 * hour);
  expect(memory.began.map(({ sync, cause }) => `${sync} ${cause}`)).toEqual(["partners start"]);
});

test("a schedule without slots stops neither the others nor the process, is told once, and can be changed", async () => {
  const broken = { ...staff, name: "broken", slots: { expression: "0 0 30 2 *", timezone: "UTC" } };
  const lost = { ...staff, name: "lost", slots: { expression: "@daily", timezone: "Nowhere/Land" } };
  scheduler.update([broken, lost, staff]);
  await memory.ended("no change");
  await pass(3 * hour);
  expect(memory.began.filter(({ sync }) => sync !== "staff")).toEqual([]);
  expect(began()).toEqual(["start 10:20:00", "schedule 11:00:00"]);
  expect(memory.logged.filter((each) => each.includes("cannot be computed"))).toEqual([
    expect.stringContaining("sync broken: the next slot cannot be computed: the schedule has no slot; check"),
    expect.stringContaining("sync lost: the next slot cannot be computed: "),
  ]);
  expect(scheduler.nextSlotAt("broken")).toBeUndefined();
  expect(standingOf(lost, memory, Date.now()).scheduleProblem).toContain("Nowhere/Land");
  await memory.ended("no change");
  scheduler.update([
    { ...broken, slots: staff.slots! },
    { ...staff, slots: lost.slots },
  ]);
  await pass(hour);
  expect(memory.began.slice(2).map(({ sync }) => sync)).toEqual(["broken"]);
  expect(scheduler.nextSlotAt("staff")).toBeUndefined();
});

test("a slot that was stored and cannot be read is as good as none", async () => {
  memory.note("staff", { lastSlotAt: "never" });
  scheduler.update([staff]);
  await pass(hour);
  expect(began()).toEqual(["schedule 11:00:00"]);
});

test("a slot months away is waited for, longer than any timer of the system", async () => {
  const yearly = { ...staff, slots: { expression: "@yearly", timezone: "UTC" } };
  await ranBefore(yearly);
  scheduler.update([yearly]);
  await pass(40 * 24 * hour);
  expect(began()).toEqual([]);
  expect(scheduler.nextSlotAt("staff")).toBe("2027-01-01T00:00:00.000Z");
  await pass(2 * 24 * hour);
  expect(began()).toEqual(["schedule 00:00:00"]);
});

test("once stopped, nothing begins any more", async () => {
  scheduler.update([staff]);
  scheduler.stop();
  await memory.ended("failed");
  await pass(5 * hour);
  expect(memory.began).toHaveLength(1);
});
