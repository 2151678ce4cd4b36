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

/**
 * How many users and groups all targets had at the end of each of the last days, as far as runs know.
 * @param runs newest first. @param now in epoch milliseconds
 */
export function totalsByDay(
  runs: readonly RunRecord[],
  now: number,
): { readonly users: readonly number[]; readonly groups: readonly number[] } {
  const all = days(now);
  const known = Map.groupBy(
    runs.filter(({ counts }) => counts !== undefined),
    ({ target }) => target,
  );
  const latest = [...known.values()].map((ofTarget) => latestByDay(ofTarget, all));
  const totals = (kind: "users" | "groups"): number[] =>
    all.map((_, at) =>
      latest.reduce((sum, each) => {
        const run = each[at];
        return sum + (run?.counts?.[kind][run.state === "applied" ? "after" : "before"] ?? 0);
      }, 0),
    );
  return { users: totals("users"), groups: totals("groups") };
}

/** The last run at the end of each day. @param runs newest first. @param all the oldest day first */
function latestByDay(runs: readonly RunRecord[], all: readonly string[]): (RunRecord | undefined)[] {
  let at = 0;
  const latest = all.toReversed().map((day) => {
    while ((runs[at]?.startedAt.slice(0, 10) ?? "") > day) at++;
    return runs[at];
  });
  return latest.toReversed();
}

/**
 * Who leaves on which of the coming days.
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
