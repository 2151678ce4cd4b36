import { columnOf } from "#principals/attributes.ts";
import type { Attribute, Attributes } from "#principals/attributes.ts";
import { ownSource, ruleSource } from "#principals/tables.ts";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { actions, isUpdateInSql } from "./actions.ts";
import type { Action } from "./actions.ts";
import { formatNumber } from "#text.ts";

/** The limits on what a plan does; they are added up over 24 hours. */
export const measures = [
  "deletes",
  "suspends",
  "updates",
  "creates",
  "membershipsLost",
  "membershipsLost.perGroup",
  "emptied",
  "blanked",
] as const;
export type Measure = (typeof measures)[number];

/** The limits, by their keys in the configuration. An override uses the same name. */
export const limitNames = [
  ...measures,
  "shrink",
  "quarantined",
  "heldNames",
  "drift",
  "pushed",
  "minUsers",
  "minGroups",
] as const;
export type LimitName = (typeof limitNames)[number];

/** An expectation as a limit. */
export type ExpectationLimit = `expectation:${string}`;

/** The name under which an expectation holds a plan, and is overridden. */
export function limitOf(expectation: string): ExpectationLimit {
  return `expectation:${expectation}`;
}

/** The name of the expectation that a limit is; undefined when it is none. */
export function expectationOf(limit: string): string | undefined {
  return limit.startsWith("expectation:") ? limit.slice("expectation:".length) : undefined;
}

/** Whether what an override names is an expectation. */
export function isExpectation(name: string): name is ExpectationLimit {
  return (expectationOf(name) ?? "") !== "";
}

/** The names that a person can override for one plan, besides expectations. */
export const overridable = [...limitNames, "renames", "reusedNames"] as const;
export type Overridable = (typeof overridable)[number] | ExpectationLimit;

/** A bound on a measure. With both `count` and `percent`, the smaller one holds. */
export interface Bound {
  readonly count?: number | undefined;
  /** A share of what the sync manages in the target. A floor may raise it. */
  readonly percent?: number | undefined;
  /** Takes the place of `Limits.floor`. */
  readonly floor?: number | undefined;
  /** `day`: this plan together with what was applied in the 24 hours before it. */
  readonly per: "run" | "day";
}

/** The limits of a sync. An absent one does not apply. */
export interface Limits extends Readonly<Partial<Record<Measure | "shrink" | "quarantined" | "heldNames", Bound>>> {
  /** The fewest users and groups that all sources together must have in scope. */
  readonly minUsers?: number | undefined;
  readonly minGroups?: number | undefined;
  /** The same for single sources, by name. */
  readonly sources: Readonly<Record<string, { readonly minUsers?: number; readonly minGroups?: number }>>;
  /**
   * This many changes never trip a percentage: in a small directory one person is many percent. But of what can go, a floor
   * never lets more than half go.
   */
  readonly floor: number;
  /** `hold`: a tripped limit stops the run. `apply-the-rest`: the changes it counts wait, and the rest is applied. */
  readonly action: "hold" | "apply-the-rest";
}

/** What to do with drift: changes made in the target while the source is unchanged. */
export interface DriftRules {
  /**
   * `revert`: the run takes it back. `leave`: it stays until the source changes that value. `hold`: the run is held, as by
   * a limit.
   */
  readonly policy: "revert" | "leave" | "hold";
  /** Changes that stay and are no drift: `users.svc-*.mail`; `*` stands for any characters. */
  readonly ignore: readonly string[];
}

/** The facts of earlier runs that limits need. */
export interface History {
  /** The amounts applied within 24 hours, overridden ones excepted. */
  readonly applied: readonly { readonly measure: Measure; readonly of: string; readonly amount: number }[];
  /** Each source's size in scope at its last good read, and its largest within 24 hours. */
  readonly reads: readonly (SourceSize & { readonly most: number })[];
  /** Each source's counts at its last good read. */
  readonly counts: readonly SourceCounts[];
}

