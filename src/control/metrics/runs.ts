import { actions } from "#plan/change.ts";
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
  const counters = new RunCounters(registry);
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

class RunCounters {
  readonly #runs: Counter;
  readonly #limits: Counter;
  readonly #skipped: Counter;
  readonly #retries: Counter;
  readonly #givenUp: Counter;
  readonly #stages: Histogram;
  readonly #known = new Map<string, Known>();

  constructor(registry: Registry) {
    const registers = [registry];
    const counter = (name: string, help: string, ...labelNames: string[]): Counter =>
      new prometheus.Counter({ name, help, labelNames: ["sync", ...labelNames], registers });
    this.#runs = counter(
      "rollcall_runs_total",
      "Runs by outcome. A pending run may get another outcome later.",
      "outcome",
    );
    this.#limits = counter("rollcall_limits_tripped_total", "Runs in which a limit was tripped.", "limit");
    this.#skipped = counter("rollcall_slots_skipped_total", "Scheduled slots that were skipped.");
    this.#retries = counter("rollcall_retries_total", "Failed runs that were or will be retried.");
    this.#givenUp = counter(
      "rollcall_retries_exhausted_total",
      "Failed runs that will not be retried before the next slot.",
    );
    this.#stages = new prometheus.Histogram({
      name: "rollcall_run_stage_duration_seconds",
      help: "How long the stages of runs took.",
      labelNames: ["sync", "stage"],
      buckets: [0.01, 0.05, 0.25, 1, 5, 15, 60, 300, 1800],
      registers,
    });
  }

  /** Creates every series of a sync with 0: a series that appears only with its first event has no rate. */
  begin(sync: string): void {
    for (const outcome of Object.values(outcomes)) this.#runs.inc({ sync, outcome }, 0);
    for (const each of [this.#skipped, this.#retries, this.#givenUp]) each.inc({ sync }, 0);
  }

  take(event: SyncEvent): void {
    if (event.type === "run") this.#count(event.run);
    else if (event.type === "skipped") this.#skipped.inc({ sync: event.sync });
    else if (event.type === "retry") this.#retries.inc({ sync: event.sync });
    else if (event.type === "gave up") this.#givenUp.inc({ sync: event.sync });
  }

  #count(run: RunRecord): void {
    const { id, sync } = run;
    const state = stateName(run);
    const before: Known = this.#known.get(id) ?? { state: "running", stages: 0, limits: [] };
    const timed = run.stages.filter((stage) => stage.milliseconds !== undefined);
    for (const { stage, milliseconds = 0 } of timed.slice(before.stages)) {
      this.#stages.observe({ sync, stage }, milliseconds / 1000);
    }
    const tripped = new Set(run.limits.flatMap(({ limit, tripped }) => (tripped ? [limit] : [])));
    const limits = [...before.limits, ...tripped.difference(new Set(before.limits))];
    for (const limit of limits.slice(before.limits.length)) this.#limits.inc({ sync, limit });
    if (state !== before.state && state !== "running") this.#runs.inc({ sync, outcome: outcomes[state] });
    this.#known.delete(id);
    this.#known.set(id, { state, stages: timed.length, limits });
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= remembered) break;
      this.#known.delete(oldest);
    }
  }
}

/** What has been counted of a run. */
interface Known {
  readonly state: StateName;
  readonly stages: number;
  /** In arrays rather than sets, since they are mostly empty: an empty set takes a quarter of a kilobyte. */
  readonly limits: readonly string[];
}

/** What the counting needs of a coordinator. */
export type Observed = Pick<Coordinator, "runs" | "syncs" | "subscribe">;

const kinds = ["user", "group"] as const;

/** The status of syncs and what their last runs say, read whenever the metrics are. */
function addSyncStatus(registry: Registry, observed: () => Observed | undefined): void {
  for (const [name, help, read] of statusFigures)
    addGauge(registry, name, help, [], () =>
      syncsOf(observed).map((status) => ({ labels: { sync: status.sync }, value: read(status) })),
    );
  for (const [name, help, labels, read] of runFigures)
    addGauge(registry, name, help, labels, () => {
      const runs = observed()?.runs() ?? [];
      return syncsOf(observed).flatMap((status) =>
        read(
          runs.filter((run) => run.sync === status.sync),
          status,
        ).map(({ labels, value }) => ({ labels: { sync: status.sync, ...labels }, value })),
      );
    });
}

function syncsOf(observed: () => Observed | undefined): readonly SyncStatus[] {
  return observed()?.syncs() ?? [];
}

/** One series of a figure. Without a value, there is none. */
interface Sample {
  readonly labels?: Readonly<Record<string, string>>;
  readonly value: number | undefined;
}

