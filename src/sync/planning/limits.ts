import { command, forOptions } from "#commands.ts";
import { HeldError } from "#errors.ts";
import { shortDigest } from "#plan/change.ts";
import type { Plan } from "#plan/change.ts";
import type { Connection } from "#duckdb/database.ts";
import { checkLimits, isExceeded, measure } from "#plan/limits.ts";
import { evaluateExpectations, limitChecksOf } from "#plan/expectations.ts";
import type { ExpectationCheck } from "#plan/expectations.ts";
import type { Cause } from "#plan/causes.ts";
import type { Departures } from "#plan/departures.ts";
import type { DriftLeft } from "#plan/drift.ts";
import type { Note } from "#plan/note.ts";
import type { Amount, Facts, LimitCheck, Measure, Overridable, Scope, SourceCounts } from "#plan/limits.ts";
import { createPlan } from "#plan/diff.ts";
import { unfinished } from "#plan/remote.ts";
import { adoptNames } from "#plan/renames.ts";
import { describeCheck, nameLimits } from "#plan/render/shared.ts";
import { tablesOf } from "#plan/tables.ts";
import { pluralize } from "#text.ts";
import { concernsWhole, selectionOptions, waitingFor, withhold } from "#plan/selection.ts";
import type { Selection } from "#plan/selection.ts";
import type { SourceRead } from "#state/record.ts";
import type { Declaring, Sync } from "#sync/sync.ts";

/** A plan that was checked against the limits of its sync. */
export interface LimitedPlan {
  readonly plan: Plan;
  readonly checks: readonly LimitCheck[];
  /** What is left out of the plan because of limits. Empty where a tripped limit holds the run. */
  readonly waiting: readonly Measure[];
  /** What the plan does. */
  readonly amounts: readonly Amount[];
  readonly scope: Scope;
  /** How many principals are adopted by their names. */
  readonly adopted?: number | undefined;
}

/**
 * Plans the difference between `actual` and `desired`, and checks it against the limits. With `apply-the-rest` the
 * changes that tripped limits count are taken out of `desired`, and the plan is what is left.
 */