/** The counts of a source while it was read. */
export interface SourceCounts {
  readonly source: string;
  /** Identifies the source's options: what was counted with others cannot be compared. */
  readonly digest: string;
  readonly counts: Readonly<Record<string, number>>;
}

/** How many records of a source are in scope. */
export interface SourceSize {
  readonly source: string;
  readonly kind: "user" | "group";
  readonly size: number;
  /** How many of them are quarantined. */
  readonly quarantined?: number | undefined;
}

/** One limit and its verdict on a plan. */
export interface LimitCheck {
  readonly limit: LimitName | ExpectationLimit;
  /** What is counted: `users`, `groups`, `memberships`, `attributes`, `values of mail`, `users of corp`; `counts` for an expectation of numbers. */
  readonly of: string;
  /** What the plan does, with `earlier`. */
  readonly value: number;
  /** The part of `value` that was applied within 24 hours before. */
  readonly earlier: number;
  /** The most that `value` may be; for `minUsers` and `minGroups` the least. */
  readonly bound: number;
  /** Where the bound comes from: `10% of 400`; the expression of an expectation. */
  readonly basis: string;
  /** The groups that it is about, those that lose most first, and of more than these only the first. */
  readonly groups?: readonly LosingGroup[] | undefined;
  readonly tripped: boolean;
  /** It is tripped, and a person has overridden it for this plan. */
  readonly overridden: boolean;
  /** For an expectation: what happens when it trips. Absent: it holds the plan. */
  readonly otherwise?: "hold" | "approve" | undefined;
}

/** Whether it is tripped, and nobody has overridden it. */
export function isExceeded({ tripped, overridden }: Pick<LimitCheck, "tripped" | "overridden">): boolean {
  return tripped && !overridden;
}

/** How many names a plan holds: those of renamed records, and those that belong to other records now. */
export function heldNamesIn(checks: readonly LimitCheck[]): number {
  return checks
    .filter(({ limit, overridden }) => limit === "heldNames" && !overridden)
    .reduce((sum, { value }) => sum + value, 0);
}

/** A group that loses members, of how many. Both with those of the 24 hours before, where these count. */
export interface LosingGroup {
  readonly name: string;
  readonly lost: number;
  readonly members: number;
}

/** One measure of a plan: how much it does, of what, and how much of that there is. */
export interface Amount {
  readonly measure: Measure;
  readonly of: string;
  /** Where it is about one attribute. */
  readonly attribute?: string;
  readonly amount: number;
  readonly base: number;
}

/** How many principals of a kind keep their state because their names are held. */
export interface HeldNames {
  readonly of: "users" | "groups";
  readonly held: number;
  /** How many the sync manages in the target. */
  readonly base: number;
}

/** The groups that the limits on single groups are about: how many, and the first few. */
export interface GroupLosses {
  readonly beyond: { readonly count: number; readonly examples: readonly LosingGroup[] };
  readonly emptied: { readonly count: number; readonly examples: readonly LosingGroup[] };
}

/** The amounts of a plan that limits bound. */
export interface Measured {
  readonly amounts: readonly Amount[];
  readonly groups: GroupLosses;
  readonly heldNames: readonly HeldNames[];
}

/** What the plan does with the principals of a kind, and what there is of them in the target. */
interface KindRow extends Record<Action, number> {
  readonly kind: "user" | "group";
  readonly is_there: boolean;
  /** How much the sync manages: principals, their memberships and attributes. */
  readonly base: number;
  /** How many of them are not suspended. */
  readonly active: number;
  readonly memberships: number;
  readonly attributes: number;
  readonly held: number;
  readonly memberships_lost: number;
  readonly blanked: number;
  /** Groups, the same in each row. */
  readonly beyond: number;
  readonly emptied: number;
}

/** The limit `blanked` counts attributes that principals may lack. */
export function mayBeBlank({ required }: Attribute): boolean {
  return required !== true;
}

