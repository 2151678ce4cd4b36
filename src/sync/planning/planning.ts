import type { Connection } from "#duckdb/database.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import { errorDocument, IncompleteReadError } from "#errors.ts";
import { findCauses } from "#plan/causes.ts";
import type { Cause } from "#plan/causes.ts";
import { createPlan } from "#plan/diff.ts";
import { leaveDrift } from "#plan/drift.ts";
import type { DriftLeft } from "#plan/drift.ts";
import { changes } from "#plan/change.ts";
import { scopeOf } from "#plan/limits.ts";
import type { History, Scope } from "#plan/limits.ts";
import { findSuspicious } from "#plan/suspicious.ts";
import type { SourceRead } from "#state/record.ts";
import type { Sync } from "#sync/sync.ts";
import { differingKeys } from "#values.ts";
import { makeDesired, read } from "./desired.ts";
import type { Desired, DesiredOptions, Reading } from "./desired.ts";
import { findLeftOut, planWithinLimits, withExpectations } from "./limits.ts";
import type { Planned } from "./limits.ts";
import { detailsAbout, notesForSome, notesOf, timeNotes, withAdopted } from "./notes.ts";
import { People, peopleNotes } from "./people.ts";
import { refuseTorn } from "./torn.ts";
import { isoOf } from "#times.ts";

/** Makes a plan in a workbench, with all the tables that applying it and writing the ledger need. Runs after `Ledger.open`. */
export interface Planner<Read = unknown> {
  /** Reads what the plan is made of. */
  read(sync: Sync, workbench: Workbench, options: PlanningOptions): Promise<Read>;
  plan(sync: Sync, workbench: Workbench, options: PlanningOptions, read: Read): Promise<Planned>;
}

export interface PlanningOptions extends Omit<DesiredOptions, "observer"> {
  readonly history: History;
  /** Names of users and groups: only these change, everything else in the target stays unchanged. */
  readonly for?: readonly string[] | undefined;
  /** Called once `desired` is there, before limits take changes out of it. */
  readonly made?: (() => Promise<void>) | undefined;
}

type SourcesRead = Reading & {
  /** The people that the run is for. */
  readonly people?: People | undefined;
  /** True: the sources had changed while they were read the first time. */
  readonly isSecond?: boolean;
};

/** Plans from the sources and the rules. Sources that change while they are read are read again, once. */
export const planFromSources: Planner<SourcesRead> = {
  read: async (...all) => {
    try {
      return await readOnce(...all);
    } catch (error) {
      return readAgain(error, ...all);
    }
  },
  plan: async (sync, workbench, options, reading) => {
    try {
      return await planOnce(sync, workbench, options, reading);
    } catch (error) {
      if (reading.isSecond === true) throw error;
      return planOnce(sync, workbench, options, await readAgain(error, sync, workbench, options));
    }
  },
};

const readOnce: Planner<SourcesRead>["read"] = async (sync, workbench, options) => {
  const people = options.for === undefined ? undefined : new People(sync, options.for);
  const reading = await read(sync, workbench, {
    ...options,
    keepAttributes: sync.causes,
    observer: people?.observer,
    // Who is meant is found while records are read.
    mustRead: options.mustRead === true || people !== undefined,
  });
  return { ...reading, people };
};

/** @throws `error`, unless it says that the sources changed meanwhile */
async function readAgain(
  error: unknown,
  ...[sync, workbench, options]: Parameters<typeof readOnce>
): Promise<SourcesRead> {
  if (!(error instanceof IncompleteReadError && error.torn)) throw error;
  options.warn(`${error.message}. The sources are read again`);
  return { ...(await readOnce(sync, workbench, { ...options, mustRead: true })), isSecond: true };
}