export async function planWithinLimits(
  connection: Connection,
  { limits, target, rules: { declared } }: Pick<Sync, "limits"> & Partial<Pick<Sync, "target">> & Declaring,
  options: Pick<Facts, "history" | "overrides" | "drift" | "pushed" | "stored"> & { readonly scope: Scope },
): Promise<LimitedPlan> {
  const { scope, ...facts } = options;
  const judge = async (): Promise<Pick<LimitedPlan, "amounts" | "checks">> => {
    const measured = await measure(connection, declared, limits, target?.takes === "changes" ? unfinished : undefined);
    const checks = checkLimits(limits, { ...measured, ...scope, ...facts });
    return { amounts: measured.amounts, checks };
  };
  const tables = tablesOf(declared);
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE left_out (${tables.left_out});
    CREATE TEMP TABLE IF NOT EXISTS drift_item (${tables.drift_item});
    CREATE TEMP TABLE IF NOT EXISTS drift_left (${tables.drift_left});
    CREATE TEMP TABLE IF NOT EXISTS drift_wanted (${tables.drift_wanted})`);
  const plan = await createPlan(connection, declared);
  const adopted = facts.overrides.includes("heldNames") ? await adoptNames(connection) : 0;
  const { amounts, checks } = await judge();
  const waiting = limits.action === "hold" ? new Set<Measure>() : new Set(waitingFor(checks, declared));
  if (waiting.size === 0) return { plan, checks, waiting: [], amounts, scope, adopted };
  await connection.run("CREATE OR REPLACE TEMP TABLE whole AS FROM change_sides");
  await withhold(connection, declared, waiting);
  let rest = await createPlan(connection, declared);
  let left = await judge();
  // Where those who would join a group are not created, it may be empty now; or a group that came back with its members.
  let emptied: LimitCheck | undefined;
  for (let found = emptiedIn(left.checks); found !== undefined; found = emptiedIn(left.checks)) {
    emptied ??= found;
    waiting.add("emptied");
    await withhold(connection, declared, new Set<Measure>(["emptied"]));
    rest = await createPlan(connection, declared);
    left = await judge();
  }
  await findLeftOut(connection, "whole");
  const found = checks.map((check) => (check.limit === "emptied" && !check.tripped ? (emptied ?? check) : check));
  return { plan: rest, checks: found, waiting: [...waiting], amounts: left.amounts, scope, adopted };
}

function emptiedIn(checks: readonly LimitCheck[]): LimitCheck | undefined {
  return checks.find((check) => check.limit === "emptied" && isExceeded(check));
}

/** Adds to `left_out` whatever differs from the whole plan: a relation with the columns of `change_sides`. */
export async function findLeftOut(connection: Connection, whole: "whole" | "shown" | "everything"): Promise<void> {
  const columns = "action, kind, name, before, after";
  await connection.run(`
    INSERT INTO left_out
    SELECT DISTINCT kind, name FROM (SELECT ${columns} FROM ${whole} EXCEPT SELECT ${columns} FROM change_sides)`);
}

/** A plan with the verdicts of its expectations, which are limits, too. */
export interface ExpectedPlan extends LimitedPlan {
  /** Absent: the sync expects nothing. */
  readonly expectations?: readonly ExpectationCheck[] | undefined;
}

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
}

/**
 * Evaluates the expectations of a sync for what its plan leaves. Runs last, once the causes of the plan are known.
 * @param options.knowsSources false: the sources were not read
 */
export async function withExpectations(
  connection: Connection,
  { expectations = [], sources, rules: { declared } }: Sync,
  limited: LimitedPlan,
  options: {
    readonly knowsSources?: boolean;
    readonly overrides: readonly Overridable[];
    readonly signal: AbortSignal;
  },
): Promise<ExpectedPlan> {
  if (expectations.length === 0) return limited;
  const names = sources.map(({ name }) => name);
  const found = await evaluateExpectations(connection, expectations, {
    ...options,
    attributes: declared,
    sources: names,
  });
  return { ...limited, checks: [...limited.checks, ...limitChecksOf(found)], expectations: found };
}

/** The limits that hold a plan: tripped, and not overridden. Where the rest is applied, only drift and expectations do. */
export function beyondLimits(sync: Sync, { checks }: Pick<LimitedPlan, "checks">): readonly LimitCheck[] {
  return checks.filter((check) => isExceeded(check) && (sync.limits.action === "hold" || concernsWhole(check.limit)));
}

/**
 * @param options.run the id under which the plan is stored, where it is
 * @param options.asks true: what only asks for approval does not hold the plan
 * @param options.for the names that the run is for, if it is for some only
 * @param options.selection the part of a stored plan that it is about
 * @throws {HeldError} naming every tripped limit, and how to apply exactly this plan all the same
 */
export async function holdBeyondLimits(
  connection: Connection,
  sync: Sync,
  limited: LimitedPlan,
  {
    run,
    asks,
    changed,
    overrides = [],
    for: people,
    selection,
  }: {
    readonly run?: string | undefined;
    readonly asks: boolean;
    readonly changed: boolean;
    readonly overrides?: readonly Overridable[] | undefined;
    readonly for?: readonly string[] | undefined;
    readonly selection?: Selection | undefined;
  },
): Promise<void> {
  const { plan, checks } = limited;
  const tripped = beyondLimits(sync, limited).filter(({ otherwise }) => !(asks && otherwise === "approve"));
  if (tripped.length === 0) return;
  const names = new Set(checks.filter((check) => check.tripped).map(({ limit }) => limit));
  const holding = [...new Set(tripped.map(({ limit }) => limit))];
  // A plan that is made anew needs the overrides that it was made with. One that is stored has them.
  const needed = run === undefined ? new Set([...overrides, ...names]) : names;
  const override = ["--override", [...needed].join(",")];
  const next =
    run === undefined
      ? command("apply", sync.name, ...forOptions(people), ...override, "--digest", shortDigest(plan.digest))
      : command("approve", run, ...selectionOptions(selection), ...override);
  const { advice, changes } = await heldNamesAdvice(connection, holding);
  throw new HeldError(
    `target ${sync.target.name}: held by ${nameLimits(holding)}; nothing was applied`,
    [...tripped.map(describeCheck), ...advice],
    "limits",
    changed || changes || run !== undefined ? next : undefined,
  );
}

/** What it means that so many names are held, what overriding that does, and whether that changes anything. */
async function heldNamesAdvice(
  connection: Connection,
  holding: readonly LimitCheck["limit"][],
): Promise<{ readonly advice: readonly string[]; readonly changes: boolean }> {
  if (!holding.includes("heldNames")) return { advice: [], changes: holding.length > 0 };
  const [row] = await connection.rows<{ adoptable: number; renamed: number; reused: number }>(`
    SELECT (SELECT count(DISTINCT (kind, name)) FROM adoptable)::INTEGER AS adoptable,
      (SELECT count(*) FROM frozen WHERE reason = 'renamed')::INTEGER AS renamed,
      (SELECT count(*) FROM (FROM frozen ANTI JOIN adoptable USING (kind, name)) WHERE reason = 'reused')::INTEGER AS reused`);
  const { adoptable = 0, renamed = 0, reused = 0 } = row ?? {};
  const advice = [
    ...(adoptable === 0
      ? []
      : [
          `the ids of the source are new: ${pluralize(adoptable, "name")} of the target ${adoptable === 1 ? "is that of a record" : "are those of records"} with another id, and the earlier records are gone, as when ` +
            "the directory was rebuilt or the `id` of the source was changed. Overriding heldNames adopts these principals by name, once, and changes nothing else of them; " +
            "the next run plans what else has changed. Do so only if they are the same people",
        ]),
    ...(renamed === 0
      ? []
      : [
          `${pluralize(renamed, "name")} ${renamed === 1 ? "waits" : "wait"} for a rename. Overriding heldNames leaves ${renamed === 1 ? "it" : "them"} waiting; the notes of the plan say how to apply ${renamed === 1 ? "it" : "them"}`,
        ]),
    ...(reused === 0
      ? []
      : [
          `${pluralize(reused, "name")} ${reused === 1 ? "belongs to another record" : "belong to other records"} now. Overriding heldNames leaves ${reused === 1 ? "it" : "them"} as ${reused === 1 ? "it is" : "they are"}; the notes of the plan say how to give ${reused === 1 ? "it" : "them"} to the new records`,
        ]),
  ];
  return { advice, changes: adoptable > 0 || holding.length > 1 };
}