/** SQL: the principals of the target, with what freezes each, and whether the sync manages it. */
const counted = `(
        SELECT a.*, f.reason, f.reason IS NULL OR f.reason NOT IN ('protected', 'unmanaged') AS counts
        FROM actual a LEFT JOIN frozen f USING (kind, name))`;

/**
 * Measures the plan: users and groups separately; memberships and attributes of those that stay. The base is what the
 * sync manages in the target, that is everything except what is protected or unmanaged. Makes `group_loss`. Runs after
 * `createPlan`.
 * @param unfinished SQL of `(kind, name)` whose updates do not count: the rest of their creation. Absent: all count
 */
export async function measure(
  connection: Connection,
  attributes: Attributes,
  limits: Limits,
  unfinished?: string,
): Promise<Measured> {
  const { all, state } = attributes;
  const mayLack = all.filter(mayBeBlank);
  const blankable = mayLack.map(columnOf);
  const isActive = state === undefined ? "true" : `coalesce(${columnOf(state)}, true)`;
  const isFinished = unfinished === undefined ? "" : ` AND (kind, name) NOT IN (${unfinished})`;
  const sum = (condition: (column: string) => string): string =>
    ["0", ...blankable.map((column) => `(${condition(column)})::INT`)].join(" + ");
  const rows = await connection.rows<KindRow>(`
    ${groupLosses(limits)};
    WITH base AS (
      SELECT kind, count(*) FILTER (counts) AS base, count(*) FILTER (counts AND ${isActive}) AS active, sum(len(group_names)) FILTER (counts) AS memberships,
        sum(${sum((column) => `${column} IS NOT NULL`)}) FILTER (counts) AS attributes,
        count(*) FILTER (reason IN ('renamed', 'reused')) AS held
      FROM ${counted} GROUP BY kind),
    changed AS (
      SELECT kind, ${actions.map((action) => `count(*) FILTER (action = '${action}'${action === "update" ? isFinished : ""}) AS "${action}"`).join(", ")},
        sum(len(before.group_names) - len(list_intersect(before.group_names, after.group_names))) FILTER (${isUpdateInSql}) AS memberships_lost,
        sum(${sum((column) => `before.${column} IS NOT NULL AND after.${column} IS NULL`)})
          FILTER (${isUpdateInSql}) AS blanked
      FROM change_pair GROUP BY kind)
    SELECT k.kind, b.kind IS NOT NULL AS is_there,
      ${["base", "active", "memberships", "attributes", "held", ...actions, "memberships_lost", "blanked"]
        .map((column) => `coalesce("${column}", 0)::DOUBLE AS "${column}"`)
        .join(", ")},
      (SELECT count(*) FROM group_loss WHERE beyond)::DOUBLE AS beyond,
      (SELECT count(*) FROM group_loss WHERE remaining = 0)::DOUBLE AS emptied
    FROM (VALUES ('user'), ('group')) k(kind) LEFT JOIN base b USING (kind) LEFT JOIN changed c USING (kind)
    ORDER BY k.kind DESC`);
  const total = (of: (row: KindRow) => number): number => rows.reduce((all, row) => all + of(row), 0);
  const [{ beyond, emptied } = { beyond: 0, emptied: 0 }] = rows;
  const amounts: Amount[] = [
    ...rows.flatMap((row) => amountsOf(row, attributes)),
    {
      measure: "membershipsLost",
      of: "memberships",
      amount: total((row) => row.memberships_lost),
      base: total((row) => row.memberships),
    },
    { measure: "emptied", of: "groups", amount: emptied, base: rows.find(({ kind }) => kind === "group")?.base ?? 0 },
    { measure: "blanked", of: "attributes", amount: total((row) => row.blanked), base: total((row) => row.attributes) },
    ...(total((row) => row.blanked) === 0 ? [] : await valuesLost(connection, mayLack)),
  ];
  return {
    amounts,
    groups: {
      beyond: await groupsWhere(connection, "beyond", beyond, "lost + earlier AS lost, members + earlier AS members"),
      emptied: await groupsWhere(connection, "remaining = 0", emptied, "members AS lost, members"),
    },
    heldNames: rows
      .filter((row) => row.is_there)
      .map(({ kind, held, base }): HeldNames => ({ of: `${kind}s`, held, base })),
  };
}

