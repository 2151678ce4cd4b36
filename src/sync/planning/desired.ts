import { anySpelling } from "#principals/principal.ts";
import { describeForeign } from "#plan/carried.ts";
import type { Foreign } from "#plan/carried.ts";
import { depart } from "#plan/departures.ts";
import type { DepartureRules, Departures } from "#plan/departures.ts";
import type { History, Overridable, SourceCounts } from "#plan/limits.ts";
import type { ReadContext } from "#connector.ts";
import { disownReplaced, forgetPending, heldOtherwise, isStateHidden, matchCase } from "#plan/remote.ts";
import type { Named } from "#plan/remote.ts";
import { combine, freeze, ownedBefore, usersOfOthers } from "#plan/protect.ts";
import { releasesOf } from "#plan/renames.ts";
import type { Releases } from "#plan/renames.ts";
import type { Frozen, OfAnother, OwnedBefore } from "#plan/protect.ts";
import { findByHand, keptByHand } from "#plan/by-hand.ts";
import type { ByHandFound } from "#plan/by-hand.ts";
import { nothing } from "#plan/found.ts";
import { renameInPlace } from "#plan/renames-in-place.ts";
import type { Found } from "#plan/found.ts";
import { addRuleGroups, leaveEmptyOut } from "#plan/rule-groups.ts";
import { interruptible, literal, useThreads } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import { assemble, assembleRecords, readRecords } from "#principals/assembly.ts";
import type { Assembly } from "#principals/assembly.ts";
import type { KnownNames } from "#principals/names.ts";
import type { CutLists } from "#principals/references.ts";
import { digestOfStaged } from "#principals/stage.ts";
import type { Observer, OpenSource, Staged, StageOptions } from "#principals/stage.ts";
import type { Baseline } from "./baseline.ts";
import { pushesOf } from "./pushes.ts";
import type { Seen, SourcePushes } from "./pushes.ts";
import { readTarget } from "./target.ts";
import type { Sync } from "#sync/sync.ts";
import type { Stage } from "#state/record.ts";
import type { KnownRead, Unchanged } from "#sync/unchanged.ts";

export interface ReadOptions {
  readonly signal: AbortSignal;
  /** Called when a stage begins, and while records are read. */
  readonly progress?: ((stage: Stage, records?: number) => void) | undefined;
  /** Called with the warnings of sources. */
  readonly warn: (message: string) => void;
  /** Lets sources wait until no more is on its way, and is told of that. Absent: what is there now is read. */
  readonly waiting?: ((message: string) => void) | undefined;
  readonly observer?: Observer | undefined;
  /** What the sources counted at earlier reads. Absent: nothing to compare with. */
  readonly history?: History | undefined;
  /** True: keeps what the rules read of each record, so that causes can be found. Expectations that read it have it anyway. */
  readonly keepAttributes?: boolean | undefined;
  /** True: reads the sources even if they report no changes. */
  readonly mustRead?: boolean | undefined;
  /** What need not be read again. Absent: everything is read. */
  readonly unchanged?: Unchanged | undefined;
}

export interface DesiredOptions extends ReadOptions {
  /** How far earlier runs have come with what providers pushed. Absent: that is not known. */
  readonly seenPushes?: Seen | undefined;
  /** What is overridden for this plan. */
  readonly overrides?: readonly Overridable[] | undefined;
  /** In epoch milliseconds; absent: now. */
  readonly now?: number | undefined;
  /** What the last applied run read and left, whose tables are in the workbench. Absent: that is not known. */
  readonly baseline?: Baseline | undefined;
}

/** What was read, before principals are made of it: records in tables; or the last full read, where the sources report no changes. */
export type Reading = {
  /** What the sources counted. */
  readonly counts: readonly SourceCounts[];
  /** The target, which is listed beside the sources. Absent: it is listed once somebody needs it. */
  readonly listing?: Listing | undefined;
} & (
  | { readonly staged: Staged; readonly known?: undefined }
  | { readonly staged?: undefined; readonly known: KnownRead }
);

