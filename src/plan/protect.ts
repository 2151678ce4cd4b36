import { InputError } from "#errors.ts";
import { keptBits, ownSource, ruleSource } from "#principals/tables.ts";
import { withoutHidden } from "#principals/quarantine.ts";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { foreignGroups, takenNames } from "./carried.ts";
import { keepByHand } from "./by-hand.ts";
import { matches } from "./patterns.ts";
import { leaveOutEmpty } from "./rule-groups.ts";
import { tables } from "./tables.ts";

/** What a sync must not touch. */
export interface Protection {
  /** `owned`: what is in neither the sources nor the ledger stays as it is. `everything`: it is deleted. */
  readonly manage: "owned" | "everything";
  /** False: the rules make no groups. Then nothing is known about the groups of the target, and all of them stay. */
  readonly makesGroups: boolean;
  /** Names, with `*` for any characters, that are never created, changed or deleted. */
  readonly users: readonly string[];
  readonly groups: readonly string[];
}

/** How many principals of the target stay unchanged, by reason. */
export interface Frozen {
  readonly protected: number;
  readonly quarantined: number;
  readonly unmanaged: number;
  /** They came from a source that could not be read. */
  readonly unread: number;
  /** Principals of the sources that are not created or changed because their name is protected. */
  readonly withheld: number;
}

/**
 * Finds what must not be touched: makes `frozen`, `held_back` and an empty `renamed`, for `depart` and `combine`.
 *
 * A principal of the target is frozen when its name is protected, its record is quarantined (unknown is not absent), or
 * it is unmanaged. While a quarantined record cannot be told apart, it could be any principal of its kind that the
 * ledger does not know to be another one.
 *
 * What came from an unread source, by the ledger, is frozen as well, even where another source has it too: a part of it
 * is missing. Where the sync manages everything, so is every principal that the ledger does not know. A record whose
 * principal is frozen for that under another name is held back, so that no second one is created. So is one whose name the
 * target has as another type.
 * @param unread names of the sources that could not be read
 */
export async function freeze(
  connection: Connection,
  protection: Protection,
  unread: readonly string[] = [],
): Promise<void> {
  await connection.run(`CREATE TABLE IF NOT EXISTS actual_foreign (${tables.actual_foreign})`);
  const fromUnread = `SELECT * FROM ledger WHERE source IN (${["''", ...unread.map(literal)].join(", ")})`;
  await connection.run(`
    CREATE OR REPLACE TEMP MACRO is_protected(k, n) AS
      CASE k WHEN 'user' THEN ${matches("n", protection.users)} ELSE ${matches("n", protection.groups)} END;
    CREATE OR REPLACE TEMP TABLE in_doubt AS
    SELECT kind, name FROM quarantined WHERE name IS NOT NULL
    UNION SELECT l.kind, l.name FROM ledger l JOIN quarantined q USING (kind, source, source_id)
    -- An id with an invisible character is unknown, not absent.
    UNION SELECT l.kind, l.name FROM ledger l
    JOIN (SELECT kind, source, source_id AS id, ${withoutHidden("source_id")} AS source_id FROM quarantined) q USING (kind, source, source_id)
    ANTI JOIN assembled s ON s.kind = l.kind AND s.source = l.source AND s.source_id = l.source_id
    WHERE q.id <> l.source_id;
    CREATE OR REPLACE TEMP TABLE frozen AS
    SELECT kind, name, 'protected' AS reason FROM actual WHERE is_protected(kind, name);
    INSERT INTO frozen
    SELECT a.kind, a.name, 'quarantined' FROM actual a SEMI JOIN in_doubt USING (kind, name) ANTI JOIN frozen USING (kind, name);
    INSERT INTO frozen
    SELECT a.kind, a.name, 'unread' FROM actual a SEMI JOIN (${fromUnread}) USING (kind, name) ANTI JOIN frozen USING (kind, name);
    CREATE OR REPLACE TEMP TABLE unidentified AS
    SELECT DISTINCT q.kind FROM quarantined q ANTI JOIN ledger l USING (kind, source, source_id) WHERE q.name IS NULL
    ${unread.length === 0 ? "" : "UNION SELECT unnest(['user', 'group'])"};
    INSERT INTO frozen
    WITH absent AS MATERIALIZED (
      SELECT kind, name FROM actual ANTI JOIN assembled USING (kind, name) ANTI JOIN frozen USING (kind, name)),
    owned AS (SELECT DISTINCT kind, name, true AS is_owned FROM ledger SEMI JOIN absent USING (kind, name)),
    a AS (SELECT kind, name, coalesce(is_owned, false) AS is_owned FROM absent LEFT JOIN owned USING (kind, name))
    SELECT a.kind, a.name,
      CASE WHEN ${unmanaged(protection)} THEN 'unmanaged' ELSE '${unread.length === 0 ? "quarantined" : "unread"}' END
    FROM a WHERE ${unmanaged(protection)} OR (a.kind IN (FROM unidentified) AND NOT a.is_owned);
    CREATE OR REPLACE TEMP TABLE held_back AS
    SELECT s.kind, s.name FROM assembled s
    SEMI JOIN (
      SELECT o.kind, o.source, o.source_id FROM ledger o JOIN frozen f USING (kind, name) WHERE f.reason = 'unread'
    ) unread ON unread.kind = s.kind AND unread.source = s.source AND unread.source_id = s.source_id;
    INSERT INTO held_back SELECT kind, name FROM (${takenNames}) ANTI JOIN held_back USING (kind, name);
    CREATE OR REPLACE TEMP TABLE renamed (${tables.renamed})`);
}

