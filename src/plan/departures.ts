import type { Kind } from "#principals/principal.ts";
import { textList } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { findSome, nothing } from "./found.ts";
import type { Found } from "./found.ts";
import { findRenames, holdRenames, unchangedNames } from "./renames.ts";
import type { NamePolicies, Rename, ReusedName } from "./renames.ts";
import { isRuleGroup, keepOccupied } from "./rule-groups.ts";
import { deletedAt, suspendedAt } from "./stages.ts";
import type { Stages } from "./stages.ts";
import { tables } from "./tables.ts";

/** When principals leave the target, and which never do. */
export interface DepartureRules extends NamePolicies, Stages {
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
  /** From when it is suspended, ISO 8601. Absent: it is not. */
  readonly suspendedOn?: string | undefined;
}

/** A principal that is gone from the sources and never deleted. */
export type Staying = Omit<Leaving, "on">;

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
  /** Renames that keep the account. Absent: the sync renames nobody in place. */
  readonly inPlace?: Found<Rename> | undefined;
  readonly reused: Found<ReusedName>;
  /** For how many of them only the id of the record has changed. Absent in what older versions stored. */
  readonly adoptable?: number | undefined;
  readonly kept: Found<Kept>;
  /** The soonest first. */
  readonly leaving: Found<Leaving> & { readonly groups: number; readonly days: readonly LeavingDay[] };
  /** Leavers that are never deleted; `active` of them are not suspended yet. Absent: there are none. */
  readonly staying?: (Found<Staying> & { readonly active: number }) | undefined;
}

/** Leavers within their grace period, in numbers; undefined: there are none. */
export function leavingCounts({ leaving }: Departures): LeavingCounts | undefined {
  const [first] = leaving.examples;
  if (first === undefined) return undefined;
  const { count, groups, days } = leaving;
  return { users: count - groups, groups, first: first.on, days };
}

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
  const [found] = await connection.rows<{ unmatched: boolean; doomed: boolean; made: boolean }>(`
    CREATE OR REPLACE TEMP VIEW assembled_origin AS
    SELECT kind, name, source, source_id FROM assembled UNION ALL SELECT kind, name, source, source_id FROM contributor;
    CREATE OR REPLACE TEMP TABLE unmatched AS
    FROM (FROM ledger ANTI JOIN assembled_origin USING (kind, name, source, source_id)) SEMI JOIN actual USING (kind, name);
    CREATE OR REPLACE TEMP TABLE doomed AS
    FROM absent ANTI JOIN frozen USING (kind, name);
    CREATE OR REPLACE TEMP TABLE adoptable (${tables.adoptable});
    CREATE OR REPLACE TEMP TABLE gone (${tables.gone});
    CREATE OR REPLACE TEMP TABLE suspended (${tables.suspended});
    SELECT EXISTS (FROM unmatched) AS unmatched, EXISTS (FROM doomed) AS doomed,
      EXISTS (FROM doomed SEMI JOIN (FROM ledger WHERE ${isRuleGroup}) USING (kind, name) WHERE kind = 'group') AS made`);
  // In most runs, no name has changed and nobody has left: then there is nothing to decide.
  const { unmatched = false, doomed = false, made = false } = found ?? {};
  const areRenamed = unmatched && (await findRenames(connection));
  if (doomed) await connection.run(keepThoseNeeded(rules.administrators));
  const names = areRenamed ? await holdRenames(connection, rules) : unchangedNames;
  if (!doomed) return { ...names, kept: nothing, leaving: { ...nothing, groups: 0, days: [] } };
  const leave = (kind: Kind): string =>
    `INSERT INTO frozen SELECT kind, name, 'leaving' FROM gone WHERE kind = '${kind}' AND coalesce(${deletedAt(rules)} > ${now}, true)`;
  await connection.run(`
    ${keepLastMembers};
    INSERT INTO gone
    SELECT d.kind, d.name, coalesce(l.since, ${now}) FROM doomed d LEFT JOIN leaving_since l USING (kind, name)
    ANTI JOIN frozen f ON f.kind = d.kind AND f.name = d.name
    ANTI JOIN renamed r ON r.kind = d.kind AND r.was = d.name;
    ${leave("user")}`);
  if (made) await keepOccupied(connection);
  await connection.run(`
    ${leave("group")};
    INSERT INTO suspended
    SELECT kind, name FROM gone SEMI JOIN (FROM frozen WHERE reason = 'leaving') USING (kind, name) WHERE ${suspendedAt(rules)} <= ${now}`);
  return {
    ...names,
    kept: await keptOnes(connection),
    leaving: await leavingOnes(connection, rules),
    ...((rules.never ?? []).length === 0 ? {} : { staying: await stayingOnes(connection, rules, now) }),
  };
}

/**
 * SQL that freezes the groups that administer, the groups in them, and their members; and the groups of principals of other
 * types, which go back as they came, with their memberships.
 */
