import { join } from "node:path";
import type { Configuration } from "#config/configuration.ts";
import { daemonFolder, readState } from "#daemon/data-folder.ts";
import { errorDocument, UnavailableError } from "#errors.ts";
import type { ErrorDocument } from "#errors.ts";
import { csvLine } from "#plan/render/csv.ts";
import { stageTimes } from "#plan/stages.ts";
import { openReader } from "#plan/stored.ts";
import { readLeavers } from "#state/ledger/leavers.ts";
import type { Leaver } from "#state/ledger/leavers.ts";
import { placeOf, stagesOf } from "./targets.ts";
import { syncOf } from "./wiring.ts";
import { isoOf } from "#times.ts";

/** Somebody who is gone from the sources, and what becomes of it; times in ISO 8601. */
export interface StagedLeaver {
  readonly kind: Leaver["kind"];
  readonly name: string;
  /** When a run first missed it. */
  readonly since: string;
  /** `grace`: nothing has changed for it yet. */
  readonly stage: "grace" | "suspended";
  /** From when it is to be suspended; absent: it is not, or is suspended already. */
  readonly suspendedOn?: string | undefined;
  /** Absent: it is never deleted. */
  readonly deletedOn?: string | undefined;
}

/** The leavers of a sync, the next to be suspended or deleted first; or why they are not known. */
export type SyncLeavers = { readonly sync: string; readonly target: string } & (
  | { readonly leavers: readonly StagedLeaver[] }
  | { readonly error: ErrorDocument }
);

interface ReadOptions {
  readonly signal: AbortSignal;
  /** Reads the ledger of a place while nobody in this process writes it. Absent: nobody does. */
  readonly inTurn?:
    | (<Result>(place: string, work: () => Promise<Result>, signal: AbortSignal) => Promise<Result>)
    | undefined;
}

/** How long to wait for the runs that are under way, in milliseconds. */
const patience = 1500;

/** Leavers: people gone from the sources, as of the last run of each sync. Reads neither sources nor targets. */
export async function leaversOf(
  configuration: Configuration,
  syncs: readonly string[],
  { signal, inTurn = (_, work) => work() }: ReadOptions,
): Promise<readonly SyncLeavers[]> {
  const late = new AbortController();
  const giveUp = (): void =>
    late.abort(new UnavailableError("a run to its target is under way; look again when it has ended"));
  setTimeout(giveUp, patience).unref();
  const waiting = AbortSignal.any([signal, late.signal]);
  await using state = await readState(configuration);
  await using reader = await openReader(join(daemonFolder(configuration), "leavers.spill"));
  const found: SyncLeavers[] = [];
  for (const sync of syncs) {
    const configured = syncOf(configuration, sync);
    const target = configured.to;
    try {
      const stages = await stagesOf(configuration, configured);
      const place = placeOf(configuration, target);
      const { connection } = reader;
      const read = () => readLeavers(connection, { files: state.files, place, sync, mode: "read", signal });
      const all = await inTurn(place, read, waiting);
      const leavers = all.map((each) => staged(each, stageTimes(stages, each.kind, each.since)));
      found.push({ sync, target, leavers: leavers.toSorted(bySoonest) });
    } catch (error) {
      found.push({ sync, target, error: errorDocument(error) });
    }
  }
  return found;
}

function staged(
  { kind, name, since, isSuspended }: Leaver,
  { suspendedAt, deletedAt }: ReturnType<typeof stageTimes>,
): StagedLeaver {
  return {
    kind,
    name,
    since: new Date(since).toISOString(),
    stage: isSuspended ? "suspended" : "grace",
    suspendedOn: isSuspended ? undefined : isoOf(suspendedAt),
    deletedOn: isoOf(deletedAt),
  };
}

const columns = ["sync", "kind", "name", "since", "stage", "suspendedOn", "deletedOn"] as const;

/** The leavers of syncs for a spreadsheet, a row for each. Syncs of which nothing is known are left out. */
export function* leaversCsv(all: readonly SyncLeavers[]): Iterable<string> {
  yield `\uFEFF${csvLine(columns)}`;
  for (const each of all) {
    if ("error" in each) continue;
    const { sync, leavers } = each;
    for (const leaver of leavers) yield csvLine(columns.map((column) => ({ ...leaver, sync })[column]));
  }
}

/** The soonest next step first; leavers without one come last. */
function bySoonest(a: StagedLeaver, b: StagedLeaver): number {
  const [one, other] = [nextOf(a), nextOf(b)].map((time) => (time === undefined ? Infinity : Date.parse(time)));
  return one === other ? 0 : (one ?? 0) < (other ?? 0) ? -1 : 1;
}

/** When something happens to it next, ISO 8601; undefined: never. */
function nextOf({ suspendedOn, deletedOn }: StagedLeaver): string | undefined {
  return suspendedOn ?? deletedOn;
}
