import { anySpelling } from "#principals/principal.ts";
import { messageOf } from "#errors.ts";
import type { Connection } from "#duckdb/database.ts";
import { scopeOf } from "#plan/limits.ts";
import type { History } from "#plan/limits.ts";
import { createPlan } from "#plan/diff.ts";
import type { Judged, Observer } from "#principals/stage.ts";
import type { RuleTrace } from "#principals/judge.ts";
import { membershipsOf } from "#principals/references.ts";
import type { DirectMembership } from "#principals/references.ts";
import { describeWay, scopeOfEntry } from "#principals/scope.ts";
import type { ScopeTrace } from "#principals/scope.ts";
import type { Kind } from "#principals/principal.ts";
import { loadBaseline } from "#sync/planning/baseline.ts";
import { makeDesired } from "#sync/planning/desired.ts";
import { isOpen } from "#state/record.ts";
import { inWorkbench } from "#sync/interruption.ts";
import type { Interruption } from "#sync/interruption.ts";
import { Ledger } from "#state/ledger/ledger.ts";
import { evaluateExpectations } from "#plan/expectations.ts";
import { planWithinLimits, withExpectations } from "#sync/planning/limits.ts";
import { calledBy, nearestNames, recordsCalled } from "#sync/planning/people.ts";
import { differenceOf, foreignCalled, outcomesOf } from "./outcome.ts";
import type { ForeignPrincipal, Outcome } from "./outcome.ts";
import type { ApprovalPolicy } from "#sync/context.ts";
import { Plans } from "#state/plans.ts";
import type { Reader } from "#state/store.ts";
import { ledgerOf } from "#sync/sync.ts";
import type { Sync } from "#sync/sync.ts";
import type { Stage } from "#state/record.ts";
import { plannedOf, waitOf, waitOfRun } from "./waits.ts";
import type { Status, Wait } from "./waits.ts";
import { quote } from "#text.ts";

/** A record of a source that matches, and what the rules make of it. */
export interface RecordExplanation {
  readonly source: string;
  readonly kind: Kind;
  readonly id: string;
  readonly origin: string;
  /** What the lists of groups say: whether the rules look at it at all. Empty without such lists. */
  readonly scope: readonly ScopeTrace[];
  readonly rules: readonly RuleTrace[];
  readonly verdict: "included" | "excluded" | "quarantined";
  /** The principal's name, if known. */
  readonly name?: string;
  /** Why it is quarantined, which rule or list excludes it, or why it has another name than the rule gives. */
  readonly reason?: string;
  readonly memberships: readonly DirectMembership[];
}

/** Everything that matches a name, from the sources to the target. */
export interface Explanation {
  readonly sync: string;
  readonly target: string;
  readonly records: readonly RecordExplanation[];
  readonly outcomes: readonly Outcome[];
  /** Principals of the target with that name, of types that no sync manages. */
  readonly foreign: readonly ForeignPrincipal[];
  /** Similar names, if nothing was found. */
  readonly nearest: readonly string[];
}

export interface ExplainOptions {
  readonly state: Pick<Reader, "files" | "journal">;
  /** DuckDB's memory limit in bytes. */
  readonly memory: number;
  readonly interruption: Interruption;
  /** The sync's policy. */
  readonly approval: ApprovalPolicy;
  /** True: waits for a run to the same target that is under way. */
  readonly waits?: boolean | undefined;
  /** Reads the ledger while nobody in this process writes it. Absent: nobody does. */
  readonly inTurn?: (<Result>(work: () => Promise<Result>) => Promise<Result>) | undefined;
  readonly progress?: (stage: Stage, records?: number) => void;
  readonly warn: (message: string) => void;
}

/** The most records and principals that are explained: a name that matches more says nothing. */
const limit = 20;

/**
 * Follows everything that matches a name, with `user:` or `group:` in front if only that is meant (a principal's name, display name or mail, a record's id, or a value that the rules
 * `name` and `mail` read; case does not matter) from the sources to what a run would do with it. It reads what a run reads,
 * and changes nothing.
 * @throws what `run` throws before it applies
 */