/** The same by attribute, of those that become empty: with many of them, one may be gone from everybody and be a small part of all. */
async function valuesLost(connection: Connection, attributes: readonly Attribute[]): Promise<Amount[]> {
  const rows = await connection.rows<{ name: string; amount: number; base: number }>(
    attributes
      .map((attribute) => {
        const column = columnOf(attribute);
        return `
    SELECT ${literal(attribute.name)} AS name,
      (SELECT count(*) FROM change_pair WHERE ${isUpdateInSql} AND before.${column} IS NOT NULL AND after.${column} IS NULL)::DOUBLE AS amount,
      (SELECT count(*) FROM ${counted} WHERE counts AND ${column} IS NOT NULL)::DOUBLE AS base`;
      })
      .join(" UNION ALL "),
  );
  return rows
    .filter(({ amount }) => amount > 0)
    .map(({ name, amount, base }) => ({ measure: "blanked", of: `values of ${name}`, attribute: name, amount, base }));
}

/** What is done with the principals of a kind. */
function amountsOf(row: KindRow, { state }: Attributes): Amount[] {
  const { kind, base, active } = row;
  const of = `${kind}s`;
  return [
    { measure: "deletes", of, amount: row.delete, base },
    ...(state === undefined || kind === "group"
      ? []
      : [{ measure: "suspends" as const, of, amount: row.suspend, base: active }]),
    { measure: "updates", of, amount: row.update + row.reactivate, base },
    { measure: "creates", of, amount: row.create, base },
  ];
}

/**
 * SQL that makes `group_loss` of the groups that stay and lose members, except those that are protected or unmanaged. `lost`
 * counts members that stay in the target, `gone` all.
 */
function groupLosses({ "membershipsLost.perGroup": bound, floor: usual }: Limits): string {
  const { count, percent, floor = usual } = bound ?? {};
  const most = [
    ...(count === undefined ? [] : [String(count)]),
    ...(percent === undefined ? [] : [`greatest(${floor}, floor((members + earlier) * ${percent} / 100 + 1e-9))`]),
  ];
  return `
    CREATE OR REPLACE TEMP TABLE group_loss AS
    WITH side AS (
      SELECT action, coalesce(before.group_names, []) AS was, coalesce(after.group_names, []) AS will FROM change_pair),
    left_group AS (
      SELECT action, unnest(list_filter(was, lambda g: NOT list_contains(will, g))) AS name FROM side),
    losing AS (
      SELECT name, count(*) AS gone, count(*) FILTER (${isUpdateInSql}) AS lost FROM left_group
      SEMI JOIN (SELECT name FROM desired WHERE kind = 'group') d USING (name)
      ANTI JOIN (SELECT name FROM frozen WHERE kind = 'group' AND reason IN ('protected', 'unmanaged')) f USING (name)
      GROUP BY name),
    joined AS (
      SELECT name, count(*) AS n
      FROM (SELECT unnest(list_filter(will, lambda g: NOT list_contains(was, g))) AS name FROM side)
      SEMI JOIN losing USING (name) GROUP BY name),
    member AS (
      SELECT name, count(*) AS members FROM (
        SELECT unnest(group_names) AS name FROM actual UNION ALL SELECT unnest(group_names) FROM actual_foreign)
      SEMI JOIN losing USING (name) GROUP BY name),
    loss AS (
      SELECT name, members, losing.lost, ${bound?.per === "run" ? "0::BIGINT" : "coalesce(r.lost, 0)::BIGINT"} AS earlier,
        members - gone + coalesce(j.n, 0) AS remaining
      FROM losing JOIN member USING (name) LEFT JOIN joined j USING (name) LEFT JOIN lost_recently r USING (name))
    SELECT *, ${most.length === 0 ? "false" : `lost > 0 AND lost + earlier > least(${most.join(", ")})`} AS beyond FROM loss`;
}

