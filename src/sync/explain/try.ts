import { join } from "node:path";
import { Workbench } from "#duckdb/workbench.ts";
import type { Connection } from "#duckdb/database.ts";
import type { Cause } from "#plan/causes.ts";
import type { Change, Counts, Part } from "#plan/change.ts";
import { createPlan } from "#plan/diff.ts";
import type { ExpectationCheck } from "#plan/expectations.ts";
import type { LimitCheck } from "#plan/limits.ts";
import { changesOf, sectionsOf } from "#plan/render/shared.ts";
import type { Note } from "#plan/note.ts";
import { isCredential } from "#principals/credentials.ts";
import type { Attributes } from "#principals/attributes.ts";
import type { Kind } from "#principals/principal.ts";
import { inWorkbench } from "#sync/interruption.ts";
import { Ledger } from "#state/ledger/ledger.ts";
import { loadBaseline } from "#sync/planning/baseline.ts";
import { beyondLimits } from "#sync/planning/limits.ts";
import { planFromSources } from "#sync/planning/planning.ts";
import { ledgerOf } from "#sync/sync.ts";
import type { Sync } from "#sync/sync.ts";
import { Unchanged } from "#sync/unchanged.ts";
import { readOnce } from "./compare.ts";
import type { CompareOptions } from "./compare.ts";
import { explain } from "./explain.ts";
import type { Explanation, ExplainOptions } from "./explain.ts";

/*
 * What other rules would do, tried on live data. Nothing is written but in workbenches, which are removed: no plan, no
 * ledger, nothing for the next run.
 */

/** How a sync explains a name, and how it would with other rules. */
export interface ExplainedTwice {
  readonly before: Explanation;
  readonly after: Explanation;
}

/** What a run would do to the target. */
export interface Outlook {
  readonly counts: Counts;
  readonly limits: readonly LimitCheck[];
  /** The limits that would hold it; empty where none does. */
  readonly held: readonly LimitCheck["limit"][];
  /** Absent: the sync does not look for them. */
  readonly causes?: readonly Cause[] | undefined;
  readonly expectations?: readonly ExpectationCheck[] | undefined;
  readonly notes: readonly Note[];
}

/** The first changes of one action on one kind. */
export interface ExcerptOfChanges extends Part {
  readonly count: number;
  readonly changes: readonly Change[];
}

/** What other rules change, for everybody. */
export interface PlannedTwice {
  /** How what the sync wants of the target differs, whatever the target has. */
  readonly counts: Counts;
  readonly sections: readonly ExcerptOfChanges[];
  /** What the next run would do with the rules as they are, and with the others. */
  readonly before: Outlook;
  readonly after: Outlook;
}

/** Which of the two rules are looked at. */
export type Side = "before" | "after";

interface Steps {
  /** Called when the one with these rules begins. */
  readonly begin: (side: Side) => void;
}

/** Explains a name twice, from one read. @throws what `explain` throws */
export async function explainTwice(
  before: Sync,
  after: Sync,
  wanted: string,
  { begin, ...options }: ExplainOptions & Steps,
): Promise<ExplainedTwice> {
  await using workbench = await Workbench.open({
    folder: join(options.state.files.folder, "work"),
    memory: options.memory,
  });
  const [first, second] = readOnce(before, after, workbench, leavesOut(before));
  const one = async (side: Side, sync: Sync): Promise<Explanation> => {
    begin(side);
    return explain(sync, wanted, options);
  };
  return { before: await one("before", first), after: await one("after", second) };
}

/**
 * Plans twice, from one read, and compares what both want of the target.
 * @param options.shown how many changes of each section are returned
 * @throws what `run` throws before it applies
 */
export async function planTwice(
  before: Sync,
  after: Sync,
  {
    shown,
    begin,
    waits,
    ...options
  }: Omit<CompareOptions, "report"> & Pick<ExplainOptions, "waits"> & Steps & { readonly shown: number },
): Promise<PlannedTwice> {
  return inWorkbench(options, async (workbench, watching) => {
    const { connection } = workbench;
    const signal = watching.signal();
    const from = { files: options.files, ...ledgerOf(after), mode: "read", signal, waits } as const;
    const { history } = await Ledger.open(connection, from);
    const baseline = after.causes
      ? await loadBaseline(connection, options.files, after, after.rules.declared)
      : undefined;
    const [first, second] = readOnce(before, after, workbench, leavesOut(before));
    const { folder } = options.files;
    const unchanged = await Unchanged.open(after, { folder, now: Date.now(), signal, mayEnd: false, stores: false });
    const planning = { ...options, mustRead: true, history, baseline, signal, unchanged };
    const outlook = async (side: Side, sync: Sync): Promise<Outlook> => {
      begin(side);
      const made = () => connection.run(`CREATE OR REPLACE TABLE wanted_${side} AS FROM desired`);
      const read = await planFromSources.read(sync, workbench, { ...planning, made });
      const planned = await planFromSources.plan(sync, workbench, { ...planning, made }, read);
      const { plan, checks: limits, causes, expectations, notes } = planned;
      const held = beyondLimits(sync, planned).map(({ limit }) => limit);
      return { counts: plan.counts, limits, held, causes, expectations, notes };
    };
    const outlooks = { before: await outlook("before", first), after: await outlook("after", second) };
    return { ...(await difference(connection, after.rules.declared, shown)), ...outlooks };
  });
}

/** Passwords are not read for rules of somebody else, but where the rules of the configuration read them by name. */
function leavesOut({ rules }: Sync): (kind: Kind, attribute: string) => boolean {
  const reads = rules.reads();
  const namedBy = (kind: Kind): Set<string> => new Set([...reads[`${kind}s`].values()].flatMap((names) => names ?? []));
  const named = { user: namedBy("user"), group: namedBy("group") };
  return (kind, attribute) => isCredential(attribute) && !named[kind].has(attribute);
}

/** How `wanted_after` differs from `wanted_before`. */
async function difference(
  connection: Connection,
  attributes: Attributes,
  shown: number,
): Promise<Pick<PlannedTwice, "counts" | "sections">> {
  await connection.run(`
    DROP TABLE actual; DROP TABLE desired;
    ALTER TABLE wanted_before RENAME TO actual; ALTER TABLE wanted_after RENAME TO desired`);
  const plan = await createPlan(connection, attributes);
  const sections: ExcerptOfChanges[] = [];
  for (const section of sectionsOf(plan)) {
    const changes: Change[] = [];
    for await (const change of changesOf(plan, section, shown)) changes.push(change);
    const { kind, action, count } = section;
    sections.push({ kind, action, count, changes });
  }
  return { counts: plan.counts, sections };
}
