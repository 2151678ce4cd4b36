import type { Kind } from "#principals/principal.ts";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { keepOccupied } from "./rule-groups.ts";
import { findRenames, holdRenames } from "./renames.ts";
import type { Found, NamePolicies, Rename, ReusedName } from "./renames.ts";

/** When principals leave the target, and which never do. */
export interface DepartureRules extends NamePolicies {
  /** The grace period of a principal that is gone from the sources, in milliseconds. */
  readonly after: number;
  /** Groups with the administration privilege: their members, direct or nested, are never deleted. */
  readonly administrators: readonly string[];
}

/** A principal that is gone from the sources and is never deleted. */
export interface Kept {
  readonly kind: Kind;
  readonly name: string;
  readonly because: "administrator" | "last member" | "foreign member";
}

/** A principal that is gone from the sources and within its grace period. */
export interface Leaving {
  readonly kind: Kind;
  readonly name: string;
  /** The day it leaves the target, ISO 8601. */
  readonly on: string;
}

/** How many are within their grace period, and when the first of them leaves, ISO 8601. */
export interface LeavingCounts {
  readonly users: number;
  readonly groups: number;
  readonly first: string;
  /** How many leave on which day. Absent in records of older versions. */
  readonly days?: readonly LeavingDay[] | undefined;
}

/** How many leave on a day (of UTC), such as `2026-12-22`. */
export interface LeavingDay {
  readonly day: string;
  readonly users: number;
  readonly groups: number;
}

export interface Departures {
  readonly renames: Found<Rename>;
  readonly reused: Found<ReusedName>;
  /** Of how many of them only the id of the record has changed. Absent in what older versions stored. */
  readonly adoptable?: number | undefined;
  readonly kept: Found<Kept>;
  /** The soonest first. */
  readonly leaving: Found<Leaving> & { readonly groups: number; readonly days: readonly LeavingDay[] };
}

/** Those within their grace period, in short; undefined: nobody is. */
export function leavingCounts({ leaving }: Departures): LeavingCounts | undefined {
  const [first] = leaving.examples;
  if (first === undefined) return undefined;
  const { count, groups, days } = leaving;
  return { users: count - groups, groups, first: first.on, days };
}

/** The most examples of each. */
const examples = 20;

/** How many of the days on which somebody leaves are told, the soonest. */
const daysTold = 60;

/** In milliseconds. */
const day = 86_400_000;

/**
 * Decides about those who would leave the target: freezes those who never do, those within their grace period, and held
 * renames. Runs between `freeze` and `combine`, and makes `gone`.
 *
 * A renamed principal has no grace period, since it is known where it is. A group keeps its members for as long as it stays.
 * @param now in epoch milliseconds
 */
export async function depart(connection: Connection, rules: DepartureRules, now: number): Promise<Departures> {
  await findRenames(connection);
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE doomed AS
    SELECT kind, name FROM actual ANTI JOIN assembled USING (kind, name) ANTI JOIN frozen USING (kind, name)`);
  await keepAdministrators(connection, rules.administrators);
  await keepForeignMembers(connection);
  const { renames, reused, adoptable } = await holdRenames(connection, rules, examples);
  await keepLastMembers(connection);
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE gone AS
    SELECT d.kind, d.name, coalesce(l.since, ${now}) AS since FROM doomed d LEFT JOIN leaving_since l USING (kind, name)
    ANTI JOIN frozen f ON f.kind = d.kind AND f.name = d.name
    ANTI JOIN renamed r ON r.kind = d.kind AND r.was = d.name;
    INSERT INTO frozen SELECT kind, name, 'leaving' FROM gone WHERE kind = 'user' AND since + ${rules.after} > ${now}`);
  await keepOccupied(connection);
  await connection.run(`
    DELETE FROM gone WHERE (kind, name) NOT IN (SELECT (kind, name) FROM doomed);
    INSERT INTO frozen SELECT kind, name, 'leaving' FROM gone WHERE kind = 'group' AND since + ${rules.after} > ${now}`);
  return {
    renames,
    reused,
    adoptable,
    kept: await keptOnes(connection),
    leaving: await leavingOnes(connection, rules.after),
  };
}

