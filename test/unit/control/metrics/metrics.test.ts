import { expect, test } from "vitest";
import { createMetrics } from "#control/metrics/metrics.ts";
import type { Metrics } from "#control/metrics/metrics.ts";
import type { Cause } from "#plan/causes.ts";
import type { RunRecord, SyncEvent, SyncStatus } from "#state/record.ts";
import { parseExposition } from "../../../support/exposition.ts";
import type { Exposition } from "../../../support/exposition.ts";
import { runOf, trippedLimit } from "../../../support/runs.ts";

const status: SyncStatus = { sync: "staff", target: "analytics", skipped: [], overdue: false };

const run = runOf({ state: "running" });

const counts = {
  users: { before: 10, after: 11, create: 2, update: 3, delete: 1 },
  groups: { before: 4, after: 4, create: 0, update: 1, delete: 0 },
  membershipsAdded: 0,
  membershipsRemoved: 0,
};

function stage(stage: RunRecord["stages"][number]["stage"], milliseconds?: number): RunRecord["stages"][number] {
  return { stage, startedAt: run.startedAt, ...(milliseconds === undefined ? {} : { milliseconds }) };
}

function limit(limit: RunRecord["limits"][number]["limit"], of: string, tripped: boolean): RunRecord["limits"][number] {
  return trippedLimit({ limit, of, tripped });
}

/** Follows a coordinator that is what a test makes of it. */
const expectations = [
  {
    name: "badges",
    over: "users",
    expect: "true",
    otherwise: "warn",
    most: 0,
    state: "broken",
    violations: 7,
    already: 4,
    examples: [],
  },
] as const;
const drift = (id: string, users: number): Cause => ({
  id,
  kind: "drift",
  attribute: "mail",
  users,
  groups: 0,
  example: { kind: "user", name: "zoe" },
});

function follow(): {
  metrics: Metrics;
  state: { runs: RunRecord[]; syncs: SyncStatus[] };
  emit: (event: SyncEvent) => void;
  end: () => void;
  read: () => Promise<Exposition>;
} {
  const metrics = createMetrics("1.2.3");
  const state = { runs: [] as RunRecord[], syncs: [status] };
  const listeners = new Set<(event: SyncEvent) => void>();
  const end = metrics.follow({
    runs: () => state.runs,
    syncs: () => state.syncs,
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  });
  return {
    metrics,
    state,
    emit: (event) => {
      for (const listener of listeners) listener(event);
    },
    end,
    read: async () => parseExposition(await metrics.registry.metrics()),
  };
}

test("every outcome of a sync has a sample before it first happens", async () => {
  const { samples } = await follow().read();
  const runs = samples.filter(({ name }) => name === "rollcall_runs_total");
  expect(runs.map(({ labels, value }) => [labels["outcome"], value])).toEqual(
    ["no_change", "applied", "pending", "held", "failed", "rejected", "superseded", "expired", "cancelled"].map(
      (each) => [each, 0],
    ),
  );
});

test("a run is counted once for each of its outcomes, however many events report it", async () => {
  const { emit, read } = follow();
  const tell = (change: Partial<RunRecord>): void => emit({ type: "run", run: { ...run, ...change } });
  const shown = [stage("read", 1000), stage("list", 20), stage("plan", 30), stage("preview", 40)];
  tell({});
  tell({ stages: [stage("read")] });
  tell({ state: "pending", stages: shown });
  tell({ state: "pending", stages: shown, foundAgain: { count: 1, lastAt: run.startedAt } });
  tell({ stages: [...shown, stage("apply")] });
  tell({ state: "applied", stages: [...shown, stage("apply", 7000), stage("verify", 50)] });
  tell({ state: "applied", stages: [...shown, stage("apply", 7000), stage("verify", 50)] });
  tell({ id: "20261121-101335-4f9c2e", state: "failed" });
  const { value } = await read();
  const outcome = (outcome: string): number | undefined => value("rollcall_runs_total", { sync: "staff", outcome });
  expect(["pending", "applied", "failed", "held"].map(outcome)).toEqual([1, 1, 1, 0]);
  const times = (stage: string): (number | undefined)[] =>
    ["count", "sum"].map((each) => value(`rollcall_run_stage_duration_seconds_${each}`, { sync: "staff", stage }));
  expect(times("read")).toEqual([1, 1]);
  expect(times("apply")).toEqual([1, 7]);
  expect(times("verify")).toEqual([1, 0.05]);
});

