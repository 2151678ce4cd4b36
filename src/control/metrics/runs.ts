import prometheus from "prom-client";
import type { Counter, Histogram, Registry } from "prom-client";
import type { SyncEvent } from "#sync/coordinator/coordinator.ts";
import type { RunRecord, RunState } from "#sync/record.ts";
import { addStanding } from "./standing.ts";
import type { Followed } from "./standing.ts";

const outcomes: Readonly<Record<Exclude<RunState, "running">, string>> = {
  "no change": "no_change",
  applied: "applied",
  pending: "pending",
  held: "held",
  failed: "failed",
  rejected: "rejected",
  superseded: "superseded",
  expired: "expired",
};

/** What has been counted of so many runs is remembered: each is told of several times. */
const remembered = 1000;

/** Counts what happens to runs, and shows how syncs stand. Every label is a name of the configuration, or one of a few words. */
export function countRuns(registry: Registry): (coordinator: Followed) => () => void {
  const counters = createCounters(registry);
  let followed: Followed | undefined;
  addStanding(registry, () => followed);
  return (coordinator) => {
    followed = coordinator;
    for (const { sync } of coordinator.syncs()) counters.begin(sync);
    const unsubscribe = coordinator.subscribe(counters.take);
    return () => {
      unsubscribe();
      if (followed === coordinator) followed = undefined;
    };
  };
}

interface Counters {
  /** Has a series for everything that may happen to a sync: what appears only when it happens has no rate. */
  begin(sync: string): void;
  take(event: SyncEvent): void;
}

function createCounters(registry: Registry): Counters {
  const registers = [registry];
  const counter = (name: string, help: string, ...labelNames: string[]): Counter =>
    new prometheus.Counter({ name, help, labelNames: ["sync", ...labelNames], registers });
  const runs = counter(
    "rollcall_runs_total",
    "Runs that came to an outcome; one that was pending may yet come to another.",
    "outcome",
  );
  const limits = counter("rollcall_limits_tripped_total", "Runs in which a limit was tripped.", "limit");
  const skipped = counter("rollcall_slots_skipped_total", "Slots of the schedule in which no run began.");
  const retries = counter("rollcall_retries_total", "Failed runs that were, or are to be, tried again.");
  const givenUp = counter(
    "rollcall_retries_exhausted_total",
    "Failed runs that are not tried again before the next slot.",
  );
  const stages: Histogram = new prometheus.Histogram({
    name: "rollcall_run_stage_duration_seconds",
    help: "How long the stages of runs took.",
    labelNames: ["sync", "stage"],
    buckets: [0.01, 0.05, 0.25, 1, 5, 15, 60, 300, 1800],
    registers,
  });
  const known = new Map<string, Known>();

  const count = (run: RunRecord): void => {
    const { id, sync, state } = run;
    const before: Known = known.get(id) ?? { state: "running", stages: 0, limits: new Set() };
    const timed = run.stages.filter((stage) => stage.milliseconds !== undefined);
    for (const { stage, milliseconds = 0 } of timed.slice(before.stages)) {
      stages.observe({ sync, stage }, milliseconds / 1000);
    }
    const tripped = new Set(run.limits.flatMap(({ limit, tripped }) => (tripped ? [limit] : [])));
    for (const limit of tripped.difference(before.limits)) limits.inc({ sync, limit });
    if (state !== before.state && state !== "running") runs.inc({ sync, outcome: outcomes[state] });
    known.delete(id);
    known.set(id, { state, stages: timed.length, limits: tripped.union(before.limits) });
    for (const oldest of known.keys()) {
      if (known.size <= remembered) break;
      known.delete(oldest);
    }
  };

  return {
    begin: (sync) => {
      for (const outcome of Object.values(outcomes)) runs.inc({ sync, outcome }, 0);
      for (const each of [skipped, retries, givenUp]) each.inc({ sync }, 0);
    },
    take: (event) => {
      switch (event.type) {
        case "run":
          count(event.run);
          break;
        case "skipped":
          skipped.inc({ sync: event.sync });
          break;
        case "retry":
          retries.inc({ sync: event.sync });
          break;
        case "gave up":
          givenUp.inc({ sync: event.sync });
          break;
        case "stage":
        case "overdue":
          break;
      }
    },
  };
}

/** What has been counted of a run. */
interface Known {
  readonly state: RunState;
  readonly stages: number;
  readonly limits: ReadonlySet<string>;
}
