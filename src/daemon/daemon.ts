import type { CoordinatorOptions } from "#sync/coordinator/context.ts";
import { hostname } from "node:os";
import type { Context } from "#daemon/context.ts";
import { openLocalCoordinator } from "#daemon/coordinator.ts";
import { Notifications } from "#daemon/notifications.ts";
import type { OpenedStore } from "#daemon/records.ts";
import { paths } from "#state/store.ts";
import type { Configuration, SyncConfiguration } from "#config/configuration.ts";
import type { LocalCoordinator } from "#sync/coordinator/local.ts";
import type { Actor, SyncState } from "#state/record.ts";
import { Pushes } from "#daemon/pushes.ts";
import { Scheduler, standingOf } from "#daemon/scheduler.ts";
import type { ScheduledSync, ScheduleState } from "#daemon/scheduler.ts";
import { takePart } from "#daemon/part.ts";
import type { Lead } from "#daemon/part.ts";
import { logRuns, logSchedule } from "./log-events.ts";

/** Counts what happens. */
export interface DaemonMetrics {
  follow(coordinator: LocalCoordinator): void;
  readonly notified: (channel: string, delivered: boolean) => void;
}

/** What begins runs by schedule and tells people of them. Of the daemons that share their state, one does at a time. */
interface Leading {
  readonly scheduler: Scheduler;
  readonly pushes: Pushes;
  readonly notifications: Notifications;
}

/** What the daemon and its coordinator share. */
interface Current {
  /** Changes when the configuration is reloaded. */
  context: Context;
  /** Stop what may be stopped, and what is being applied. */
  readonly stop: AbortController;
  readonly abandon: AbortController;
}

/** Runs the syncs of a configuration by their schedules. */
export class Daemon {
  readonly coordinator: LocalCoordinator;
  readonly #store: OpenedStore;
  readonly #metrics: DaemonMetrics;
  readonly #memory: ScheduleState;
  readonly #current: Current;
  #leading: Leading | undefined;
  #endPart: (() => Promise<void>) | undefined;

  /** Recovers interrupted runs, and starts the schedules of all syncs. */
  static async start(base: Omit<Context, "interruption">, store: OpenedStore, metrics: DaemonMetrics): Promise<Daemon> {
    const stop = new AbortController();
    const abandon = new AbortController();
    const interruption = { stop: stop.signal, abandon: abandon.signal };
    const current: Current = { context: { ...base, interruption }, stop, abandon };
    const coordinator = await openLocalCoordinator(() => current.context, store, {
      statusOf: (name) => daemon.#statusOf(name),
    });
    const daemon: Daemon = new Daemon(coordinator, store, metrics, current);
    await daemon.#begin();
    return daemon;
  }

