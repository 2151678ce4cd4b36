import prometheus from "prom-client";
import type { Registry } from "prom-client";
import type { Coordinator, SyncStatus } from "#sync/coordinator/coordinator.ts";

/** What the counting needs of a coordinator. */
export type Followed = Pick<Coordinator, "runs" | "syncs" | "subscribe">;

const kinds = ["user", "group"] as const;
const actions = ["create", "update", "delete"] as const;

/** How the syncs stand, looked up whenever somebody reads the metrics. */
export function addStanding(registry: Registry, followed: () => Followed | undefined): void {
  const registers = [registry];
  const perSync = (name: string, help: string, read: (status: SyncStatus) => number | undefined): void => {
    const gauge = new prometheus.Gauge({
      name,
      help,
      labelNames: ["sync"],
      registers,
      collect: () => {
        gauge.reset();
        for (const status of followed()?.syncs() ?? []) {
          const value = read(status);
          if (value !== undefined) gauge.set({ sync: status.sync }, value);
        }
      },
    });
  };
  perSync(
    "rollcall_sync_last_success_timestamp_seconds",
    "When the sync succeeded last, in seconds since 1970. Absent: it never has.",
    (status) => seconds(status.lastSuccessAt),
  );
  perSync(
    "rollcall_sync_last_success_age_seconds",
    "How long ago the sync succeeded last. Absent: it never has.",
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
    "rollcall_sync_next_slot_timestamp_seconds",
    "When the schedule begins the next run, in seconds since 1970. Absent: the sync has no schedule.",
    (status) => seconds(status.nextSlotAt),
  );

  const principals = new prometheus.Gauge({
    name: "rollcall_principals",
    help: "Users and groups of the target of a sync, as its last run that got so far has found or left them.",
    labelNames: ["sync", "kind"],
    registers,
    collect: () => {
      principals.reset();
      const coordinator = followed();
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
  const pending = new prometheus.Gauge({
    name: "rollcall_pending_changes",
    help: "Users and groups that a run would change that awaits approval.",
    labelNames: ["sync", "action", "kind"],
    registers,
    collect: () => {
      pending.reset();
      const coordinator = followed();
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
