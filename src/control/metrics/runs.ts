import prometheus from "prom-client";
import type { Counter, Histogram, Registry } from "prom-client";
import { causeKinds } from "#plan/causes.ts";
import { approvalsOf } from "#sync/coordinator/approvals.ts";
import type { Coordinator } from "#sync/coordinator/coordinator.ts";
import { stateName } from "#state/record.ts";
import type { RunRecord, StateName, SyncEvent, SyncStatus } from "#state/record.ts";

const outcomes: Readonly<Record<Exclude<StateName, "running">, string>> = {
  "no change": "no_change",
  applied: "applied",
  pending: "pending",
  held: "held",
  failed: "failed",
  rejected: "rejected",
  superseded: "superseded",
  expired: "expired",
  cancelled: "cancelled",
};

/** How many runs to remember: every run causes several events, but is counted once. */
const remembered = 1000;

/** Counts runs and reports the status of syncs. Labels are names from the configuration or fixed words. */
export function countRuns(registry: Registry): (coordinator: Observed) => () => void {
  const counters = createCounters(registry);
  let observed: Observed | undefined;
  addSyncStatus(registry, () => observed);
  return (coordinator) => {
    observed = coordinator;
    for (const { sync } of coordinator.syncs()) counters.begin(sync);
    const unsubscribe = coordinator.subscribe((event) => {
      // The process that runs it counts it.
      if (event.type !== "run" || event.elsewhere !== true) counters.take(event);
    });
    return () => {
      unsubscribe();
      if (observed === coordinator) observed = undefined;
    };
  };
}

interface Counters {
  /** Creates every series of a sync with 0: a series that appears only with its first event has no rate. */
  begin(sync: string): void;
  take(event: SyncEvent): void;
}

