import { join } from "node:path";
import type { Connection } from "#duckdb/database.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import { errorDocument, IncompleteReadError } from "#errors.ts";
import { findCauses } from "#plan/causes.ts";
import type { Cause } from "#plan/causes.ts";
import { createPlan } from "#plan/diff.ts";
import { leaveDrift } from "#plan/drift.ts";
import type { DriftLeft } from "#plan/drift.ts";
import { changes } from "#plan/change.ts";
import type { Departures } from "#plan/departures.ts";
import type { History, Overridable, SourceCounts } from "#plan/limits.ts";
import { readSyncAnswer } from "#plan/lists.ts";
import type { Note } from "#plan/note.ts";
import type { SourceRead } from "#state/record.ts";
import type { Sync } from "#sync/sync.ts";
import { differingKeys } from "#values.ts";
import { makeDesired } from "./desired.ts";
import type { Desired, DesiredOptions, Listed } from "./desired.ts";
import { findLeftOut, planWithinLimits, scopeOfSources, withExpectations } from "./limits.ts";
import type { ExpectedPlan, Scope } from "./limits.ts";
import { adoptedNotes, detailsAbout, notesForSome, notesOf } from "./notes.ts";
import { findPeople, peopleNotes } from "./people.ts";
import { refuseTorn } from "./torn.ts";

/** A plan with its notes. */
export interface Planned extends ExpectedPlan {
  /** What a person should know besides the changes. */
  readonly notes: readonly Note[];
  /** Absent for a stored plan, where they were decided when it was made. */
  readonly departures?: Departures | undefined;
  /** Why the changes are there, those that explain most first. Absent: not asked for, or an undo. */
  readonly causes?: readonly Cause[] | undefined;
  /** What stays as somebody made it in the target. Absent where everything is taken back. */
  readonly drift?: DriftLeft | undefined;
  /** What the sources counted while they were read. */
  readonly counts?: readonly SourceCounts[] | undefined;
  /** How many records are quarantined. Absent for a stored plan. */
  readonly quarantined?: number | undefined;
  /** What was found in each source. Absent for a stored plan. */
  readonly sources?: readonly SourceRead[] | undefined;
  /** The target's list that it was made with. Absent for a stored plan. */
  readonly listed?: Listed | undefined;
}

/**
 * Makes a plan in a workbench, with all the tables that applying it and writing the ledger need. Runs after `openLedger`.
 */
export type Planner = (sync: Sync, workbench: Workbench, options: PlanningOptions) => Promise<Planned>;

export interface PlanningOptions extends Omit<DesiredOptions, "reads" | "lists" | "observer"> {
  /** The daemon's folder. */
  readonly folder: string;
  /** False: nothing is stored for the next run. */
  readonly apply: boolean;
  readonly history: History;
  readonly overrides?: readonly Overridable[] | undefined;
  /** Names of users and groups: only these change, everything else stays as it is in the target. */
  readonly for?: readonly string[] | undefined;
  /** Called once `desired` is there, before limits take changes out of it. */
  readonly made?: (() => Promise<void>) | undefined;
}

/** Plans from the sources and the rules. Sources that change while they are read are read again, once. */
export const planFromSources: Planner = async (sync, workbench, options) => {
  try {
    return await planOnce(sync, workbench, options);
  } catch (error) {
    if (!(error instanceof IncompleteReadError && error.torn)) throw error;
    options.warn(`${error.message}. The sources are read again`);
    return planOnce(sync, workbench, { ...options, mustRead: true });
  }
};