test("a limit that is tripped for users and groups, and is told of again when it is approved, is tripped once", async () => {
  const { emit, read } = follow();
  const limits = [limit("deletes", "users", true), limit("deletes", "groups", true), limit("updates", "users", false)];
  emit({ type: "run", run: { ...run, state: "held", limits } });
  emit({ type: "run", run: { ...run, state: "applied", limits } });
  const { samples } = await read();
  expect(samples.filter(({ name }) => name === "rollcall_limits_tripped_total")).toEqual([
    { name: "rollcall_limits_tripped_total", labels: { sync: "staff", limit: "deletes" }, value: 1 },
  ]);
});

test("slots, retries and giving up are counted", async () => {
  const { emit, read } = follow();
  emit({ type: "skipped", sync: "staff", at: run.startedAt, reason: "" });
  emit({ type: "retry", sync: "staff", id: run.id, at: run.startedAt });
  emit({ type: "retry", sync: "staff", id: run.id, at: run.startedAt });
  emit({ type: "gave up", sync: "staff", id: run.id, failures: 3 });
  emit({ type: "overdue", sync: "staff", since: run.startedAt });
  emit({ type: "stage", id: run.id, sync: "staff", stage: "read" });
  const { value } = await read();
  const names = ["slots_skipped", "retries", "retries_exhausted"];
  expect(names.map((name) => value(`rollcall_${name}_total`, { sync: "staff" }))).toEqual([1, 2, 1]);
});

test("how a sync stands is looked up when somebody asks", async () => {
  const { state, read } = follow();
  const before = await read();
  expect(before.value("rollcall_sync_last_success_age_seconds")).toBeUndefined();
  expect(before.value("rollcall_sync_overdue")).toBe(0);
  expect(before.value("rollcall_principals")).toBeUndefined();
  const lastSuccessAt = new Date(Date.now() - 3_600_000).toISOString();
  state.syncs = [
    { ...status, lastSuccessAt, overdue: true, failures: { count: 4, since: run.startedAt }, running: "x" },
    { ...status, sync: "guests", pending: run.id },
  ];
  state.runs = [
    { ...run, id: "3", state: "failed" },
    {
      ...run,
      id: "2",
      state: "applied",
      counts,
      quarantined: 4,
      causes: [drift("c1", 2), drift("c2", 1)],
      expectations,
    },
    { ...run, id: "1", state: "no change", counts: { ...counts, users: { ...counts.users, after: 99 } } },
    { ...run, sync: "guests", state: "pending", counts },
  ];
  const { value } = await read();
  expect(value("rollcall_sync_last_success_timestamp_seconds")).toBe(Date.parse(lastSuccessAt) / 1000);
  expect(value("rollcall_sync_last_success_age_seconds")).toBeGreaterThanOrEqual(3600);
  expect(value("rollcall_sync_overdue", { sync: "staff" })).toBe(1);
  expect(value("rollcall_sync_failures_in_a_row", { sync: "staff" })).toBe(4);
  expect(value("rollcall_sync_failures_in_a_row", { sync: "guests" })).toBe(0);
  expect(value("rollcall_sync_running", { sync: "staff" })).toBe(1);
  expect(value("rollcall_principals", { sync: "staff", kind: "user" })).toBe(11);
  expect(value("rollcall_principals", { sync: "guests", kind: "user" })).toBe(10);
  expect(value("rollcall_quarantined_records", { sync: "staff" })).toBe(4);
  expect(value("rollcall_quarantined_records", { sync: "guests" })).toBeUndefined();
  expect(value("rollcall_pending_changes", { sync: "guests", kind: "user", action: "update" })).toBe(3);
  expect(value("rollcall_pending_changes", { sync: "staff", kind: "user", action: "update" })).toBe(0);
  expect(value("rollcall_plan_changes", { sync: "staff", cause: "drift" })).toBe(3);
  const badges = (state: string) =>
    value("rollcall_expectation_violations", { sync: "staff", expectation: "badges", state });
  expect([badges("new"), badges("already")]).toEqual([3, 4]);
  expect(value("rollcall_plan_changes", { sync: "staff", cause: "into_scope" })).toBe(0);
  expect(value("rollcall_plan_changes", { sync: "guests", cause: "drift" })).toBeUndefined();
  state.syncs = [];
  expect((await read()).value("rollcall_sync_overdue")).toBeUndefined();
});