/**
 * Makes `desired` of `assembled`, and of what must not be touched from `actual`, so that the plan shown, the list sent
 * and the service's own preview are one thing.
 *
 * Memberships in frozen groups, and in groups of other types, stay; a renamed principal takes its own along. The rules may add members to a frozen group
 * unless it is protected or held back. Frozen principals lose only their memberships in groups that are deleted. The
 * attributes that the rules keep (`assembled.kept`) come from the target.
 * @throws {InputError} when a rule puts a principal into a group that neither the sources nor the target have
 */
export async function combine(connection: Connection): Promise<Frozen> {
  await connection.run(`
    CREATE OR REPLACE TABLE desired AS
    SELECT s.kind, s.name, s.display_name, s.description, s.mail, s.group_names
    FROM assembled s ANTI JOIN frozen f USING (kind, name) ANTI JOIN held_back h USING (kind, name)
    WHERE NOT is_protected(s.kind, s.name);
    UPDATE desired SET
      display_name = CASE WHEN ${isKept("displayName")} THEN coalesce(nullif(a.display_name, ''), desired.display_name) ELSE desired.display_name END,
      description = CASE WHEN ${isKept("description")} THEN a.description ELSE desired.description END,
      mail = CASE WHEN ${isKept("mail")} THEN a.mail ELSE desired.mail END
    FROM assembled s JOIN actual a USING (kind, name)
    WHERE s.kept > 0 AND s.kind = desired.kind AND s.name = desired.name;
    CREATE OR REPLACE TEMP TABLE remaining_group AS
    SELECT name FROM desired WHERE kind = 'group' UNION SELECT name FROM frozen WHERE kind = 'group' UNION ${foreignGroups}`);
  await leaveOutEmpty(connection);
  await keepByHand(connection);
  await keepMembershipsOfFrozenGroups(connection);
  await refuseUnknownGroups(connection);
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE managed AS SELECT kind, name FROM desired;
    INSERT INTO desired
    WITH carried AS (SELECT a.* FROM actual a SEMI JOIN frozen f USING (kind, name)),
    kept AS (
      SELECT kind, name, list_sort(list(g)) AS group_names
      FROM (SELECT kind, name, unnest(group_names) AS g FROM carried) m
      SEMI JOIN remaining_group r ON r.name = m.g GROUP BY kind, name)
    SELECT c.kind, c.name, c.display_name, c.description, c.mail, coalesce(k.group_names, [])
    FROM carried c LEFT JOIN kept k USING (kind, name)`);
  const [counts] = await connection.rows<Record<keyof Frozen, bigint>>(`
    SELECT
      count(*) FILTER (reason = 'protected') AS protected,
      count(*) FILTER (reason = 'quarantined') AS quarantined,
      count(*) FILTER (reason = 'unmanaged') AS unmanaged,
      count(*) FILTER (reason = 'unread') AS unread,
      (SELECT count(*) FROM assembled s WHERE is_protected(s.kind, s.name)) AS withheld
    FROM frozen`);
  return {
    protected: Number(counts?.protected ?? 0),
    quarantined: Number(counts?.quarantined ?? 0),
    unmanaged: Number(counts?.unmanaged ?? 0),
    unread: Number(counts?.unread ?? 0),
    withheld: Number(counts?.withheld ?? 0),
  };
}

/**
 * An SQL condition: the principal `a`, which is in the target and not in the sources, is not for the sync to delete.
 * `is_owned` says whether the ledger has it. Where the rules make no groups, the sync owns only the configuration's.
 */
function unmanaged({ manage, makesGroups }: Protection): string {
  const notOwned = manage === "owned" ? "NOT a.is_owned" : "false";
  const own = `SELECT name FROM ledger WHERE kind = 'group' AND source IN (${literal(ownSource)}, ${literal(ruleSource)})`;
  return makesGroups ? notOwned : `(CASE a.kind WHEN 'group' THEN a.name NOT IN (${own}) ELSE ${notOwned} END)`;
}

/** An SQL condition: of the assembled principal `s`, the target's value of the attribute stays. */
function isKept(attribute: keyof typeof keptBits): string {
  return `(s.kept & ${keptBits[attribute]}) > 0`;
}

/** In `desired`: adds memberships in frozen groups, and drops new ones in protected groups. */
async function keepMembershipsOfFrozenGroups(connection: Connection): Promise<void> {
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE kept_membership AS
    SELECT a.kind, a.name, list(a.g) AS kept
    FROM (
      SELECT kind, name, unnest(group_names) AS g FROM actual
      UNION ALL
      SELECT r.kind, r.becomes, unnest(b.group_names) FROM renamed r JOIN actual b ON b.kind = r.kind AND b.name = r.was) a
    SEMI JOIN (
      SELECT name FROM frozen WHERE kind = 'group' UNION ${foreignGroups}) f ON f.name = a.g
    GROUP BY a.kind, a.name;
    CREATE OR REPLACE TEMP TABLE protected_group AS
    SELECT name FROM actual WHERE kind = 'group' AND is_protected(kind, name)
    UNION SELECT name FROM assembled WHERE kind = 'group' AND is_protected(kind, name)
    UNION SELECT name FROM held_back WHERE kind = 'group';
    CREATE OR REPLACE TEMP TABLE dropped_membership AS
    SELECT m.kind, m.name, list(m.g) AS dropped
    FROM (SELECT kind, name, unnest(group_names) AS g FROM desired) m
    SEMI JOIN protected_group p ON p.name = m.g
    GROUP BY m.kind, m.name;
    UPDATE desired SET group_names = list_filter(desired.group_names, lambda g: NOT list_contains(d.dropped, g))
    FROM dropped_membership d WHERE d.kind = desired.kind AND d.name = desired.name;
    UPDATE desired SET group_names = list_sort(list_distinct(desired.group_names || k.kept))
    FROM kept_membership k WHERE k.kind = desired.kind AND k.name = desired.name`);
}

async function refuseUnknownGroups(connection: Connection): Promise<void> {
  const unknown = await connection.rows<{
    group_name: string;
    kind: string;
    name: string;
    origin: string;
    others: bigint;
  }>(`
    SELECT m.g AS group_name, any_value(m.kind) AS kind, min(m.name) AS name, any_value(s.origin) AS origin, count(*) - 1 AS others
    FROM (SELECT kind, name, unnest(group_names) AS g FROM desired) m
    ANTI JOIN remaining_group r ON r.name = m.g
    JOIN assembled s ON s.kind = m.kind AND s.name = m.name
    GROUP BY m.g ORDER BY m.g LIMIT 20`);
  if (unknown.length === 0) return;
  throw new InputError("the rules put principals into groups that neither the sources nor the target have", {
    problems: [
      ...unknown.map(
        (row) =>
          `group ${row.group_name}: ${row.kind} ${row.name} (${row.origin})${row.others > 0n ? ` and ${row.others} more` : ""}`,
      ),
      "if the names are right: list the groups under `staticGroups` (or let a source have them), let the rules make them " +
        "with `groupsFromRules: create`, or create them in the target. Otherwise correct the rule `groups`",
    ],
  });
}