const planOnce: Planner = async (sync, workbench, options) => {
  const { connection } = workbench;
  const { history, overrides = [] } = options;
  const reads = { folder: join(options.folder, "reads"), write: options.apply };
  const { causes: keepAttributes } = sync;
  const people = options.for === undefined ? undefined : findPeople(sync, options.for);
  const desired = await makeDesired(sync, workbench, {
    ...options,
    reads,
    lists: options.folder,
    keepAttributes,
    observer: people?.observer,
    // Who is meant is found while records are read.
    mustRead: options.mustRead === true || people !== undefined,
  });
  await options.made?.();
  const unread = desired.assembly.unread.map(({ name }) => name);
  const scope = await scopeOfSources(connection, sync, unread);
  const explain = async (): Promise<readonly Cause[]> =>
    findCauses(connection, {
      reads: sync.rules.reads(),
      hasGrace: sync.departures.after > 0,
      hasBaseline: options.baseline !== undefined,
      changedKeys: options.baseline === undefined ? [] : differingKeys(options.baseline.settings, sync.settings),
    });
  if (people !== undefined) {
    await createPlan(connection);
    await connection.run("CREATE OR REPLACE TEMP TABLE everything AS FROM change_sides");
  }
  const chosen = await people?.narrow(connection);
  const drift = await judgeDrift(connection, sync, explain);
  const limited = await planWithinLimits(connection, sync, { scope, history, overrides, drift: drift?.held });
  if (chosen !== undefined) await findLeftOut(connection, "everything");
  const read = sync.sources.filter(({ name }) => !unread.includes(name));
  const { signal, warn } = options;
  await refuseTorn(connection, read, { signal, warn, attributes: sync.rules.attributes() });
  await desired.storeRead();
  const isChange = changes(limited.plan.counts) > 0;
  const facts = {
    ...desired,
    sync: sync.name,
    limits: limited.checks,
    waiting: limited.waiting,
    drift,
    for: options.for,
  };
  const causes = sync.causes ? (isChange ? await explain() : []) : undefined;
  return {
    ...(await withExpectations(connection, sync, limited, { overrides, signal })),
    notes: [
      ...adoptedNotes(limited.adopted),
      ...(chosen === undefined
        ? notesOf(facts)
        : [
            ...(await peopleNotes(connection, sync.name, chosen, detailsAbout(chosen.subjects, notesOf(facts)))),
            ...notesForSome(facts),
          ]),
    ],
    causes,
    drift,
    // Of everybody else a run for some says nothing.
    departures: chosen === undefined ? desired.departures : undefined,
    counts: desired.counts.filter(({ source, digest }) => digest !== "" && !unread.includes(source)),
    quarantined: desired.assembly.quarantined.count,
    sources: sourceReads(sync, desired, scope),
    listed: desired.listed,
  };
};

/** What a read found in each source. */
function sourceReads(
  { sources }: Pick<Sync, "sources">,
  { assembly, unchangedSince }: Pick<Desired, "assembly" | "unchangedSince">,
  { sizes }: Pick<Scope, "sizes">,
): SourceRead[] {
  return sources.map(({ name: source }) => {
    const of = sizes.filter((each) => each.source === source);
    const sizeOf = (kind: "user" | "group"): number => of.find((each) => each.kind === kind)?.size ?? 0;
    const failed = assembly.unread.find(({ name }) => name === source);
    return {
      source,
      users: sizeOf("user"),
      groups: sizeOf("group"),
      quarantined: of.reduce((sum, { quarantined = 0 }) => sum + quarantined, 0),
      unchangedSince: unchangedSince?.toISOString(),
      error: failed && errorDocument(failed.error),
    };
  });
}

/** What is done about drift before the limits are checked. */
interface DriftFound extends DriftLeft {
  /** How many principals hold the run, if they are to. */
  readonly held?: number | undefined;
}

/** Leaves what is to stay as somebody made it. Does nothing where everything is taken back. */
async function judgeDrift(
  connection: Connection,
  { causes, drift }: Sync,
  explain: () => Promise<unknown>,
): Promise<DriftFound | undefined> {
  if (!causes || (drift.policy === "revert" && drift.ignore.length === 0)) return undefined;
  await createPlan(connection);
  await explain();
  const left = await leaveDrift(connection, drift);
  if (drift.policy !== "hold") return left;
  const [row] = await connection.rows<{ held: bigint }>(`
    SELECT count(DISTINCT (kind, name)) AS held FROM drift_item ANTI JOIN drift_left USING (action, kind, name, aspect)`);
  return { ...left, held: Number(row?.held ?? 0) };
}

/**
 * Compares the plan with the service's answer to the same list (the object of 2.8). The two are computed independently and
 * must name the same principals.
 * @returns the first twenty differences, one line each; empty when they agree
 */
export async function compareOpinions(
  connection: Connection,
  answer: string,
  said: "would" | "did",
): Promise<string[]> {
  await readSyncAnswer(connection, answer, "opinion");
  const rows = await connection.rows<{ who: "plan" | "service"; action: string; kind: string; name: string }>(`
    SELECT 'plan' AS who, * FROM (SELECT action, kind, name FROM changes EXCEPT SELECT action, kind, name FROM opinion)
    UNION ALL
    SELECT 'service' AS who, * FROM (SELECT action, kind, name FROM opinion EXCEPT SELECT action, kind, name FROM changes)
    ORDER BY kind, name, who LIMIT 20`);
  const [does, doesNot] = said === "would" ? ["would", "would not"] : ["did", "did not"];
  return rows.map(({ who, action, kind, name }) =>
    who === "plan"
      ? `the plan is to ${action} the ${kind} ${name}; the service ${doesNot}`
      : `the service ${does} ${action} the ${kind} ${name}; that is not planned`,
  );
}
