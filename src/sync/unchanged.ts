import { hash } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Connection } from "#duckdb/database.ts";
import type { Plan } from "#plan/change.ts";
import type { SourceCounts } from "#plan/limits.ts";
import type { Assembly } from "#principals/assembly.ts";
import { assembledOf } from "#principals/tables.ts";
import type { Planned } from "#sync/planning/limits.ts";
import { findSnapshot, storeSnapshot } from "#sync/planning/snapshot.ts";
import type { Snapshot } from "#sync/planning/snapshot.ts";
import type { Sync } from "./sync.ts";

/** In milliseconds. Whatever sources and target say, everything is read and planned once a day. */
const day = 86_400_000;

type Versions = Readonly<Record<string, string>>;

/**
 * What a run with nothing to change depended on, and what it found. The ledger keeps it, and drops it with every other write:
 * what the sync owns is the same for as long as it is there.
 */
interface LastRun {
  /** Of everything that the sync is configured to do, its rules and their tables included. */
  readonly digest: string;
  /** Of what the other syncs to the target own. Absent: there are none. */
  readonly others?: string | undefined;
  /** The version of each source before it was read. Absent: one has none, or must be read by every run. */
  readonly versions?: Versions | undefined;
  /** Of what was read. Absent: nothing was, as the sources reported no changes. */
  readonly read?: string | undefined;
  /** The entity tag of the target's list. */
  readonly tag: string;
  /** When the sources were read last, ISO 8601. */
  readonly readAt: string;
  /** When that was planned, ISO 8601. */
  readonly plannedAt: string;
  readonly planned: Omit<Planned, "plan"> & { readonly plan: Pick<Plan, "digest" | "counts"> };
  /** The warnings of the sources. */
  readonly warnings: readonly string[];
}

/** The document of the last full read, a snapshot for each sync in the folder `reads`. */
interface LastRead {
  /** `Sync.digest` */
  readonly digest: string;
  /** When the read began, ISO 8601. */
  readonly readAt: string;
  /** The version of each source before it was read. */
  readonly versions: Versions;
  readonly assembly: Omit<Assembly, "unread">;
  /** What the sources counted. Absent in what 0.1.0 stored. */
  readonly counts?: readonly SourceCounts[] | undefined;
}

/** The document of the target's list as the last run read it, a snapshot for each sync in the folder `lists`. */
interface LastList {
  /** `Sync.place` */
  readonly place: string;
  /** The entity tag of the list. */
  readonly tag: string;
  /** When the list was read, ISO 8601. */
  readonly listedAt: string;
}

/** What the last full read made of the sources. Its tables are in the workbench. */
export interface KnownRead {
  readonly assembly: Assembly;
  readonly counts: readonly SourceCounts[];
  readonly since: Date;
}

export interface UnchangedOptions {
  /** The daemon's folder. */
  readonly folder: string;
  /** In epoch milliseconds. */
  readonly now: number;
  readonly signal: AbortSignal;
  /** What the ledger keeps of the last run, see `fingerprint`. */
  readonly kept?: string | undefined;
  /** A digest of what the other syncs to the target own: whom their sources lose, this sync may take over. */
  readonly others?: string | undefined;
  /** Whether the run is an ordinary one, which may end because nothing has changed: it applies, for everybody, what nobody was shown. */
  readonly mayEnd: boolean;
  /** False: stores nothing for the next run. */
  readonly stores: boolean;
}

const listTables = ["actual", "actual_foreign", "actual_extra"] as const;

/**
 * What is unchanged since the last run. It is asked before reading and after. A part that is unchanged need not be read again
 * (a source with `fullReadEvery`, the target's list), and if everything is, nothing is planned again. What is unknown, or
 * stored in a way that is not understood, counts as changed.
 */
