import { randomBytes } from "node:crypto";

/**
 * The id of a run that begins: `20261121-101235-4f9c2e`, its time in UTC. It sorts behind every earlier one, also of the
 * same second, and when the clock was set back.
 * @param newest the id of the one before
 * @param now in epoch milliseconds
 */
export function idAfter(newest: string | undefined, now: number): string {
  const id = idOf(now);
  return newest === undefined || id > newest ? id : idOf(Math.max(now, timeOf(newest)) + 1);
}

/** The last six digits are three of the milliseconds, and three by chance: ids of two folders do not meet. */
function idOf(time: number): string {
  const [date = "", clock = "", milliseconds = ""] = new Date(time)
    .toISOString()
    .replaceAll(/[-:Z]/g, "")
    .split(/[T.]/);
  const suffix = Number(milliseconds).toString(16).padStart(3, "0") + randomBytes(2).toString("hex").slice(1);
  return `${date}-${clock}-${suffix}`;
}

/** The time of an id in epoch milliseconds; of one that is none, 0. */
function timeOf(id: string): number {
  const [, date = "", clock = "", milliseconds = ""] = /^(\d{8})-(\d{6})-([0-9a-f]{3})[0-9a-f]{3}$/.exec(id) ?? [];
  const iso = `${date}T${clock}`.replace(/^(....)(..)(..)T(..)(..)(..)$/, "$1-$2-$3T$4:$5:$6Z");
  const time = Date.parse(iso);
  return Number.isNaN(time) ? 0 : time + Number.parseInt(milliseconds, 16);
}
