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
export function isOverdue({ name, overdueAfter }: Watched, memory: ScheduleState, now: number): boolean {
  const { lastSuccessAt, knownSince } = memory.state(name);
  const since = lastSuccessAt ?? knownSince;
  return overdueAfter !== undefined && since !== undefined && now - Date.parse(since) > overdueAfter;
}