/** How many groups a limit names. */
const groupsNamed = 10;

/** The first groups in `group_loss` that meet a condition. */
async function groupsWhere(
  connection: Connection,
  condition: string,
  count: number,
  columns: string,
): Promise<GroupLosses["beyond"]> {
  if (count === 0) return { count, examples: [] };
  const examples = await connection.rows<LosingGroup>(`
    SELECT name, lost::DOUBLE AS lost, members::DOUBLE AS members FROM (SELECT name, ${columns} FROM group_loss WHERE ${condition})
    ORDER BY lost DESC, name LIMIT ${groupsNamed}`);
  return { count, examples };
}

/** How much the sources have in scope. */
export interface Scope {
  readonly sizes: readonly SourceSize[];
  /** How many principals they make, without the groups of configuration and rules. Absent where a source could not be read. */
  readonly inScope?: { readonly users: number; readonly groups: number } | undefined;
}

/**
 * How many records of each source are in scope, and how many principals all make. Quarantined ones count: unknown is not absent.
 * @param unread names of sources that could not be read: nothing is concluded from how little they have
 */
export async function scopeOf(
  connection: Connection,
  sources: readonly { readonly name: string }[],
  unread: readonly string[],
): Promise<Scope> {
  const rows = await connection.rows<Required<SourceSize> & { principals: number }>(`
    SELECT source, kind, count(*)::DOUBLE AS size, count(*) FILTER (what = 'quarantined')::DOUBLE AS quarantined,
      count(*) FILTER (what <> 'further')::DOUBLE AS principals
    FROM (SELECT source, kind, 'made' AS what FROM assembled
      UNION ALL SELECT source, kind, 'further' FROM contributor
      UNION ALL SELECT source, kind, 'quarantined' FROM quarantined)
    GROUP BY source, kind`);
  const principals = (kind: "user" | "group"): number =>
    rows
      .filter((each) => each.kind === kind && each.source !== ownSource && each.source !== ruleSource)
      .reduce((sum, each) => sum + each.principals, 0);
  return {
    sizes: sources
      .filter(({ name }) => !unread.includes(name))
      .flatMap(({ name: source }) =>
        (["user", "group"] as const).map((kind) => {
          const { size = 0, quarantined = 0 } = rows.find((each) => each.source === source && each.kind === kind) ?? {};
          return { source, kind, size, quarantined };
        }),
      ),
    inScope: unread.length === 0 ? { users: principals("user"), groups: principals("group") } : undefined,
  };
}

/** What was pushed to a source and takes something away. */
export interface PushedLosses {
  readonly source: string;
  readonly losses: readonly {
    readonly loss: string;
    readonly of: string;
    readonly lost: number;
    readonly most: number;
    readonly basis: string;
    /** Which providers pushed how much of it. */
    readonly pushers: string;
  }[];
}

/** The facts that limits are checked against. */
export interface Facts extends Partial<Measured>, Scope {
  readonly amounts: readonly Amount[];
  /** How many principals somebody has changed in the target, where that holds a run. */
  readonly drift?: number | undefined;
  /** What providers took away, as the brakes of their sources count it. */
  readonly pushed?: readonly PushedLosses[] | undefined;
  /** Of a stored plan: what was found of drift and pushes when it was made. */
  readonly stored?: readonly LimitCheck[] | undefined;
  readonly history: Pick<History, "applied" | "reads">;
  readonly overrides: readonly Overridable[];
}

