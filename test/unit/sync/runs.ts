import type { RunRecord } from "#sync/record.ts";

/** A run of a schedule that found nothing to do, as the journal has it; with what is told of it. */
export function runOf(change: Partial<RunRecord> & Pick<RunRecord, "id">): RunRecord {
  return {
    sync: "staff",
    target: "analytics",
    cause: "schedule",
    by: { name: "rollcall", from: "schedule" },
    startedAt: "2026-11-21T10:00:00.000Z",
    endedAt: "2026-11-21T10:00:05.000Z",
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
