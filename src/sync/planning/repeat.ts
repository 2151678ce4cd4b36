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

/** What a run says where nothing is new. */
export interface Repeated {
  readonly planned: Planned;
  readonly warnings: readonly string[];
}

/** What is known before anything is read. */
export interface News {
  /** What the run would plan: nothing is new in the sources and in the target since the last one. Absent: it has to look. */
  readonly none?: Repeated | undefined;
  /**
   * Looks whether nothing is new after all, once everything was read.
   * @param read a digest of that
   * @throws {Recognized} nothing is: the rest of the run would find what the last one has found
   */
  recognize(read: string): Promise<void>;
  /**
   * What to keep of a run that has looked and had nothing to change.
   * @param read a digest of what was read; undefined: nothing was
   * @returns undefined where the next run may find something else although nothing is new
   */
  documentOf(planned: Planned, warnings: readonly string[], read: string | undefined): string | undefined;
}

/** Ends the planning of a run that has read what the last one has read. */
export class Recognized extends Error {
  readonly found: Repeated;
  /** What to keep for the next run, with the warnings of this one. */
  readonly documentOf: (warnings: readonly string[]) => string;

  constructor(found: Repeated, documentOf: Recognized["documentOf"]) {
    super("what was read is what was read before");
    this.found = found;
    this.documentOf = documentOf;
  }
}

/**
 * Asks the sources and the target of a sync whether anything is new since the last run that had nothing to change. Sources
 * answer with a digest of their data, or with a version that the configuration trusts for a time (`fullReadEvery`); the
 * target with the entity tag of its list. A source that cannot answer is read, and what rules make of it compared. Once a
 * day everything is planned, whatever they say.
 * @param known what the ledger keeps, see `News.documentOf`
 */
export async function findNews(
  sync: Sync,
  known: string | undefined,
  { now, signal }: { readonly now: number; readonly signal: AbortSignal },
): Promise<News> {
  const { target } = sync;
  const depends =
    sync.digest === undefined ||
    target.isStill === undefined ||
    sync.rules.asksTime ||
    sync.expectations?.some(({ expression }) => expression.asksTime) === true;
  if (depends) return { recognize: async () => {}, documentOf: () => undefined };
  const trust = sync.sources.map(({ fullReadEvery, source }) => fullReadEvery ?? (source.versionIsDigest ? day : 0));
  const versions = trust.includes(0) ? undefined : await versionsOf(sync, { signal, warn: () => {} });
  const digest = digestOf(sync);
  const at = new Date(now).toISOString();
  const documentOf: News["documentOf"] = (planned, warnings, read) => {
    const { plan, listed, ...rest } = planned;
    const tag = listed?.tag;
    if (tag === undefined || mayChangeByItself(planned)) return undefined;
    const readBefore = planned.sources?.find(({ unchangedSince }) => unchangedSince !== undefined)?.unchangedSince;
    return JSON.stringify({
      digest,
      versions,
      read,
      tag,
      readAt: readBefore ?? at,
      plannedAt: readBefore ?? at,
      planned: { ...rest, plan: { digest: plan.digest, counts: plan.counts } },
      warnings,
    } satisfies Document);
  };
  const document = known === undefined ? undefined : (JSON.parse(known) as Document);
  const isWithin = (moment: string, limit: number): boolean => {
    const age = now - Date.parse(moment);
    return age >= 0 && age < limit;
  };
  if (document?.digest !== digest || !isWithin(document.plannedAt, day))
    return { recognize: async () => {}, documentOf };
  const isStill = async (): Promise<boolean> => (await target.isStill?.(document.tag, signal)) === true;
  const isSame =
    versions !== undefined &&
    isWithin(document.readAt, Math.min(...trust)) &&
    sync.sources.every(({ name }) => document.versions?.[name] === versions[name]) &&
    (await isStill());
  const { readAt, plannedAt } = document;
  return {
    none: isSame ? repeated(document, `since ${readAt}: they were not read again`, readAt) : undefined,
    recognize: async (read) => {
      if (document.read !== read || !(await isStill())) return;
      const note = `since ${plannedAt}: they were read, and not planned again`;
      throw new Recognized(repeated(document, note, plannedAt), (warnings) =>
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
function repeated({ planned, warnings }: Document, since: string, unchangedSince: string): Repeated {
  return {
    planned: {
      ...planned,
      plan: { ...planned.plan, changes: noChanges },
      // At the end: `subjects` count from the beginning.
      notes: [...planned.notes, `nothing is new in the sources and the target ${since}`],
      sources: planned.sources?.map((each) => ({ ...each, unchangedSince })),
    },
    warnings,
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
  const all = [digest, settings, place, protection, departures, limits, causes, drift, keepManual, expected];
  return createHash("sha256").update(JSON.stringify(all)).digest("hex");
}
