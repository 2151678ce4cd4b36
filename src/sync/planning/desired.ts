import { readPrincipals } from "#plan/lists.ts";
import { describeForeign } from "#plan/carried.ts";
import type { Foreign } from "#plan/carried.ts";
import { depart } from "#plan/departures.ts";
import type { DepartureRules, Departures } from "#plan/departures.ts";
import type { History, Overridable, SourceCounts } from "#plan/limits.ts";
import type { ReadContext } from "#connector.ts";
import { combine, freeze } from "#plan/protect.ts";
import type { Frozen } from "#plan/protect.ts";
import { findByHand, keptByHand } from "#plan/by-hand.ts";
import type { ByHandFound } from "#plan/by-hand.ts";
import type { Found } from "#plan/renames.ts";
import { addRuleGroups } from "#plan/rule-groups.ts";
import { interruptible, literal, useThreads } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import { assemble } from "#principals/assembly.ts";
import type { Assembly } from "#principals/assembly.ts";
import type { KnownNames } from "#principals/names.ts";
import type { CutLists } from "#principals/references.ts";
import type { Observer, OpenSource } from "#principals/stage.ts";
import type { Target } from "#sync/ports.ts";
import type { Baseline } from "./baseline.ts";
import { loadLastList } from "./last-list.ts";
import type { LastList } from "./last-list.ts";
import { beginReading } from "./last-read.ts";
import type { Sync, SyncSource } from "#sync/sync.ts";
import type { Stage } from "#state/record.ts";

export interface DesiredOptions {
  readonly signal: AbortSignal;
  /** Called when a stage begins, and while records are read. */
  readonly progress?: ((stage: Stage, records?: number) => void) | undefined;
  /** Called with the warnings of sources. */
  readonly warn: (message: string) => void;
  readonly observer?: Observer | undefined;
  /** What is overridden for this plan. */
  readonly overrides?: readonly Overridable[] | undefined;
  /** In epoch milliseconds; absent: now. */
  readonly now?: number | undefined;
  /** Called with a digest of all that was read. What it throws ends the planning. */
  readonly recognize?: ((digest: string) => Promise<void>) | undefined;
  /** True: it may well end there, so the target is listed after that. */
  readonly listsLate?: boolean | undefined;
  /** What the sources counted at earlier reads. Absent: nothing to compare with. */
  readonly history?: History | undefined;
  /** True: reads the sources even if they report no changes. */
  readonly mustRead?: boolean | undefined;
  /** True: keeps what the rules read of each record, so that causes can be found. Expectations that read it have it anyway. */
  readonly keepAttributes?: boolean | undefined;
  /** What the last applied run read and left, whose tables are in the workbench. Absent: that is not known. */
  readonly baseline?: Baseline | undefined;
  /** Where the last full read is stored; `write`: store this one. Absent: always read the sources. */
  readonly reads?: { readonly folder: string; readonly write: boolean } | undefined;
  /** The daemon's folder, for the list of the last run. Absent: always list the target. */
  readonly lists?: string | undefined;
}

export interface Desired {
  readonly assembly: Assembly;
  readonly frozen: Frozen;
  readonly foreign: Foreign;
  readonly departures: Departures;
  /** Groups whose members a server seems to have cut. */
  readonly cutLists: readonly CutLists[];
  /** Memberships that somebody added in the target. */
  readonly byHand: ByHandFound;
  /** Groups that rules name and the target has, but this sync does not own. */
  readonly notOwned: Found<string>;
  /** When the sources were last read: they report no changes since, and were not read again. */
  readonly unchangedSince?: Date | undefined;
  /** What the sources counted. */
  readonly counts: readonly SourceCounts[];
  /** The target's list. */
  readonly listed: Listed;
  /** Stores what was read, once it is known to be whole. */
  storeRead(): Promise<void>;
}

/** The list that a plan is made with. */
export interface Listed {
  /** Its entity tag; undefined where the target gives none. */
  readonly tag: string | undefined;
  /** That of the last run, which the target still has. Absent: the target was listed. */
  readonly last?: LastList | undefined;
}

/**
 * Reads the sources (unless they report that nothing has changed, see `beginReading`), lists the target, and makes of
 * both what the target should be: `desired`. Every command does it this way. Runs after `openLedger`.
 */
export async function makeDesired(sync: Sync, workbench: Workbench, options: DesiredOptions): Promise<Desired> {
  const { signal, progress, warn, reads, overrides = [], now = Date.now() } = options;
  // Names that are taken in the target are not given.
  const isListedFirst = Object.keys(sync.rules.namings).length > 0;
  const list = (connection: Connection, signal: AbortSignal): Promise<Listed> =>
    listOnce(sync, { ...workbench, connection }, options.lists, { now, signal });
  let listed: Listed | undefined;
  if (isListedFirst) {
    progress?.("list");
    listed = await list(workbench.connection, signal);
  }
  progress?.("read");
  const reading =
    reads === undefined
      ? undefined
      : await beginReading(sync, workbench.connection, reads.folder, { signal, warn, now });
  const counts: SourceCounts[] = [];
  const known = options.mustRead === true ? undefined : reading?.known;
  const keepAttributes = options.keepAttributes === true || sync.expectations?.some(({ readsSource }) => readsSource);
  const names = isListedFirst ? knownNames : undefined;
  let listing: ReturnType<typeof beside<Listed>> | undefined;
  const beginListing = (): void => {
    if (!isListedFirst) listing ??= beside(workbench, signal, list);
  };
  const recognize = async (digest: string): Promise<void> => {
    await options.recognize?.(digest);
    beginListing();
  };
  if (known !== undefined || options.listsLate !== true) beginListing();
  let assembly: Assembly;
  try {
    assembly =
      known?.assembly ??
      (await readSources(
        sync,
        workbench,
        { ...options, recognize: options.recognize && recognize, keepAttributes, known: names },
        counts,
      ));
    beginListing();
  } catch (error) {
    await listing?.stop();
    throw error;
  }
  if (listing !== undefined) {
    progress?.("list");
    listed = await listing.done;
  }
  await useThreads(workbench.connection);
  progress?.("plan");
  const unread = assembly.unread.map(({ name }) => name);
  const { connection } = workbench;
  const notOwned = await addRuleGroups(connection, sync.protection, options.keepAttributes === true);
  await freeze(connection, sync.protection, unread);
  const undecided = await findByHand(connection, sync.keepManual, options.baseline !== undefined);
  const departures = await depart(connection, passing(sync.departures, overrides), now);
  const frozen = await combine(connection);
  const foreign = await describeForeign(connection);
  return {
    assembly,
    frozen,
    foreign,
    departures,
    cutLists: await withoutChance(connection, assembly.cutLists ?? []),
    notOwned,
    byHand: { kept: await keptByHand(connection), undecided },
    unchangedSince: known?.since,
    counts: known?.counts ?? counts,
    listed: listed ?? { tag: undefined },
    storeRead: async () => {
      if (reads?.write === true && known === undefined) await reading?.store(assembly, counts);
    },
  };
}

