import { literal, textList } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { InputError } from "#errors.ts";
import { columnOf } from "#principals/attributes.ts";
import type { Attributes } from "#principals/attributes.ts";
import type { Kind } from "#principals/principal.ts";
import type { Action } from "./change.ts";
import { foreignGroups } from "./carried.ts";
import { isExpectation, mayBeBlank, measures } from "./limits.ts";
import type { LimitCheck, Measure } from "./limits.ts";

/** A principal by its name. */
export interface Subject {
  readonly kind: Kind;
  readonly name: string;
}

/** A part of a plan: only these actions, without these principals. What is absent does not narrow it. */
export interface Selection {
  readonly only?: readonly Action[] | undefined;
  readonly except?: readonly Subject[] | undefined;
  /** Only these principals. */
  readonly these?: readonly Subject[] | undefined;
  /** Ids of causes: only principals whose changes have no other cause. */
  readonly onlyCauses?: readonly string[] | undefined;
  /** Ids of causes: without principals that one of them changes. */
  readonly exceptCauses?: readonly string[] | undefined;
}

/** Whether a selection leaves out any of the plan. */
export function isPart(selection: Selection = {}): boolean {
  return selectedBy(selection).length > 0;
}

/** The options of `rollcall approve` that select a part. */
export function selectionOptions({
  only,
  except = [],
  these = [],
  onlyCauses,
  exceptCauses = [],
}: Selection = {}): string[] {
  return [
    ...(only === undefined ? [] : ["--only", only.map((action) => `${action}s`).join(",")]),
    ...except.flatMap((each) => ["--except", calledOf(each)]),
    ...these.flatMap((each) => ["--these", calledOf(each)]),
    ...(onlyCauses === undefined ? [] : ["--only-cause", onlyCauses.join(",")]),
    ...(exceptCauses.length === 0 ? [] : ["--except-cause", exceptCauses.join(",")]),
  ];
}

function calledOf({ kind, name }: Subject): string {
  return `${kind}:${name}`;
}

/**
 * Takes what is not selected out of `desired`, so that planning again gives a part of the plan in `changes`. A group stays
 * when one of its members is to stay as it is: deleting the group would change that member.
 * @throws {InputError} when `except` or `these` names a principal that the plan does not change
 */
