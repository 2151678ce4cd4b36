import { createHash } from "node:crypto";
import type { Plan } from "#plan/change.ts";
import type { Sync } from "#sync/sync.ts";
import { day } from "./last-list.ts";
import { versionsOf } from "./last-read.ts";
import type { Planned } from "./planning.ts";

/**
 * What a run found that had nothing to change, and what shows that the next one would find the same: the ledger keeps it
 * until the sync settles another run.
 */
interface Document {
  /** Of everything that the sync is configured to do. */
  readonly digest: string;
  /** The version of each source before it was read. Absent: one has none, or is to be read at every run. */
  readonly versions?: Readonly<Record<string, string>> | undefined;
  /** A digest of what was read, see `AssemblyOptions.recognize`. Absent: nothing was, as sources reported no changes. */
  readonly read?: string | undefined;
  /** The entity tag of the target's list. */
  readonly tag: string;
  /** When the sources were read last, ISO 8601. */
  readonly readAt: string;
  /** When that was planned, ISO 8601. */
  readonly plannedAt: string;
  readonly planned: Omit<Planned, "plan" | "listed"> & { readonly plan: Pick<Plan, "digest" | "counts"> };
  /** The warnings of the sources. */
  readonly warnings: readonly string[];
}

/** What is known before anything is read. */
export interface News {
  /** What the run would plan: nothing is new in the sources and in the target since the last one. Absent: it has to look. */
  readonly none?: { readonly planned: Planned; readonly warnings: readonly string[] } | undefined;
  /**
   * Looks whether nothing is new after all, once everything was read, and remembers the digest of that for `documentOf`.
   * @throws {Recognized} nothing is: the rest of the run would find what the last one has found
   */
  readonly recognize: (read: string) => Promise<void>;
  /** Whether it can find that: the last run had nothing to change, and was configured like this one. */
  readonly mayRecognize: boolean;
  /**
   * What to keep of a run that has looked and had nothing to change.
   * @returns undefined where the next run may find something else although nothing is new
   */
  documentOf(planned: Planned, warnings: readonly string[]): string | undefined;
}

/** Ends the planning of a run that has read what the last one has read. */
export class Recognized extends Error {
  readonly planned: Planned;
  /** What to keep for the next run, with the warnings of this one. */
  readonly documentOf: (warnings: readonly string[]) => string;

  constructor(planned: Planned, documentOf: Recognized["documentOf"]) {
    super("what was read is what was read before");
    this.planned = planned;
    this.documentOf = documentOf;
  }
}

/**
 * Asks the sources and the target of a sync whether anything is new since the last run that had nothing to change. Sources
 * answer with a digest of their data, or with a version that the configuration trusts for a time (`fullReadEvery`); the
 * target with the entity tag of its list. A source that cannot answer is read, and what rules make of it compared. Once a
 * day everything is planned, whatever they say.
 * @param known what the ledger keeps, see `News.documentOf`
 * @returns undefined where a run may find something else although nothing is new, or nobody could tell
 */
export async function findNews(
  sync: Sync,
  known: string | undefined,
  { now, signal }: { readonly now: number; readonly signal: AbortSignal },
): Promise<News | undefined> {
  const { target } = sync;
  const depends =
    sync.digest === undefined ||
    target.isStill === undefined ||
    sync.rules.asksTime ||
    sync.expectations?.some(({ expression }) => expression.asksTime) === true;
  if (depends) return undefined;
  const trust = sync.sources.map(({ fullReadEvery, source }) => fullReadEvery ?? (source.versionIsDigest ? day : 0));
  const versions = trust.includes(0) ? undefined : await versionsOf(sync, { signal, warn: () => {} });
  const digest = digestOf(sync);
  const at = new Date(now).toISOString();
  let readNow: string | undefined;
  const documentOf: News["documentOf"] = (planned, warnings) => {
    const { plan, listed, ...rest } = planned;
    const tag = listed?.tag;
    if (tag === undefined || mayChangeByItself(planned)) return undefined;
    const readBefore = planned.sources?.find(({ unchangedSince }) => unchangedSince !== undefined)?.unchangedSince;
    return JSON.stringify({
      digest,
      versions,
      read: readNow,
      tag,
      readAt: readBefore ?? at,
      plannedAt: at,
      planned: { ...rest, plan: { digest: plan.digest, counts: plan.counts } },
      warnings,
    } satisfies Document);
  };
  const isWithin = (moment: string, limit: number): boolean => {
    const age = now - Date.parse(moment);
    return age >= 0 && age < limit;
  };
  const last = known === undefined ? undefined : (JSON.parse(known) as Document);
  const document = last?.digest === digest && isWithin(last.plannedAt, day) ? last : undefined;
  const isStill = async ({ tag }: Document): Promise<boolean> => (await target.isStill?.(tag, signal)) === true;
  const isSame =
    document !== undefined &&
    versions !== undefined &&
    isWithin(document.readAt, Math.min(...trust)) &&
    sync.sources.every(({ name }) => document.versions?.[name] === versions[name]) &&
    (await isStill(document));
  return {
    none: isSame
      ? { planned: repeated(document, document.readAt, "they were not read again"), warnings: document.warnings }
      : undefined,
    mayRecognize: document?.read !== undefined,
    recognize: async (read) => {
      readNow = read;
      if (document?.read !== read || !(await isStill(document))) return;
      const planned = repeated(document, document.plannedAt, "they were read, and not planned again");
      throw new Recognized(planned, (warnings) =>
        JSON.stringify({ ...document, versions, readAt: at, warnings } satisfies Document),
      );
    },
    documentOf,
  };
}

/** Whether another run may differ although nothing is new: somebody leaves when the time has come, or something waits. */
function mayChangeByItself({ checks, waiting, departures, sources = [] }: Planned): boolean {
  return (
    waiting.length > 0 ||
    checks.some(({ tripped }) => tripped) ||
    departures === undefined ||
    departures.leaving.count > 0 ||
    sources.some(({ error }) => error !== undefined)
  );
}

/** @param unchangedSince ISO 8601 */
function repeated({ planned }: Document, unchangedSince: string, what: string): Planned {
  return {
    ...planned,
    plan: { ...planned.plan, changes: noChanges },
    notes: [
      ...planned.notes,
      { text: `nothing is new in the sources and the target since ${unchangedSince}: ${what}` },
    ],
    sources: planned.sources?.map((each) => ({ ...each, unchangedSince })),
  };
}

async function* noChanges(): AsyncIterable<never> {}

function digestOf(sync: Sync): string {
  const {
    digest,
    settings,
    place,
    protection,
    departures,
    limits,
    causes,
    drift,
    keepManual,
    expectations = [],
  } = sync;
  const expected = expectations.map(({ name, over, expect, otherwise, most }) => [name, over, expect, otherwise, most]);
  // The first: the form of the notes.
  const all = [2, digest, settings, place, protection, departures, limits, causes, drift, keepManual, expected];
  return createHash("sha256").update(JSON.stringify(all)).digest("hex");
}
