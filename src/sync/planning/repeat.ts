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
  /** The version of each source before it was read. */
  readonly versions: Readonly<Record<string, string>>;
  /** The entity tag of the target's list. */
  readonly tag: string;
  /** When the sources were read, ISO 8601. */
  readonly readAt: string;
  readonly planned: Omit<Planned, "plan" | "listed"> & { readonly plan: Pick<Plan, "digest" | "counts"> };
  /** The warnings of the sources. */
  readonly warnings: readonly string[];
}

/** What is known before anything is read. */
export interface News {
  /** What the run would plan: nothing is new in the sources and in the target since the last one. Absent: it has to look. */
  readonly none?: { readonly planned: Planned; readonly warnings: readonly string[] } | undefined;
  /**
   * What to keep of a run that has looked and had nothing to change.
   * @returns undefined where the next run may find something else although nothing is new
   */
  documentOf(planned: Planned, warnings: readonly string[]): string | undefined;
}

/**
 * Asks the sources and the target of a sync whether anything is new since the last run that had nothing to change. Sources
 * answer with a digest of their data, or with a version that the configuration trusts for a time (`fullReadEvery`); the
 * target with the entity tag of its list.
 * @param known what the ledger keeps, see `News.documentOf`
 */
export async function findNews(
  sync: Sync,
  known: string | undefined,
  { now, signal }: { readonly now: number; readonly signal: AbortSignal },
): Promise<News> {
  const { target } = sync;
  const trust = sync.sources.map(({ fullReadEvery, source }) => fullReadEvery ?? (source.versionIsDigest ? day : 0));
  const depends =
    sync.digest === undefined ||
    target.isStill === undefined ||
    trust.includes(0) ||
    sync.rules.asksTime ||
    sync.expectations?.some(({ expression }) => expression.asksTime) === true;
  const versions = depends ? undefined : await versionsOf(sync, { signal, warn: () => {} });
  if (versions === undefined) return { documentOf: () => undefined };
  const digest = digestOf(sync);
  const documentOf: News["documentOf"] = (planned, warnings) => {
    const { plan, listed, ...rest } = planned;
    const tag = listed?.tag;
    if (tag === undefined || mayChangeByItself(planned)) return undefined;
    const read = planned.sources?.find(({ unchangedSince }) => unchangedSince !== undefined)?.unchangedSince;
    return JSON.stringify({
      digest,
      versions,
      tag,
      readAt: read ?? new Date(now).toISOString(),
      planned: { ...rest, plan: { digest: plan.digest, counts: plan.counts } },
      warnings,
    } satisfies Document);
  };
  const document = known === undefined ? undefined : (JSON.parse(known) as Document);
  const age = document === undefined ? Infinity : now - Date.parse(document.readAt);
  const isSame =
    document?.digest === digest &&
    age >= 0 &&
    age < Math.min(...trust) &&
    sync.sources.every(({ name }) => document.versions[name] === versions[name]) &&
    (await target.isStill?.(document.tag, signal)) === true;
  return isSame ? { none: repeated(document), documentOf } : { documentOf };
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

function repeated({ planned, readAt, warnings }: Document): News["none"] {
  const note = `nothing is new in the sources and the target since ${readAt}: they were not read again`;
  return {
    planned: {
      ...planned,
      plan: { ...planned.plan, changes: noChanges },
      // At the end: `subjects` count from the beginning.
      notes: [...planned.notes, note],
      sources: planned.sources?.map((each) => ({ ...each, unchangedSince: readAt })),
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