const planOnce: Planner<SourcesRead>["plan"] = async (sync, workbench, options, reading) => {
  const { connection } = workbench;
  const { history, overrides = [] } = options;
  const { people } = reading;
  const asked = { ...options, keepAttributes: sync.causes, observer: people?.observer };
  const desired = await makeDesired(sync, workbench, asked, reading);
  await options.made?.();
  const unread = desired.assembly.unread.map(({ name }) => name);
  const scope = await scopeOf(connection, sync.sources, unread);
  const explain = async (): Promise<readonly Cause[]> =>
    findCauses(connection, {
      attributes: sync.rules.declared,
      reads: sync.rules.reads(),
      hasGrace: sync.departures.after > 0,
      suspendsLater: (sync.departures.suspend ?? 0) > 0,
      hasBaseline: options.baseline !== undefined,
      changedKeys: options.baseline === undefined ? [] : differingKeys(options.baseline.settings, sync.settings),
    });
  if (people !== undefined) {
    await createPlan(connection, sync.rules.declared);
    await connection.run("CREATE OR REPLACE TEMP TABLE everything AS FROM change_sides");
  }
  const chosen = await people?.narrow(connection);
  const { drift, causes: known } = await judgeDrift(connection, sync, explain);
  const limited = await planWithinLimits(connection, sync, {
    scope,
    history,
    overrides,
    drift: drift?.held,
    pushed: desired.pushed,
  });
  if (chosen !== undefined) await findLeftOut(connection, "everything");
  const sources = sync.sources.filter(({ name }) => !unread.includes(name));
  const { signal, warn } = options;
  await refuseTorn(connection, sources, { signal, warn, attributes: sync.rules.attributes() });
  if (reading.known === undefined) await options.unchanged?.storeRead(connection, desired.assembly, desired.counts);
  const isChange = changes(limited.plan.counts) > 0;
  const facts = {
    ...desired,
    sync: sync.name,
    limits: limited.checks,
    waiting: limited.waiting,
    overrides,
    drift,
    for: options.for,
    suspicious: isChange ? await findSuspicious(connection, sync.rules.declared, sync.protection) : undefined,
  };
  const found = limited.waiting.length === 0 ? known : undefined;
  const causes = sync.causes ? (isChange ? (found ?? (await explain())) : []) : undefined;
  return {
    ...(await withExpectations(connection, sync, limited, { overrides, signal })),
    notes: [
      ...timeNotes(sync.target, limited.plan.counts),
      ...withAdopted(
        chosen === undefined
          ? notesOf(facts)
          : [
              ...(await peopleNotes(connection, sync.name, chosen, detailsAbout(chosen.subjects, notesOf(facts)))),
              ...notesForSome(facts),
            ],
        limited.adopted,
      ),
    ],
    causes,
    drift,
    // Of everybody else a run for some says nothing.
    departures: chosen === undefined ? desired.departures : undefined,
    counts: desired.counts.filter(({ source, digest }) => digest !== "" && !unread.includes(source)),
    quarantined: desired.assembly.quarantined.count,
    sources: sourceReads(sync, desired, scope),
  };
};

/** What a read found in each source. */
function sourceReads(
  { sources }: Pick<Sync, "sources">,
  { assembly, unchangedSince, pushed }: Pick<Desired, "assembly" | "unchangedSince" | "pushed">,
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
      pushedUntil: isoOf(pushed.find((each) => each.source === source)?.until),
      error: failed && errorDocument(failed.error),
    };
  });
}

/** What is done about drift before the limits are checked. */
interface DriftFound extends DriftLeft {
  /** How many principals hold the run, if they are to. */
  readonly held?: number | undefined;
}

/**
 * Leaves what is to stay as somebody made it. Does nothing where everything is taken back.
 * @returns the causes of the plan, too, where it has stayed the same
 */
async function judgeDrift(
  connection: Connection,
  { causes, drift: { policy, ...rules }, rules: { declared }, protection: { ignoresCase } }: Sync,
  explain: () => Promise<readonly Cause[]>,
): Promise<{ readonly drift?: DriftFound; readonly causes?: readonly Cause[] | undefined }> {
  if (!causes || (policy === "revert" && rules.ignore.length === 0)) return {};
  const { counts } = await createPlan(connection, declared);
  const holding = (held: number): Partial<DriftFound> => (policy === "hold" ? { held } : {});
  if (changes(counts) === 0) return { drift: { left: 0, ignored: 0, ...holding(0) } };
  const found = await explain();
  const drift = await leaveDrift(connection, declared, { policy, ...rules }, ignoresCase);
  const [row] = await connection.rows<{ held: number }>(`
    SELECT count(DISTINCT (kind, name))::INTEGER AS held
    FROM drift_item ANTI JOIN drift_left USING (action, kind, name, aspect)`);
  return {
    drift: { ...drift, ...holding(row?.held ?? 0) },
    causes: drift.left + drift.ignored === 0 ? found : undefined,
  };
}