/** Checks every limit that is set, in the order of `limitNames`. */
export function checkLimits(limits: Limits, facts: Facts): LimitCheck[] {
  const checks = [
    ...amountChecks(limits, facts),
    ...groupChecks(limits, facts),
    ...shrinkChecks(limits, facts),
    ...quarantineChecks(limits, facts),
    ...heldNameChecks(limits, facts),
    ...minimumChecks(limits, facts),
    ...driftChecks(facts),
    ...pushedChecks(facts),
    ...(facts.stored ?? []),
  ];
  const order: readonly string[] = limitNames;
  return checks
    .map((check) => Object.assign(check, { overridden: check.tripped && facts.overrides.includes(check.limit) }))
    .sort((a, b) => order.indexOf(a.limit) - order.indexOf(b.limit));
}

type Unjudged = Omit<LimitCheck, "overridden" | "limit"> & { readonly limit: LimitName };

/** These shrink what they are a percentage of: so they are measured against what was there when the 24 hours began. */
const takesAway: ReadonlySet<Measure> = new Set(["deletes", "suspends", "membershipsLost", "blanked"]);

/** Nothing is lost by these: with a floor, all of a small directory may change. */
const losesNothing: ReadonlySet<Measure> = new Set(["updates", "creates"]);

function amountChecks(limits: Limits, { amounts, groups, history }: Facts): Unjudged[] {
  return amounts.flatMap(({ measure, of, attribute, amount, base }) => {
    const isOfOne = attribute !== undefined;
    // A number is that of all attributes.
    const bound = isOfOne && limits[measure] !== undefined ? { ...limits[measure], count: undefined } : limits[measure];
    if (bound === undefined) return [];
    const before = history.applied.filter((each) => each.measure === measure && each.of === of);
    const earlier = bound.per === "day" ? before.reduce((sum, each) => sum + each.amount, 0) : 0;
    const value = amount + earlier;
    const whole = base + (takesAway.has(measure) ? earlier : 0);
    const { most, basis } = boundOf(bound, whole, limits.floor, isOfOne || losesNothing.has(measure) ? Infinity : 0);
    const named = measure === "emptied" && amount > 0 ? { groups: groups?.emptied.examples } : {};
    return most === undefined
      ? []
      : [{ limit: measure, of, value, earlier, bound: most, basis, ...named, tripped: amount > 0 && value > most }];
  });
}

/** Groups of which each may lose so much: none may be beyond. */
function groupChecks({ "membershipsLost.perGroup": bound }: Limits, { groups }: Facts): Unjudged[] {
  if (bound === undefined || groups === undefined) return [];
  const { count: value, examples } = groups.beyond;
  const { count, percent } = bound;
  const shares = [
    ...(count === undefined ? [] : [`${formatNumber(count)} members`]),
    ...(percent === undefined ? [] : [`${percent}% of its members`]),
  ];
  const basis = `none may lose more than ${shares.join(" or ")}`;
  const named = value > 0 ? { groups: examples } : {};
  return [
    {
      limit: "membershipsLost.perGroup",
      of: "groups",
      value,
      earlier: 0,
      bound: 0,
      basis,
      ...named,
      tripped: value > 0,
    },
  ];
}

function shrinkChecks({ shrink, floor }: Limits, { sizes, history }: Facts): Unjudged[] {
  if (shrink === undefined) return [];
  return sizes.flatMap(({ source, kind, size }) => {
    const last = history.reads.find((each) => each.source === source && each.kind === kind);
    if (last === undefined) return [];
    const reference = shrink.per === "day" ? last.most : last.size;
    const { most, basis } = boundOf(shrink, reference, floor);
    const value = Math.max(0, reference - size);
    const of = `${kind}s of ${source}`;
    return most === undefined
      ? []
      : [{ limit: "shrink" as const, of, value, earlier: 0, bound: most, basis, tripped: value > most }];
  });
}

/**
 * Quarantined records keep what the target has, so no other limit would notice when all of them are: after a column was
 * renamed in the source, the sync would go on finding nothing to do.
 */
