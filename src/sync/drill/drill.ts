import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import type { ReadContext, SourceRecord } from "#connector.ts";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { Workbench } from "#duckdb/workbench.ts";
import { InputError, RollcallError } from "#errors.ts";
import type { Counts } from "#plan/change.ts";
import { limitOf, overridable } from "#plan/limits.ts";
import type { CompiledRules } from "#principals/compile.ts";
import type { Rules } from "#principals/rules.ts";
import { copyLedger, forgetApplied } from "#state/ledger/ledger.ts";
import { listToFile } from "#sync/planning/target.ts";
import { planFromSources } from "#sync/planning/planning.ts";
import type { Planned } from "#sync/planning/limits.ts";
import { copyBaseline } from "#sync/planning/baseline.ts";
import { filesIn } from "#state/folder/store.ts";
import type { StateFiles } from "#state/store.ts";
import { run } from "#sync/run.ts";
import type { ApprovalPolicy, RunOptions, RunResult } from "#sync/context.ts";
import type { Sync, SyncSource } from "#sync/sync.ts";
import { incidents } from "./incidents.ts";
import type { Injection, World } from "./incidents.ts";
import { judged } from "./judge.ts";
import type { Finding } from "./judge.ts";
import { incidentNames, incidentTitles } from "./names.ts";
import type { IncidentName } from "./names.ts";
import { Spool } from "./spool.ts";
import { RehearsalTarget } from "./target.ts";

export interface DrillOptions extends Pick<RunOptions, "files" | "memory" | "interruption" | "warn" | "progress"> {
  /** The rules as they stand in the configuration. */
  readonly rules: Rules;
  /** Compiles others. @throws {InputError} they are not valid */
  readonly compile: (rules: Rules) => CompiledRules;
  readonly approval: ApprovalPolicy;
  /** The names of the incidents to rehearse; absent: all. */
  readonly only?: readonly IncidentName[] | undefined;
  /** Called when an incident begins. */
  readonly begin?: ((title: string) => void) | undefined;
}

export interface Drill {
  readonly sync: string;
  readonly target: string;
  /** When the sources were read, ISO 8601. */
  readonly readAt: string;
  /** How many records were read, and what the sync makes of them. */
  readonly records: number;
  readonly users: number;
  readonly groups: number;
  /** What a run would change today: the incidents happen after that. */
  readonly today: Counts;
  readonly findings: readonly Finding[];
}

/**
 * Rehearses incidents. Reads the sources and lists the target once, as a dry run does; then runs the sync for each incident
 * over what was read, against a target that is a list in a file, with a copy of the ledger: the guards are those of every
 * run, and nothing that exists is written, or asked again.
 * @throws what `run` throws, where not even today's plan can be made
 */
export async function drill(sync: Sync, options: DrillOptions): Promise<Drill> {
  await using workbench = await Workbench.open({ folder: join(options.files.folder, "work"), memory: options.memory });
  using spool = await Spool.open(workbench);
  return await rehearse({ sync, options, workbench, spool });
}

interface Rehearsal {
  readonly sync: Sync;
  readonly options: DrillOptions;
  readonly workbench: Workbench;
  readonly spool: Spool;
}

async function rehearse(rehearsal: Rehearsal): Promise<Drill> {
  const { sync, options, spool } = rehearsal;
  const { only, begin, interruption } = options;
  const now = Date.now();
  const { today, world, files } = await settle(rehearsal, now);
  const findings: Finding[] = [];
  for (const incident of only ?? incidentNames) {
    const title = incidentTitles[incident];
    begin?.(title);
    interruption.stop.throwIfAborted();
    const injections = await incidents[incident](world);
    if (typeof injections === "string") {
      findings.push({ incident, title, verdict: "skipped", because: [injections], changed: 0 });
      continue;
    }
    for (const injection of injections) {
      const found = await happen(rehearsal, world, { injection, files, today });
      findings.push({ incident, title, injected: injection.injected, ...found });
    }
  }
  const [sizes] = await spool.connection.rows<{ records: number; users: number; groups: number }>(`
    SELECT (SELECT count(*)::INTEGER FROM record) AS records,
      (SELECT count(*)::INTEGER FROM principal WHERE kind = 'user') AS users,
      (SELECT count(*)::INTEGER FROM principal WHERE kind = 'group') AS groups`);
  return {
    sync: sync.name,
    target: sync.target.name,
    readAt: new Date(now).toISOString(),
    records: sizes?.records ?? 0,
    users: sizes?.users ?? 0,
    groups: sizes?.groups ?? 0,
    today: today.plan.counts,
    findings,
  };
}

