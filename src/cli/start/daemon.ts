import { hostname } from "node:os";
import type { Context } from "#cli/context.ts";
import { openLocalCoordinator } from "#cli/coordinator.ts";
import { openNotifications } from "#cli/notifications.ts";
import type { Records } from "#cli/records.ts";
import type { Configuration, SyncConfiguration } from "#config/configuration.ts";
import type { Metrics } from "#control/metrics/metrics.ts";
import type { LocalCoordinator } from "#sync/coordinator/open.ts";
import type { SyncState } from "#sync/record.ts";
import { createScheduler } from "#sync/schedule/scheduler.ts";
import type { ScheduledSync, Scheduler, ScheduleState } from "#sync/schedule/scheduler.ts";
import { logPlan, logRuns, logSchedule } from "./log-events.ts";

/** Runs the syncs of a configuration by their schedules. */
export interface Daemon {
  readonly coordinator: LocalCoordinator;
  readonly scheduler: Scheduler;
  /** Switches to another configuration, for the runs that begin from now on. */
  take(configuration: Configuration): void;
  /** Starts no more runs; finishes one that is applying. */
  stop(): Promise<void>;
  /** Also aborts what is being applied. */
  abandon(): void;
}

/** Recovers interrupted runs, and starts the schedules of all syncs. */
export async function startDaemon(
  base: Omit<Context, "interruption">,
  records: Records,
  metrics: Pick<Metrics, "follow" | "notified">,
): Promise<Daemon> {
  const stop = new AbortController();
  const abandon = new AbortController();
  let context: Context = { ...base, interruption: { stop: stop.signal, abandon: abandon.signal } };
  const { log } = context;
  const coordinator: LocalCoordinator = await openLocalCoordinator(() => context, records, {
    report: (report, { id }) => logPlan(context, report, id),
    statusOf: (sync) => {
      const nextSlotAt = scheduler.nextSlotAt(sync);
      const overdue = scheduler.overdue().includes(sync);
      return { overdue, nextSlotAt };
    },
  });
  const memory = stateOf(coordinator, (error) => {
    log.error({ err: error }, "the journal cannot be written");
  });
  const scheduler = createScheduler({
    coordinator,
    memory,
    seed: `${hostname()}\n${context.configuration.data}`,
    log: {
      info: (message) => log.info(message),
      warn: (message) => log.warn(message),
      error: (message) => log.error(message),
    },
  });
  const notifications = await openNotifications(context.configuration, log, {
    isStopping: () => stop.signal.aborted,
    ended: metrics.notified,
  });
  coordinator.subscribe(logRuns(() => context));
  coordinator.subscribe(logSchedule(log));
  coordinator.subscribe(notifications.listener);
  metrics.follow(coordinator);
  await coordinator.recover();
  scheduler.update(scheduledSyncs(context.configuration));
  return {
    coordinator,
    scheduler,
    take: (configuration) => {
      context = { ...context, configuration };
      scheduler.update(scheduledSyncs(configuration));
      notifications.take(configuration).catch((error: unknown) => {
        log.error({ err: error }, "the notification channels cannot be opened");
      });
    },
    stop: async () => {
      scheduler.stop();
      stop.abort(new Error("The daemon is stopping. Nothing was applied."));
      await coordinator.close();
      await notifications.close();
    },
    abandon: () => {
      abandon.abort(new Error("abandoned"));
    },
  };
}

function stateOf(coordinator: LocalCoordinator, failed: (error: unknown) => void): ScheduleState {
  return {
    state: (sync) => coordinator.state(sync),
    emit: (event) => {
      coordinator.emit(event);
    },
    note: (sync, patch) => {
      coordinator.change(sync, (state) => patched(state, patch)).catch(failed);
    },
  };
}

function patched(state: SyncState, patch: Parameters<ScheduleState["note"]>[1]): SyncState {
  const entries = Object.entries({ ...state, ...patch }).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as unknown as SyncState;
}

function scheduledSyncs({ syncs }: Configuration): ScheduledSync[] {
  return Object.entries(syncs).map(([name, sync]) => scheduled(name, sync));
}

function scheduled(name: string, sync: SyncConfiguration): ScheduledSync {
  const { schedule: expression, timezone, jitter = 0, catchUp, retries, overdueAfter } = sync;
  const slots = expression === undefined ? undefined : { expression, timezone };
  return { name, slots, jitter, catchUp, retries, overdueAfter };
}
