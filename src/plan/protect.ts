import { InputError } from "#errors.ts";
import { columnOf } from "#principals/attributes.ts";
import type { Attribute, Attributes } from "#principals/attributes.ts";
import { anySpelling } from "#principals/principal.ts";
import { ownSource, ruleSource } from "#principals/tables.ts";
import { withoutHidden } from "#principals/quarantine.ts";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { foreignGroups, takenNames } from "./carried.ts";
import { findSome, nothing } from "./found.ts";
import type { Found } from "./found.ts";
import { keptByHandOf } from "./by-hand.ts";
import { matches } from "./patterns.ts";
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
  /** The target takes names that differ in case alone for the same. */
  readonly ignoresCase?: boolean | undefined;
  /** The names of the other syncs to the target. Absent: there are none. */
  readonly others?: readonly string[] | undefined;
}

/** SQL: whether a name is protected. @param kind an SQL expression, as `name` */
export function protects({ users, groups, ignoresCase }: Names, kind: string, name: string): string {
  return `CASE ${kind} WHEN 'user' THEN ${matches(name, users, ignoresCase)} ELSE ${matches(name, groups, ignoresCase)} END`;
}
type Names = Pick<Protection, "users" | "groups" | "ignoresCase">;

/** How many principals of the target stay unchanged, by reason. */
export interface Frozen {
  readonly protected: number;
  readonly quarantined: number;
  readonly unmanaged: number;
  /** They came from a source that could not be read. */
  readonly unread: number;
  /** They are in no source yet, of which one does not know everybody yet. */
  readonly awaited: number;
  /** Principals of the sources that are not created or changed because their name is protected. */
  readonly withheld: number;
}

/**
 * Finds what must not be touched: makes `absent`, `frozen` and `held_back`, and empty `renamed` and `added_by_hand`, for `depart` and
 * `combine`.
 *
 * A principal of the target is frozen when its name is protected, its record is quarantined (unknown is not absent), or
 * it is unmanaged. While a quarantined record cannot be told apart, it could be any principal of its kind that the
 * ledger does not know to be another one.
 *
 * What came from an unread source, by the ledger, is frozen as well, even where another source has it too: a part of it
 * is missing. Where the sync manages everything, so is every principal that the ledger does not know.
 *
 * A record whose principal is in doubt under another name is held back, so that no second one is created. So is one whose name
 * the target has as another type.
 *
 * A user belongs to one sync: one whom another sync owns, and this one does not, is frozen and held back, unless the other's sources have lost
 * them. Then this sync takes them over, and the other one gives them up: they leave its groups.
 *
 * While a source does not know everybody yet, what is absent is awaited: it is frozen, unless the ledger says that it came
 * from a source that does, or a rule leaves its record out.
 * @param unread names of the sources that could not be read
 * @param complete names of the sources that know everybody. Absent: all do
 */
