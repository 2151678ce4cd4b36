import { variableOf } from "#principals/environment.ts";
import type { Attributes } from "#principals/attributes.ts";
import { columnOf } from "#principals/attributes.ts";
import { literal, onlyIf, textList } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import type { AttributeValue } from "#principals/entry.ts";
import { isMet } from "#principals/expectations.ts";
import type { CompiledExpectation, Expectation } from "#principals/expectations.ts";
import { Counted } from "#principals/expression.ts";
import type { Kind, PrincipalValue } from "#principals/principal.ts";
import { Yielder } from "#principals/yield.ts";
import type { Change } from "./change.ts";
import { changeOfRow } from "./diff.ts";
import type { ChangeRow } from "./diff.ts";
import { limitOf } from "./limits.ts";
import type { LimitCheck, Overridable } from "./limits.ts";

/** An expectation of a sync, and what a plan makes of it. */
export interface ExpectationCheck extends Expectation {
  /**
   * - `met`: nothing breaks it. `accepted`: no more than `most`.
   * - `broken`: it only warns, or everything that breaks it is in the target already.
   * - `tripped`: the plan breaks it, and is held or needs approval for that. `overridden`: a person has overridden it.
   * - `unknown`: an undo does not read the sources, which it asks for.
   */
  readonly state: "met" | "accepted" | "broken" | "tripped" | "overridden" | "unknown";
  /** How many users or groups break it once the plan is applied; 1 where it is about numbers. */
  readonly violations: number;
  /** How many of them break it in the target as it is now. */
  readonly already: number;
  /** Some of them by name, new ones first. */
  readonly examples: readonly Violation[];
  /** Where it is about numbers: what they are now, and once the plan is applied. */
  readonly numbers?:
    | Readonly<Record<"users" | "groups", { readonly before: number; readonly after: number }>>
    | undefined;
  /** Attributes that it reads, and no record has. */
  readonly neverSet?: readonly string[] | undefined;
}

/** A user or a group that breaks an expectation. */
export interface Violation {
  readonly kind: Kind;
  readonly name: string;
  /** False: it does so in the target already. */
  readonly isNew: boolean;
  /** Why it could not be evaluated. */
  readonly reason?: string | undefined;
  /** What the plan changes of it; of a user or group that breaks it anew, that is why. */
  readonly change?: Change | undefined;
  /** For a group: how many users join and leave it, and some of them. */
  readonly joining?: Some | undefined;
  readonly leaving?: Some | undefined;
}

interface Some {
  readonly count: number;
  readonly names: readonly string[];
}

export interface EvaluationOptions {
  /** What the target declares. */
  readonly attributes: Attributes;
  /** The relation that it is about. `assembled`: what the sources make, without a target. */
  readonly result?: "desired" | "assembled";
  /** The names of the sources: of several records of one principal, the first that has an attribute counts. */
  readonly sources: readonly string[];
  /** Only this user or group. */
  readonly only?: string;
  /** False: the sources were not read. */
  readonly knowsSources?: boolean;
  readonly overrides?: readonly Overridable[];
  readonly signal: AbortSignal;
}

/** How many violations are named. */
const named = 20;
/** How many of those who join or leave a group are named. */
const membersNamed = 3;
/** How many members of groups are in memory at a time, except for those of a single large group. */
const membersTogether = 100_000;

/**
 * Evaluates expectations for every user and group of `desired`, batch by batch: only the first violations are kept, the rest
 * is counted. Runs after `createPlan` and, for their causes, `findCauses`.
 *
 * A principal that breaks one is evaluated again as it is in the target, by its old name where it is renamed, and with the same
 * record of its source: if that breaks it, too, the plan is not the reason.
 */