/** Reads the sources and the target, and applies today's plan to the copies: incidents happen to a sync that is in step. */
async function settle(
  { sync, options, workbench, spool }: Rehearsal,
  now: number,
): Promise<{ readonly today: Planned; readonly world: World; readonly files: StateFiles }> {
  const files = filesIn(workbench.file("daemon"));
  const { name, place } = sync;
  const signal = options.interruption.stop;
  await copyLedger(workbench.connection, files, { files: options.files, place, sync: name, signal });
  await copyBaseline(options.files, name, files);
  const list = workbench.file("target.json");
  const real = sync.target;
  if (real.takes === "changes")
    throw new InputError(`the target ${real.name} cannot be rehearsed: it is written change by change`);
  const target = new RehearsalTarget(workbench, {
    name: sync.target.name,
    declared: sync.rules.declared,
    state: list,
    fill: (signal) => listToFile(real, list, signal),
  });
  const principals = workbench.file("principals.parquet");
  let today: Planned | undefined;
  const result = await run(
    {
      ...sync,
      sources: sync.sources.map((each) => spool.recording(each)),
      digest: undefined,
      target,
    },
    {
      ...runOptions(options),
      files,
      now,
      apply: true,
      // Whatever holds it today is somebody else's decision.
      overrides: [
        ...overridable.filter((each) => each !== "renames" && each !== "reusedNames"),
        ...(sync.expectations ?? []).map((expectation) => limitOf(expectation.name)),
      ],
      planner: watched(async (planned, { connection }) => {
        today = planned;
        await storePrincipals(connection, principals);
      }),
    },
  );
  if (today === undefined) throw new Error("a run without a plan");
  if (result.outcome === "applied")
    await forgetApplied(workbench.connection, { files, place, sync: name, signal, mode: "write", now });
  await spool.connection.run(`CREATE TABLE principal AS FROM read_parquet(${literal(principals)})`);
  const world = {
    connection: spool.connection,
    principals,
    sync,
    rules: options.rules,
    compile: options.compile,
    workbench,
    state: target.state,
  };
  return { today, world, files };
}

/** Plans from the sources, and shows each plan. */
function watched(seen: (planned: Planned, workbench: Workbench) => Promise<void>): typeof planFromSources {
  return {
    read: (...reading) => planFromSources.read(...reading),
    plan: async (sync, workbench, options, read) => {
      const planned = await planFromSources.plan(sync, workbench, options, read);
      await seen(planned, workbench);
      return planned;
    },
  };
}

/** The principals that the sources make, with how many each group has in it. */
async function storePrincipals(connection: Connection, file: string): Promise<void> {
  await connection.run(`
    COPY (
      WITH member AS (SELECT unnest(group_names) AS name FROM assembled),
      size AS (SELECT name, count(*) AS members FROM member GROUP BY name)
      SELECT a.kind, a.name, a.source, a.source_id, CASE a.kind WHEN 'group' THEN coalesce(s.members, 0) ELSE 0 END AS members
      FROM assembled a LEFT JOIN size s ON s.name = a.name WHERE a.source <> ''
    ) TO ${literal(file)} (FORMAT parquet)`);
}

function runOptions({ memory, interruption, warn, progress }: DrillOptions) {
  return { memory, interruption, warn, progress };
}

/** Runs the sync as if this had happened. */
async function happen(
  { sync, options, workbench, spool }: Rehearsal,
  { state }: World,
  { injection, files, today }: { readonly injection: Injection; readonly files: StateFiles; readonly today: Planned },
): Promise<Omit<Finding, "incident" | "title" | "injected">> {
  const own = workbench.file("incident");
  const { folder } = files;
  await cp(folder, own, { recursive: true, filter: (path) => path !== join(folder, "work") });
  let planned: Planned | undefined;
  const planner = watched(async (plan) => {
    planned = plan;
  });
  const target = new RehearsalTarget(workbench, {
    name: sync.target.name,
    declared: sync.rules.declared,
    state,
    ...injection.target,
  });
  const { approval } = options;
  const judge = (end: RunResult | RollcallError): Omit<Finding, "incident" | "title" | "injected"> => ({
    ...judged(end, { sync, approval, planned, today }),
    counts: planned?.plan.counts,
  });
  try {
    const rehearsed = {
      ...sync,
      sources: sync.sources.map((source) => replaying(source, injection, spool)),
      digest: undefined,
      rules: injection.rules ?? sync.rules,
      target,
    };
    return judge(
      await run(rehearsed, {
        ...runOptions(options),
        warn: () => {},
        files: filesIn(own),
        apply: true,
        approval,
        planner,
      }),
    );
  } catch (error) {
    options.interruption.stop.throwIfAborted();
    if (!(error instanceof RollcallError)) throw error;
    return judge(error);
  } finally {
    await rm(own, { recursive: true, force: true });
  }
}

/** The source as it is in an incident: its own checks, over other records. */
function replaying(each: SyncSource, injection: Injection, spool: Spool): SyncSource {
  const { name, source } = each;
  const read = (context: ReadContext): AsyncIterable<readonly SourceRecord[]> => {
    const records = changed(spool.replay(name), injection.records?.(name), spool.failure(name));
    return source.recheck?.({ records, renamed: injection.renamed }, context) ?? records;
  };
  const find: typeof source.find = async function* (wanted) {
    if (injection.stillThere !== true) return;
    for await (const found of spool.find(name, wanted)) yield found.filter((record) => record.kind !== "membership");
  };
  const { uniqueIds } = source;
  return { ...each, source: source.find === undefined ? { uniqueIds, read } : { uniqueIds, read, find } };
}

async function* changed(
  records: AsyncIterable<readonly SourceRecord[]>,
  change: ((record: SourceRecord) => SourceRecord | undefined) | undefined,
  failure: Error | undefined,
): AsyncGenerator<readonly SourceRecord[]> {
  // An optional source that could not be read today.
  if (failure !== undefined) throw failure;
  if (change === undefined) {
    yield* records;
    return;
  }
  for await (const batch of records) {
    const come: SourceRecord[] = [];
    for (const record of batch) {
      const now = change(record);
      if (now !== undefined) come.push(now);
    }
    yield come;
  }
}