export async function narrow(connection: Connection, selection: Selection): Promise<void> {
  if (!isPart(selection)) return;
  const { except = [], these } = selection;
  for (const some of [except, these ?? []]) if (some.length > 0) await refuseUnplanned(connection, some);
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE excluded AS
    WITH RECURSIVE deleted AS (SELECT name FROM changes WHERE kind = 'group' AND action = 'delete'),
    closure(kind, name) AS (
      SELECT kind, name FROM change_sides WHERE NOT (${selectedBy(selection).join(" AND ")})
      UNION
      SELECT 'group', g FROM (
        SELECT unnest(a.group_names) AS g FROM closure c JOIN actual a ON a.kind = c.kind AND a.name = c.name) m
      SEMI JOIN deleted d ON d.name = m.g)
    FROM closure`);
  const isExcluded = "(kind, name) IN (SELECT (kind, name) FROM excluded)";
  await connection.run(`
    ${uncreate(isExcluded)};
    ${restore(isExcluded)};
    DELETE FROM adoptable WHERE ${[isExcluded, ...named("IN", except), ...named("NOT IN", these)].join(" OR ")};
    ${leaveUnchanged(isExcluded)}`);
}

/** SQL conditions: none where no list is given, and nobody is in an empty one. */
function named(how: "IN" | "NOT IN", some: readonly Subject[] | undefined): string[] {
  if (some === undefined) return [];
  return [some.length === 0 ? String(how === "NOT IN") : `(kind, name) ${how} (${pairs(some)})`];
}

/** Memberships that a part of a plan leaves out, since it does not create their groups. */
export interface LeftMemberships {
  readonly count: number;
  /** The groups, the first few. */
  readonly groups: readonly string[];
  readonly more: number;
}

/** The most groups that are named. */
const mostGroups = 20;

/**
 * Takes everything but some users and groups out of `desired`, before planning: so the plan is about them alone. Whoever is
 * renamed is both names. They themselves become what the sources want, in groups that there are. The members of a chosen
 * group become so, too, but for those who are not in the target; nothing else of anybody changes. Runs after `combine`.
 */
export async function narrowTo(connection: Connection, subjects: readonly Subject[]): Promise<LeftMemberships> {
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE chosen AS
    WITH RECURSIVE edge AS (SELECT kind, was AS a, becomes AS b FROM renamed UNION ALL SELECT kind, becomes, was FROM renamed),
    reached(kind, name) AS (
      SELECT kind, name FROM (VALUES ${pairs(subjects)}) n(kind, name)
      UNION SELECT e.kind, e.b FROM reached r JOIN edge e ON e.kind = r.kind AND e.a = r.name)
    FROM reached;
    CREATE OR REPLACE TEMP TABLE lost_group AS
    SELECT m.g AS name, count(*) AS members FROM (SELECT unnest(group_names) AS g FROM desired SEMI JOIN chosen USING (kind, name)) m
    WHERE m.g NOT IN (
      SELECT name FROM actual WHERE kind = 'group' UNION SELECT name FROM desired SEMI JOIN chosen USING (kind, name) WHERE kind = 'group'
      UNION ${foreignGroups})
    GROUP BY m.g;
    CREATE OR REPLACE TEMP TABLE narrowed AS
    WITH lost AS (SELECT coalesce(list(name), []) AS names FROM lost_group),
    followed AS (SELECT coalesce(list(name), []) AS names FROM chosen WHERE kind = 'group')
    SELECT d.* REPLACE (list_filter(d.group_names, lambda g: NOT list_contains(lost.names, g)) AS group_names)
    FROM desired d SEMI JOIN chosen USING (kind, name), lost
    UNION ALL
    SELECT a.* REPLACE (
      CASE WHEN list_has_any(a.group_names, f.names) OR list_has_any(d.group_names, f.names)
      THEN list_sort(list_filter(a.group_names, lambda g: NOT list_contains(f.names, g))
        || list_filter(coalesce(d.group_names, []), lambda g: list_contains(f.names, g))) ELSE a.group_names END AS group_names)
    FROM actual a ANTI JOIN chosen USING (kind, name) LEFT JOIN desired d ON d.kind = a.kind AND d.name = a.name, followed f;
    CREATE OR REPLACE TABLE desired AS FROM narrowed;
    DROP TABLE narrowed;
    DELETE FROM managed WHERE (kind, name) NOT IN (FROM chosen);
    DELETE FROM adoptable WHERE (kind, name) NOT IN (FROM chosen)`);
  const groups = await connection.rows<{ name: string; members: number; more: number }>(
    `SELECT name, sum(members) OVER ()::INTEGER AS members, (count(*) OVER () - ${mostGroups})::INTEGER AS more FROM lost_group ORDER BY name LIMIT ${mostGroups}`,
  );
  const [first] = groups;
  return { count: first?.members ?? 0, groups: groups.map(({ name }) => name), more: Math.max(0, first?.more ?? 0) };
}

/** Principals as SQL has them: `('user', 'ada'), ('group', 'Sales')`. */
function pairs(some: readonly Subject[]): string {
  return some.map(({ kind, name }) => `(${literal(kind)}, ${literal(name)})`).join(", ");
}

/** SQL conditions on a row of `change_sides`: what a selection has of a plan, before groups are spared for their members. */
export function selectedBy({ only, except = [], these, onlyCauses, exceptCauses = [] }: Selection): string[] {
  return [
    ...(only === undefined ? [] : [`list_contains(${textList(only)}, action)`]),
    ...(except.length === 0 ? [] : named("NOT IN", except)),
    ...named("IN", these),
    ...(onlyCauses === undefined ? [] : [`list_has_all(${textList(onlyCauses)}, coalesce(causes, []))`]),
    ...(exceptCauses.length === 0 ? [] : [`NOT list_has_any(${textList(exceptCauses)}, coalesce(causes, []))`]),
  ];
}