export async function evaluateExpectations(
  connection: Connection,
  expectations: readonly CompiledExpectation[],
  options: EvaluationOptions,
): Promise<ExpectationCheck[]> {
  if (expectations.length === 0) return [];
  const { knowsSources = true, overrides = [] } = options;
  const tallies = expectations.map(createTally);
  const asked = tallies.filter(({ expectation }) => knowsSources || !expectation.readsSource);
  const over = (which: Expectation["over"]): Tally[] => asked.filter(({ expectation }) => expectation.over === which);
  const evaluation = await prepare(connection, asked, options);
  try {
    if (over(undefined).length > 0) await evaluateCounts(evaluation, over(undefined));
    if (over("users").length > 0) await evaluateUsers(evaluation, over("users"));
    if (over("groups").length > 0) await evaluateGroups(evaluation, over("groups"));
    const checks: ExpectationCheck[] = [];
    for (const tally of tallies) {
      const { name, over, expect, otherwise, most } = tally.expectation;
      checks.push({
        name,
        over,
        expect,
        otherwise,
        most,
        state: asked.includes(tally)
          ? stateOf(tally, { hasTarget: evaluation.hasTarget, isOverridden: overrides.includes(limitOf(name)) })
          : "unknown",
        violations: tally.violations,
        already: tally.already,
        examples: await explained(evaluation, tally),
        numbers: tally.numbers,
        neverSet: neverSetOf(tally.expectation),
      });
    }
    return checks;
  } finally {
    await connection.run(ownTables.map((table) => `DROP TABLE IF EXISTS ${table};`).join(" "));
  }
}

function neverSetOf({ expression }: CompiledExpectation): readonly string[] | undefined {
  const names = expression.neverSet();
  return names.length === 0 ? undefined : names;
}

/** The verdicts as limits, for those that hold a plan or ask for its approval. */
export function limitChecksOf(checks: readonly ExpectationCheck[]): LimitCheck[] {
  return checks.flatMap(({ name, over = "counts", expect, otherwise, most, state, violations }) =>
    otherwise === "warn" || state === "unknown"
      ? []
      : [
          {
            limit: limitOf(name),
            of: over,
            value: violations,
            earlier: 0,
            bound: most,
            basis: expect,
            tripped: state === "tripped" || state === "overridden",
            overridden: state === "overridden",
            otherwise,
          },
        ],
  );
}

/** What is found out about one expectation. */
interface Tally {
  readonly expectation: CompiledExpectation;
  violations: number;
  already: number;
  /** The first by name. */
  readonly fresh: Found[];
  readonly old: Found[];
  numbers?: ExpectationCheck["numbers"];
}

interface Found {
  readonly name: string;
  readonly reason?: string | undefined;
}

function createTally(expectation: CompiledExpectation): Tally {
  return { expectation, violations: 0, already: 0, fresh: [], old: [] };
}

function stateOf(
  { expectation, violations, already, numbers }: Tally,
  { hasTarget, isOverridden }: { readonly hasTarget: boolean; readonly isOverridden: boolean },
): ExpectationCheck["state"] {
  const { most, otherwise, expression } = expectation;
  if (violations === 0) return "met";
  if (violations <= most) return "accepted";
  const changes =
    numbers === undefined
      ? violations > already
      : (["users", "groups"] as const).some(
          (kind) => expression.uses(kind) !== "not" && numbers[kind].before !== numbers[kind].after,
        );
  if (otherwise === "warn" || !hasTarget || !changes) return "broken";
  return isOverridden ? "overridden" : "tripped";
}

/** Counts a violation, and keeps it if it is among the first by name. */
function add(tally: Tally, found: Found, isNew: boolean): void {
  tally.violations += 1;
  if (!isNew) tally.already += 1;
  const kept = isNew ? tally.fresh : tally.old;
  const last = kept.at(-1);
  if (kept.length >= named && last !== undefined && found.name > last.name) return;
  const place = kept.findIndex(({ name }) => name > found.name);
  kept.splice(place === -1 ? kept.length : place, 0, found);
  if (kept.length > named) kept.pop();
}

interface Evaluation {
  readonly connection: Connection;
  readonly attributes: Attributes;
  readonly result: "desired" | "assembled";
  /** SQL: the condition on `d`, who is evaluated. */
  readonly which: string;
  /** Whether the plan changes anything; if not, a principal that breaks an expectation does so in the target. */
  readonly hasChanges: boolean;
  /** Whether there is a target to compare with. */
  readonly hasTarget: boolean;
  readonly signal: AbortSignal;
  /** SQL of the record of `d`: its `attributes`, a JSON object or a list of such texts, and the join that they need. */
  readonly record: { readonly column: string; readonly join: string };
  /** The groups that a group is in through others, by side; only where that is asked for. */
  readonly nesting: Readonly<Record<Side, ReadonlyMap<string, readonly string[]>>>;
}

