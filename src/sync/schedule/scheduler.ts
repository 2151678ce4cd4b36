import { messageOf } from "#errors.ts";
import type { Coordinator, SyncEvent } from "#sync/coordinator/coordinator.ts";
import { hasSucceeded } from "#sync/record.ts";
import type { Actor, Cause, RunRecord, SyncState } from "#sync/record.ts";
import { lastSlot, nextSlot, slotDelay } from "./slots.ts";
import type { Slots } from "./slots.ts";

/** What is scheduled of a sync. Times are in milliseconds. */
export interface ScheduledSync {
  readonly name: string;
  /** Absent: it runs on demand only. */
  readonly slots?: Slots;
  /** A run begins up to so much after its slot; 0: at once. */
  readonly jitter: number;
  /** Whether a slot that passed while nothing could begin is made up for. */
  readonly catchUp: boolean;
  readonly retries: Retries;
  /** Without a success for longer than this it is overdue; absent: never. */
  readonly overdueAfter?: number;
}

/** What is remembered of syncs, and where it is said what happens to them. */
export interface ScheduleState {
  state(sync: string): SyncState;
  /** Changes what is remembered; what is undefined is forgotten. */
  note(sync: string, patch: { readonly [Key in keyof SyncState]?: SyncState[Key] | undefined }): void;
  /** Tells everybody who has subscribed to the coordinator. */
  emit(event: SyncEvent): void;
}

export interface SchedulerOptions {
  readonly coordinator: Pick<Coordinator, "begin" | "syncs" | "subscribe">;
  readonly memory: ScheduleState;
  /** Differs from daemon to daemon: where it is in the jitter follows from it. */
  readonly seed: string;
  readonly log: { info(message: string): void; warn(message: string): void; error(message: string): void };
}

/** Keeps the schedules of syncs. */
export interface Scheduler {
  /**
   * Takes these syncs from now on, instead of those before. A new one, as every one at first, runs at once when it has
   * never run, has no success since a failure, or has missed a slot.
   */
  keep(syncs: readonly ScheduledSync[]): void;
  /** Begins a run of every sync; where one is under way, another one after it: what is to be seen may be newer. */
  trigger(by: Actor): void;
  /** The time of the next slot, ISO 8601; undefined: it has no schedule. */
  nextSlotAt(sync: string): string | undefined;
  /** The syncs that have not succeeded for the time that is configured. */
  overdue(): readonly string[];
  /** Begins no more runs. */
  stop(): void;
}

/** What a scheduler has in mind of one sync. Times are in epoch milliseconds. */
interface Kept {
  sync: ScheduledSync;
  /** The last slot that was kept or skipped. */
  done: number;
  /** The slot after that, and when its run begins. */
  next?: { readonly slot: number; readonly due: number };
  /** A run that this scheduler has begun is under way, or awaits its turn. */
  begun: boolean;
  /** Who wants another run after that one. */
  again?: Actor | undefined;
  /** How often the last failure was tried again. */
  retries: number;
  retryAt?: number | undefined;
  /** The run that failed last. */
  failed?: string;
}

/** Up to so much after its time a slot is kept as if nothing were; later it counts as missed. In milliseconds. */
const tolerance = 60_000;

/** Timers do not count the time that a machine sleeps, and know nothing of clocks that are set: so the clock is read. */
const longestSleep = 30_000;

const itself: Actor = { name: "rollcall", from: "schedule" };