/** Freezes the groups, the groups in them, and their members. */
async function keepAdministrators(connection: Connection, groups: readonly string[]): Promise<void> {
  if (groups.length === 0) return;
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE privileged AS
    WITH RECURSIVE nesting AS (
      SELECT name, unnest(group_names) AS g FROM actual WHERE kind = 'group'
      UNION ALL SELECT name, unnest(group_names) FROM actual_foreign WHERE coalesce(kind, 'group') = 'group'),
    closure(name) AS (
      SELECT unnest([${groups.map(literal).join(", ")}]) UNION SELECT n.name FROM nesting n JOIN closure c ON n.g = c.name)
    SELECT name FROM closure;
    INSERT INTO frozen
    SELECT d.kind, d.name, 'administrator' FROM doomed d JOIN actual a USING (kind, name)
    WHERE (d.kind = 'group' AND d.name IN (FROM privileged))
      OR list_has_any(a.group_names, (SELECT coalesce(list(name), []) FROM privileged))`);
}

/** Freezes the groups of principals of other types: these go back as they came, with their memberships. */
async function keepForeignMembers(connection: Connection): Promise<void> {
  await connection.run(`
    INSERT INTO frozen
    SELECT kind, name, 'foreign member' FROM doomed ANTI JOIN frozen USING (kind, name)
    WHERE kind = 'group' AND name IN (SELECT unnest(group_names) FROM actual_foreign)`);
}

/** Where a protected group would lose its last members, all of them stay: there is no reason to choose one. */
async function keepLastMembers(connection: Connection): Promise<void> {
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE leaver AS
    SELECT d.* FROM doomed d ANTI JOIN frozen f USING (kind, name)
    ANTI JOIN renamed r ON r.kind = d.kind AND r.was = d.name`);
  const [any] = await connection.rows("SELECT true FROM leaver LIMIT 1");
  if (any === undefined) return;
  await connection.run(`
    INSERT INTO frozen
    WITH guarded AS (SELECT list(name) AS names FROM actual WHERE kind = 'group' AND is_protected(kind, name)),
    member AS (
      SELECT kind, name, unnest(list_intersect(group_names, names)) AS g FROM actual, guarded
      WHERE list_has_any(group_names, names)
      UNION ALL
      SELECT type, name, unnest(list_intersect(group_names, names)) FROM actual_foreign, guarded
      WHERE list_has_any(group_names, names)),
    emptied AS (
      SELECT g FROM member LEFT JOIN leaver l USING (kind, name) GROUP BY g HAVING count(*) = count(l.name))
    SELECT DISTINCT m.kind, m.name, 'last member' FROM member m SEMI JOIN emptied USING (g)`);
}

async function keptOnes(connection: Connection): Promise<Found<Kept>> {
  return found(
    connection,
    "SELECT kind, name, reason AS because FROM frozen WHERE reason IN ('administrator', 'last member', 'foreign member')",
  );
}

async function leavingOnes(connection: Connection, after: number): Promise<Departures["leaving"]> {
  const [groups] = await connection.rows<{ count: bigint }>(
    "SELECT count(*) AS count FROM frozen WHERE reason = 'leaving' AND kind = 'group'",
  );
  const leaving = `SELECT g.kind, g.name, (g.since + ${after})::DOUBLE AS day FROM gone g JOIN frozen f USING (kind, name) WHERE f.reason = 'leaving'`;
  const { count, examples } = await found<{ kind: Kind; name: string; day: number }>(connection, leaving, "day, ");
  const days = await connection.rows<{ day: number; users: bigint; groups: bigint }>(`
    SELECT floor(day / ${day}) * ${day} AS day, count(*) FILTER (kind = 'user') AS users, count(*) FILTER (kind = 'group') AS groups
    FROM (${leaving}) GROUP BY 1 ORDER BY 1 LIMIT ${daysTold}`);
  return {
    count,
    groups: Number(groups?.count ?? 0),
    examples: examples.map(({ kind, name, day }) => ({ kind, name, on: new Date(day).toISOString() })),
    days: days.map(({ day, users, groups }) => ({
      day: new Date(day).toISOString().slice(0, 10),
      users: Number(users),
      groups: Number(groups),
    })),
  };
}

async function found<Item extends object>(connection: Connection, query: string, order = ""): Promise<Found<Item>> {
  const [row] = await connection.rows<{ count: bigint }>(`SELECT count(*) AS count FROM (${query})`);
  const items = await connection.rows<Item>(`${query} ORDER BY ${order}kind DESC, name LIMIT ${examples}`);
  return { count: Number(row?.count ?? 0), examples: items };
}
