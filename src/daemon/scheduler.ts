import { hash } from "node:crypto";
import { messageOf } from "#errors.ts";
import type { Coordinator } from "#sync/coordinator/coordinator.ts";
import { hasSucceeded } from "#state/record.ts";
import type { Actor, Cause, RunRecord, SyncEvent, SyncState } from "#state/record.ts";
import { SlotTakenError } from "#state/store.ts";
import { clockTolerance } from "#times.ts";
import { lastSlot, nextSlot } from "./cron.ts";
import type { Slots } from "./cron.ts";

/** The schedule of a sync. Times are in milliseconds. */
export interface ScheduledSync {
  readonly name: string;
  /** Absent: it runs on demand only. */
  readonly slots?: Slots;
  /** A run begins up to this long after its slot; 0: at once. */
  readonly jitter: number;
  /** Whether to make up for a slot that passed while no run could begin. */
  readonly catchUp: boolean;
  readonly retries: Retries;
  /** The sync is overdue after this long without a success; absent: never. */
  readonly overdueAfter?: number;
}

/** What the scheduler needs of the journal and the coordinator. */
export interface ScheduleState {
  state(sync: string): SyncState;
  /** Changes the state of a sync; undefined values are removed. */
  note(sync: string, patch: { readonly [Key in keyof SyncState]?: SyncState[Key] | undefined }): void;
  /** Tells everybody who has subscribed to the coordinator. */
  emit(event: SyncEvent): void;
}

export interface SchedulerOptions {
  readonly coordinator: Pick<Coordinator, "begin" | "syncs" | "subscribe">;
  readonly memory: ScheduleState;
  /** Differs from daemon to daemon, and decides where in the jitter its runs begin. */
  readonly seed: string;
  /** In epoch milliseconds; default: the clock. */
  readonly now?: (() => number) | undefined;
  /** Whether a run of a sync would have to wait, and begins by itself when it need not any more. Absent: none would. */
  readonly waits?: ((sync: string) => boolean) | undefined;
  readonly log: {
    debug(message: string): void;
    info(message: string): void;
    warn(message: string): void;
    error(message: string): void;
  };
}

/** A scheduled sync and its state. Times are in epoch milliseconds. */
interface Entry {
  sync: ScheduledSync;
  /** The last slot that was run or skipped. */
  done: number;
  /** The slot after that, and when its run begins. */
  next?: { readonly slot: number; readonly due: number };
  /** A run that this scheduler has begun is running or queued. */
  begun: boolean;
  /** Who asked for another run after that one. */
  again?: Actor | undefined;
  /** How often the last failure was retried. */
  retries: number;
  retryAt?: number | undefined;
  /** The run that failed last. */
  failed?: string;
  /** Why its slots cannot be computed. */
  problem?: string | undefined;
}

/** A slot counts as missed when its run is this late, in milliseconds. */
const tolerance = 60_000;

/** Timers do not count while the machine sleeps, and do not notice when the clock is set: so the clock is read this often. */
const longestSleep = 30_000;

const itself: Actor = { name: "rollcall", from: "schedule" };