export async function explain(sync: Sync, given: string, options: ExplainOptions): Promise<Explanation> {
  const { inTurn = (work) => work() } = options;
  const { files } = options.state;
  const { kind: only, text: wanted } = calledBy(given);
  return inWorkbench({ ...options, files }, async (workbench, watching) => {
    const { history } = await inTurn(() =>
      Ledger.open(workbench.connection, {
        files,
        ...ledgerOf(sync),
        mode: "read",
        signal: watching.signal(),
        waits: options.waits,
      }),
    );
    // A name may be another than the rule gives.
    const owners = await workbench.connection.rows<{ source: string; id: string }>(
      `SELECT source, source_id AS id FROM ledger WHERE ${anySpelling("name")} = ${anySpelling("$1")}`,
      [wanted],
    );
    const finder = findRecords(sync, { wanted, only }, owners);
    const baseline = sync.causes
      ? await loadBaseline(workbench.connection, files, sync, sync.rules.declared)
      : undefined;
    const { assembly } = await makeDesired(sync, workbench, {
      ...options,
      baseline,
      observer: finder.observer,
      signal: watching.signal(),
    });
    const records = await finder.records();
    const names = records.flatMap(({ kind, name }) => (name === undefined ? [] : [{ kind, name }]));
    const found = await outcomesOf(workbench.connection, sync, { wanted, only, names, limit });
    const unread = assembly.unread.map(({ name }) => name);
    const outcomes =
      found.length === 0
        ? []
        : await withWaits(found, sync, workbench.connection, {
            ...options,
            history,
            unread,
            signal: watching.signal(),
          });
    const foreign = await foreignCalled(workbench.connection, wanted);
    const isFound = records.length + outcomes.length + foreign.length > 0;
    const nearest = isFound ? [] : await nearestNames(workbench.connection, wanted);
    return { sync: sync.name, target: sync.target.name, records, outcomes, foreign, nearest };
  });
}

interface WaitOptions extends ExplainOptions {
  readonly history: History;
  /** Names of sources that could not be read. */
  readonly unread: readonly string[];
  readonly signal: AbortSignal;
}

/** Adds to every change why it waits. Changes `desired` to what the limits leave of the plan. */
async function withWaits(
  outcomes: readonly Outcome[],
  sync: Sync,
  connection: Connection,
  { state, approval, history, unread, warn, signal }: WaitOptions,
): Promise<Outcome[]> {
  const known = await state.journal().then(
    ({ runs, syncs }): Pick<Status, "runs" | "caution"> => {
      const reason = syncs[sync.name]?.caution?.reason;
      const own = runs.filter((run) => run.sync === sync.name).toReversed();
      return { runs: own, caution: reason };
    },
    (error: unknown): Pick<Status, "runs" | "caution"> => {
      warn(`waiting runs are not known: ${messageOf(error)}`);
      return { runs: [] };
    },
  );
  const { digest } = await createPlan(connection, sync.rules.declared);
  const scope = await scopeOf(connection, sync.sources, unread);
  const limited = await planWithinLimits(connection, sync, { scope, history, overrides: [] });
  const { checks, waiting } = await withExpectations(connection, sync, limited, { overrides: [], signal });
  const { action } = sync.limits;
  const status = { sync: sync.name, action, approval, checks, waiting, digest, ...known };
  const plans = new Plans(state.files);
  const open = known.runs.filter(isOpen);
  await plans.fetch(open.map(({ id }) => id));
  const explained: Outcome[] = [];
  for (const outcome of outcomes) {
    const { change } = outcome;
    const rest = waiting.length === 0 ? change : (await differenceOf(connection, outcome)).change;
    const wait = change === undefined ? undefined : waitOf(change, rest, status);
    const planned = await plannedOf(connection, plans, open, outcome);
    const others = planned.flatMap(({ run, action }): Wait[] =>
      run.id === wait?.run ? [] : [waitOfRun(run, action, known.runs)],
    );
    const breaks = await brokenBy(connection, sync, { subject: outcome, signal });
    explained.push({ ...outcome, breaks, waits: [...(wait === undefined ? [] : [wait]), ...others] });
  }
  return explained;
}

/** The expectations that one user or group breaks. */
async function brokenBy(
  connection: Connection,
  { expectations = [], sources, rules: { declared } }: Sync,
  { subject, signal }: { readonly subject: Outcome; readonly signal: AbortSignal },
): Promise<Outcome["breaks"]> {
  const over = expectations.filter(({ over }) => over === `${subject.kind}s`);
  const names = sources.map(({ name }) => name);
  const checks = await evaluateExpectations(connection, over, {
    attributes: declared,
    only: subject.name,
    sources: names,
    signal,
  });
  const broken = checks.filter(({ violations }) => violations > 0);
  return broken.length === 0 ? undefined : broken;
}