function keepThoseNeeded(administrators: readonly string[]): string {
  return `
    INSERT INTO frozen
    WITH RECURSIVE nesting AS (
      SELECT name, unnest(group_names) AS g FROM actual WHERE kind = 'group'
      UNION ALL SELECT name, unnest(group_names) FROM actual_foreign WHERE coalesce(kind, 'group') = 'group'),
    privileged(name) AS (
      SELECT unnest(${textList(administrators)})
      UNION SELECT n.name FROM nesting n JOIN privileged p ON n.g = p.name),
    administrator AS (
      SELECT d.kind, d.name FROM doomed d JOIN actual a USING (kind, name)
      WHERE (d.kind = 'group' AND d.name IN (FROM privileged))
        OR list_has_any(a.group_names, (SELECT coalesce(list(name), []) FROM privileged)))
    SELECT kind, name, 'administrator' FROM administrator
    UNION ALL
    SELECT kind, name, 'foreign member' FROM doomed ANTI JOIN administrator USING (kind, name)
    WHERE kind = 'group' AND name IN (SELECT unnest(group_names) FROM actual_foreign)`;
}

/** SQL: where a protected group would lose its last members, all of them stay. There is no reason to choose one. */
const keepLastMembers = `
    INSERT INTO frozen
    WITH leaver AS (
      SELECT d.* FROM doomed d ANTI JOIN frozen f USING (kind, name)
      ANTI JOIN renamed r ON r.kind = d.kind AND r.was = d.name),
    guarded AS (
      SELECT DISTINCT g FROM (SELECT unnest(group_names) AS g FROM actual SEMI JOIN leaver USING (kind, name))
      SEMI JOIN (SELECT name AS g FROM actual WHERE kind = 'group' AND is_protected(kind, name)) USING (g)),
    member AS (
      FROM (
        SELECT kind, name, unnest(group_names) AS g FROM actual
        UNION ALL SELECT type, name, unnest(group_names) FROM actual_foreign)
      SEMI JOIN guarded USING (g)),
    emptied AS (
      SELECT g FROM member LEFT JOIN leaver l USING (kind, name) GROUP BY g HAVING count(*) = count(l.name))
    SELECT DISTINCT m.kind, m.name, 'last member' FROM member m SEMI JOIN emptied USING (g)`;

function keptOnes(connection: Connection): Promise<Found<Kept>> {
  return findSome(
    connection,
    "SELECT kind, name, reason AS because FROM frozen WHERE reason IN ('administrator', 'last member', 'foreign member')",
    "kind DESC, name",
  );
}

/** SQL of those within their stages: `day` and `suspension` are epoch milliseconds, NULL for never. */
function stagesOf(rules: Stages): string {
  return `
    SELECT kind, name, (${deletedAt(rules)})::DOUBLE AS day, (${suspendedAt(rules)})::DOUBLE AS suspension
    FROM gone SEMI JOIN (FROM frozen WHERE reason = 'leaving') USING (kind, name)`;
}

function suspensionOf(suspension: number | null): Pick<Leaving, "suspendedOn"> {
  return suspension === null ? {} : { suspendedOn: new Date(suspension).toISOString() };
}

async function stayingOnes(connection: Connection, rules: Stages, now: number): Promise<Departures["staying"]> {
  const staying = `SELECT * FROM (${stagesOf(rules)}) WHERE day IS NULL`;
  const { count, examples } = await findSome<{ kind: Kind; name: string; suspension: number | null }>(
    connection,
    staying,
    "suspension DESC, kind DESC, name",
  );
  if (count === 0) return undefined;
  const [row] = await connection.rows<{ active: number }>(
    `SELECT count(*)::INTEGER AS active FROM (${staying}) WHERE suspension > ${now}`,
  );
  return {
    count,
    examples: examples.map(({ kind, name, suspension }) => Object.assign({ kind, name }, suspensionOf(suspension))),
    active: row?.active ?? 0,
  };
}

async function leavingOnes(connection: Connection, rules: Stages): Promise<Departures["leaving"]> {
  const leaving = `SELECT * FROM (${stagesOf(rules)}) WHERE day IS NOT NULL`;
  const { count, examples } = await findSome<{ kind: Kind; name: string; day: number; suspension: number | null }>(
    connection,
    leaving,
    "day, kind DESC, name",
  );
  if (count === 0) return { count, groups: 0, examples: [], days: [] };
  const days = await connection.rows<{ day: number; users: number; groups: number; all_groups: number }>(`
    SELECT floor(day / ${day}) * ${day} AS day, count(*) FILTER (kind = 'user')::INTEGER AS users,
      count(*) FILTER (kind = 'group')::INTEGER AS groups, (sum(groups) OVER ())::INTEGER AS all_groups
    FROM (${leaving}) GROUP BY 1 ORDER BY 1 LIMIT ${daysTold}`);
  return {
    count,
    groups: days[0]?.all_groups ?? 0,
    examples: examples.map(({ kind, name, day, suspension }) =>
      Object.assign({ kind, name, on: new Date(day).toISOString() }, suspensionOf(suspension)),
    ),
    days: days.map(({ day, users, groups }) => ({ day: new Date(day).toISOString().slice(0, 10), users, groups })),
  };
}