function createCounters(registry: Registry): Counters {
  const registers = [registry];
  const counter = (name: string, help: string, ...labelNames: string[]): Counter =>
    new prometheus.Counter({ name, help, labelNames: ["sync", ...labelNames], registers });
  const runs = counter(
    "rollcall_runs_total",
    "Runs by outcome. A pending run may get another outcome later.",
    "outcome",
  );
  const limits = counter("rollcall_limits_tripped_total", "Runs in which a limit was tripped.", "limit");
  const skipped = counter("rollcall_slots_skipped_total", "Scheduled slots that were skipped.");
  const retries = counter("rollcall_retries_total", "Failed runs that were or will be retried.");
  const givenUp = counter(
    "rollcall_retries_exhausted_total",
    "Failed runs that will not be retried before the next slot.",
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
    const { id, sync } = run;
    const state = stateName(run);
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
  readonly state: StateName;
  readonly stages: number;
  readonly limits: ReadonlySet<string>;
}

/** What the counting needs of a coordinator. */
export type Observed = Pick<Coordinator, "runs" | "syncs" | "subscribe">;

const kinds = ["user", "group"] as const;
const actions = ["create", "update", "delete"] as const;

/** The status of syncs, read whenever the metrics are. */
function addSyncStatus(registry: Registry, observed: () => Observed | undefined): void {
  const registers = [registry];
  const perSync = (name: string, help: string, read: (status: SyncStatus) => number | undefined): void => {
    const gauge = new prometheus.Gauge({
      name,
      help,
      labelNames: ["sync"],
      registers,
      collect: () => {
        gauge.reset();
        for (const status of observed()?.syncs() ?? []) {
          const value = read(status);
          if (value !== undefined) gauge.set({ sync: status.sync }, value);
        }
      },
    });
  };
  perSync(
    "rollcall_sync_last_success_timestamp_seconds",
    "When the sync last succeeded, in seconds since 1970. Absent: never.",
    (status) => seconds(status.lastSuccessAt),
  );
  perSync(
    "rollcall_sync_last_success_age_seconds",
    "How long ago the sync last succeeded. Absent: never.",
    (status) => {
      const at = seconds(status.lastSuccessAt);
      return at === undefined ? undefined : Math.max(0, Date.now() / 1000 - at);
    },
  );
  perSync("rollcall_sync_overdue", "1: the sync has not succeeded for longer than `overdueAfter` allows.", (status) =>
    Number(status.overdue),
  );
  perSync(
    "rollcall_sync_failures_in_a_row",
    "Failed runs since the last success.",
    (status) => status.failures?.count ?? 0,
  );
  perSync("rollcall_sync_running", "1: a run of the sync is under way.", (status) =>
    Number(status.running !== undefined),
  );
  perSync(
    "rollcall_sync_approvals_missing",
    "How many people have yet to approve the sync's waiting plan; 0: none waits.",
    ({ pending }) => {
      const run =
        pending === undefined
          ? undefined
          : observed()
              ?.runs()
              .find(({ id }) => id === pending);
      if (run === undefined) return 0;
      const { given, needed } = approvalsOf(run) ?? { given: 0, needed: 1 };
      return needed - given;
    },
  );
  perSync(
    "rollcall_sync_next_slot_timestamp_seconds",
    "When the next scheduled run begins, in seconds since 1970. Absent: the sync has no schedule.",
    (status) => seconds(status.nextSlotAt),
  );

  const explained = new prometheus.Gauge({
    name: "rollcall_plan_changes",
    help: "Users and groups that the sync's last plan changes, by the kind of cause. One with several causes counts at each.",
    labelNames: ["sync", "cause"],
    registers,
    collect: () => {
      explained.reset();
      const coordinator = observed();
      const runs = coordinator?.runs() ?? [];
      for (const { sync } of coordinator?.syncs() ?? []) {
        const causes = runs.find(
          (each) => each.sync === sync && each.causes !== undefined && each.for === undefined,
        )?.causes;
        if (causes === undefined) continue;
        for (const kind of causeKinds) explained.set({ sync, cause: kind.replaceAll(" ", "_") }, 0);
        for (const { kind, users, groups } of causes)
          explained.inc({ sync, cause: kind.replaceAll(" ", "_") }, users + groups);
      }
    },
  });
  const violations = new prometheus.Gauge({
    name: "rollcall_expectation_violations",
    help: "Users and groups that break an expectation once the sync's last plan is applied: new ones, and those that do already.",
    labelNames: ["sync", "expectation", "state"],
    registers,
    collect: () => {
      violations.reset();
      const coordinator = observed();
      const runs = coordinator?.runs() ?? [];
      for (const { sync } of coordinator?.syncs() ?? []) {
        const last = runs.find((run) => run.sync === sync && run.expectations !== undefined);
        for (const { name: expectation, violations: all, already, state } of last?.expectations ?? []) {
          if (state === "unknown") continue;
          violations.set({ sync, expectation, state: "new" }, all - already);
          violations.set({ sync, expectation, state: "already" }, already);
        }
      }
    },
  });
  const principals = new prometheus.Gauge({
    name: "rollcall_principals",
    help: "Users and groups in a sync's target, as of its last run that listed them.",
    labelNames: ["sync", "kind"],
    registers,
    collect: () => {
      principals.reset();
      const coordinator = observed();
      if (coordinator === undefined) return;
      const runs = coordinator.runs();
      for (const { sync } of coordinator.syncs()) {
        const run = runs.find((each) => each.sync === sync && each.counts !== undefined);
        if (run?.counts === undefined) continue;
        const side = run.state === "applied" ? "after" : "before";
        for (const kind of kinds) principals.set({ sync, kind }, run.counts[`${kind}s`][side]);
      }
    },
  });
  perSync(
    "rollcall_quarantined_records",
    "Records in doubt in a sync's last run that read the sources: what the target has of them stays as it is.",
    ({ sync }) =>
      observed()
        ?.runs()
        .find((run) => run.sync === sync && run.quarantined !== undefined)?.quarantined,
  );
  const pending = new prometheus.Gauge({
    name: "rollcall_pending_changes",
    help: "Users and groups that pending runs would change.",
    labelNames: ["sync", "action", "kind"],
    registers,
    collect: () => {
      pending.reset();
      const coordinator = observed();
      for (const status of coordinator?.syncs() ?? []) {
        const { sync } = status;
        const run =
          status.pending === undefined ? undefined : coordinator?.runs().find(({ id }) => id === status.pending);
        for (const kind of kinds)
          for (const action of actions) pending.set({ sync, action, kind }, run?.counts?.[`${kind}s`][action] ?? 0);
      }
    },
  });
}

/** Of a time in ISO 8601, since 1970. */
function seconds(time: string | undefined): number | undefined {
  return time === undefined ? undefined : Date.parse(time) / 1000;
}