/** Begins a run at every slot of every sync, and makes up for missed slots and failures. Nothing begins before `update`. */
export class Scheduler {
  readonly #options: SchedulerOptions;
  readonly #unsubscribe: () => void;
  #syncs = new Map<string, Entry>();
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(options: SchedulerOptions) {
    this.#options = options;
    this.#unsubscribe = options.coordinator.subscribe((event) => {
      if (event.type === "run") this.#onRun(event.run);
    });
  }

  /**
   * Replaces the scheduled syncs. A sync that was not scheduled before runs at once if it has never run, has had no
   * success since a failure, or has missed a slot.
   */
  update(wanted: readonly ScheduledSync[]): void {
    const now = this.#now();
    const before = this.#syncs;
    this.#syncs = new Map(
      wanted.map((sync) => [sync.name, before.get(sync.name) ?? { sync, done: now, begun: false, retries: 0 }]),
    );
    for (const sync of wanted) {
      const entry = this.#syncs.get(sync.name);
      if (entry === undefined) continue;
      this.#guarded(entry, () => {
        if (before.has(sync.name)) this.#change(entry, sync, now);
        else this.#add(entry, now);
      });
    }
    this.#check();
  }

  /** Begins a run of every sync. If one is running, another one follows it: its sources may have changed meanwhile. */
  trigger(by: Actor): void {
    for (const entry of this.#syncs.values()) {
      if (entry.begun) entry.again = by;
      else this.#begin(entry, "demand", by);
    }
  }

  /** The time of the next slot, ISO 8601; undefined without a schedule. */
  nextSlotAt(sync: string): string | undefined {
    const slot = this.#syncs.get(sync)?.next?.slot;
    return slot === undefined ? undefined : iso(slot);
  }

  /** Whether a run that this scheduler has begun, or any other, is queued or running. */
  isBusy(): boolean {
    return [...this.#syncs.values()].some((entry) => this.#isUnderWay(entry));
  }

  /** Begins no more runs. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#unsubscribe();
  }

  #now(): number {
    return (this.#options.now ?? Date.now)();
  }

  #begin(entry: Entry, cause: Cause, by: Actor, slot?: number): void {
    const { coordinator, log } = this.#options;
    const { name } = entry.sync;
    entry.begun = true;
    entry.retryAt = undefined;
    if (cause !== "retry") entry.retries = 0;
    void coordinator
      .begin({ sync: name, cause, by, slot: slot === undefined ? undefined : iso(slot) })
      .then(({ ended }) => ended)
      .catch((error: unknown) => {
        if (error instanceof SlotTakenError) log.debug(`sync ${name}: ${error.message}`);
        else log.error(`sync ${name}: no run could begin: ${messageOf(error)}`);
      })
      .finally(() => {
        entry.begun = false;
        const { again } = entry;
        entry.again = undefined;
        if (again !== undefined && !this.#stopped && this.#syncs.get(name) === entry)
          this.#begin(entry, "demand", again);
      });
  }

  #isUnderWay({ begun, sync: { name } }: Entry): boolean {
    const syncs = this.#options.coordinator.syncs();
    return begun || syncs.some(({ sync, running }) => sync === name && running !== undefined);
  }

  #setDone(entry: Entry, slot: number): void {
    const { name, slots, jitter } = entry.sync;
    if (slots === undefined) return;
    const next = nextSlot(slots, slot);
    const seed = `${this.#options.seed}\n${name}`;
    entry.done = slot;
    entry.next = { slot: next, due: next + slotDelay(next, { jitter, seed }) };
  }

  #runSlot(entry: Entry, slot: number, cause: Cause): void {
    if (this.#isUnderWay(entry)) {
      this.#skip(entry, slot, "the previous run is still running");
      return;
    }
    this.#setDone(entry, slot);
    this.#begin(entry, cause, itself, slot);
  }

  #skip(entry: Entry, slot: number, reason: string): void {
    const { memory } = this.#options;
    const { name } = entry.sync;
    const at = iso(slot);
    this.#setDone(entry, slot);
    memory.note(name, { lastSlotAt: at, skipped: [...memory.state(name).skipped, { at, reason }].slice(-20) });
    memory.emit({ type: "skipped", sync: name, at, reason });
  }

  /** Makes up for missed slots: once, however many there were. */
  #catchUp(entry: Entry, slots: Slots, now: number): void {
    const last = lastSlot(slots, now);
    if (entry.sync.catchUp) this.#runSlot(entry, last, "catch-up");
    else this.#skip(entry, last, "the slot passed while no run could start, and `catchUp` is false");
  }

  /** A schedule whose slots cannot be computed must stop neither the other syncs nor the process. */
  #guarded(entry: Entry, work: () => void): void {
    try {
      work();
      entry.problem = undefined;
    } catch (error) {
      const problem = messageOf(error);
      if (problem !== entry.problem) this.#options.log.error(`sync ${entry.sync.name}: ${noSlot(problem)}`);
      entry.problem = problem;
      delete entry.next;
    }
  }

  #checkEntry(entry: Entry, now: number): void {
    const { memory, log, waits } = this.#options;
    const { name, slots } = entry.sync;
    reportOverdue(entry.sync, memory, now);
    // The last time it could not be computed.
    if (entry.next === undefined) this.#setDone(entry, entry.done);
    if (slots !== undefined && entry.done > now + tolerance) {
      log.warn(`sync ${name}: the clock was set back; the next slot counts from now`);
      this.#setDone(entry, now);
      // Where several processes take slots, those from now on are free again.
      memory.note(name, { lastSlotAt: iso(now) });
    }
    if (entry.retryAt !== undefined)
      entry.retryAt = Math.min(entry.retryAt, now + retryDelay(entry.sync.retries, Infinity, 1));
    if (slots !== undefined && entry.next !== undefined && entry.next.due <= now) {
      if (waits?.(name) === true) {
        log.debug(`sync ${name}: providers are pushing; its run begins once they pause`);
        this.#setDone(entry, entry.next.slot);
      } else if (now - entry.next.due > tolerance) this.#catchUp(entry, slots, now);
      else this.#runSlot(entry, entry.next.slot, "schedule");
    } else if (entry.retryAt !== undefined && entry.retryAt <= now) {
      // A run that somebody else has begun meanwhile is the new attempt.
      if (this.#isUnderWay(entry)) entry.retryAt = undefined;
      else this.#begin(entry, "retry", itself);
    }
  }

  #check(): void {
    clearTimeout(this.#timer);
    if (this.#stopped) return;
    const { memory } = this.#options;
    const now = this.#now();
    for (const entry of this.#syncs.values()) this.#guarded(entry, () => this.#checkEntry(entry, now));
    const due = [...this.#syncs.values()].flatMap(({ sync, next, retryAt }) => [
      next?.due ?? Infinity,
      retryAt ?? Infinity,
      isOverdue(sync, memory, now) ? Infinity : overdueAt(sync, memory) + 1,
    ]);
    const wait = Math.min(...due) - this.#now();
    this.#timer = setTimeout(() => this.#check(), Math.min(Math.max(wait, 1), longestSleep));
  }

  /** Begins to schedule a sync. */
  #add(entry: Entry, now: number): void {
    const { memory, log } = this.#options;
    const { name, slots } = entry.sync;
    if (slots === undefined) {
      log.info(`sync ${name} has no schedule: it runs on demand`);
      return;
    }
    const { lastSlotAt, lastSuccessAt, failures } = memory.state(name);
    const last = lastSlot(slots, now);
    this.#setDone(entry, lastSlotAt === undefined ? last : Date.parse(lastSlotAt));
    const wanting = lastSuccessAt === undefined || failures !== undefined;
    // Its slot is done; what failed in it is not. A slot has one run, whoever begins it.
    if (wanting && entry.sync.catchUp && lastSlotAt !== undefined && entry.done >= last)
      this.#begin(entry, "start", itself);
    else if (lastSlotAt === undefined || (wanting && entry.sync.catchUp))
      this.#runSlot(entry, Math.max(entry.done, last), "start");
    else if (entry.next !== undefined && entry.next.due <= now) this.#catchUp(entry, slots, now);
    else log.info(`sync ${name}: its next slot is at ${iso(nextSlot(slots, Math.min(entry.done, now)))}`);
  }

  /** Replaces the schedule of a sync. Past slots of a new schedule were not missed. */
  #change(entry: Entry, sync: ScheduledSync, now: number): void {
    const { slots } = sync;
    const before = entry.sync.slots;
    const same = before?.expression === slots?.expression && before?.timezone === slots?.timezone;
    entry.sync = sync;
    if (slots === undefined) delete entry.next;
    else this.#setDone(entry, same ? entry.done : lastSlot(slots, now));
  }

  #onRun(run: RunRecord): void {
    const entry = this.#syncs.get(run.sync);
    // A run for some neither fails nor succeeds for all.
    if (entry === undefined || this.#stopped || run.for !== undefined) return;
    if (run.state === "failed") {
      // Once for each run. An ordinary run does not make up for a failed undo.
      if (run.id !== entry.failed && run.cause !== "undo") this.#failed(entry, run);
      entry.failed = run.id;
    } else if (hasSucceeded(run)) {
      entry.retryAt = undefined;
      entry.retries = 0;
      reportOverdue(entry.sync, this.#options.memory, this.#now());
    }
  }

  #failed(entry: Entry, { id, error }: RunRecord): void {
    const { memory, log } = this.#options;
    const { name, retries } = entry.sync;
    if (error?.advice !== "retry") {
      log.info(`sync ${name}: no retry before its next slot: it would not help`);
    } else if (entry.retries < retries.attempts) {
      entry.retryAt = this.#now() + retryDelay(retries, entry.retries, Math.random());
      entry.retries++;
      memory.emit({ type: "retry", sync: name, id, at: iso(entry.retryAt) });
      this.#check();
    } else if (retries.attempts > 0) {
      memory.emit({ type: "gave up", sync: name, id, failures: entry.retries + 1 });
      entry.retries = 0;
    }
  }
}

