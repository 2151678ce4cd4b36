import { createHash } from "node:crypto";
import { CronExpressionParser } from "cron-parser";

/** When a sync runs on schedule. */
export interface Slots {
  /** A cron expression. With both a day of the month and a weekday, either matches. */
  readonly expression: string;
  /** An IANA time zone; absent: the system's. */
  readonly timezone?: string;
}

/**
 * The first slot after a time, both in epoch milliseconds. When the clock is put forward, a slot in the missing hour comes
 * an hour later. When it is put back, a slot at a fixed hour comes once, the first time, and slots every few minutes go on;
 * this needs `after` to be a slot itself, or outside of the hour that comes twice.
 */
export function nextSlot(slots: Slots, after: number): number {
  return step(slots, after, "next");
}

/** The last slot at or before a time, in epoch milliseconds, as `nextSlot` counts them. */
export function lastSlot(slots: Slots, before: number): number {
  // Going backwards, the parser misses slots that a change of the clock moves. So: two steps back, then forwards.
  let last = step(slots, step(slots, (Math.floor(before / 1000) + 1) * 1000, "prev"), "prev");
  for (let slot = last; slot <= before; slot = nextSlot(slots, slot)) last = slot;
  return last;
}

/**
 * How long after a slot its run begins, in milliseconds below `jitter`: always the same for a slot and a seed, so that many
 * daemons do not begin at once.
 */
export function slotDelay(slot: number, { jitter, seed }: { jitter: number; seed: string }): number {
  const random = createHash("sha256").update(`${seed}\n${slot}`).digest().readUIntBE(0, 6) / 2 ** 48;
  return Math.floor(random * jitter);
}

/** The parser loses its way in the hour before a clock that is put back by half an hour; from outside it, it does not. */
const detour = 3_600_000;

function step({ expression, timezone }: Slots, from: number, direction: "next" | "prev"): number {
  const zone = timezone === undefined ? {} : { tz: timezone };
  for (let detours = 0; ; detours++) {
    const start = from + detours * (direction === "next" ? detour : -detour);
    try {
      const cron = CronExpressionParser.parse(expression, { currentDate: new Date(start), ...zone });
      return cron[direction]().getTime();
    } catch (error) {
      if (detours === 3) throw error;
    }
  }
}