  private constructor(coordinator: LocalCoordinator, store: OpenedStore, metrics: DaemonMetrics, current: Current) {
    this.coordinator = coordinator;
    this.#store = store;
    this.#metrics = metrics;
    this.#current = current;
    this.#memory = stateOf(coordinator, (error) => {
      this.#log.error({ err: error }, "the journal cannot be written");
    });
  }

  /** Begins a run of every sync. */
  trigger(by: Actor): void {
    if (this.#leading !== undefined) {
      this.#leading.scheduler.trigger(by);
      return;
    }
    for (const sync of Object.keys(this.#configuration.syncs))
      this.coordinator.begin({ sync, cause: "demand", by }).catch((error: unknown) => {
        this.#log.error({ err: error }, `sync ${sync}: no run could begin`);
      });
  }

  /** Whether anything runs or waits for its turn. */
  isBusy(): boolean {
    const isRunning = this.coordinator.syncs().some(({ running }) => running !== undefined);
    return isRunning || this.#leading?.scheduler.isBusy() === true;
  }

  /** Why this process is not ready while a sync is overdue; says nothing about the content of the sync. */
  problem(): string | undefined {
    const overdue = Object.entries(this.#configuration.syncs)
      .filter(([name, sync]) => standingOf(scheduled(name, sync), this.#memory, this.#now()).overdue)
      .map(([name]) => name);
    return overdue.length === 0 ? undefined : `no success for too long: ${overdue.join(", ")}`;
  }

  /** Switches to another configuration, for the runs that begin from now on. */
  take(configuration: Configuration): void {
    this.#current.context = { ...this.#current.context, configuration };
    this.#leading?.scheduler.update(scheduledSyncs(configuration));
    this.#leading?.notifications.take(configuration).catch((error: unknown) => {
      this.#log.error({ err: error }, "the notification channels cannot be opened");
    });
  }

  /** Starts no more runs; finishes one that is applying. */
  async stop(): Promise<void> {
    this.#leading?.scheduler.stop();
    this.#leading?.pushes.stop();
    this.#current.stop.abort(new Error("The daemon is stopping. Nothing was applied."));
    await this.coordinator.close();
    await this.#endPart?.();
    await this.#endLeading();
  }

  /** Also aborts what is being applied. */
  abandon(): void {
    this.#current.abandon.abort(new Error("abandoned"));
  }

  get #configuration(): Configuration {
    return this.#current.context.configuration;
  }

  get #log(): Context["log"] {
    return this.#current.context.log;
  }

  #now(): number {
    return this.#store.lease.now();
  }

  #statusOf(name: string): ReturnType<NonNullable<CoordinatorOptions["statusOf"]>> {
    const sync = this.#configuration.syncs[name];
    if (sync === undefined) return {};
    const standing = standingOf(scheduled(name, sync), this.#memory, this.#now());
    return { ...standing, nextSlotAt: this.#leading?.scheduler.nextSlotAt(name) ?? standing.nextSlotAt };
  }

  async #begin(): Promise<void> {
    const { coordinator } = this;
    const store = this.#store;
    coordinator.subscribe(logRuns(() => this.#current.context));
    coordinator.subscribe(logSchedule(this.#log));
    this.#metrics.follow(coordinator);
    if (!store.isShared) {
      const { scheduler, notifications } = await this.#lead(`${hostname()}\n${this.#configuration.data}`);
      coordinator.subscribe(notifications.listener);
      await coordinator.recover();
      scheduler.update(scheduledSyncs(this.#configuration));
      return;
    }
    this.#endPart = takePart({ store, coordinator, lead: () => this.#leadAll(store), log: this.#log });
  }

  async #lead(seed: string, options: Parameters<typeof Notifications.open>[2] = {}): Promise<Leading> {
    const log = this.#log;
    const pushes = new Pushes({
      coordinator: this.coordinator,
      inboxes: this.#store.inboxes,
      configuration: () => this.#configuration,
      now: () => this.#now(),
      log,
    });
    const scheduler = new Scheduler({
      coordinator: this.coordinator,
      memory: this.#memory,
      seed,
      now: () => this.#now(),
      waits: (sync) => pushes.waits(sync),
      log,
    });
    const notifications = await Notifications.open(this.#configuration, log, {
      isStopping: () => this.#current.stop.signal.aborted,
      ended: this.#metrics.notified,
      ...options,
    });
    this.#leading = { scheduler, pushes, notifications };
    return this.#leading;
  }

  /** Leads the daemons that share their state. */
  async #leadAll({ files, lease }: Extract<OpenedStore, { readonly isShared: true }>): Promise<Lead> {
    await files.fetch(paths.outbox);
    // The same for all of them: whoever leads begins a run at the same moment.
    const { scheduler, notifications } = await this.#lead("shared", {
      saved: () => files.save(paths.outbox),
      // Without the lease, another one sends them.
      closing: () => (lease.lost().aborted && !this.#current.stop.signal.aborted ? 0 : 3_000),
    });
    // What becomes of runs is recorded with them, whoever runs them.
    const unsubscribe = this.coordinator.subscribe((event) => {
      if (event.type !== "run") notifications.listener(event);
    });
    scheduler.update(scheduledSyncs(this.#configuration));
    return {
      take: async (event) => {
        notifications.listener(event);
        await notifications.taken();
      },
      stop: async () => {
        unsubscribe();
        await this.#endLeading();
      },
    };
  }

  async #endLeading(): Promise<void> {
    const leading = this.#leading;
    this.#leading = undefined;
    leading?.scheduler.stop();
    leading?.pushes.stop();
    await leading?.notifications.close();
  }
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
