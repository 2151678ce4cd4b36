import { changes } from "#plan/change.ts";
import type { LeavingCounts } from "#plan/departures.ts";
import type { RunRecord } from "#state/record.ts";
import { formatPrincipals } from "#text.ts";

/** How many days a trend has. */
const daysShown = 30;

/** In milliseconds. */
const dayLength = 86_400_000;

/** The last month as dates, the oldest first, today last. @param now in epoch milliseconds */
function days(now: number): string[] {
  return Array.from({ length: daysShown }, (_, index) => dayOf(now - (daysShown - 1 - index) * dayLength));
}

function dayOf(moment: number): string {
  return new Date(moment).toISOString().slice(0, 10);
}

/** How much was applied on each of the last days. @param now in epoch milliseconds */
export function changesByDay(runs: readonly RunRecord[], now: number): number[] {
  const totals = new Map<string, number>();
  for (const { state, counts, endedAt } of runs) {
    if (state !== "applied" || counts === undefined || endedAt === undefined) continue;
    const on = endedAt.slice(0, 10);
    totals.set(on, (totals.get(on) ?? 0) + changes(counts));
  }
  return days(now).map((day) => totals.get(day) ?? 0);
}

/** How many users or groups all targets have as far as runs know, and had when the last month or the oldest run began. */
export interface Growth {
  readonly was: number;
  readonly is: number;
}

/** @param runs newest first. @param now in epoch milliseconds */
export function growthOf(runs: readonly RunRecord[], now: number): Readonly<Record<"users" | "groups", Growth>> {
  const [first = ""] = days(now);
  const known = runs.flatMap(({ counts, ...run }) => (counts === undefined ? [] : [{ ...run, counts }]));
  const targets = [...Map.groupBy(known, ({ target }) => target).values()];
  const of = (kind: "users" | "groups"): Growth => {
    const left = (run: (typeof known)[number]): number =>
      run.counts[kind][run.state === "applied" ? "after" : "before"];
    let [was, is] = [0, 0];
    for (const all of targets) {
      const [newest, oldest] = [all[0], all.at(-1)];
      const before = all.find(({ startedAt }) => startedAt.slice(0, 10) <= first);
      was += before === undefined ? (oldest?.counts[kind].before ?? 0) : left(before);
      is += newest === undefined ? 0 : left(newest);
    }
    return { was, is };
  };
  return { users: of("users"), groups: of("groups") };
}

/** Of how many of the last days runs are known, today included. @param runs newest first. @param now in epoch milliseconds */
export function daysKnown(runs: readonly RunRecord[], now: number): number {
  const oldest = runs.at(-1)?.startedAt.slice(0, 10) ?? dayOf(now);
  return Math.max(1, days(now).filter((day) => day >= oldest).length);
}

/**
 * How many leave on each of the coming days.
 * @param all of each sync. @param now in epoch milliseconds
 * @returns the amount of each day from today, and the days with somebody in words
 */
export function leaversByDay(
  all: readonly LeavingCounts[],
  now: number,
): {
  readonly values: readonly number[];
  readonly words: readonly string[];
} {
  const byDay = new Map<string, { users: number; groups: number }>();
  for (const { day, users, groups } of all.flatMap((each) => each.days ?? [])) {
    const known = byDay.get(day) ?? { users: 0, groups: 0 };
    byDay.set(day, { users: known.users + users, groups: known.groups + groups });
  }
  const sorted = [...byDay].toSorted(([a], [b]) => (a < b ? -1 : 1));
  const last = Date.parse(sorted.at(-1)?.[0] ?? dayOf(now));
  const length = Math.max(daysShown, Math.ceil((last - now) / dayLength) + 1);
  const values = Array.from({ length }, (_, index) => {
    const on = byDay.get(dayOf(now + index * dayLength));
    return on === undefined ? 0 : on.users + on.groups;
  });
  return { values, words: sorted.map(([day, { users, groups }]) => `${day}: ${formatPrincipals(users, groups)}`) };
}