/** What assembling made of a record. */
interface AssembledRecord {
  readonly memberships: readonly DirectMembership[];
  /** Why it is quarantined. */
  readonly held?: string | undefined;
  /** Its name, which may differ from what the rule gives. */
  readonly given?: string | undefined;
  readonly scope: readonly ScopeTrace[];
  /** The groups that it is directly in. */
  readonly direct: readonly string[];
}

function findRecords(
  { rules }: Sync,
  { wanted, only }: { readonly wanted: string; readonly only: Kind | undefined },
  owners: readonly { readonly source: string; readonly id: string }[],
): { observer: Observer; records: () => Promise<RecordExplanation[]> } {
  const isCalled = recordsCalled(rules, wanted);
  const isWanted = (judged: Judged): boolean =>
    (only === undefined || judged.entry.kind === only) &&
    (isCalled(judged) || owners.some(({ source, id }) => source === judged.source && id === judged.entry.id));
  const found: Judged[] = [];
  const assembled = new Map<number, AssembledRecord>();
  const explained = (judged: Judged): RecordExplanation => {
    const { seq, source, entry, verdict, groups } = judged;
    const { memberships, held, given, scope, direct } = assembled.get(seq) ?? {
      memberships: [],
      scope: [],
      direct: [],
    };
    const isUnlisted = scope.some(({ says }) => says === "out");
    const traces = isUnlisted ? [] : rules.trace(entry, groups);
    const name = given ?? ("name" in verdict ? verdict.name : undefined);
    const reason =
      held ??
      otherName(verdict, given) ??
      (isUnlisted ? whyUnlisted(entry.kind, scope, direct) : undefined) ??
      (verdict.verdict === "excluded" ? whyExcluded(entry.kind, traces) : undefined);
    return {
      source,
      kind: entry.kind,
      id: entry.id,
      origin: entry.origin,
      scope,
      rules: traces,
      verdict: held === undefined ? verdict.verdict : "quarantined",
      name,
      reason,
      memberships,
    };
  };
  return {
    observer: {
      judged: (judged) => {
        if (found.length < limit && isWanted(judged)) found.push(judged);
      },
      assembled: async (connection) => {
        const { lists } = rules.groupQuestions ?? { lists: [] };
        for (const { seq, entry } of found) {
          const { scope, groups: direct } =
            lists.length === 0 ? { scope: [], groups: [] } : await scopeOfEntry(connection, seq, entry.kind, lists);
          const memberships = await membershipsOf(connection, seq);
          const [row] = await connection.rows<{ held: string | null; given: string | null }>(`
            SELECT (SELECT string_agg(DISTINCT reason, '; ' ORDER BY reason) FROM held WHERE seq = ${seq}) AS held,
              (SELECT name FROM staged_entry WHERE seq = ${seq}) AS given`);
          const { held, given } = row ?? {};
          assembled.set(seq, { memberships, held: held ?? undefined, given: given ?? undefined, scope, direct });
        }
      },
    },
    records: async () => found.map(explained),
  };
}

function whyUnlisted(kind: Kind, scope: readonly ScopeTrace[], direct: readonly string[]): string {
  const out = scope.filter(({ says }) => says === "out");
  const why = out.map(({ list, patterns, ways }) =>
    ways.length > 0
      ? `${list} leaves it out: it is in ${ways.map(describeWay).join(" and ")}`
      : kind === "user"
        ? `${list}: it is in no group that matches ${patterns.join(" or ")}`
        : `${list}: neither it nor a group around it matches ${patterns.join(" or ")}`,
  );
  const isIn = out.every(({ ways }) => ways.length > 0);
  return isIn ? why.join("; ") : `${why.join("; ")}; it is in ${direct.length === 0 ? "no group" : direct.join(", ")}`;
}

/** What to say where a record has another name than its rule gives, since that one is taken. */
function otherName(verdict: Judged["verdict"], given: string | undefined): string | undefined {
  if (given === undefined || !("name" in verdict) || verdict.name === undefined || verdict.name === given)
    return undefined;
  return `the name ${quote(verdict.name)} is taken, so its name is ${quote(given)} (unique)`;
}

function whyExcluded(kind: Kind, traces: readonly RuleTrace[]): string {
  const rule = traces.find(
    ({ rule, value }) =>
      (rule.endsWith(".include") && value === false) || (rule.endsWith(".exclude") && value === true),
  );
  return rule === undefined
    ? `the sync has no rules for ${kind}s`
    : `the rule ${rule.rule} gives ${String(rule.value)}`;
}