export async function freeze(
  connection: Connection,
  protection: Protection,
  unread: readonly string[] = [],
  complete?: readonly string[],
): Promise<void> {
  const hasUnread = unread.length > 0;
  const isShared = (protection.others ?? []).length > 0;
  const fromUnread = `SELECT kind, name FROM ledger WHERE source IN (${["''", ...unread.map(literal)].join(", ")})`;
  await connection.run(`
    CREATE OR REPLACE TEMP MACRO is_protected(k, n) AS ${protects(protection, "k", "n")};
    CREATE OR REPLACE TEMP TABLE absent AS SELECT kind, name FROM actual ANTI JOIN assembled USING (kind, name);
    CREATE OR REPLACE TEMP TABLE frozen AS
    WITH in_doubt AS (
      ${
        protection.ignoresCase === true
          ? `SELECT a.kind, a.name FROM actual a JOIN quarantined q ON q.kind = a.kind AND ${anySpelling("q.name")} = ${anySpelling("a.name")}`
          : "SELECT kind, name FROM quarantined WHERE name IS NOT NULL"
      }
      UNION SELECT l.kind, l.name FROM ledger l JOIN quarantined q USING (kind, source, source_id)
      -- An id with an invisible character is unknown, not absent.
      UNION SELECT l.kind, l.name FROM ledger l
      JOIN (SELECT kind, source, source_id AS id, ${withoutHidden("source_id")} AS source_id FROM quarantined) q USING (kind, source, source_id)
      ANTI JOIN assembled s ON s.kind = l.kind AND s.source = l.source AND s.source_id = l.source_id
      WHERE q.id <> l.source_id),
    unidentified AS (
      SELECT DISTINCT q.kind FROM quarantined q ANTI JOIN ledger l USING (kind, source, source_id) WHERE q.name IS NULL
      ${hasUnread ? "UNION SELECT unnest(['user', 'group'])" : ""}),
    owned AS (SELECT DISTINCT kind, name, true AS is_owned FROM ledger SEMI JOIN absent USING (kind, name)),
    a AS (SELECT kind, name, coalesce(is_owned, false) AS is_owned FROM absent LEFT JOIN owned USING (kind, name)),
    found AS (
      SELECT kind, name, 1 AS place, 'protected' AS reason FROM actual WHERE is_protected(kind, name)
      UNION ALL SELECT kind, name, 2, 'quarantined' FROM actual SEMI JOIN in_doubt USING (kind, name)
      ${hasUnread ? `UNION ALL SELECT kind, name, 3, 'unread' FROM actual SEMI JOIN (${fromUnread}) USING (kind, name)` : ""}
      ${
        complete === undefined
          ? ""
          : `UNION ALL SELECT kind, name, 5, 'awaited' FROM absent ANTI JOIN (
        SELECT l.kind, l.name FROM ledger l LEFT JOIN (FROM record WHERE scope IN ('excluded', 'unlisted')) r USING (kind, source, source_id)
        WHERE r.kind IS NOT NULL OR l.source IN (${[ownSource, ruleSource, ...complete].map(literal).join(", ")})) l USING (kind, name)`
      }
      ${isShared ? `UNION ALL SELECT kind, name, 6, 'unmanaged' FROM actual SEMI JOIN ${ofOthers} USING (kind, name)` : ""}
      UNION ALL
      SELECT a.kind, a.name, 4, CASE WHEN ${unmanaged(protection)} THEN 'unmanaged' ELSE '${hasUnread ? "unread" : "quarantined"}' END
      FROM a WHERE ${unmanaged(protection)} OR (a.kind IN (FROM unidentified) AND NOT a.is_owned))
    SELECT kind, name, min_by(reason, place) AS reason FROM found GROUP BY kind, name;
    CREATE OR REPLACE TEMP TABLE given_up (${tables.given_up});
    ${isShared ? giveUp : ""}
    CREATE OR REPLACE TEMP TABLE held_back AS
    SELECT kind, name FROM ${takenNames}
    ${isShared ? `UNION SELECT kind, name FROM ${ofOthers}` : ""}
    UNION SELECT s.kind, s.name FROM assembled s SEMI JOIN (
      FROM ledger SEMI JOIN (FROM frozen WHERE reason IN ('quarantined', 'unread', 'awaited')) USING (kind, name)) o
      USING (kind, source, source_id)
    ANTI JOIN actual a ON a.kind = s.kind AND a.name = s.name;
    CREATE OR REPLACE TEMP TABLE renamed (${tables.renamed});
    CREATE OR REPLACE TEMP TABLE added_by_hand (${tables.added_by_hand})`);
}

/** SQL: the users of the sources that another sync owns. */
const ofOthers = `(
  SELECT kind, name, origin FROM assembled SEMI JOIN owned_by_others USING (kind, name) ANTI JOIN ledger USING (kind, name)
  WHERE kind = 'user')`;

/**
 * SQL: what another sync owns, too, and the sources no longer have, or did not have when the other one took it over, is not this
 * sync's any more.
 */
const giveUp = `
    INSERT INTO given_up
    FROM (FROM absent UNION SELECT kind, name FROM leaving_since) SEMI JOIN owned_by_others USING (kind, name)
    SEMI JOIN ledger USING (kind, name) ANTI JOIN frozen USING (kind, name);
    DELETE FROM ledger WHERE (kind, name) IN (FROM given_up);
    INSERT INTO frozen SELECT kind, name, 'unmanaged' FROM given_up;`;

/** SQL: what the sources want and the sync may touch. Runs after `freeze`. */
export const wanted = `
    SELECT s.* FROM assembled s ANTI JOIN frozen f USING (kind, name) ANTI JOIN held_back h USING (kind, name)
    WHERE NOT is_protected(s.kind, s.name)`;

/** A record whose name is that of a user of another sync. */
export interface OfAnother {
  readonly name: string;
  readonly origin: string;
}

