import { hostname } from "node:os";
import type { Context } from "#daemon/context.ts";
import { openLocalCoordinator } from "#daemon/coordinator.ts";
import { openNotifications } from "#daemon/notifications.ts";
import type { Notifications } from "#daemon/notifications.ts";
import type { OpenedStore } from "#daemon/records.ts";
import { paths } from "#state/store.ts";
import type { Configuration, SyncConfiguration } from "#config/configuration.ts";
import type { LocalCoordinator } from "#sync/coordinator/local.ts";
import type { Actor, SyncState } from "#state/record.ts";
import { Scheduler, standingOf } from "#daemon/scheduler.ts";
import type { ScheduledSync, ScheduleState } from "#daemon/scheduler.ts";
import { takePart } from "#daemon/part.ts";
import type { Lead } from "#daemon/part.ts";
import { logPlan, logRuns, logSchedule } from "./log-events.ts";

/** Runs the syncs of a configuration by their schedules. */
export interface Daemon {
  readonly coordinator: LocalCoordinator;
  /** Begins a run of every sync. */
  trigger(by: Actor): void;
  /** Whether anything runs or waits for its turn. */
  isBusy(): boolean;
  /** The syncs without a success for longer than is configured. */
  overdue(): readonly string[];
  /** Switches to another configuration, for the runs that begin from now on. */
  take(configuration: Configuration): void;
  /** Starts no more runs; finishes one that is applying. */
  stop(): Promise<void>;
  /** Also aborts what is being applied. */
  abandon(): void;
}

/** Counts what happens. */
export interface DaemonMetrics {
  follow(coordinator: LocalCoordinator): void;
  notified(channel: string, delivered: boolean): void;
}

/** What begins runs by schedule and tells people of them. Of the daemons that share their state, one does at a time. */
interface Leading {
  readonly scheduler: Scheduler;
  readonly notifications: Notifications;
  end(): Promise<void>;
}

/** Recovers interrupted runs, and starts the schedules of all syncs. */
export async function startDaemon(
  base: Omit<Context, "interruption">,
  store: OpenedStore,
  metrics: DaemonMetrics,
): Promise<Daemon> {
  const stop = new AbortController();
  const abandon = new AbortController();
  let context: Context = { ...base, interruption: { stop: stop.signal, abandon: abandon.signal } };
  const { log } = context;
  const now = (): number => store.lease.now();
  let leading: Leading | undefined;
  const coordinator: LocalCoordinator = await openLocalCoordinator(() => context, store, {
    report: (report, { id }) => logPlan(context, report, id),
    statusOf: (name) => {
      const sync = context.configuration.syncs[name];
      if (sync === undefined) return {};
      const standing = standingOf(scheduled(name, sync), memory, now());
      return { ...standing, nextSlotAt: leading?.scheduler.nextSlotAt(name) ?? standing.nextSlotAt };
    },
  });
  const memory = stateOf(coordinator, (error) => {
    log.error({ err: error }, "the journal cannot be written");
  });

  const lead = async (seed: string, options: Parameters<typeof openNotifications>[2] = {}): Promise<Leading> => {
    const scheduler = new Scheduler({
      coordinator,
      memory,
      seed,
      now,
      log: {
        info: (message) => log.info(message),
        warn: (message) => log.warn(message),
        error: (message) => log.error(message),
      },
    });
    const notifications = await openNotifications(context.configuration, log, {
      isStopping: () => stop.signal.aborted,
      ended: metrics.notified,
      ...options,
    });
    leading = {
      scheduler,
      notifications,
      end: async () => {
        leading = undefined;
        scheduler.stop();
        await notifications.close();
      },
    };
    return leading;
  };

  coordinator.subscribe(logRuns(() => context));
  coordinator.subscribe(logSchedule(log));
  metrics.follow(coordinator);
  let endPart: (() => Promise<void>) | undefined;
  if (!store.isShared) {
    const { scheduler, notifications } = await lead(`${hostname()}\n${context.configuration.data}`);
    coordinator.subscribe(notifications.listener);
    await coordinator.recover();
    scheduler.update(scheduledSyncs(context.configuration));
  } else {
    const leadAll = async (): Promise<Lead> => {
      await store.files.fetch(paths.outbox);
      // The same for all of them: whoever leads begins a run at the same moment.
      const { scheduler, notifications, end } = await lead("shared", {
        saved: () => store.files.save(paths.outbox),
        // Without the lease, another one sends them.
        closing: () => (store.lease.lost().aborted && !stop.signal.aborted ? 0 : 3_000),
      });
      // What becomes of runs is recorded with them, whoever runs them.
      const unsubscribe = coordinator.subscribe((event) => {
        if (event.type !== "run") notifications.listener(event);
      });
      scheduler.update(scheduledSyncs(context.configuration));
      return {
        take: async (event) => {
          notifications.listener(event);
          await notifications.taken();
        },
        stop: async () => {
          unsubscribe();
          await end();
        },
      };
    };
    endPart = takePart({
      store,
      coordinator,
      lead: leadAll,
      log: { info: (message) => log.info(message), warn: (message) => log.warn(message) },
    });
  }
  return {
    coordinator,
    trigger: (by) => {
      if (leading !== undefined) leading.scheduler.trigger(by);
      else
        for (const sync of Object.keys(context.configuration.syncs))
          coordinator.begin({ sync, cause: "demand", by }).catch((error: unknown) => {
            log.error({ err: error }, `sync ${sync}: no run could begin`);
          });
    },
    isBusy: () =>
      leading?.scheduler.isBusy() === true || coordinator.syncs().some(({ running }) => running !== undefined),
    overdue: () =>
      Object.entries(context.configuration.syncs)
        .filter(([name, sync]) => standingOf(scheduled(name, sync), memory, now()).overdue)
        .map(([name]) => name),
    take: (configuration) => {
      context = { ...context, configuration };
      leading?.scheduler.update(scheduledSyncs(configuration));
      leading?.notifications.take(configuration).catch((error: unknown) => {
        log.error({ err: error }, "the notification channels cannot be opened");
      });
    },
    stop: async () => {
      leading?.scheduler.stop();
      stop.abort(new Error("The daemon is stopping. Nothing was applied."));
      await coordinator.close();
      await endPart?.();
      await leading?.end();
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