test("a coordinator that is no longer followed is not asked", async () => {
  const { emit, end, read } = follow();
  end();
  emit({ type: "run", run: { ...run, state: "failed" } });
  const { value } = await read();
  expect(value("rollcall_sync_overdue")).toBeUndefined();
  expect(value("rollcall_runs_total", { sync: "staff", outcome: "failed" })).toBe(0);
});

test("what is remembered of runs does not grow with them", async () => {
  const { emit, read } = follow();
  for (let index = 0; index < 5000; index += 1) {
    emit({ type: "run", run: { ...run, id: String(index) } });
    emit({ type: "run", run: { ...run, id: String(index), state: "no change" } });
  }
  expect((await read()).value("rollcall_runs_total", { sync: "staff", outcome: "no_change" })).toBe(5000);
});

test("requests, loads and notifications", async () => {
  const { metrics, read } = follow();
  metrics.request({ method: "GET", seconds: 0.1, status: 404 });
  metrics.request({ method: "GET", route: "/loads/:cycle_id", seconds: 3 });
  metrics.client({ target: "a", operation: "GET /user/list", status: 503, seconds: 1 });
  metrics.client({ target: "a", operation: "GET /user/list", seconds: 1 });
  metrics.load({ database: "hr", code: "OK", rowsWritten: 7, ignoredRows: 2, bytes: 90, seconds: 1 });
  metrics.load({ database: "no such", code: "LOAD_FAILED", rowsWritten: 0, ignoredRows: 0, bytes: 10, seconds: 1 });
  metrics.notified("ops", true);
  metrics.notified("ops", false);
  metrics.watch(() => ({ sessions: 3, cycles: 2 }));
  const { value, samples } = await read();
  expect(value("rollcall_http_requests_total", { route: "none", status: "404" })).toBe(1);
  expect(value("rollcall_http_requests_total", { route: "/loads/:cycle_id", status: "none" })).toBe(1);
  expect(value("rollcall_client_requests_total", { status: "5xx" })).toBe(1);
  expect(value("rollcall_client_requests_total", { status: "none" })).toBe(1);
  expect(value("rollcall_loads_total", { outcome: "loaded" })).toBe(1);
  expect(value("rollcall_load_bytes_total")).toBe(100);
  expect(value("rollcall_load_rows_total", { database: "hr", outcome: "ignored" })).toBe(2);
  expect(samples.some(({ labels }) => labels["database"] === "no such")).toBe(false);
  expect(value("rollcall_notifications_total", { channel: "ops", outcome: "failed" })).toBe(1);
  expect([value("rollcall_sessions"), value("rollcall_load_cycles")]).toEqual([3, 2]);
});

test("names are as Prometheus wants them: counters end in _total, and in base units before it", async () => {
  const { metrics, read } = follow();
  metrics.watch(() => ({ sessions: 0, cycles: 0 }));
  const { types, help } = await read();
  expect([...types.keys()]).toEqual([...help.keys()]);
  for (const [name, type] of types) {
    if (!name.startsWith("rollcall_")) continue;
    expect(name).toMatch(/^[a-z][a-z_]*[a-z]$/);
    expect(name.endsWith("_total"), name).toBe(type === "counter");
    expect(name).not.toMatch(/milliseconds|minutes|kilobytes|percent/);
    if (type === "histogram") expect(name).toMatch(/_seconds$/);
  }
});