/** The users of the sources that are not created or changed, since another sync owns them. Runs after `freeze`. */
export async function usersOfOthers(connection: Connection, { others = [] }: Protection): Promise<Found<OfAnother>> {
  return others.length === 0 ? nothing : findSome(connection, `SELECT name, origin FROM ${ofOthers}`, "name");
}

/** A sync that the configuration no longer has, and how many principals of the target it owned that are nobody's now. */
export interface OwnedBefore {
  readonly sync: string;
  readonly count: number;
}

/** Whom syncs that were renamed or removed have left behind, by sync. Runs after `freeze`. */
export function ownedBefore(connection: Connection): Promise<readonly OwnedBefore[]> {
  return connection.rows<OwnedBefore>(`
    SELECT sync, count(*)::INTEGER AS count FROM owned_before SEMI JOIN (FROM frozen WHERE reason = 'unmanaged') f USING (kind, name)
    ANTI JOIN owned_by_others USING (kind, name) GROUP BY sync ORDER BY sync`);
}

/**
 * Makes `desired` of `assembled`, and of what must not be touched from `actual`, so that the plan shown, the list sent
 * and the service's own preview are one thing.
 *
 * Memberships in frozen groups, and in groups of other types, stay; a renamed principal takes its own along. The rules may add members to a frozen group
 * unless it is protected or held back. Frozen principals lose only their memberships in groups that are deleted. The
 * attributes that the rules keep (`assembled.kept`) come from the target, and so do those that are given at creation alone, or
 * that differ in case alone where case does not matter: the plan that is shown knows no attribute's nature.
 * @throws {InputError} when a rule puts a principal into a group that neither the sources nor the target have
 */
export async function combine(connection: Connection, attributes: Attributes): Promise<Frozen> {
  const [asked] = await connection.rows<{ keeps: boolean; givesUp: boolean }>(`
    CREATE OR REPLACE TEMP VIEW wanted AS ${wanted};
    SELECT EXISTS (FROM assembled WHERE kept > 0) AS keeps, EXISTS (FROM given_up) AS "givesUp"`);
  const [found] = await connection.rows<Record<keyof Frozen, number> & { unknown: boolean }>(`
    CREATE OR REPLACE TEMP TABLE remaining_group AS
    SELECT name FROM wanted WHERE kind = 'group' UNION SELECT name FROM frozen WHERE kind = 'group' UNION ${foreignGroups};
    CREATE OR REPLACE TEMP TABLE protected_group AS
    SELECT name FROM actual WHERE kind = 'group' AND is_protected(kind, name)
    UNION SELECT name FROM assembled WHERE kind = 'group' AND is_protected(kind, name)
    UNION SELECT name FROM held_back WHERE kind = 'group';
    CREATE OR REPLACE TEMP TABLE odd_membership AS
    SELECT kind, name, g, g IN (SELECT name FROM protected_group) AS is_protected
    FROM (SELECT kind, name, unnest(group_names) AS g FROM wanted)
    ANTI JOIN (SELECT name AS g FROM remaining_group ANTI JOIN protected_group USING (name)) ordinary USING (g);
    ${keptByHandOf("wanted")};
    ${desiredOf(attributes, { keeps: asked?.keeps === true, givesUp: asked?.givesUp === true })};
    CREATE OR REPLACE TEMP TABLE managed AS SELECT kind, name FROM desired ANTI JOIN frozen USING (kind, name);
    SELECT
      count(*) FILTER (reason = 'protected')::INTEGER AS protected,
      count(*) FILTER (reason = 'quarantined')::INTEGER AS quarantined,
      count(*) FILTER (reason = 'unmanaged')::INTEGER AS unmanaged,
      count(*) FILTER (reason = 'unread')::INTEGER AS unread,
      count(*) FILTER (reason = 'awaited')::INTEGER AS awaited,
      (SELECT count(*)::INTEGER FROM assembled s WHERE is_protected(s.kind, s.name)) AS withheld,
      EXISTS (FROM odd_membership WHERE NOT is_protected) AS unknown
    FROM frozen`);
  if (found === undefined) throw new Error("an aggregate returned no row");
  const { unknown, ...frozen } = found;
  if (unknown) throw await unknownGroups(connection);
  return frozen;
}