/** Begins a run at every slot of every sync, and makes good what was missed or failed. Nothing begins before `keep`. */
export function createScheduler({ coordinator, memory, seed, log }: SchedulerOptions): Scheduler {
  let syncs = new Map<string, Kept>();
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;

  const begin = (kept: Kept, cause: Cause, by: Actor): void => {
    const { name } = kept.sync;
    kept.begun = true;
    kept.retryAt = undefined;
    if (cause !== "retry") kept.retries = 0;
    void coordinator
      .begin({ sync: name, cause, by })
      .then(({ ended }) => ended)
      .catch((error: unknown) => {
        log.error(`sync ${name}: no run could begin: ${messageOf(error)}`);
      })
      .finally(() => {
        kept.begun = false;
        const { again } = kept;
        kept.again = undefined;
        if (again !== undefined && !stopped && syncs.get(name) === kept) begin(kept, "demand", again);
      });
  };

  const isUnderWay = ({ begun, sync: { name } }: Kept): boolean =>
    begun || coordinator.syncs().some(({ sync, running }) => sync === name && running !== undefined);

  const setDone = (kept: Kept, slot: number): void => {
    const { name, slots, jitter } = kept.sync;
    if (slots === undefined) return;
    kept.done = slot;
    const next = nextSlot(slots, slot);
    kept.next = { slot: next, due: next + slotDelay(next, { jitter, seed: `${seed}\n${name}` }) };
  };

  const keepSlot = (kept: Kept, slot: number, cause: Cause): void => {
    if (isUnderWay(kept)) {
      skip(kept, slot, "the run before it is still under way");
      return;
    }
    setDone(kept, slot);
    memory.note(kept.sync.name, { lastSlotAt: iso(slot) });
    begin(kept, cause, itself);
  };

  const skip = (kept: Kept, slot: number, reason: string): void => {
    const { name } = kept.sync;
    const at = iso(slot);
    setDone(kept, slot);
    memory.note(name, { lastSlotAt: at, skipped: [...memory.state(name).skipped, { at, reason }].slice(-20) });
    memory.emit({ type: "skipped", sync: name, at, reason });
  };

  /** Makes up for slots that have passed: once, however many there were. */
  const catchUp = (kept: Kept, slots: Slots, now: number): void => {
    const last = lastSlot(slots, now);
    if (kept.sync.catchUp) keepSlot(kept, last, "catch-up");
    else skip(kept, last, "it passed while nothing could begin, and `catchUp` is false");
  };

  const lookAt = (kept: Kept, now: number): void => {
    const { name, slots } = kept.sync;
    tellWhenOverdue(kept.sync, memory, now);
    if (slots !== undefined && kept.done > now + tolerance) {
      log.warn(`sync ${name}: the clock was put back; the next slot is reckoned from now on`);
      setDone(kept, now);
    }
    if (slots !== undefined && kept.next !== undefined && kept.next.due <= now) {
      if (now - kept.next.due > tolerance) catchUp(kept, slots, now);
      else keepSlot(kept, kept.next.slot, "schedule");
    } else if (kept.retryAt !== undefined && kept.retryAt <= now) {
      // What somebody else has begun in the meantime is a new attempt already.
      if (isUnderWay(kept)) kept.retryAt = undefined;
      else begin(kept, "retry", itself);
    }
  };

  const look = (): void => {
    clearTimeout(timer);
    if (stopped) return;
    const now = Date.now();
    for (const kept of syncs.values()) lookAt(kept, now);
    const due = [...syncs.values()].flatMap(({ sync, next, retryAt }) => [
      next?.due ?? Infinity,
      retryAt ?? Infinity,
      isOverdue(sync, memory, now) ? Infinity : overdueAt(sync, memory) + 1,
    ]);
    const wait = Math.min(...due) - Date.now();
    timer = setTimeout(look, Math.min(Math.max(wait, 1), longestSleep));
  };

  /** What is done about a sync that was not kept before. */
  const enter = (kept: Kept, now: number): void => {
    const { name, slots } = kept.sync;
    if (slots === undefined) {
      log.info(`sync ${name} has no schedule: it runs on demand`);
      return;
    }
    const { lastSlotAt, lastSuccessAt, failures } = memory.state(name);
    const last = lastSlot(slots, now);
    setDone(kept, lastSlotAt === undefined ? last : Math.min(Date.parse(lastSlotAt), now));
    const wanting = lastSuccessAt === undefined || failures !== undefined;
    if (lastSlotAt === undefined || (wanting && kept.sync.catchUp)) keepSlot(kept, Math.max(kept.done, last), "start");
    else if (kept.next !== undefined && kept.next.due <= now) catchUp(kept, slots, now);
    else log.info(`sync ${name}: its next slot is at ${iso(nextSlot(slots, kept.done))}`);
  };

  /** Takes over a changed schedule. Slots of the new one that are past have not been missed. */
  const change = (kept: Kept, sync: ScheduledSync, now: number): void => {
    const { slots } = sync;
    const before = kept.sync.slots;
    const same = before?.expression === slots?.expression && before?.timezone === slots?.timezone;
    kept.sync = sync;
    if (slots === undefined) delete kept.next;
    else setDone(kept, same ? kept.done : lastSlot(slots, now));
  };

  const failed = (kept: Kept, { id, error }: RunRecord): void => {
    const { name, retries } = kept.sync;
    if (error?.advice !== "retry") {
      log.info(`sync ${name}: it is not tried again before its next slot: that would not help`);
    } else if (kept.retries < retries.attempts) {
      kept.retryAt = Date.now() + retryDelay(retries, kept.retries, Math.random());
      kept.retries++;
      memory.emit({ type: "retry", sync: name, id, at: iso(kept.retryAt) });
      look();
    } else if (retries.attempts > 0) {
      memory.emit({ type: "gave up", sync: name, id, failures: kept.retries + 1 });
      kept.retries = 0;
    }
  };

  const onRun = (run: RunRecord): void => {
    const kept = syncs.get(run.sync);
    if (kept === undefined || stopped) return;
    if (run.state === "failed") {
      // Once for each. What takes a run back is not made good by an ordinary run.
      if (run.id !== kept.failed && run.cause !== "undo") failed(kept, run);
      kept.failed = run.id;
    } else if (hasSucceeded(run)) {
      kept.retryAt = undefined;
      kept.retries = 0;
      tellWhenOverdue(kept.sync, memory, Date.now());
    }
  };

  const unsubscribe = coordinator.subscribe((event) => {
    if (event.type === "run") onRun(event.run);
  });

  return {
    keep: (wanted) => {
      const now = Date.now();
      const before = syncs;
      syncs = new Map(
        wanted.map((sync) => [sync.name, before.get(sync.name) ?? { sync, done: now, begun: false, retries: 0 }]),
      );
      for (const sync of wanted) {
        const kept = syncs.get(sync.name);
        if (kept === undefined) continue;
        if (before.has(sync.name)) change(kept, sync, now);
        else enter(kept, now);
      }
      look();
    },
    trigger: (by) => {
      for (const kept of syncs.values()) {
        if (kept.begun) kept.again = by;
        else begin(kept, "demand", by);
      }
    },
    nextSlotAt: (sync) => {
      const slot = syncs.get(sync)?.next?.slot;
      return slot === undefined ? undefined : iso(slot);
    },
    overdue: () =>
      [...syncs.values()].filter(({ sync }) => isOverdue(sync, memory, Date.now())).map(({ sync }) => sync.name),
    stop: () => {
      stopped = true;
      clearTimeout(timer);
      unsubscribe();
    },
  };
}

