import type { LimitCheck } from "#plan/limits.ts";
import type { RunRecord } from "#state/record.ts";

/** A run of the sync `staff` that found nothing to do, with the given changes. */
export function runOf(change: Partial<RunRecord> = {}): RunRecord {
  return {
    id: "20261121-101235-4f9c2e",
    sync: "staff",
    target: "analytics",
    cause: "schedule",
    by: { name: "rollcall", from: "schedule" },
    startedAt: "2026-11-21T10:12:35.000Z",
    state: "no change",
    stages: [],
    limits: [],
    waiting: [],
    notes: [],
    decisions: [],
    kept: false,
    ...change,
  };
}

/** The digest of a pending plan. */
export const digest = "0123456789abcdef".repeat(4);

/** A run that awaits approval. */
export function pendingRun(id: string, change: Partial<RunRecord> = {}): RunRecord {
  return runOf({ id, startedAt: "2026-11-21T10:00:00.000Z", state: "pending", digest, kept: true, ...change });
}

/** A run that has ended. */
export function endedRun(change: Partial<RunRecord> = {}): RunRecord {
  return runOf({ endedAt: "2026-11-21T10:12:40.000Z", ...change });
}

/** A run that applied changes. */
export function appliedRun(change: Partial<RunRecord> = {}): RunRecord {
  return runOf({
    state: "applied",
    counts: {
      users: { before: 100, after: 102, create: 3, update: 0, delete: 1 },
      groups: { before: 10, after: 10, create: 0, update: 1, delete: 0 },
      membershipsAdded: 4,
      membershipsRemoved: 0,
    },
    digest: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    kept: true,
    ...change,
  });
}

/** A tripped limit, with the given changes. */
export function trippedLimit(change: Partial<LimitCheck> = {}): LimitCheck {
  return {
    limit: "deletes",
    of: "users",
    value: 9,
    earlier: 0,
    bound: 1,
    basis: "as configured",
    tripped: true,
    overridden: false,
    ...change,
  };
}