/**
 * SQL that makes `desired` of `wanted` and of what is frozen: with the attributes of the target that stay, memberships that
 * somebody added by hand and those in frozen groups, without new ones in protected groups.
 * @param asked.keeps rules keep an attribute of somebody
 * @param asked.givesUp the sync gives somebody up
 */
function desiredOf(
  attributes: Attributes,
  { keeps, givesUp }: { readonly keeps: boolean; readonly givesUp: boolean },
): string {
  const mayStay =
    keeps ||
    attributes.all.some(
      (each) => each.onlyAtCreation === true || each.ignoresCase === true || each === attributes.state,
    );
  return `
    CREATE OR REPLACE TABLE desired AS
    WITH in_target AS (FROM actual WHERE ${mayStay}),
    membership AS (
      SELECT kind, name, list(g) FILTER (is_dropped) AS dropped, list(g) FILTER (NOT is_dropped) AS added
      FROM (
        SELECT kind, name, g, true AS is_dropped FROM odd_membership WHERE is_protected
        UNION ALL
        SELECT kind, name, grp, false FROM kept_by_hand ANTI JOIN protected_group p ON p.name = grp
        UNION ALL
        SELECT kind, name, g, false
        FROM (
          SELECT kind, name, unnest(group_names) AS g FROM actual ANTI JOIN frozen USING (kind, name)
          UNION ALL
          SELECT r.kind, r.becomes, unnest(b.group_names) FROM renamed r JOIN actual b ON b.kind = r.kind AND b.name = r.was)
        SEMI JOIN (SELECT name AS g FROM frozen WHERE kind = 'group' UNION ${foreignGroups}) USING (g))
      GROUP BY kind, name),
    -- A copy of everybody whom the sync does not manage would not fit.
    carried AS NOT MATERIALIZED (FROM actual SEMI JOIN frozen USING (kind, name)),
    lost AS (
      SELECT kind, name, list(g) AS names
      FROM (
        SELECT kind, name, g FROM (SELECT kind, name, unnest(group_names) AS g FROM carried)
        ANTI JOIN (SELECT name AS g FROM remaining_group) USING (g)
        ${givesUp ? givenUpMemberships : ""})
      GROUP BY kind, name)
    SELECT s.kind, s.name,
      ${attributes.all.map((attribute) => `${desiredValue(attribute, attributes)},`).join("\n      ")}
      CASE WHEN m.name IS NULL THEN s.group_names
        ELSE list_sort(list_distinct(
          list_filter(s.group_names, lambda g: NOT list_contains(coalesce(m.dropped, []), g)) || coalesce(m.added, []))) END AS group_names
    FROM wanted s
    LEFT JOIN in_target a ON a.kind = s.kind AND a.name = s.name LEFT JOIN membership m ON m.kind = s.kind AND m.name = s.name
    UNION ALL
    SELECT c.* REPLACE (
      list_sort(CASE WHEN l.name IS NULL THEN coalesce(c.group_names, [])
        ELSE list_filter(c.group_names, lambda g: NOT list_contains(l.names, g)) END) AS group_names${suspending(attributes)})
    FROM carried c LEFT JOIN lost l ON l.kind = c.kind AND l.name = c.name`;
}

/** SQL: whom the sync gives up leaves its groups; what somebody added by hand stays. */
const givenUpMemberships = `
        UNION SELECT kind, name, g FROM (SELECT kind, name, unnest(group_names) AS g FROM actual SEMI JOIN given_up USING (kind, name))
        SEMI JOIN (SELECT name AS g FROM ledger WHERE kind = 'group') USING (g)
        ANTI JOIN (SELECT kind, name, grp AS g FROM by_hand) USING (kind, name, g) WHERE NOT is_protected('group', g)`;

/** SQL of the value of an attribute: of the assembled principal `s`, or of the one in the target, `a`. */
function desiredValue(attribute: Attribute, attributes: Attributes): string {
  const { name, type, required, onlyAtCreation, ignoresCase } = attribute;
  const column = columnOf(attribute);
  const isKept = `(s.kept & ${attributes.bitOf(name)}) > 0`;
  // A required one that the target lacks is given even so.
  if (required === true)
    return `CASE WHEN ${onlyAtCreation === true ? "true" : isKept} THEN coalesce(nullif(a.${column}, ''), s.${column}) ELSE s.${column} END AS ${column}`;
  const wanted = wantedValue(attribute, attributes);
  const folded = (value: string): string =>
    type === "texts"
      ? `list_sort(list_transform(${value}, lambda each: ${anySpelling("each")}))`
      : anySpelling(`${value}::VARCHAR`);
  const isSame =
    attribute === attributes.state
      ? `coalesce(a.${column}, true) = coalesce(s.${column}, true)`
      : ignoresCase === true && `coalesce(${folded(`a.${column}`)} = ${folded(wanted)}, false)`;
  const stays = onlyAtCreation === true ? "true" : isSame === false ? isKept : `(${isKept} OR ${isSame})`;
  return `CASE WHEN a.name IS NOT NULL AND ${stays} THEN a.${column} ELSE ${wanted} END AS ${column}`;
}