/** One group may well have 100 members, unless it had more. */
async function withoutChance(connection: Connection, found: readonly CutLists[]): Promise<readonly CutLists[]> {
  const kept: CutLists[] = [];
  for (const each of found) {
    const [before] = await connection.rows<{ count: bigint }>(
      `SELECT count(*) AS count FROM actual WHERE list_contains(group_names, ${literal(each.names[0] ?? "")})`,
    );
    if (each.groups > 1 || Number(before?.count ?? 0) > each.size) kept.push(each);
  }
  return kept;
}

const knownNames: KnownNames = {
  owned: "SELECT kind, name, source, source_id FROM ledger",
  present: "SELECT kind, name FROM actual",
};

function passing(rules: DepartureRules, overrides: readonly Overridable[]): DepartureRules {
  const of = (policy: "renames" | "reusedNames"): "hold" | "apply" =>
    overrides.includes(policy) ? "apply" : rules[policy];
  return { ...rules, renames: of("renames"), reusedNames: of("reusedNames") };
}

/**
 * Does something with a connection of its own while something else uses the workbench's: neither waits for the other.
 * `stop` ends it. An error shows in `done` alone.
 */
function beside<Result>(
  workbench: Workbench,
  signal: AbortSignal,
  work: (connection: Connection, signal: AbortSignal) => Promise<Result>,
): { readonly done: Promise<Result>; stop(): Promise<void> } {
  const stopping = new AbortController();
  const either = AbortSignal.any([signal, stopping.signal]);
  const begin = async (): Promise<Result> => {
    const connection = await workbench.connect();
    try {
      return await interruptible(connection, either, () => work(connection, either));
    } finally {
      connection.close();
    }
  };
  const done = begin();
  done.catch(() => undefined);
  return {
    done,
    stop: async () => {
      stopping.abort();
      await done.catch(() => undefined);
    },
  };
}

/** Makes `actual`: of the list of the last run, if the target still has it; otherwise lists the target. */
async function listOnce(
  sync: Sync,
  workbench: Workbench,
  lists: string | undefined,
  { now, signal }: { readonly now: number; readonly signal: AbortSignal },
): Promise<Listed> {
  const last = lists === undefined ? undefined : await loadLastList(sync, workbench.connection, lists, { now, signal });
  return last === undefined
    ? { tag: await listTarget(sync.target, workbench, "actual", signal) }
    : { tag: last.tag, last };
}

/** Lists the target into a table. @returns the list's entity tag; undefined where the target gives none */
export async function listTarget(
  target: Target,
  workbench: Workbench,
  table: "actual" | "arrived",
  signal: AbortSignal,
): Promise<string | undefined> {
  const file = workbench.file(`${table}.json`);
  const tag = await target.list(file, signal);
  await readPrincipals(workbench.connection, file, table);
  return tag;
}

/**
 * Reads the sources of a sync, and makes principals of their records.
 * @param counts what the sources count is added here
 */
export function readSources(
  { sources, rules }: Pick<Sync, "sources" | "rules">,
  { connection }: Pick<Workbench, "connection">,
  {
    signal,
    warn,
    progress,
    observer,
    history,
    keepAttributes,
    known,
    recognize,
  }: DesiredOptions & { readonly known?: KnownNames | undefined },
  counts: SourceCounts[] = [],
): Promise<Assembly> {
  const open = ({ name, optional, digest = "", source }: SyncSource): OpenSource => {
    const counted: Record<string, number> = {};
    counts.push({ source: name, digest, counts: counted });
    const last = history?.counts.find((each) => each.source === name && each.digest === digest);
    const context: ReadContext = {
      signal,
      warn,
      attributes: rules.attributes(),
      // Of several sources each may have its own attributes.
      required: sources.length === 1 ? rules.required() : undefined,
      lastCounts: digest === "" ? undefined : last?.counts,
      count: (what, amount) => {
        counted[what] = amount;
      },
    };
    const records: OpenSource["records"] = (takeLines) => source.read({ ...context, takeLines });
    return { name, optional, uniqueIds: source.uniqueIds, records };
  };
  return assemble(connection, sources.map(open), rules, {
    signal,
    staged: () => useThreads(connection),
    // What sources count is not all in what they deliver.
    recognize: recognize && ((digest) => recognize(`${digest} ${JSON.stringify(counts)}`)),
    progress: (records) => progress?.("read", records),
    observer,
    keepAttributes,
    known,
  });
}
