import { randomBytes } from "node:crypto";
import { clockTolerance } from "#times.ts";
import { lastReads } from "./record.ts";
import type { RunRecord } from "./record.ts";

/** How much history to keep. */
export interface Retention {
  /** How long to keep a run after its end, in milliseconds. */
  readonly keep: number;
  /** The most runs to keep. */
  readonly runs: number;
  /** The most stored plans to keep. */
  readonly lists: number;
}

/** How many runs go at once because of their age: so a clock that is ahead for an hour does not take the whole history with it. */
const mostOldAtOnce = 10;

/**
 * The runs that stay, oldest first; those whose stored plans go lose `kept`. Runs that are running or can still be approved
 * stay whatever their age; of the rest, those without changes go first. The last run of a sync stays among however many, and
 * so does the last that has read everything.
 * @param now in epoch milliseconds
 * @returns `runs` itself when nothing goes
 */
export function retain(
  runs: readonly RunRecord[],
  { keep, runs: most, lists }: Retention,
  now: number,
): readonly RunRecord[] {
  const old = ({ endedAt, startedAt }: RunRecord): boolean => Date.parse(endedAt ?? startedAt) < now - keep;
  const tooOld = new Set(runs.filter((run) => !isNeeded(run) && old(run)).slice(0, mostOldAtOnce));
  const young = runs.filter((run) => !tooOld.has(run));
  const surplus = young.length - most;
  // Without the last one, a sync would seem not to run any more once there are as many runs with changes as are remembered.
  const last = new Set([...new Map(young.map((run) => [run.sync, run])).values(), ...lastReads(young)]);
  const leastUseful = [
    ...young.filter((run) => run.state === "no change" && !last.has(run)),
    ...young.filter((run) => run.state !== "no change" && !last.has(run) && !isNeeded(run)),
  ];
  const going = new Set(leastUseful.slice(0, Math.max(0, surplus)));
  const staying = young.filter((run) => !going.has(run));
  const withLists = staying.filter((run) => run.kept && !isNeeded(run));
  const losing = new Set(withLists.slice(0, Math.max(0, withLists.length - lists)));
  if (staying.length === runs.length && losing.size === 0) return runs;
  return staying.map((run) => (losing.has(run) ? Object.assign({}, run, { kept: false }) : run));
}

/** Running, waiting for approval, or with an unknown end. */
function isNeeded({ state, expiresAt, endUnknown }: RunRecord): boolean {
  return (
    state === "running" || endUnknown === true || state === "pending" || (state === "held" && expiresAt !== undefined)
  );
}

/**
 * The id of a new run: `20261121-101235-4f9c2e`, its time in UTC. It sorts behind every earlier id, even in the same second
 * or when the clock was put back.
 * @param newest the latest id so far
 * @param now in epoch milliseconds
 */
export function idAfter(newest: string | undefined, now: number): string {
  const id = idOf(now);
  return newest === undefined || id > newest ? id : idOf(Math.max(now, timeOf(newest)) + 1);
}

/** The longest time between two runs that is no jump of the clock for certain, in milliseconds. */
const longestStep = 3_600_000;

/**
 * Times later than now that the clock has shown, each the last one before it may have been set, in epoch milliseconds: right or
 * wrong, nobody knows.
 * @param runs the oldest first
 * @param now in epoch milliseconds
 */
export function laterTimes(runs: readonly RunRecord[], now: number): readonly number[] {
  const times = runs.map(({ startedAt }) => Date.parse(startedAt));
  const last = times.filter((time, place) => {
    const step = (times[place + 1] ?? now) - time;
    return step < 0 || step > longestStep;
  });
  // Runs may have been forgotten; their ids go on from the latest.
  return [...new Set([...last, timeOf(runs.at(-1)?.id ?? "")])].filter((time) => time > now + clockTolerance);
}

/** The last six digits are the milliseconds and three random ones: ids of two folders do not collide. */
function idOf(time: number): string {
  const [date = "", clock = "", milliseconds = ""] = new Date(time)
    .toISOString()
    .replaceAll(/[-:Z]/g, "")
    .split(/[T.]/);
  const suffix = Number(milliseconds).toString(16).padStart(3, "0") + randomBytes(2).toString("hex").slice(1);
  return `${date}-${clock}-${suffix}`;
}

/** The time of an id in epoch milliseconds; 0 if it is not an id. */
function timeOf(id: string): number {
  const [, date = "", clock = "", milliseconds = ""] = /^(\d{8})-(\d{6})-([0-9a-f]{3})[0-9a-f]{3}$/.exec(id) ?? [];
  const iso = `${date}T${clock}`.replace(/^(....)(..)(..)T(..)(..)(..)$/, "$1-$2-$3T$4:$5:$6Z");
  const time = Date.parse(iso);
  return Number.isNaN(time) ? 0 : time + Number.parseInt(milliseconds, 16);
}