function quarantineChecks({ quarantined: bound, floor }: Limits, { sizes }: Facts): Unjudged[] {
  if (bound === undefined) return [];
  return sizes.flatMap(({ source, kind, size, quarantined: value = 0 }) => {
    const { most, basis } = boundOf(bound, size, floor, 1);
    const of = `${kind}s of ${source}`;
    return most === undefined
      ? []
      : [{ limit: "quarantined" as const, of, value, earlier: 0, bound: most, basis, tripped: value > most }];
  });
}

/** Held names keep what the target has, too: a sync that holds most of its people has stopped. */
function heldNameChecks({ heldNames: bound, floor }: Limits, { heldNames = [] }: Facts): Unjudged[] {
  if (bound === undefined) return [];
  return heldNames.flatMap(({ of, held: value, base }) => {
    const { most, basis } = boundOf(bound, base, floor, 1);
    return most === undefined
      ? []
      : [{ limit: "heldNames" as const, of, value, earlier: 0, bound: most, basis, tripped: value > most }];
  });
}

function driftChecks({ drift: value }: Facts): Unjudged[] {
  if (value === undefined) return [];
  const rest = { of: "principals changed in the target", earlier: 0, bound: 0, basis: "drift: hold" };
  return [{ limit: "drift", value, ...rest, tripped: value > 0 }];
}

const lossWords: Readonly<Record<string, string>> = {
  deletions: "deleted",
  deactivations: "deactivated",
  membershipsLost: "removed",
};

/** These count before the plan does: what a provider takes away may come in small parts, or not show in the target. */
function pushedChecks({ pushed = [] }: Facts): Unjudged[] {
  return pushed.flatMap(({ source, losses }) =>
    losses.map(({ loss, of, lost: value, most: bound, basis, pushers }) => ({
      limit: "pushed" as const,
      of: `${of} ${lossWords[loss] ?? "lost"} in ${source}, pushed with ${pushers}`,
      value,
      earlier: 0,
      bound,
      basis,
      tripped: value > bound,
    })),
  );
}

function minimumChecks(limits: Limits, { sizes, inScope }: Facts): Unjudged[] {
  return [
    ...atLeast("minUsers", limits.minUsers, "users", inScope?.users),
    ...atLeast("minGroups", limits.minGroups, "groups", inScope?.groups),
    ...sizes.flatMap(({ source, kind, size }) => {
      const limit = kind === "user" ? "minUsers" : "minGroups";
      return atLeast(limit, limits.sources[source]?.[limit], `${kind}s of ${source}`, size);
    }),
  ];
}

function atLeast(limit: LimitName, bound: number | undefined, of: string, value: number | undefined): Unjudged[] {
  if (bound === undefined || value === undefined) return [];
  return [{ limit, of, value, earlier: 0, bound, basis: "in scope", tripped: value < bound }];
}

/**
 * The most that may happen to `base` things; undefined where nothing bounds it, since a percentage of zero means nothing.
 * @param least what a floor lets pass even if it is more than half: more than nothing only where nothing is lost
 */
function boundOf(
  { count, percent, floor: own }: Bound,
  base: number,
  usual: number,
  least = 0,
): { most: number | undefined; basis: string } {
  const floor = own ?? usual;
  const half = Math.floor(base / 2);
  const raised = Math.min(floor, Math.max(least, half));
  const part = percent === undefined || base === 0 ? undefined : Math.floor((base * percent) / 100 + 1e-9);
  const share = part === undefined ? undefined : Math.max(raised, part);
  const most = count === undefined ? share : Math.min(count, share ?? count);
  if (share === undefined || most !== share) return { most, basis: "as configured" };
  const whole = formatNumber(base);
  const isHalf = raised < floor && share === half;
  if (isHalf) return { most, basis: `half of ${whole}; the floor of ${floor} would be more` };
  return { most, basis: part === share ? `${percent}% of ${whole}` : `${percent}% of ${whole} is less than the floor` };
}