/** SQL that goes into the REPLACE of who is carried over: those who are gone for long enough are suspended. */
function suspending({ state }: Attributes): string {
  if (state === undefined) return "";
  const column = columnOf(state);
  return `, CASE WHEN (c.kind, c.name) IN (SELECT (kind, name) FROM suspended) THEN false ELSE c.${column} END AS ${column}`;
}

/**
 * SQL of what the sources want of an attribute of the assembled principal `s`, which is `a` in the target. An undo has the previous value
 * of each.
 */
function wantedValue(attribute: Attribute, attributes: Attributes): string {
  const wanted = ownValue(attribute, attributes);
  const others = attributes.all.filter(({ besides }) => besides === attribute.name);
  if (others.length === 0) return wanted;
  const values = others.map((each) => {
    const column = columnOf(each);
    const stays = each.onlyAtCreation === true ? "a.name IS NOT NULL" : `(s.kept & ${attributes.bitOf(each.name)}) > 0`;
    return `CASE WHEN ${stays} THEN a.${column} ELSE s.${column} END`;
  });
  const there = `a.${columnOf(attribute)}`;
  return `coalesce(${wanted}, CASE WHEN ${there} IN (${values.join(", ")}) THEN ${there} END, ${values.join(", ")})`;
}

/** The same, of what is said of the attribute and its list. */
function ownValue(attribute: Attribute, attributes: Attributes): string {
  const own = `s.${columnOf(attribute)}`;
  const { name, isName } = attribute;
  const other = attributes.all.find((each) => each.primaryOf === name || each.name === attribute.primaryOf);
  if (other !== undefined) {
    const beside = columnOf(other);
    const areGiven = `(s.kept & ${attributes.bitOf(name) | attributes.bitOf(other.name)}) = 0`;
    return attribute.primaryOf === undefined
      ? `CASE WHEN ${areGiven} AND coalesce(len(${own}), 0) = 0 AND s.${beside} IS NOT NULL THEN [s.${beside}] ELSE ${own} END`
      : `CASE WHEN ${areGiven} AND ${own} IS NULL THEN CASE WHEN list_contains(s.${beside}, a.${columnOf(attribute)}) THEN a.${columnOf(attribute)} ELSE s.${beside}[1] END ELSE ${own} END`;
  }
  if (attribute === attributes.state) return `CASE s.kind WHEN 'user' THEN coalesce(${own}, true) END`;
  return isName === undefined ? own : `coalesce(${own}, CASE s.kind WHEN '${isName}' THEN s.name END)`;
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

/** The rules put somebody into groups that neither the sources nor the target have. */
async function unknownGroups(connection: Connection): Promise<InputError> {
  const unknown = await connection.rows<{
    group_name: string;
    first: { readonly name: string; readonly kind: string; readonly origin: string };
    others: bigint;
  }>(`
    SELECT m.g AS group_name, min({'name': m.name, 'kind': m.kind, 'origin': s.origin}) AS first, count(*) - 1 AS others
    FROM (FROM odd_membership WHERE NOT is_protected) m JOIN assembled s ON s.kind = m.kind AND s.name = m.name
    GROUP BY m.g ORDER BY m.g LIMIT 20`);
  return new InputError("the rules put principals into groups that neither the sources nor the target have", {
    problems: [
      ...unknown.map(
        ({ group_name: group, first: { kind, name, origin }, others }) =>
          `group ${group}: ${kind} ${name} (${origin})${others > 0n ? ` and ${others} more` : ""}`,
      ),
      "if the names are right: list the groups under `staticGroups` (or let a source have them), let the rules make them " +
        "with `groupsFromRules: create`, or create them in the target. Otherwise correct the rule `groups`",
    ],
  });
}