function addGauge(
  registry: Registry,
  name: string,
  help: string,
  labels: readonly string[],
  read: () => readonly Sample[],
): void {
  const gauge = new prometheus.Gauge({
    name,
    help,
    labelNames: ["sync", ...labels],
    registers: [registry],
    collect: () => {
      gauge.reset();
      for (const { labels = {}, value } of read()) if (value !== undefined) gauge.inc(labels, value);
    },
  });
}

const statusFigures: readonly (readonly [string, string, (status: SyncStatus) => number | undefined])[] = [
  [
    "rollcall_sync_last_success_timestamp_seconds",
    "When the sync last succeeded, in seconds since 1970. Absent: never.",
    (status) => seconds(status.lastSuccessAt),
  ],
  [
    "rollcall_sync_last_success_age_seconds",
    "How long ago the sync last succeeded. Absent: never.",
    (status) => {
      const at = seconds(status.lastSuccessAt);
      return at === undefined ? undefined : Math.max(0, Date.now() / 1000 - at);
    },
  ],
  [
    "rollcall_sync_overdue",
    "1: the sync has not succeeded for longer than `overdueAfter` allows.",
    (status) => Number(status.overdue),
  ],
  ["rollcall_sync_failures_in_a_row", "Failed runs since the last success.", (status) => status.failures?.count ?? 0],
  ["rollcall_sync_running", "1: a run of the sync is under way.", (status) => Number(status.running !== undefined)],
  [
    "rollcall_sync_next_slot_timestamp_seconds",
    "When the next scheduled run begins, in seconds since 1970. Absent: the sync has no schedule.",
    (status) => seconds(status.nextSlotAt),
  ],
];

/** The runs of a sync, newest first. */
type ReadRuns = (runs: readonly RunRecord[], status: SyncStatus) => readonly Sample[];

const runFigures: readonly (readonly [string, string, readonly string[], ReadRuns])[] = [
  [
    "rollcall_plan_changes",
    "Users and groups that the sync's last plan changes, by the kind of cause. One with several causes counts at each.",
    ["cause"],
    (runs) => {
      const causes = runs.find((run) => run.causes !== undefined && run.for === undefined)?.causes;
      if (causes === undefined) return [];
      const none = causeKinds.map((kind) => ({ kind, users: 0, groups: 0 }));
      return [...none, ...causes].map(({ kind, users, groups }) => ({
        labels: { cause: kind.replaceAll(" ", "_") },
        value: users + groups,
      }));
    },
  ],
  [
    "rollcall_expectation_violations",
    "Users and groups that break an expectation once the sync's last plan is applied: new ones, and those that do already.",
    ["expectation", "state"],
    (runs) =>
      (runs.find((run) => run.expectations !== undefined)?.expectations ?? [])
        .filter(({ state }) => state !== "unknown")
        .flatMap(({ name: expectation, violations, already }) => [
          { labels: { expectation, state: "new" }, value: violations - already },
          { labels: { expectation, state: "already" }, value: already },
        ]),
  ],
  [
    "rollcall_principals",
    "Users and groups in a sync's target, as of its last run that listed them.",
    ["kind"],
    (runs) => {
      const run = runs.find(({ counts }) => counts !== undefined);
      const side = run?.state === "applied" ? "after" : "before";
      return kinds.map((kind) => ({ labels: { kind }, value: run?.counts?.[`${kind}s`][side] }));
    },
  ],
  [
    "rollcall_quarantined_records",
    "Records in doubt in a sync's last run that read the sources: they stay unchanged in the target.",
    [],
    (runs) => [{ value: runs.find(({ quarantined }) => quarantined !== undefined)?.quarantined }],
  ],
  [
    "rollcall_sync_approvals_missing",
    "How many people have yet to approve the sync's waiting plan; 0: none waits.",
    [],
    (runs, { pending }) => {
      const run = runs.find(({ id }) => id === pending);
      const { given, needed } = (run && approvalsOf(run)) ?? { given: 0, needed: run === undefined ? 0 : 1 };
      return [{ value: needed - given }];
    },
  ],
  [
    "rollcall_pending_changes",
    "Users and groups that pending runs would change.",
    ["action", "kind"],
    (runs, { pending }) => {
      const counts = runs.find(({ id }) => id === pending)?.counts;
      return kinds.flatMap((kind) =>
        (counts === undefined ? usual : actions).map((action) => ({
          labels: { action, kind },
          value: counts === undefined ? 0 : counts[`${kind}s`][action],
        })),
      );
    },
  ],
];

/** The actions of any plan. */
const usual = ["create", "update", "delete"] as const;

/** Of a time in ISO 8601, since 1970. */
function seconds(time: string | undefined): number | undefined {
  return time === undefined ? undefined : Date.parse(time) / 1000;
}