export class Unchanged {
  readonly #sync: Sync;
  readonly #options: UnchangedOptions;
  /** Undefined: some source cannot tell, or nobody would use it. */
  readonly #versions: Versions | undefined;
  readonly #trust: ReturnType<typeof trustOf>;
  readonly #last: LastRun | undefined;
  /** A digest of what this run has read. */
  #read: string | undefined;
  #list: { readonly tag: string | undefined; readonly isLast: boolean } | undefined;

  /** Asks the sources for their versions, where they count. That must come before reading. */
  static async open(sync: Sync, options: UnchangedOptions): Promise<Unchanged> {
    const { unread, unplanned } = trustOf(sync, options);
    const isAsked = unread > 0 || unplanned > 0;
    return new Unchanged(sync, options, isAsked ? await versionsOf(sync, options.signal) : undefined);
  }

  private constructor(sync: Sync, options: UnchangedOptions, versions: Versions | undefined) {
    this.#sync = sync;
    this.#options = options;
    this.#versions = versions;
    this.#trust = trustOf(sync, options);
    const last = this.#trust.mayEnd ? parse(options.kept) : undefined;
    const isSame = last?.digest === digestOf(sync) && last.others === options.others;
    this.#last = isSame && this.#isWithin(last.plannedAt, day) ? last : undefined;
  }

  /** Whether the run may end after reading: the target is listed after that. */
  get mayEndAfterReading(): boolean {
    return this.#last?.read !== undefined;
  }

  /** Whether `read` is of use. */
  get comparesReads(): boolean {
    return this.#trust.mayEnd;
  }

  /** Tells what was read. @param digest of all of it, and of what the rules made of each record */
  read(digest: string): void {
    this.#read = digest;
  }

