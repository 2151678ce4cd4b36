import { createHash } from "node:crypto";
import { openCron } from "./cron.ts";

/** When a sync runs on schedule. */
export interface Slots {
  /** A cron expression. With both a day of the month and a weekday, either matches. */
  readonly expression: string;
  /** An IANA time zone; absent: the system's. */
  readonly timezone?: string;
}

/**
 * The first slot after a time, both in epoch milliseconds.
 * @throws {Error} if there is none, or the expression or the time zone is not known
 */
export function nextSlot({ expression, timezone }: Slots, after: number): number {
  return timeOf(openCron(expression, timezone).nextRun(new Date(after)));
}

/**
 * The last slot at or before a time, in epoch milliseconds.
 * @throws {Error} as `nextSlot`
 */
export function lastSlot({ expression, timezone }: Slots, before: number): number {
  // Slots have whole seconds, and the search begins before the second that it is given.
  const end = (Math.floor(before / 1000) + 1) * 1000;
  return timeOf(openCron(expression, timezone).previousRuns(1, new Date(end))[0]);
}

function timeOf(slot: Date | null | undefined): number {
  if (slot === null || slot === undefined) throw new Error("the schedule has no slot");
  return slot.getTime();
}

/**
 * How long after a slot its run begins, in milliseconds below `jitter`: always the same for a slot and a seed, so that many
 * daemons do not begin at once.
 */
export function slotDelay(slot: number, { jitter, seed }: { jitter: number; seed: string }): number {
  const random = createHash("sha256").update(`${seed}\n${slot}`).digest().readUIntBE(0, 6) / 2 ** 48;
  return Math.floor(random * jitter);
}