async function refuseUnplanned(connection: Connection, named: readonly Subject[]): Promise<void> {
  const [missing] = await connection.rows<{ kind: string; name: string }>(`
    SELECT kind, name FROM (VALUES ${pairs(named)}) n(kind, name) ANTI JOIN changes USING (kind, name)
    ANTI JOIN adoptable USING (kind, name) LIMIT 1`);
  if (missing !== undefined)
    throw new InputError(
      `the plan does not change the ${missing.kind} ${missing.name}: it can be neither left out nor applied alone`,
    );
}

/** Whether a limit holds the whole plan, even where the changes beyond other limits wait and the rest is applied. */
export function concernsWhole(limit: LimitCheck["limit"]): boolean {
  return limit === "drift" || limit === "pushed" || isExpectation(limit);
}

/**
 * The measures that wait because of limits. A source that has shrunk, or has too few records, may not have been read
 * properly: then everything waits that takes something away.
 */
export function waitingFor(checks: readonly LimitCheck[], { state }: Attributes): ReadonlySet<Measure> {
  const waiting = new Set<Measure>();
  const takingAway = ["deletes", ...(state === undefined ? [] : ["suspends" as const]), "membershipsLost"] as const;
  for (const { limit, tripped, overridden } of checks) {
    if (!tripped || overridden) continue;
    if (concernsWhole(limit)) continue;
    const isMeasure = (measures as readonly string[]).includes(limit);
    for (const each of isMeasure ? [limit as Measure] : takingAway) waiting.add(each);
  }
  return waiting;
}

/**
 * Copies what waits from `actual` back into `desired`, before planning again: so the plan shown, the list sent and the
 * service's preview stay one thing, and no other change is added. While updates or lost memberships wait no group is
 * deleted either, since that would take memberships away. Members that an emptied group gets back come with the groups they
 * were in: without those they would be changed, which other limits may forbid. What is not created leaves `managed` too.
 */
export async function withhold(
  connection: Connection,
  attributes: Attributes,
  waiting: ReadonlySet<Measure>,
): Promise<void> {
  const blankable = attributes.all.filter(mayBeBlank).map(columnOf);
  // In this order: later ones build on earlier ones.
  const steps: Record<Measure, string> = {
    creates: uncreate("true"),
    deletes: restore("true"),
    suspends: leaveActive(attributes),
    updates: `
      ${restore("kind = 'group'")};
      ${leaveUnchanged("true", attributes)}`,
    membershipsLost: `
      ${restore("kind = 'group'")};
      UPDATE desired SET group_names = list_sort(list_distinct(desired.group_names || a.group_names))
      FROM actual a WHERE a.kind = desired.kind AND a.name = desired.name AND NOT list_has_all(desired.group_names, a.group_names)`,
    "membershipsLost.perGroup": rejoin("beyond"),
    emptied: `
      CREATE OR REPLACE TEMP TABLE returned AS
      WITH RECURSIVE gone AS (FROM actual ANTI JOIN desired USING (kind, name)),
      reached(kind, name) AS (
        SELECT kind, name FROM gone, (SELECT list(name) AS names FROM group_loss WHERE remaining = 0) e
        WHERE list_has_any(group_names, e.names)
        UNION
        SELECT g.kind, g.name
        FROM (SELECT unnest(group_names) AS name FROM reached JOIN gone USING (kind, name)) m
        JOIN gone g ON g.kind = 'group' AND g.name = m.name)
      FROM reached;
      ${restore("(kind, name) IN (FROM returned)")};
      ${rejoin("remaining = 0")}`,
    blanked: `
      UPDATE desired SET ${blankable.map((column) => `${column} = coalesce(desired.${column}, a.${column})`).join(", ")}
      FROM actual a WHERE a.kind = desired.kind AND a.name = desired.name`,
  };
  for (const [measure, sql] of Object.entries(steps)) if (waiting.has(measure as Measure)) await connection.run(sql);
}