function iso(time: number): string {
  return new Date(time).toISOString();
}

type Watched = Pick<ScheduledSync, "name" | "overdueAfter">;

/**
 * The dead-man's switch: says once of a sync that it has not succeeded for too long, whatever the reason, until the
 * next success.
 */
export function tellWhenOverdue(sync: Watched, memory: ScheduleState, now: number): void {
  const { name } = sync;
  const { knownSince, lastSuccessAt, overdueSince } = memory.state(name);
  if (knownSince === undefined) memory.note(name, { knownSince: new Date(now).toISOString() });
  if (!isOverdue(sync, memory, now)) {
    if (overdueSince !== undefined) memory.note(name, { overdueSince: undefined });
  } else if (overdueSince === undefined) {
    memory.note(name, { overdueSince: new Date(now).toISOString() });
    memory.emit({ type: "overdue", sync: name, since: lastSuccessAt ?? knownSince ?? new Date(now).toISOString() });
  }
}

/** Whether its last success, or when there was none its first start, is longer ago than is configured. */
export function isOverdue(sync: Watched, memory: ScheduleState, now: number): boolean {
  return overdueAt(sync, memory) < now;
}

/** Until when it may be without another success, in epoch milliseconds. */
function overdueAt({ name, overdueAfter = Infinity }: Watched, memory: ScheduleState): number {
  const { lastSuccessAt, knownSince } = memory.state(name);
  const since = lastSuccessAt ?? knownSince;
  return since === undefined ? Infinity : Date.parse(since) + overdueAfter;
}

/** How a run that failed is tried again. Times are in milliseconds. */
export interface Retries {
  /** At most so often; 0: not at all. */
  readonly attempts: number;
  /** How long until the first time. Every further one waits twice as long. */
  readonly first: number;
  /** The longest wait. */
  readonly most: number;
}

/**
 * How long to wait before trying again, in milliseconds: never less than is configured, and up to a quarter more, so
 * that what failed at the same moment is not tried again at the same moment.
 * @param made how often it was tried again already
 * @param random from 0 to 1
 */
export function retryDelay({ first, most }: Retries, made: number, random: number): number {
  return Math.round(Math.min(first * 2 ** made, most) * (1 + random / 4));
}
