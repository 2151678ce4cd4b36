import { noteIf } from "#plan/note.ts";
import type { Note } from "#plan/note.ts";
import type { Overridable } from "#plan/limits.ts";
import { hasSucceeded } from "#state/record.ts";
import type { RunRecord } from "#state/record.ts";
import type { Pushed, SeenPushes } from "#state/inbox/status.ts";
import type { Sync } from "#sync/sync.ts";
import { pluralize } from "#text.ts";

/** What providers pushed to a source. */
export interface SourcePushes extends Pushed {
  readonly source: string;
}

/** How far earlier runs have come with what was pushed, by source. */
export type Seen = Readonly<Record<string, SeenPushes>>;

const pushedLimit: Overridable = "pushed";

/** How far the runs of a sync have come. A part of a plan, and a plan for some, leave the rest as it was. @param runs the oldest first */
export function seenPushes(runs: readonly RunRecord[], sync: string): Seen {
  const seen: Record<string, SeenPushes> = {};
  for (const run of runs) {
    const isWhole = run.for === undefined && !run.decisions.some(({ selection }) => selection !== undefined);
    if (run.sync !== sync || !hasSucceeded(run) || run.undoes !== undefined || !isWhole) continue;
    const isAccepted = run.decisions.some(({ overrides = [] }) => overrides.includes(pushedLimit));
    for (const { source, pushedUntil } of run.sources ?? []) {
      if (pushedUntil === undefined) continue;
      const read = Date.parse(pushedUntil);
      seen[source] = { ...seen[source], read, ...(isAccepted && { accepted: read }) };
    }
  }
  return seen;
}

/** Asks the sources that providers push to. Runs after they were read. */
export async function pushesOf(
  { sources }: Pick<Sync, "sources">,
  unread: readonly string[],
  seen: Seen,
  now: number,
): Promise<SourcePushes[]> {
  const found: SourcePushes[] = [];
  for (const { name: source, source: opened } of sources)
    if (opened.pushed !== undefined && !unread.includes(source))
      found.push({ source, ...(await opened.pushed(seen[source] ?? {}, now)) });
  return found;
}

/** What a person should know of pushes. @param awaited how many principals stay because of the first cycle */
export function pushedNotes(pushed: readonly SourcePushes[], awaited: number): Note[] {
  return pushed.flatMap(({ source, firstCycleUntil, restored }) => [
    ...(firstCycleUntil === undefined
      ? []
      : noteIf(
          awaited,
          `${pluralize(awaited, "principal")} of the target left alone: ${source} is in its first cycle until ${new Date(firstCycleUntil).toISOString()}, and may not have everybody yet`,
        )),
    ...noteIf(restored, `${pluralize(restored, "user")} reactivated by the provider that pushes to ${source}`),
  ]);
}