/** SQL, empty where no such state is declared: nobody is suspended who is active in the target. */
function leaveActive({ state }: Attributes): string {
  if (state === undefined) return "";
  const column = columnOf(state);
  return `
    UPDATE desired SET ${column} = a.${column} FROM actual a
    WHERE a.kind = desired.kind AND a.name = desired.name AND coalesce(a.${column}, true) AND NOT coalesce(desired.${column}, true)`;
}

/**
 * SQL that gives back their members to groups, as far as these stay in the target.
 * @param which an SQL condition on a row of `group_loss`
 */
function rejoin(which: string): string {
  return `
    UPDATE desired SET group_names = list_sort(list_distinct(desired.group_names || list_intersect(a.group_names, l.names)))
    FROM actual a, (SELECT list(name) AS names FROM group_loss WHERE ${which}) l
    WHERE a.kind = desired.kind AND a.name = desired.name AND list_has_any(a.group_names, l.names)`;
}

/**
 * SQL that leaves principals as they are in the target, where they are in both.
 * @param which an SQL condition on a row of `actual`
 * @param suspending who is suspended is so even then, by this declaration
 */
function leaveUnchanged(which: string, suspending?: Attributes): string {
  const column = suspending?.state && columnOf(suspending.state);
  const replaced =
    column === undefined
      ? ""
      : `REPLACE (CASE WHEN NOT coalesce(d.${column}, true) THEN d.${column} ELSE a.${column} END AS ${column})`;
  return `
    CREATE OR REPLACE TEMP TABLE unchanged AS
    SELECT a.* ${replaced} FROM (FROM actual WHERE ${which}) a JOIN desired d ON d.kind = a.kind AND d.name = a.name;
    DELETE FROM desired WHERE (kind, name) IN (SELECT (kind, name) FROM unchanged);
    INSERT INTO desired FROM unchanged;
    DROP TABLE unchanged;`;
}

/**
 * SQL that leaves out principals that would be created, and the memberships of others in such groups.
 * @param which an SQL condition on a row of `desired`
 */
export function uncreate(which: string): string {
  return `
    CREATE OR REPLACE TEMP TABLE uncreated AS
    SELECT kind, name FROM (SELECT * FROM desired WHERE ${which}) ANTI JOIN actual USING (kind, name);
    DELETE FROM desired WHERE (kind, name) IN (FROM uncreated);
    DELETE FROM managed WHERE (kind, name) IN (FROM uncreated);
    UPDATE desired SET group_names = list_filter(desired.group_names, lambda g: NOT list_contains(u.names, g))
    FROM (SELECT list(name) AS names FROM uncreated WHERE kind = 'group') u
    WHERE list_has_any(desired.group_names, u.names)`;
}

/**
 * SQL that brings back principals that would be deleted, and the memberships of others in such groups.
 * @param which an SQL condition on a row of `actual`
 */
export function restore(which: string): string {
  return `
    CREATE OR REPLACE TEMP TABLE restored AS
    SELECT * FROM (SELECT * FROM actual WHERE ${which}) ANTI JOIN desired USING (kind, name);
    INSERT INTO desired FROM restored;
    UPDATE desired SET group_names = list_sort(list_distinct(desired.group_names || k.kept))
    FROM (
      SELECT a.kind, a.name, list(a.g) AS kept FROM (SELECT kind, name, unnest(group_names) AS g FROM actual) a
      SEMI JOIN restored r ON r.kind = 'group' AND r.name = a.g GROUP BY a.kind, a.name) k
    WHERE k.kind = desired.kind AND k.name = desired.name`;
}