export interface Desired {
  readonly assembly: Assembly;
  readonly frozen: Frozen;
  readonly foreign: Foreign;
  /** Users of the sources that another sync owns. */
  readonly ofOthers: Found<OfAnother>;
  /** Whom syncs that the configuration no longer has own in the target. */
  readonly ownedBefore: readonly OwnedBefore[];
  readonly departures: Departures;
  /** Absent: no name has changed. */
  readonly releases?: Releases | undefined;
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
  /** What providers pushed to sources that they push to. */
  readonly pushed: readonly SourcePushes[];
  /** What there is to say of a target that is written change by change. Absent: it takes lists. */
  readonly remote?: RemoteFacts | undefined;
}

/** What there is to say of a target that is written change by change. */
export interface RemoteFacts {
  /** How many groups would be in groups, and are not: the target does not nest them. */
  readonly flattened: number;
  readonly readsMembers: boolean;
  /** It has users, and does not show whether they are active. */
  readonly hidesState: boolean;
  /** Attributes that it holds otherwise than they were sent, and of how many objects. */
  readonly held: readonly { readonly attribute: string; readonly count: number }[];
  /** Names of the sync that other objects have now, see `disownReplaced`. */
  readonly replaced: Found<Named>;
}

/** Reads the sources, unless they report no changes, and begins to list the target. Runs after `Ledger.open`. */
export async function read(sync: Sync, workbench: Workbench, options: ReadOptions): Promise<Reading> {
  const { connection } = workbench;
  const { progress, mustRead = false, unchanged } = options;
  progress?.("read");
  const known = mustRead ? undefined : await unchanged?.lastRead(connection);
  const isListedLater = known === undefined && unchanged?.mayEndAfterReading === true;
  const listing = isListedLater ? undefined : listBeside(sync, workbench, options);
  if (known !== undefined) return { known, counts: known.counts, listing };
  const counts: SourceCounts[] = [];
  try {
    const staged = await readRecords(
      connection,
      openSources(sync, options, counts),
      sync.rules,
      stageOptions(sync.expectations, options),
    );
    await useThreads(connection);
    // What sources count is not all in what they deliver.
    if (unchanged?.comparesReads === true)
      unchanged.read(`${await digestOfStaged(connection, staged)} ${JSON.stringify(counts)}`);
    return { staged, counts, listing };
  } catch (error) {
    await listing?.stop();
    throw error;
  }
}