type Side = "before" | "after";

/** The tables that only this file knows. */
const ownTables = [
  ...["nesting", "member", "nested"].flatMap((what) => [`expected_${what}_before`, `expected_${what}_after`]),
  "expected_group",
  "expected_group_before",
];

async function prepare(
  connection: Connection,
  tallies: readonly Tally[],
  { attributes, result = "desired", sources, only, signal }: EvaluationOptions,
): Promise<Evaluation> {
  const hasTarget = result === "desired";
  const [any] = hasTarget ? await connection.rows("SELECT true FROM changes LIMIT 1") : [];
  if (hasTarget)
    await connection.run("CREATE TEMP TABLE IF NOT EXISTS renamed (kind VARCHAR, was VARCHAR, becomes VARCHAR)");
  const usesNesting = tallies.some(({ expectation: { expression } }) =>
    ["nestedGroups", "nestedMembers"].some((name) => expression.uses(name) !== "not"),
  );
  const none = new Map<string, readonly string[]>();
  const hasChanges = any !== undefined;
  const nesting = (side: Side): Promise<Map<string, readonly string[]>> => nestingOf(connection, side, result);
  return {
    connection,
    attributes,
    result,
    which: only === undefined ? "true" : `d.name = ${literal(only)}`,
    hasChanges,
    hasTarget,
    signal,
    record: tallies.some(({ expectation }) => expectation.readsSource)
      ? {
          column: "s.attributes",
          join: `LEFT JOIN ${await recordsOf(connection, sources)} s ON s.kind = d.kind AND s.name = d.name`,
        }
      : { column: "NULL AS attributes", join: "" },
    nesting: {
      after: usesNesting ? await nesting("after") : none,
      before: usesNesting && hasChanges ? await nesting("before") : none,
    },
  };
}

