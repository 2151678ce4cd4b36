import { anySpelling } from "#principals/principal.ts";
import { basename } from "node:path";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import type { Change } from "#plan/change.ts";
import type { Attributes } from "#principals/attributes.ts";
import type { Kind } from "#principals/principal.ts";
import { patternMatching } from "#plan/patterns.ts";
import { changesIn, readPastChanges } from "#plan/stored.ts";
import type { Known } from "./listing.ts";
import { calledBy } from "#sync/planning/people.ts";
import { formatName } from "#text.ts";
import type { RunRecord } from "#state/record.ts";
import type { Subject } from "#plan/selection.ts";

/** One run, as far as it concerns the name. */
export interface HistoryEntry {
  readonly run: RunRecord;
  /** A user and a group may have one name. */
  readonly changes: readonly Change[];
  /** Notes of the run about it: that it is leaving, has another name, or is in doubt. */
  readonly notes: readonly string[];
}

/**
 * Everything that happened to the users and groups of a name. A note that a run only repeats is left out.
 * @param runs newest first
 * @param files the stored changes of those that have any, each named after its run
 * @param given the name, in which `*` stands for any characters; with `user:` or `group:` in front if only that is meant
 */
export async function* historyOf(
  connection: Connection,
  runs: readonly RunRecord[],
  files: readonly string[],
  given: string,
): AsyncIterable<HistoryEntry> {
  const { kind, text: name } = calledBy(given);
  const said = runs.map((run) => notesAbout({ kind, name }, run));
  const reader = readPastChanges(connection, files, name)[Symbol.asyncIterator]();
  try {
    let next = await reader.next();
    for (const [place, run] of runs.entries()) {
      const changes: Change[] = [];
      while (next.done !== true && basename(next.value.file) === `${run.id}.parquet`) {
        if (kind === undefined || next.value.change.kind === kind) changes.push(next.value.change);
        next = await reader.next();
      }
      const before = runs.findIndex((each, at) => at > place && each.sync === run.sync && each.digest !== undefined);
      const notes = (said[place] ?? []).filter((note) => said[before]?.includes(note) !== true);
      if (changes.length + notes.length > 0) yield { run, changes, notes };
    }
  } finally {
    await reader.return?.();
  }
}

/** Somebody whom a run has deleted, and whom none has created again since. */
export interface Deleted extends Subject {
  /** What people knew it by, by attribute; null: unset. */
  readonly known: Known;
  readonly run: RunRecord;
}

/**
 * Those who were deleted, the last first.
 * @param runs whose changes have reached the target
 * @param files their stored changes, each named after its run
 * @param wanted a text in their name or what people knew them by, whose case does not matter
 */
export async function deletedBy(
  connection: Connection,
  runs: readonly RunRecord[],
  files: readonly string[],
  attributes: Attributes,
  wanted: { readonly text: string; readonly most: number },
): Promise<Deleted[]> {
  if (files.length === 0) return [];
  const sought = anySpelling(literal(wanted.text));
  const rows = await connection.rows<Omit<Deleted, "run"> & { file: string }>(`
    WITH latest AS (
      SELECT kind::VARCHAR AS kind, name, max(filename) AS file, arg_max(action::VARCHAR, filename) AS action,
        arg_max(before, filename) AS before
      FROM ${changesIn(files)} GROUP BY kind, name)
    SELECT kind, name, ${attributes.known("before.")} AS known, file FROM latest
    WHERE action = 'delete' AND contains(${anySpelling(`concat_ws(chr(10), ${["name", ...attributes.identifying("before.")].join(", ")})`)}, ${sought})
    ORDER BY file DESC, kind DESC, name LIMIT ${wanted.most}`);
  return rows.flatMap(({ file, ...row }) => {
    const run = runs.find(({ id }) => basename(file) === `${id}.parquet`);
    return run === undefined ? [] : [{ ...row, run }];
  });
}

/** What the notes of a run say about principals with that name. In records of 0.1 only the text shows it. */
function notesAbout(
  { kind: only, name }: { readonly kind: Kind | undefined; readonly name: string },
  { notes }: RunRecord,
): string[] {
  const written = [...new Set([name, formatName(name)])].map((each) => RegExp.escape(each)).join("|");
  const about = new RegExp(`^(?:${only ?? "user|group"}) (?:.* is now )?(?:${written})(?=[ :]|$)`, "u");
  return notes
    .flatMap(({ details = [] }) => details)
    .filter(({ text, kind = only, names }) =>
      names === undefined
        ? about.test(text)
        : (only === undefined || kind === only) && names.some((each) => patternMatching(each, [name]) !== undefined),
    )
    .map(({ text }) => text);
}

/** Whether its changes reached the target; undefined: unknown. */
export function isApplied({ state, heldBy, endUnknown }: RunRecord): boolean | undefined {
  if (state === "running" || heldBy === "verification" || endUnknown === true) return undefined;
  return state === "applied";
}

/** When a run ended, or else began, ISO 8601. */
export function momentOf({ endedAt, startedAt }: RunRecord): string {
  return endedAt ?? startedAt;
}