/** Makes of the sources and the target what the target should be: `desired`. Every command does it this way. */
export async function makeDesired(
  sync: Sync,
  workbench: Workbench,
  options: DesiredOptions,
  given?: Reading,
): Promise<Desired> {
  const { connection } = workbench;
  const { progress, overrides = [], now = Date.now() } = options;
  const reading = given ?? (await read(sync, workbench, options));
  const { known, counts } = reading;
  const assembly = await assembleWhileListing(
    sync,
    connection,
    reading,
    reading.listing ?? listBeside(sync, workbench, options),
    options,
  );
  await useThreads(connection);
  progress?.("plan");
  const unread = assembly.unread.map(({ name }) => name);
  // Before groups of the rules are added: one that somebody else made is not taken over, whatever its letters.
  const isWritten = sync.target.takes === "changes";
  const replaced = isWritten ? await disownReplaced(connection) : nothing;
  if (isWritten) await matchCase(connection, "actual", namesSent);
  const hasRuleGroups = sync.rules.groupOfRule !== undefined || known !== undefined;
  const notOwned = hasRuleGroups
    ? await addRuleGroups(connection, sync.protection, options.keepAttributes === true)
    : nothing;
  const pushed = await pushesOf(sync, unread, options.seenPushes ?? {}, now);
  const partial = pushed.filter(({ firstCycleUntil }) => firstCycleUntil !== undefined).map(({ source }) => source);
  const complete = sync.sources.map(({ name }) => name).filter((name) => !partial.includes(name));
  const remote = await fitToTarget(connection, sync, replaced);
  const hasBaseline = options.baseline !== undefined;
  const inPlace =
    sync.departures.renames === "inPlace"
      ? await renameInPlace(connection, {
          attributes: sync.rules.declared,
          protection: sync.protection,
          unread,
          hasBaseline,
        })
      : undefined;
  await freeze(connection, sync.protection, unread, partial.length === 0 ? undefined : complete);
  const undecided = await findByHand(connection, sync.keepManual, hasBaseline, sync.protection.ignoresCase);
  const departures = await depart(connection, passing(sync.departures, overrides), now);
  if (hasRuleGroups) await leaveEmptyOut(connection);
  const frozen = await combine(connection, sync.rules.declared);
  const foreign = await describeForeign(connection);
  const ofOthers = await usersOfOthers(connection, sync.protection);
  return {
    assembly,
    frozen,
    foreign,
    ofOthers,
    ownedBefore: frozen.unmanaged === 0 ? [] : await ownedBefore(connection),
    departures: inPlace === undefined ? departures : { ...departures, inPlace },
    releases:
      departures.renames.count + departures.reused.count === 0
        ? undefined
        : await releasesOf(connection, sync.departures),
    cutLists: await withoutChance(connection, assembly.cutLists ?? []),
    notOwned,
    byHand: { kept: sync.keepManual.length === 0 ? nothing : await keptByHand(connection), undecided },
    unchangedSince: known?.since,
    counts,
    pushed,
    remote,
  };
}

/** Makes principals of what was read. Ends when the target is listed too. */
async function assembleWhileListing(
  sync: Sync,
  connection: Connection,
  { staged, known }: Reading,
  listing: Listing,
  options: ReadOptions,
): Promise<Assembly> {
  const listed = async (): Promise<void> => {
    options.progress?.("list");
    await listing.done;
  };
  // Names that are taken in the target are not given.
  const givesNames = Object.keys(sync.rules.namings).length > 0;
  try {
    if (givesNames) await listed();
    const assembly =
      staged === undefined
        ? known.assembly
        : await assembleRecords(
            connection,
            sync.sources.map(({ name, source: { uniqueIds } }) => ({ name, uniqueIds })),
            sync.rules,
            staged,
            {
              ...stageOptions(sync.expectations, options),
              known: givesNames ? knownNames : undefined,
              ignoresCase: sync.protection.ignoresCase,
            },
          );
    if (!givesNames) await listed();
    return assembly;
  } catch (error) {
    await listing.stop();
    throw error;
  }
}

/**
 * SQL of `(kind, name)`: what the sources have, with the groups of the rules; and what a run that did not finish may have
 * created, of sources that no longer have it.
 */
const namesSent = `(
  WITH present AS (SELECT kind, name FROM assembled UNION SELECT 'group', name FROM rule_group)
  FROM present UNION
  SELECT kind, name FROM (FROM ledger ANTI JOIN remote_known USING (kind, name)) l
  WHERE NOT EXISTS (FROM present p WHERE p.kind = l.kind AND ${anySpelling("p.name")} = ${anySpelling("l.name")}))`;

/** Finds out what a target that is written change by change holds otherwise, and leaves out what it cannot hold. */
async function fitToTarget(
  connection: Connection,
  { target, rules: { declared } }: Pick<Sync, "target" | "rules">,
  replaced: RemoteFacts["replaced"],
): Promise<RemoteFacts | undefined> {
  if (target.takes === "list") return undefined;
  const { nestsGroups, readsMembers } = target.abilities;
  if (!readsMembers) await forgetPending(connection);
  const held = await heldOtherwise(connection, declared);
  const hidesState = await isStateHidden(connection, declared);
  const facts = { readsMembers, hidesState, held, replaced };
  if (nestsGroups) return { flattened: 0, ...facts };
  const [row] = await connection.rows<{ count: number }>(
    "SELECT count(*)::INTEGER AS count FROM assembled WHERE kind = 'group' AND group_names <> []",
  );
  const flattened = row?.count ?? 0;
  if (flattened > 0) await connection.run("UPDATE assembled SET group_names = [] WHERE kind = 'group'");
  return { flattened, ...facts };
}