/** Makes `expected_nesting_…`, the groups that each group is in, directly or through others. */
async function nestingOf(
  connection: Connection,
  side: Side,
  result: Evaluation["result"],
): Promise<Map<string, readonly string[]>> {
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE expected_nesting_${side} AS
    WITH RECURSIVE edge AS (
      SELECT name, unnest(group_names) AS up FROM ${side === "after" ? result : "actual"} WHERE kind = 'group'),
    closure(name, up) AS (
      SELECT name, up FROM edge UNION SELECT c.name, e.up FROM closure c JOIN edge e ON e.name = c.up)
    FROM closure`);
  const rows = await connection.rows<{ name: string; up: readonly string[] }>(
    `SELECT name, list(up) AS up FROM expected_nesting_${side} GROUP BY name`,
  );
  return new Map(rows.map(({ name, up }) => [name, up]));
}

/** The records of principals. Of joined ones there are several. */
async function recordsOf(connection: Connection, sources: readonly string[]): Promise<string> {
  const [joined] = await connection.rows("SELECT true FROM contributor LIMIT 1");
  const known = "FROM record WHERE scope = 'in' AND attributes IS NOT NULL";
  if (joined === undefined) return `(SELECT kind, name, attributes ${known})`;
  const place = `list_position(${textList(sources)}, source)`;
  return `(SELECT kind, name, to_json(list(attributes ORDER BY ${place}))::VARCHAR AS attributes ${known} GROUP BY kind, name)`;
}

type Said = Readonly<Record<string, AttributeValue>>;

function attributesIn(text: string): Said {
  const value = JSON.parse(text) as Said | readonly string[];
  if (!Array.isArray(value)) return value as Said;
  const records = value.map((each) => JSON.parse(String(each)) as Said);
  return Object.assign(Object.create(null), ...records.toReversed()) as Said;
}

/** A user or group as a query returns it; columns that nothing asks for are absent. */
interface Row {
  readonly name: string;
  /** The attributes that expressions ask for, by what they call them. */
  readonly values?: Readonly<Record<string, PrincipalValue | null>>;
  readonly group_names?: readonly string[];
  readonly attributes?: string | null;
  readonly members?: readonly string[] | number | null;
  readonly nested_members?: readonly string[] | number | null;
}

/** The columns of a principal that expressions need, as SQL. */
function columnsOf({ nesting, attributes }: Evaluation, tallies: readonly Tally[], alias: string): string[] {
  const uses = (...names: readonly string[]): boolean =>
    tallies.some(({ expectation: { expression } }) => names.some((name) => expression.uses(name) !== "not"));
  const asked = attributes.all.filter((attribute) => uses(variableOf(attribute)));
  const values = asked.map((attribute) => {
    const column = `${alias}.${columnOf(attribute)}`;
    return `${literal(variableOf(attribute))}: ${attribute.type === "texts" ? `coalesce(${column}, [])` : column}`;
  });
  const columns = [`${alias}.name`, ...(values.length === 0 ? [] : [`{${values.join(", ")}} AS "values"`])];
  if (!uses("groups", "nestedGroups")) return columns;
  const those = askedGroups(nesting, tallies);
  const all = `${alias}.group_names`;
  return [
    ...columns,
    those === undefined
      ? all
      : `list_filter(${all}, lambda g: g IN (${["''", ...those].map(literal).join(", ")})) AS group_names`,
  ];
}

/** So many groups are picked out of the memberships at most. */
const mostAsked = 500;

/**
 * The groups that matter, where expressions do nothing but ask whether somebody is in one: those, and the groups that are in
 * them. Most memberships are of no use then, and reading them takes most of the time. Undefined: all groups matter.
 */
function askedGroups(nesting: Evaluation["nesting"], tallies: readonly Tally[]): string[] | undefined {
  const found = new Set<string>();
  const through = new Set<string>();
  for (const { expectation } of tallies) {
    const [direct, nested] = (["groups", "nestedGroups"] as const).map((name) => expectation.expression.asked(name));
    if (direct === undefined || nested === undefined) return undefined;
    for (const name of [...direct, ...nested]) found.add(name);
    for (const name of nested) through.add(name);
  }
  for (const side of through.size === 0 ? [] : [nesting.after, nesting.before])
    for (const [name, up] of side) if (up.some((each) => through.has(each))) found.add(name);
  return found.size > mostAsked ? undefined : [...found];
}

/** The values of the variables. The attributes of the source's record are apart: they are the same on both sides. */
function valuesOf(row: Row, { nesting }: Evaluation, side: Side): Record<string, unknown> {
  const { group_names: groups = [] } = row;
  return {
    name: row.name,
    ...row.values,
    groups,
    nestedGroups: nesting[side].size === 0 ? groups : nested(groups, nesting[side]),
    members: listOf(row.members),
    nestedMembers: listOf(row.nested_members),
    inSource: typeof row.attributes === "string",
  };
}

function nested(groups: readonly string[], nesting: ReadonlyMap<string, readonly string[]>): readonly string[] {
  return [...new Set(groups.flatMap((group) => [group, ...(nesting.get(group) ?? [])]))];
}

/** Where only their number is asked for, the list has the length, and no names. */
function listOf(members: Row["members"]): readonly string[] {
  if (typeof members !== "number") return members ?? [];
  const list: string[] = [];
  list.length = members;
  return list;
}

async function evaluateCounts({ connection, result, hasTarget }: Evaluation, tallies: readonly Tally[]): Promise<void> {
  const count = async (table: string): Promise<Record<"users" | "groups", number>> => {
    const [row] = await connection.rows<{ users: bigint; groups: bigint }>(
      `SELECT count(*) FILTER (kind = 'user') AS users, count(*) FILTER (kind = 'group') AS groups FROM ${table}`,
    );
    return { users: Number(row?.users ?? 0), groups: Number(row?.groups ?? 0) };
  };
  const after = await count(result);
  const before = hasTarget ? await count("actual") : after;
  const valuesOf = ({ users, groups }: typeof after): Record<string, unknown> => ({
    users: new Counted(users),
    groups: new Counted(groups),
  });
  for (const tally of tallies) {
    tally.numbers = {
      users: { before: before.users, after: after.users },
      groups: { before: before.groups, after: after.groups },
    };
    if (isMet(tally.expectation, {}, valuesOf(after)) === true) continue;
    tally.violations = 1;
    tally.already = hasTarget && isMet(tally.expectation, {}, valuesOf(before)) !== true ? 1 : 0;
  }
}

/** SQL: the principals of a kind that the plan changes, as they are in the target; `existed` is false where they are not. */
function changedRows(kind: Kind, columns: (alias: string) => readonly string[]): string {
  return `(
    SELECT c.name AS changed, a.name IS NOT NULL AS existed, ${columns("a").join(", ")}
    FROM changes c LEFT JOIN renamed r ON r.kind = c.kind AND r.becomes = ${onlyIf("c.action = 'create'", "c.name")}
    LEFT JOIN actual a ON a.kind = c.kind AND a.name = coalesce(r.was, c.name)
    WHERE c.kind = '${kind}' AND c.action <> 'delete')`;
}

/** A principal that breaks an expectation, and how. */
interface Broken<Each extends Row> {
  readonly tally: Tally;
  readonly row: Each;
  readonly attributes: Said;
  readonly met: false | string;
}

/** Evaluates expectations for principals as the plan leaves them. */
async function* violationsIn<Each extends Row>(
  evaluation: Evaluation,
  tallies: readonly Tally[],
  rows: readonly Each[],
  yielder: Yielder,
): AsyncGenerator<Broken<Each>> {
  for (const row of rows) {
    const attributes = typeof row.attributes === "string" ? attributesIn(row.attributes) : {};
    const values = valuesOf(row, evaluation, "after");
    for (const tally of tallies) {
      if (yielder.isDue()) await yielder.yield();
      const met = isMet(tally.expectation, attributes, values);
      if (met !== true) yield { tally, row, attributes, met };
    }
  }
}

async function evaluateUsers(evaluation: Evaluation, tallies: readonly Tally[]): Promise<void> {
  const { connection, result, which, hasChanges, record, signal } = evaluation;
  const columns = (alias: string): string[] => columnsOf(evaluation, tallies, alias);
  const batches = connection.batches<Row & { before: (Row & { existed: boolean }) | null }>(`
    SELECT ${columns("d").join(", ")}, ${record.column},
      ${hasChanges ? "CASE WHEN b.changed IS NOT NULL THEN b END" : "NULL"} AS before
    FROM ${result} d ${record.join}
    ${hasChanges ? `LEFT JOIN ${changedRows("user", columns)} b ON b.changed = d.name` : ""}
    WHERE d.kind = 'user' AND ${which}`);
  const yielder = new Yielder(signal);
  for await (const rows of batches) {
    for await (const broken of violationsIn(evaluation, tallies, rows, yielder)) {
      const { row } = broken;
      judge(evaluation, broken, row.before === null ? row : row.before.existed ? row.before : undefined);
    }
  }
}

/** Decides whether a violation is new. @param was absent: it is not in the target yet */
function judge(evaluation: Evaluation, { tally, row, attributes, met }: Broken<Row>, was: Row | undefined): void {
  const { hasTarget, hasChanges } = evaluation;
  const found = { name: row.name, reason: met === false ? undefined : met };
  const before = (): boolean =>
    was !== undefined &&
    isMet(
      tally.expectation,
      attributes,
      valuesOf({ ...was, attributes: row.attributes ?? null }, evaluation, "before"),
    ) !== true;
  add(tally, found, !hasTarget || (hasChanges && !before()));
}

async function evaluateGroups(evaluation: Evaluation, tallies: readonly Tally[]): Promise<void> {
  const { connection, result, which, hasChanges, record, signal } = evaluation;
  const members = membersUsed(tallies);
  await createMembers(evaluation, members, "after");
  const sizes = members
    .filter(({ use }) => use === "any")
    .map(({ table }) => `UNION ALL SELECT grp AS name, count(*) AS size FROM ${table}_after GROUP BY grp`);
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE expected_group AS
    WITH g AS (SELECT name FROM ${result} d WHERE kind = 'group' AND ${which}),
    weight AS (
      SELECT name, sum(size) AS size FROM (SELECT name, 50 AS size FROM g ${sizes.join(" ")}) SEMI JOIN g USING (name) GROUP BY name)
    SELECT name, (sum(size) OVER (ORDER BY name) // ${membersTogether})::INTEGER AS page FROM weight`);
  const pages = await connection.rows<{ page: number }>("SELECT DISTINCT page FROM expected_group ORDER BY page");
  const yielder = new Yielder(signal);
  let hasMembersBefore = false;
  for (const { page } of pages) {
    const here = `SELECT name FROM expected_group WHERE page = ${page}`;
    const rows = await connection.rows<Row>(`
      SELECT ${[...columnsOf(evaluation, tallies, "d"), ...members.map(({ column }) => column), record.column].join(", ")}
      FROM ${result} d SEMI JOIN (${here}) p ON p.name = d.name ${membersJoined(members, "after", here, "d.name")} ${record.join}
      WHERE d.kind = 'group' ORDER BY d.name`);
    const violations = await Array.fromAsync(violationsIn(evaluation, tallies, rows, yielder));
    const before = new Map<string, Row>();
    if (violations.length > 0 && hasChanges) {
      if (!hasMembersBefore) await createMembers(evaluation, members, "before");
      hasMembersBefore = true;
      for (const row of await groupsBefore(evaluation, tallies, new Set(violations.map(({ row }) => row.name))))
        before.set(row.name, row);
    }
    for (const violation of violations) {
      judge(evaluation, violation, before.get(violation.row.name));
      if (yielder.isDue()) await yielder.yield();
    }
  }
}