function noSlot(problem: string): string {
  return `the next slot cannot be computed: ${problem}; check its schedule and time zone, until then it runs on demand`;
}

function iso(time: number): string {
  return new Date(time).toISOString();
}

type Watched = Pick<ScheduledSync, "name" | "overdueAfter">;

/**
 * The dead-man's switch: says once of a sync that it has not succeeded for too long, whatever the reason, until the
 * next success. A success in the future was before the clock was set back: it counts from now.
 */
export function reportOverdue(sync: Watched, memory: ScheduleState, now: number): void {
  const { name } = sync;
  const isAhead = (time = ""): boolean => Date.parse(time) > now + clockTolerance;
  if (isAhead(memory.state(name).lastSuccessAt)) memory.note(name, { lastSuccessAt: iso(now) });
  const { knownSince, lastSuccessAt, overdueSince } = memory.state(name);
  if (knownSince === undefined || isAhead(knownSince)) memory.note(name, { knownSince: iso(now) });
  if (!isOverdue(sync, memory, now)) {
    if (overdueSince !== undefined) memory.note(name, { overdueSince: undefined });
  } else if (overdueSince === undefined) {
    memory.note(name, { overdueSince: new Date(now).toISOString() });
    memory.emit({ type: "overdue", sync: name, since: lastSuccessAt ?? knownSince ?? new Date(now).toISOString() });
  }
}