/** One group may well have 100 members, unless it had more. */
async function withoutChance(connection: Connection, found: readonly CutLists[]): Promise<readonly CutLists[]> {
  const kept: CutLists[] = [];
  for (const each of found) {
    if (each.groups > 1) {
      kept.push(each);
      continue;
    }
    const [before] = await connection.rows<{ count: bigint }>(
      `SELECT count(*) AS count FROM actual WHERE list_contains(group_names, ${literal(each.names[0] ?? "")})`,
    );
    if (Number(before?.count ?? 0) > each.size) kept.push(each);
  }
  return kept;
}

const knownNames: KnownNames = {
  owned: "SELECT kind, name, source, source_id FROM ledger",
  present: "SELECT kind, name FROM actual",
};

function passing(rules: DepartureRules, overrides: readonly Overridable[]): DepartureRules {
  const of = (policy: "renames" | "reusedNames") => (overrides.includes(policy) ? { [policy]: "apply" } : {});
  return { ...rules, ...of("renames"), ...of("reusedNames") };
}

/** A target that is being listed. An error shows in `done` alone. */
type Listing = ReturnType<typeof listBeside>;

/** Makes `actual` with a connection of its own, while something else uses the workbench's: neither waits for the other. */
function listBeside(sync: Sync, workbench: Workbench, { signal, warn, unchanged }: ReadOptions) {
  const stopping = new AbortController();
  const either = AbortSignal.any([signal, stopping.signal]);
  const list = async (): Promise<void> => {
    const connection = await workbench.connect();
    const { target, rules } = sync;
    const reading = { declared: rules.declared, takesReplaced: true, signal: either, warn } as const;
    const listNow = () => readTarget(target, { file: (name) => workbench.file(name), connection }, "actual", reading);
    try {
      await interruptible(connection, either, async () => {
        await (unchanged === undefined ? listNow() : unchanged.list(connection, listNow));
      });
    } finally {
      connection.close();
    }
  };
  const done = list();
  done.catch(() => undefined);
  return {
    done,
    stop: async () => {
      stopping.abort();
      await done.catch(() => undefined);
    },
  };
}

/** Reads the sources of a sync, and makes principals of their records. */
export function readSources(
  sync: Pick<Sync, "sources" | "rules" | "protection">,
  { connection }: Pick<Workbench, "connection">,
  options: ReadOptions,
): Promise<Assembly> {
  const { ignoresCase } = sync.protection;
  return assemble(connection, openSources(sync, options, []), sync.rules, {
    ...stageOptions([], options),
    ignoresCase,
  });
}

function stageOptions(
  expectations: Sync["expectations"] = [],
  { signal, observer, progress, keepAttributes = false }: ReadOptions,
): StageOptions {
  return {
    signal,
    observer,
    keepAttributes: keepAttributes || expectations.some(({ readsSource }) => readsSource),
    progress: (records) => progress?.("read", records),
  };
}

/** @param counts what the sources count is added here */
function openSources(
  { sources, rules }: Pick<Sync, "sources" | "rules">,
  { signal, warn, waiting, history }: ReadOptions,
  counts: SourceCounts[],
): OpenSource[] {
  return sources.map(({ name, optional, digest = "", source }) => {
    const counted: Record<string, number> = {};
    counts.push({ source: name, digest, counts: counted });
    const last = history?.counts.find((each) => each.source === name && each.digest === digest);
    const context: ReadContext = {
      signal,
      warn,
      waiting,
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
  });
}