/** Groups as they are in the target, by the names that they will have. */
async function groupsBefore(
  evaluation: Evaluation,
  tallies: readonly Tally[],
  names: ReadonlySet<string>,
): Promise<Row[]> {
  const { connection } = evaluation;
  const members = membersUsed(tallies);
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE expected_group_before AS
    SELECT n.name AS becomes, coalesce(r.was, n.name) AS name FROM (SELECT unnest(${textList([...names])}) AS name) n
    LEFT JOIN (SELECT r.* FROM renamed r ANTI JOIN actual a ON a.kind = r.kind AND a.name = r.becomes) r
      ON r.kind = 'group' AND r.becomes = n.name`);
  return connection.rows<Row>(`
    SELECT n.becomes AS name, ${[...columnsOf(evaluation, tallies, "a").slice(1), ...members.map(({ column }) => column)].join(", ") || "NULL"}
    FROM expected_group_before n JOIN actual a ON a.kind = 'group' AND a.name = n.name
    ${membersJoined(members, "before", "SELECT name FROM expected_group_before", "a.name")}`);
}

interface MembersUsed {
  readonly table: "expected_member" | "expected_nested";
  readonly column: string;
  /** `size`: the table has their number, `any`: a row for each. */
  readonly use: "size" | "any";
  /** The members that expressions ask for, where they do nothing else with the list. Undefined: all matter. */
  readonly only: readonly string[] | undefined;
}

function membersUsed(tallies: readonly Tally[]): MembersUsed[] {
  return (["members", "nestedMembers"] as const).flatMap((variable) => {
    const uses = new Set(tallies.map(({ expectation }) => expectation.expression.uses(variable)));
    if (uses.size === 0 || (uses.size === 1 && uses.has("not"))) return [];
    const use = uses.has("any") ? "any" : "size";
    const asked = tallies.map(({ expectation }) => expectation.expression.asked(variable));
    const [table, alias, column] =
      variable === "members"
        ? (["expected_member", "direct", "members"] as const)
        : (["expected_nested", "nested", "nested_members"] as const);
    return [
      {
        table,
        column: `${use === "any" ? `${alias}.names` : `coalesce(${alias}.size, 0)::INTEGER`} AS ${column}`,
        use,
        only: asked.every((names) => names !== undefined) ? asked.flat() : undefined,
      },
    ];
  });
}

/** Makes the users of each group: a row for each, or their number. */
async function createMembers(
  { connection, result }: Evaluation,
  members: readonly MembersUsed[],
  side: Side,
): Promise<void> {
  for (const { table, use, only } of members) {
    const direct = `
      SELECT name, unnest(group_names) AS grp FROM ${side === "after" ? result : "actual"}
      WHERE kind = 'user'${only === undefined ? "" : ` AND name IN (${only.map(literal).join(", ")})`}`;
    const nested = `
      SELECT DISTINCT grp, name FROM (
        SELECT grp, name FROM (${direct}) UNION ALL
        SELECT n.up, m.name FROM (${direct}) m JOIN expected_nesting_${side} n ON n.name = m.grp)`;
    const pairs = table === "expected_member" ? direct : nested;
    await connection.run(
      `CREATE OR REPLACE TEMP TABLE ${table}_${side} AS ${
        use === "any"
          ? `SELECT grp, name FROM (${pairs}) ORDER BY grp`
          : `SELECT grp, count(*) AS size FROM (${pairs}) GROUP BY grp`
      }`,
    );
  }
}

/** SQL: joins the members of some groups. */
function membersJoined(members: readonly MembersUsed[], side: Side, groups: string, name: string): string {
  return members
    .map(({ table, use }) => {
      const alias = table === "expected_member" ? "direct" : "nested";
      const relation =
        use === "size"
          ? `${table}_${side}`
          : `(SELECT grp, list(name ORDER BY name) AS names FROM ${table}_${side} WHERE grp IN (${groups}) GROUP BY grp)`;
      return `LEFT JOIN ${relation} ${alias} ON ${alias}.grp = ${name}`;
    })
    .join(" ");
}

/** The violations that are named, with what the plan changes of them. */
async function explained(evaluation: Evaluation, { expectation, ...tally }: Tally): Promise<Violation[]> {
  const { connection, hasChanges } = evaluation;
  const kind = expectation.over === "groups" ? "group" : "user";
  const shown = [
    ...tally.fresh.map((found) => ({ found, isNew: true })),
    ...tally.old.map((found) => ({ found, isNew: false })),
  ];
  const examples = shown.slice(0, named);
  if (examples.length === 0) return [];
  const names = examples.map(({ found }) => literal(found.name)).join(", ");
  const rows = hasChanges
    ? await connection.rows<ChangeRow & { name: string }>(
        `SELECT action, kind, name, before, after, causes FROM change_sides WHERE kind = '${kind}' AND action <> 'delete' AND name IN (${names})`,
      )
    : [];
  const changes = new Map(rows.map((row) => [row.name, changeOfRow(row)]));
  const isMoved = kind === "group" && hasChanges;
  const fresh = examples.flatMap(({ found, isNew }) => (isNew ? [found.name] : []));
  const moves = isMoved ? await movesOf(evaluation, expectation, fresh) : undefined;
  const violations: Violation[] = [];
  for (const { found, isNew } of examples)
    violations.push({ kind, ...found, isNew, change: changes.get(found.name), ...moves?.get(found.name) });
  return violations;
}

type Moves = Pick<Violation, "joining" | "leaving">;

/** The users who join and leave groups, nested members included where the expectation asks for them. */
async function movesOf(
  { connection }: Evaluation,
  { expression }: CompiledExpectation,
  groups: readonly string[],
): Promise<ReadonlyMap<string, Moves>> {
  const moves = new Map<string, Moves>();
  const isNested = expression.uses("nestedMembers") !== "not";
  if (groups.length === 0 || (!isNested && expression.uses("members") === "not")) return moves;
  const below = (side: Side): string =>
    `UNION SELECT up, name FROM expected_nesting_${side} WHERE up IN (${groups.map(literal).join(", ")})`;
  const rows = await connection.rows<{ up: string; joins: boolean; count: bigint; names: readonly string[] }>(`
    WITH g AS (
      SELECT up, up AS name FROM (VALUES ${groups.map((name) => `(${literal(name)})`).join(", ")}) t(up)
      ${isNested ? `${below("before")} ${below("after")}` : ""}),
    was AS (${membersBelow("before")}), will AS (${membersBelow("after")})
    SELECT up, joins, count(*) AS count, min(name, ${membersNamed}) AS names FROM (
      SELECT *, true AS joins FROM will ANTI JOIN was USING (up, name)
      UNION ALL SELECT *, false FROM was ANTI JOIN will USING (up, name))
    GROUP BY up, joins`);
  for (const { up, joins, count, names } of rows)
    moves.set(up, { ...moves.get(up), [joins ? "joining" : "leaving"]: { count: Number(count), names } });
  return moves;
}

/** SQL: the users that are in groups of `g` on one side, of those that are changed. */
function membersBelow(side: Side): string {
  return `
    SELECT DISTINCT g.up, m.name FROM (SELECT name, unnest(${side}.group_names) AS grp FROM change_pair WHERE kind = 'user') m
    JOIN g ON g.name = m.grp`;
}