/** Whether its last success, or without one its first start, is longer ago than is configured. */
export function isOverdue(sync: Watched, memory: Pick<ScheduleState, "state">, now: number): boolean {
  return overdueAt(sync, memory) < now;
}

/** How a sync stands, for a process that does not begin its runs. */
export function standingOf(
  sync: ScheduledSync,
  memory: Pick<ScheduleState, "state">,
  now: number,
): { readonly nextSlotAt?: string; readonly scheduleProblem?: string; readonly overdue: boolean } {
  const overdue = isOverdue(sync, memory, now);
  if (sync.slots === undefined) return { overdue };
  try {
    return { nextSlotAt: iso(nextSlot(sync.slots, now)), overdue };
  } catch (error) {
    return { scheduleProblem: noSlot(messageOf(error)), overdue };
  }
}

/** When it becomes overdue without another success, in epoch milliseconds. */
function overdueAt({ name, overdueAfter = Infinity }: Watched, memory: Pick<ScheduleState, "state">): number {
  const { lastSuccessAt, knownSince } = memory.state(name);
  const since = lastSuccessAt ?? knownSince;
  return since === undefined ? Infinity : Date.parse(since) + overdueAfter;
}

/** How a failed run is retried. Times are in milliseconds. */
export interface Retries {
  /** The most retries; 0: none. */
  readonly attempts: number;
  /** The pause before the first retry. Every further one is twice as long. */
  readonly first: number;
  /** The longest pause. */
  readonly most: number;
}

/**
 * How long to wait before the next retry, in milliseconds: as configured, and up to a quarter more, so that runs that failed
 * together are not retried together.
 * @param made the retries so far
 * @param random from 0 to 1
 */
export function retryDelay({ first, most }: Retries, made: number, random: number): number {
  return Math.round(Math.min(first * 2 ** made, most) * (1 + random / 4));
}

/**
 * How long after a slot its run begins, in milliseconds below `jitter`: always the same for a slot and a seed, so that many
 * daemons do not begin at once.
 */
export function slotDelay(slot: number, { jitter, seed }: { jitter: number; seed: string }): number {
  const random = hash("sha256", `${seed}\n${slot}`, "buffer").readUIntBE(0, 6) / 2 ** 48;
  return Math.floor(random * jitter);
}