  /** What the last run found, with the warnings of its sources, if neither they nor the target have changed since. */
  async beforeReading(): Promise<{ readonly planned: Planned; readonly warnings: readonly string[] } | undefined> {
    const last = this.#last;
    const isSame =
      last !== undefined &&
      this.#isWithin(last.readAt, this.#trust.unplanned) &&
      this.#areSame(last.versions) &&
      (await this.#isStill(last.tag));
    if (!isSame) return undefined;
    const planned = repeated(last, last.readAt, "the sources were not read again");
    return { planned, warnings: last.warnings };
  }

  /** What the last run found, if it read the same, and the target has not changed since. */
  async afterReading(): Promise<Planned | undefined> {
    const last = this.#last;
    if (this.#read === undefined || last?.read !== this.#read || !(await this.#isStill(last.tag))) return undefined;
    return repeated(last, last.plannedAt, "the sources were read, and nothing was planned again");
  }

  /** Makes the tables of the last full read, if no source has changed since. */
  async lastRead(connection: Connection): Promise<KnownRead | undefined> {
    if (this.#trust.unread <= 0 || this.#versions === undefined) return undefined;
    const snapshot = await findSnapshot<LastRead>(join(this.#options.folder, "reads"), this.#sync.name);
    if (snapshot === undefined) return undefined;
    const { digest, versions, readAt, assembly, counts = [] } = snapshot.document;
    const isSame =
      digest === this.#sync.digest && this.#areSame(versions) && this.#isWithin(readAt, this.#trust.unread);
    if (!isSame || !(await loadAll(snapshot, connection, this.#readTables))) return undefined;
    return { assembly: { ...assembly, unread: [] }, counts, since: new Date(readAt) };
  }

  /** Stores a read that is known to be whole, for the next run, where that is of use. */
  async storeRead(
    connection: Connection,
    { unread, ...assembly }: Assembly,
    counts: readonly SourceCounts[],
  ): Promise<void> {
    const { folder, stores, now } = this.#options;
    const { name, digest = "" } = this.#sync;
    const versions = this.#versions;
    if (!stores || this.#trust.unread <= 0 || versions === undefined || unread.length > 0) return;
    const readAt = new Date(now).toISOString();
    const document: LastRead = { digest, readAt, versions, assembly, counts };
    const place = { folder: join(folder, "reads"), name, what: "the folder of what was read" };
    await storeSnapshot(
      connection,
      place,
      Object.fromEntries(this.#readTables.map((table) => [table, `FROM ${table}`])),
      document,
    );
  }

  /**
   * Makes `actual`, `actual_foreign` and `actual_extra` of the list that the last run left, if the target says that it still has
   * that one; otherwise by listing the target.
   * @param list returns the entity tag of the list, undefined where the target gives none
   * @throws {UnavailableError | RefusedError} from the target
   */
  async list(connection: Connection, list: () => Promise<string | undefined>): Promise<void> {
    const snapshot = await findSnapshot<LastList>(this.#lists, this.#sync.name);
    const last = snapshot?.document;
    const isLast =
      snapshot !== undefined &&
      last?.place === this.#sync.place &&
      this.#isWithin(last.listedAt, day) &&
      (await this.#isStill(last.tag)) &&
      (await loadAll(snapshot, connection, listTables));
    this.#list = { tag: isLast ? last?.tag : await list(), isLast };
  }

  /**
   * Whether the service has agreed on this list: its last run found no changes in it, as the service did, or left it, as both
   * had foretold.
   */
  get isAgreed(): boolean {
    return this.#list?.isLast === true;
  }

  /**
   * Stores the target's list as it was read last, for the next run.
   * @param changed whether the run has changed the target
   * @param arrived the entity tag of the list after that
   */
  async storeList(connection: Connection, changed: boolean, arrived: string | undefined): Promise<void> {
    if (!changed && this.isAgreed) return;
    const [table, tag] = changed ? (["arrived", arrived] as const) : (["actual", this.#list?.tag] as const);
    if (tag === undefined) return;
    const { name, place } = this.#sync;
    const document: LastList = { place, tag, listedAt: new Date(this.#options.now).toISOString() };
    const tables = {
      actual: `FROM ${table}`,
      actual_foreign: `FROM ${table}_foreign`,
      actual_extra: `FROM ${table}_extra`,
    };
    await storeSnapshot(connection, { folder: this.#lists, name, what: "the folder of the lists" }, tables, document);
  }

  /** Makes the next run list the target, whatever it says. */
  async forgetList(): Promise<void> {
    await rm(join(this.#lists, `${this.#sync.name}.json`), { force: true });
  }

  /**
   * What the ledger is to keep of a run that had nothing to change.
   * @returns undefined where the next run may find something else although nothing has changed
   */
  fingerprint(planned: Planned, warnings: readonly string[]): string | undefined {
    const tag = this.#list?.tag;
    if (!this.#trust.mayEnd || tag === undefined || mayChangeByItself(planned)) return undefined;
    const at = new Date(this.#options.now).toISOString();
    const { digest, counts } = planned.plan;
    return JSON.stringify({
      digest: digestOf(this.#sync),
      others: this.#options.others,
      versions: this.#trust.unplanned > 0 ? this.#versions : undefined,
      read: this.#read,
      tag,
      readAt: planned.sources?.find(({ unchangedSince }) => unchangedSince !== undefined)?.unchangedSince ?? at,
      plannedAt: at,
      planned: { ...planned, plan: { digest, counts } },
      warnings,
    } satisfies LastRun);
  }

  /** The same for a run that has ended after reading. */
  renewedFingerprint(warnings: readonly string[]): string {
    const readAt = new Date(this.#options.now).toISOString();
    const versions = this.#trust.unplanned > 0 ? this.#versions : undefined;
    return JSON.stringify({ ...this.#last, versions, readAt, warnings });
  }

  get #readTables(): string[] {
    return Object.keys(assembledOf(this.#sync.rules.declared));
  }

  get #lists(): string {
    return join(this.#options.folder, "lists");
  }

  #isWithin(moment: string, limit: number): boolean {
    const age = this.#options.now - Date.parse(moment);
    return age >= 0 && age < limit;
  }

  #areSame(versions: Versions | undefined): boolean {
    const now = this.#versions;
    return now !== undefined && this.#sync.sources.every(({ name }) => versions?.[name] === now[name]);
  }

  async #isStill(tag: string): Promise<boolean> {
    const { target } = this.#sync;
    return target.takes === "list" && (await target.isStill?.(tag, this.#options.signal)) === true;
  }
}

/**
 * Whether a run may end because nothing has changed; and how long, in milliseconds, the last read may stand for the sources
 * (`unread`), and the last run for all (`unplanned`).
 */
function trustOf(sync: Sync, options: UnchangedOptions) {
  const { sources, rules, target, expectations = [] } = sync;
  const isFixed = sync.digest !== undefined && !rules.asksTime;
  const mayEnd =
    options.mayEnd &&
    isFixed &&
    target.takes === "list" &&
    target.isStill !== undefined &&
    !expectations.some(({ expression }) => expression.asksTime);
  // Names that depend on the target are given anew by every run.
  const mayKeepRead = isFixed && Object.keys(rules.namings).length === 0;
  const trust = sources.map(({ fullReadEvery, source }) => fullReadEvery ?? (source.versionIsDigest ? day : 0));
  return {
    mayEnd,
    unread: mayKeepRead ? Math.min(...sources.map(({ fullReadEvery = 0 }) => fullReadEvery)) : 0,
    unplanned: mayEnd ? Math.min(...trust) : 0,
  };
}

function parse(kept: string | undefined): LastRun | undefined {
  try {
    return kept === undefined ? undefined : (JSON.parse(kept) as LastRun);
  } catch {
    return undefined;
  }
}

/** The version of every source; undefined when one cannot report it. An error will show when it is read. */
async function versionsOf({ sources }: Sync, signal: AbortSignal): Promise<Versions | undefined> {
  const versions: Record<string, string> = {};
  for (const { name, source } of sources) {
    try {
      const version = await source.version?.({ signal, warn: () => {} });
      if (version === undefined) return undefined;
      versions[name] = version;
    } catch {
      signal.throwIfAborted();
      return undefined;
    }
  }
  return versions;
}

async function loadAll(
  snapshot: Snapshot<unknown>,
  connection: Connection,
  tables: readonly string[],
): Promise<boolean> {
  for (const table of tables) if (!(await snapshot.load(connection, table, table))) return false;
  return true;
}

/** Whether another run may differ although nothing has changed: somebody leaves when the time has come, or something waits. */
function mayChangeByItself({ checks, waiting, departures, sources = [] }: Planned): boolean {
  return (
    waiting.length > 0 ||
    checks.some(({ tripped }) => tripped) ||
    departures === undefined ||
    departures.leaving.count > 0 ||
    (departures.staying?.active ?? 0) > 0 ||
    sources.some(({ error }) => error !== undefined)
  );
}

/** @param unchangedSince ISO 8601 */
function repeated({ planned }: LastRun, unchangedSince: string, what: string): Planned {
  return {
    ...planned,
    plan: { ...planned.plan, changes: noChanges },
    notes: [...planned.notes, { text: `nothing has changed since ${unchangedSince}; ${what}` }],
    sources: planned.sources?.map((each) => ({ ...each, unchangedSince })),
  };
}

async function* noChanges(): AsyncIterable<never> {}

function digestOf(sync: Sync): string {
  const { digest, settings, place, protection, departures, limits, causes, drift, keepManual } = sync;
  const { expectations = [] } = sync;
  const expected = expectations.map(({ name, over, expect, otherwise, most }) => [name, over, expect, otherwise, most]);
  // The first: the form of the notes.
  const all = [2, digest, settings, place, protection, departures, limits, causes, drift, keepManual, expected];
  return hash("sha256", JSON.stringify(all));
}
