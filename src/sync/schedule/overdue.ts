import type { ScheduledSync, ScheduleState } from "./schedule.ts";

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
export function overdueAt({ name, overdueAfter = Infinity }: Watched, memory: ScheduleState): number {
  const { lastSuccessAt, knownSince } = memory.state(name);
  const since = lastSuccessAt ?? knownSince;
  return since === undefined ? Infinity : Date.parse(since) + overdueAfter;
}
