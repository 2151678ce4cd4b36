import { literal, onlyIf } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { columnOf, textOf } from "#principals/attributes.ts";
import type { Attribute, Attributes } from "#principals/attributes.ts";
import type { Kind } from "#principals/principal.ts";
import { groupAttributes as functionAttributes, scopeKeys } from "#principals/scope.ts";
import { ownSource, ruleSource } from "#principals/tables.ts";
import { formatNumber, pluralize, quote } from "#text.ts";
import { isUpdateInSql } from "./change.ts";
import { tables } from "./tables.ts";

/**
 * Why a change is there.
 * - `first`: no run has been applied yet, so there is nothing to compare with.
 * - `new`, `gone`: the record appeared in the source, or vanished from it; with nearly every other record of an attribute's
 *   value or below a DN, if that is so. `grace`: it vanished earlier.
 * - `attribute`: an attribute of the record changed. `rename`: one that the name is made of.
 * - `into scope`, `out of scope`: the rules `include` and `exclude` decide otherwise now. `cleared`: a quarantine ended.
 * - `membership`: the source has other members of a group. `configuration`: the configuration changed.
 * - `drift`: the source says what it said before, and somebody changed the target.
 * - `left out`: an earlier plan had it already, and it was not applied. `other`: none of these.
 */
export const causeKinds = [
  "first",
  "new",
  "gone",
  "grace",
  "attribute",
  "rename",
  "into scope",
  "out of scope",
  "cleared",
  "membership",
  "configuration",
  "drift",
  "left out",
  "other",
] as const;
export type CauseKind = (typeof causeKinds)[number];

/** One cause of a plan and what it explains. */
export interface Cause {
  /** Names it within its plan: `c1` explains most. */
  readonly id: string;
  readonly kind: CauseKind;
  /** The source whose records it is about. */
  readonly source?: string | undefined;
  /** The source's attribute; for drift what was changed in the target; the keys of the configuration; the group. */
  readonly attribute?: string | undefined;
  /** The part of the value that differs, where all changes have it in common. */
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  /** The whole values, where all changes have them in common and they are more than the part. */
  readonly whole?: { readonly from?: string | undefined; readonly to?: string | undefined } | undefined;
  /** The whole values differ: only this part of them is the same. */
  readonly partial?: true | undefined;
  /** For `new` and `gone` with an attribute: how many records have that value, or are below that DN. */
  readonly of?: number | undefined;
  /** How many users and groups have a change that it explains. */
  readonly users: number;
  readonly groups: number;
  readonly example: { readonly kind: Kind; readonly name: string };
}

export interface CauseOptions {
  readonly attributes: Attributes;
  /** What each rule reads, by kind: undefined for any attribute. */
  readonly reads: Readonly<Record<"users" | "groups", ReadonlyMap<string, readonly string[] | undefined>>>;
  /** False: no run was applied yet. */
  readonly hasBaseline: boolean;
  /** Whether who is gone stays for a while. */
  readonly hasGrace: boolean;
  /** Whether who is gone stays active for a while. Absent: nobody is suspended for that. */
  readonly suspendsLater?: boolean | undefined;
  /** The keys of the configuration that have changed since the last applied run. */
  readonly changedKeys: readonly string[];
}

/** Changes of one attribute with fewer common values than this are one cause together. */
const fewest = 2;

/** Records came or left together where so many of them did, and so large a part of all that had the value in common. */
const together = { records: 3, share: 0.9 } as const;

/** So many causes are named; the rest are `other` together. */
const most = 30;

/**
 * Finds the cause of every change: compares what the last applied run read and left (`baseline_…`), what the sources say
 * now, and what the target has now. Makes `change_cause`. Runs after `createPlan`.
 * @returns the causes, those that explain most first
 */
export async function findCauses(connection: Connection, options: CauseOptions): Promise<Cause[]> {
  if (!options.hasBaseline) return firstCause(connection);
  const [found] = await connection.rows<{ moves: number }>(`
    CREATE OR REPLACE TEMP TABLE explained AS
    WITH item AS (SELECT row_number() OVER () AS item, * FROM (${items(options.attributes)}))${explanation(options)};
    CREATE OR REPLACE TEMP TABLE shared_by (cause VARCHAR, kind VARCHAR, name VARCHAR, source VARCHAR, attribute VARCHAR, value VARCHAR, of BIGINT);
    SELECT count(*)::INTEGER AS moves FROM explained WHERE ${isMove}`);
  if ((found?.moves ?? 0) >= together.records) await connection.run(`INSERT INTO shared_by ${sharedByMoves}`);
  const rows = await connection.rows<CauseRow>(`
    CREATE OR REPLACE TEMP TABLE drift_item AS
    SELECT action, kind, name, aspect, grp FROM explained WHERE cause = 'drift';
    ${rollUp};
    FROM cause ORDER BY length(id), id`);
  await connection.run("DROP TABLE explained; DROP TABLE shared_by; DROP TABLE keyed; DROP TABLE cause");
  return rows.map(causeOf);
}

/** Before the first applied run there is nothing to compare with: one cause explains all changes. */
async function firstCause(connection: Connection): Promise<Cause[]> {
  const rows = await connection.rows<Pick<CauseRow, "users" | "groups" | "example" | "example_kind">>(`
    CREATE OR REPLACE TEMP TABLE drift_item (${tables.drift_item});
    CREATE OR REPLACE TEMP TABLE change_cause AS SELECT kind, name, ['c1'] AS causes FROM changes;
    SELECT count(*) FILTER (kind = 'user') AS users, count(*) FILTER (kind = 'group') AS groups,
      min_by(name, (kind, name)) AS example, min(kind) AS example_kind
    FROM changes HAVING count(*) > 0`);
  return rows.map(({ users, groups, example, example_kind: kind }) => ({
    id: "c1",
    kind: "first",
    users: Number(users),
    groups: Number(groups),
    example: { kind, name: example },
  }));
}

function causeOf(row: CauseRow): Cause {
  return {
    id: row.id,
    kind: row.kind,
    source: row.source ?? undefined,
    attribute: row.attribute ?? undefined,
    from: row.was ?? undefined,
    to: row.became ?? undefined,
    ...wholeOf(row),
    of: row.of === null ? undefined : Number(row.of),
    users: Number(row.users),
    groups: Number(row.groups),
    example: { kind: row.example_kind, name: row.example },
  };
}

/** What a cause says of whole values, of which its own are the part that differs. */
function wholeOf({ was, became, whole_was, whole_became, differ }: CauseRow): Pick<Cause, "whole" | "partial"> {
  if (was === null && became === null) return {};
  if (differ) return { partial: true };
  if (whole_was === was && whole_became === became) return {};
  return { whole: { from: whole_was ?? undefined, to: whole_became ?? undefined } };
}

/** An SQL condition on a row of `explained`: the principal came or left (or is suspended for that), since its record did. */
const isMove = "cause IN ('new', 'gone') AND aspect IN ('existence', 'active')";

/**
 * SQL of `(action, kind, name, aspect, grp, was, wanted)`, with values as texts: a row for the creation or deletion of a principal
 * (`existence`), for each attribute that is changed, and for each membership (`joined`, `left`).
 */
function items({ all }: Attributes): string {
  return `
    SELECT action, kind, name, 'existence' AS aspect, NULL::VARCHAR AS grp, NULL::VARCHAR AS was, NULL::VARCHAR AS wanted
    FROM change_pair WHERE NOT (${isUpdateInSql})
    ${all.map(attributeItems).join("")}
    ${membershipItems("joined", "after", "before")} ${membershipItems("left", "before", "after")}`;
}

/** SQL of the rows of `item` for one attribute. */
function attributeItems(attribute: Attribute): string {
  const column = columnOf(attribute);
  return `
    UNION ALL
    SELECT action, kind, name, ${literal(attribute.name)}, NULL, ${textOf(attribute, "before.")}, ${textOf(attribute, "after.")} FROM change_pair
    WHERE ${isUpdateInSql} AND before.${column} IS DISTINCT FROM after.${column}`;
}

/** SQL of the rows of `item` for the memberships that are on one side alone. */
function membershipItems(aspect: "joined" | "left", of: string, without: string): string {
  return `
    UNION ALL
    SELECT 'update', kind, name, '${aspect}', g, NULL, NULL FROM (
      SELECT kind, name, unnest(list_filter(${of}.group_names, lambda g: NOT list_contains(${without}.group_names, g))) AS g
      FROM change_pair WHERE ${isUpdateInSql} AND before.group_names <> after.group_names)`;
}

/** The rules that decide about each aspect of a principal, besides those for its attributes. */
const rulesOf: Readonly<Record<string, readonly string[]>> = {
  joined: ["groups"],
  left: ["groups"],
  scope: ["include", "exclude", "join", "onlyMembersOf", "notMembersOf", "onlyBelow", "notBelow"],
  name: ["name", "join"],
};

/** What the groups of an entry are called beside its attributes, in `record`: their value is a list of names. */
const groupAttributes: ReadonlySet<string> = new Set<string>([...Object.values(functionAttributes), ...scopeKeys]);

/**
 * SQL of `(kind, aspect, attribute, pointer)`: what decides about each aspect, and its JSON pointer. A NULL attribute stands
 * for any. A list of groups that was changed itself says nothing about the groups of people, and neither do their new names.
 */
function relevance({ reads, changedKeys, attributes }: CauseOptions): string {
  const ownRules = attributes.all.map(
    ({ name, isName }) => [name, isName === undefined ? [name] : [name, "name"]] as const,
  );
  const deciding = { ...Object.fromEntries(ownRules), ...rulesOf };
  const isKey = (...keys: readonly string[]): boolean =>
    changedKeys.some((changed) => keys.some((key) => changed.endsWith(`.${key}`)));
  const areRenamed = isKey("groups", "groups.name");
  const isComparable = (name: string): boolean =>
    !groupAttributes.has(name) ||
    !(areRenamed || (scopeKeys.has(name) && isKey(name)) || (name.startsWith("users.") && isKey("users.nested")));
  const rows = (["user", "group"] as const).flatMap((kind) =>
    Object.entries(deciding).flatMap(([aspect, rules]) =>
      rules.flatMap((rule) => {
        const of = reads[`${kind}s`];
        if (!of.has(rule)) return [];
        const names = of
          .get(rule)
          ?.filter(isComparable)
          .map((name) => `${literal(name)}, ${literal(pointerTo(name))}`) ?? ["NULL, NULL"];
        return names.map((name) => `('${kind}', ${literal(aspect)}, ${name})`);
      }),
    ),
  );
  return `(VALUES ${rows.join(", ") || "(NULL, NULL, NULL, NULL)"}) relevant(kind, aspect, attribute, pointer)`;
}

function pointerTo(name: string): string {
  return `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** SQL of `pointerTo` of a column. */
function pointerIn(column: string): string {
  return `'/' || replace(replace(${column}, '~', '~0'), '/', '~1')`;
}

/**
 * SQL of the rows of `item` with `cause`, `source`, `attribute`, and what the value `was` and `became`; the end of a WITH.
 */
function explanation(options: CauseOptions): string {
  const { changedKeys } = options;
  const scopeChanged = haveChanged(changedKeys, [
    "include",
    "exclude",
    ".join",
    "sources.",
    ".from",
    "rules.users",
    "rules.groups",
    "tables.",
    ...scopeKeys,
    "users.nested",
  ]);
  return `,
    ${concerned},
    ${judged(options)},
    ${evidence(options)},
    often AS (SELECT source, attribute, was, became, count(*) AS times FROM evidence GROUP BY ALL),
    best AS (
      SELECT e.* FROM evidence e
      JOIN often o ON ${isSame("o", "e")}
      QUALIFY row_number() OVER (PARTITION BY e.item ORDER BY o.times DESC, e.attribute) = 1),
    alone AS (
      SELECT j.action, j.kind, j.name, j.aspect, j.grp,
        CASE
          WHEN j.guess IN ('attribute', 'rename') AND b.attribute IS NULL THEN ${changedKeys.length > 0 ? "'configuration'" : "'other'"}
          WHEN j.guess IN ('into scope', 'out of scope') AND b.attribute IS NULL AND ${scopeChanged} THEN 'configuration'
          ELSE j.guess END AS cause,
        coalesce(b.source, j.of_source) AS source,
        CASE WHEN j.guess = 'drift' THEN CASE WHEN j.aspect IN ('joined', 'left') THEN 'memberships' ELSE j.aspect END
          WHEN j.guess = 'membership' THEN j.grp ELSE b.attribute END AS attribute,
        CASE WHEN j.guess = 'drift' THEN j.wanted ELSE b.was END AS was_part,
        CASE WHEN j.guess = 'drift' THEN j.was ELSE b.became END AS became_part,
        CASE WHEN j.guess = 'drift' THEN j.wanted ELSE b.whole_was END AS whole_was,
        CASE WHEN j.guess = 'drift' THEN j.was ELSE b.whole_became END AS whole_became
      FROM judged j LEFT JOIN best b USING (item))
    SELECT a.action, a.kind, a.name, a.aspect, a.grp,
      coalesce(g.cause, a.cause) AS cause, coalesce(g.source, a.source) AS source,
      CASE coalesce(g.cause, a.cause) WHEN 'configuration' THEN ${literal(changedKeys.join(", "))}
        ELSE coalesce(g.attribute, a.attribute) END AS attribute,
      coalesce(g.was_part, a.was_part) AS was, coalesce(g.became_part, a.became_part) AS became,
      coalesce(g.whole_was, a.whole_was) AS whole_was, coalesce(g.whole_became, a.whole_became) AS whole_became
    FROM alone a LEFT JOIN alone g ON g.kind = 'group' AND g.aspect = 'existence' AND g.name = ${onlyIf("a.cause = 'of group'", "a.grp")}`;
}

/** Whether the configuration has changed under a key that contains one of these. */
function haveChanged(changedKeys: readonly string[], parts: readonly string[]): boolean {
  return changedKeys.some((key) => parts.some((part) => key.includes(part)));
}

/** SQL of the records that principals with changes are made of or were made of, and of what they say together. */
const concerned = `concerned AS (
      SELECT o.kind, o.name, o.source, o.source_id, r.scope AS is_scope, r.name AS is_name, r.attributes AS is_said,
        b.scope AS was_scope, b.name AS was_name, ${ifValid("b.attributes")} AS was_said
      FROM (
        SELECT kind, name, source, source_id FROM assembled_origin SEMI JOIN changes USING (kind, name)
        UNION
        SELECT kind, name, source, source_id FROM ledger SEMI JOIN changes USING (kind, name)) o
      LEFT JOIN record r USING (kind, source, source_id) LEFT JOIN baseline_record b USING (kind, source, source_id)),
    stood AS (
      SELECT kind, name, min(source) AS source, bool_and(was_scope IS NULL) AS is_new, bool_or(was_scope IN ('excluded', 'unlisted')) AS was_out,
        bool_or(was_scope = 'quarantined') AS was_doubted, bool_or(was_scope = 'in' AND was_name = name) AS was_it,
        bool_or(was_scope = 'in' AND was_name <> name) AS was_other, bool_or(is_scope = 'in' AND is_name <> name) AS is_other,
        bool_or(is_scope IN ('excluded', 'unlisted')) AS is_out, bool_and(is_scope IS NULL) AS is_gone, bool_or(source = ${literal(ownSource)}) AS is_own,
        bool_or(was_scope = 'left out') AS was_left
      FROM concerned GROUP BY kind, name)`;

/** SQL of why somebody who was gone is active again, or created again because somebody deleted them meanwhile. */
const returned = "CASE WHEN s.was_out THEN 'into scope' WHEN s.was_doubted THEN 'cleared' ELSE 'new' END";

/** SQL of the rows of `item` with a `guess`: their cause, as far as principals and their records tell. */
function judged({ changedKeys, hasGrace, suspendsLater = false, attributes }: CauseOptions): string {
  const hasChanged = changedKeys.length > 0;
  const listsChanged = haveChanged(changedKeys, ["defaultGroups", "staticGroups", "groupsFromRules", "keepManual"]);
  const isName = attributes.all.flatMap((each) => (each.isName === undefined ? [] : [literal(each.name)])).join(", ");
  /** Why somebody leaves, or is suspended. @param waits whether that comes some time after they have gone */
  const left = (waits: boolean): string => `CASE
            WHEN s.is_other THEN 'rename'
            WHEN s.is_own THEN 'configuration'
            WHEN s.is_out THEN 'out of scope'
            WHEN ${waits} AND l.name IS NOT NULL THEN 'grace'
            WHEN s.was_left THEN 'left out'
            WHEN s.is_gone AND s.was_it THEN 'gone'
            WHEN ${hasChanged} THEN 'configuration'
            WHEN s.is_gone THEN 'gone'
            ELSE 'other' END`;
  return `judged AS (
      SELECT i.*, s.source AS of_source,
        CASE
          WHEN i.aspect = 'existence' AND i.action = 'create' THEN CASE
            WHEN t.name IS NOT NULL AND l.name IS NOT NULL THEN ${returned}
            WHEN t.name IS NOT NULL THEN 'drift'
            WHEN s.is_own OR s.name IS NULL THEN 'configuration'
            WHEN s.was_left THEN 'left out'
            WHEN s.was_other THEN 'rename'
            WHEN s.was_out THEN 'into scope'
            WHEN s.was_doubted THEN 'cleared'
            WHEN s.is_new THEN 'new'
            WHEN ${hasChanged} THEN 'configuration'
            ELSE 'other' END
          WHEN i.aspect = 'existence' THEN CASE WHEN t.name IS NULL THEN 'drift' ELSE ${left(hasGrace)} END
          WHEN i.aspect IN ('joined', 'left') THEN CASE
            WHEN t.name IS NOT NULL AND list_contains(t.group_names, i.grp) = (i.aspect = 'joined') THEN 'drift'
            WHEN g.name IS NOT NULL THEN 'of group'
            WHEN s.was_left THEN 'left out'
            WHEN t.name IS NULL AND s.is_new THEN 'new'
            WHEN t.name IS NULL AND s.was_out THEN 'into scope'
            WHEN n.grp IS NOT NULL OR p.grp IS NOT NULL THEN 'attribute'
            WHEN ${listsChanged} AND s.was_it THEN 'configuration'
            ELSE 'membership' END
          WHEN t.name IS NOT NULL AND i.wanted IS NOT DISTINCT FROM
            CASE i.aspect ${attributes.all.map((each) => `WHEN ${literal(each.name)} THEN ${textOf(each, "t.")}`).join(" ")} END THEN 'drift'
          ${attributes.state === undefined ? "" : `WHEN i.aspect = 'active' AND z.name IS NOT NULL THEN ${left(suspendsLater)}`}
          ${isName === "" ? "" : `WHEN i.aspect IN (${isName}) AND s.was_other THEN 'rename'`}
          ${attributes.state === undefined ? "" : `WHEN i.action = 'reactivate' AND i.aspect = 'active' AND l.name IS NOT NULL THEN ${returned}`}
          WHEN s.was_left THEN 'left out'
          WHEN t.name IS NULL AND s.is_new THEN 'new'
          WHEN t.name IS NULL AND s.was_out THEN 'into scope'
          ELSE 'attribute' END AS guess
      FROM item i
      LEFT JOIN stood s ON s.kind = i.kind AND s.name = i.name
      LEFT JOIN baseline_target t ON t.kind = i.kind AND t.name = i.name
      LEFT JOIN leaving_since l ON l.kind = i.kind AND l.name = i.name
      ${attributes.state === undefined ? "" : "LEFT JOIN suspended z ON z.kind = i.kind AND z.name = i.name"}
      LEFT JOIN (
        SELECT name FROM changes WHERE kind = 'group' AND action <> 'update' AND name NOT IN (
          SELECT name FROM assembled_origin WHERE kind = 'group' AND source = ${literal(ruleSource)}
          UNION SELECT name FROM ledger WHERE kind = 'group' AND source = ${literal(ruleSource)})) g ON g.name = i.grp
      LEFT JOIN rule_membership n ON n.kind = i.kind AND n.name = i.name AND n.grp = ${onlyIf("i.aspect = 'joined'", "i.grp")}
      LEFT JOIN baseline_membership p ON p.kind = i.kind AND p.name = i.name AND p.grp = ${onlyIf("i.aspect = 'left'", "i.grp")})`;
}

/** SQL of what records say otherwise now than at the last run, where that decides about an item: the part that differs. */
function evidence(options: CauseOptions): string {
  const lists = [...groupAttributes].map(literal).join(", ");
  return `
    asked AS (
      SELECT j.item, c.source, c.was_said, c.is_said, relevant.attribute, relevant.pointer,
        coalesce(was_scope = 'unlisted', false) OR coalesce(is_scope = 'unlisted', false) AS is_unlisted
      FROM judged j
      JOIN (FROM concerned WHERE is_said <> was_said) c ON c.kind = j.kind AND c.name = j.name
      JOIN ${relevance(options)} ON relevant.kind = j.kind AND relevant.aspect =
        CASE WHEN j.aspect <> 'existence' THEN j.aspect WHEN j.guess = 'rename' THEN 'name' ELSE 'scope' END
      WHERE j.guess IN ('attribute', 'rename', 'into scope', 'out of scope')),
    named AS (
      SELECT * FROM asked WHERE attribute IS NOT NULL
      UNION ALL
      SELECT * EXCLUDE (key) REPLACE (key AS attribute, ${pointerIn("key")} AS pointer)
      FROM (SELECT *, unnest(list_distinct(json_keys(was_said) || json_keys(is_said))) AS key FROM asked WHERE attribute IS NULL)),
    said AS (
      SELECT DISTINCT item, source, attribute,
        json_extract_string(was_said, pointer) AS was, json_extract_string(is_said, pointer) AS became
      FROM named WHERE attribute NOT IN (${lists}) AND NOT is_unlisted),
    listed AS (
      SELECT DISTINCT item, source, attribute,
        ${groupsAt("was_said")} AS before, ${groupsAt("is_said")} AS after
      FROM named WHERE attribute IN (${lists})),
    membership AS (
      SELECT * EXCLUDE (before, after), unnest(list_filter(before, lambda g: NOT list_contains(after, g))) AS was, NULL AS became
      FROM listed
      UNION ALL
      SELECT * EXCLUDE (before, after), NULL, unnest(list_filter(after, lambda g: NOT list_contains(before, g))) FROM listed),
    changed AS (SELECT item, source, attribute, was, became, was AS whole_was, became AS whole_became FROM said WHERE was <> became),
    -- Little of a DN differs: only that is cut into words, which takes much longer. In many records it is the same.
    ${differing("piece", "changed", piecesOf)},
    pair AS (SELECT DISTINCT was AS piece_was, became AS piece_became, was, became FROM piece),
    ${differing("word", "pair", wordsOf)},
    evidence AS (
      SELECT p.item, p.source, p.attribute, w.was, w.became, p.whole_was, p.whole_became
      FROM piece p JOIN word w ON w.piece_was = p.was AND w.piece_became = p.became
      UNION ALL
      SELECT item, source, attribute, was, became, was, became FROM said WHERE (was IS NULL) <> (became IS NULL)
      UNION ALL
      SELECT item, source, attribute, was, became, was, became FROM membership)`;
}

/** SQL: JSON that the last run stored; NULL where it is not valid, as it was of a lone surrogate in releases before 0.2. */
function ifValid(json: string): string {
  return String.raw`CASE WHEN contains(${json}, '\ud') THEN CASE WHEN json_valid(${json}) THEN ${json} END ELSE ${json} END`;
}

const valueOfAttribute = `json_extract_string(attributes, ${pointerIn("attribute")})`;

/** SQL of the DN above a record, and all above that. */
const containers = String.raw`regexp_extract_all(container, '(?:[^,\\]|\\.)+')`;
const dns = `
      unnest(list_transform(generate_series(1, len(${containers})), lambda i: array_to_string(list_slice(${containers}, i, len(${containers})), ',')))`;

/** What a group that people share is called among the attributes of their records. */
const inGroup = literal(functionAttributes.direct);

/** SQL of all records that there are, or were. */
const population = `(
      SELECT 'new' AS cause, * FROM record WHERE scope = 'in'
      UNION ALL SELECT 'gone', * REPLACE (${ifValid("attributes")} AS attributes) FROM baseline_record WHERE scope = 'in')`;

/**
 * SQL of `shared_by`, for records that came or left together: the attribute and value that they have in common with
 * hardly any other record, the DN above them, or a group that they are in, directly or by other groups; and how many have that.
 * What most have in common explains all of them; of what equally many have, a place or a group comes before an attribute.
 */
const sharedByMoves = `
      WITH RECURSIVE membership AS (
        SELECT 'gone' AS cause, kind, name, unnest(group_names) AS value FROM actual
        UNION ALL SELECT 'new', kind, name, unnest(group_names) FROM desired),
      nested(cause, name, value) AS (
        SELECT cause, name, value FROM membership WHERE kind = 'group'
        UNION
        SELECT n.cause, n.name, m.value FROM nested n JOIN membership m ON m.kind = 'group' AND m.cause = n.cause AND m.name = n.value),
      arrival AS (FROM ${population} SEMI JOIN (FROM explained WHERE ${isMove}) USING (cause, kind, name)),
      fact AS (
        SELECT cause, kind, name, source, attribute, value FROM (
          SELECT *, ${valueOfAttribute} AS value FROM (SELECT *, unnest(json_keys(attributes)) AS attribute FROM arrival))
        WHERE value <> '' AND attribute NOT IN (${[...groupAttributes].map(literal).join(", ")})
        UNION ALL
        SELECT cause, kind, name, source, 'dn', ${dns} FROM arrival WHERE container IS NOT NULL
        UNION ALL
        SELECT cause, kind, name, source, ${inGroup}, value FROM (
          SELECT a.cause, a.kind, a.name, a.source, unnest(coalesce(above.names, []) || [m.value]) AS value
          FROM arrival a JOIN membership m USING (cause, kind, name)
          LEFT JOIN (SELECT cause, name, list(value) AS names FROM nested GROUP BY ALL) above ON above.cause = a.cause AND above.name = m.value
          WHERE a.kind = 'user') GROUP BY ALL),
      candidate AS (
        SELECT cause, source, attribute, value, count(*) AS records FROM fact GROUP BY ALL HAVING records >= ${together.records}),
      asked AS (SELECT DISTINCT cause, source, attribute FROM candidate),
      valued AS (
        SELECT cause, source, attribute, ${valueOfAttribute} AS value FROM ${population} JOIN asked USING (cause, source)),
      placed AS (
        SELECT cause, source, 'dn' AS attribute, ${dns} AS value, entries FROM (
          SELECT cause, source, container, count(*) AS entries FROM ${population} SEMI JOIN asked USING (cause, source)
          WHERE container IS NOT NULL GROUP BY ALL)),
      counted_group AS (
        SELECT below.cause, below.value, count(DISTINCT m.name) AS of
        FROM (
          SELECT DISTINCT cause, value, value AS name FROM candidate WHERE attribute = ${inGroup}
          UNION SELECT n.cause, n.value, n.name FROM nested n SEMI JOIN (FROM candidate WHERE attribute = ${inGroup}) USING (cause, value)) below
        JOIN membership m ON m.cause = below.cause AND m.value = below.name AND m.kind = 'user'
        GROUP BY ALL),
      total AS (
        SELECT cause, source, attribute, value, count(*) AS of FROM valued GROUP BY ALL
        UNION ALL
        SELECT cause, source, attribute, value, sum(entries) FROM placed GROUP BY ALL
        UNION ALL
        SELECT cause, source, attribute, value, g.of FROM candidate JOIN counted_group g USING (cause, value)
        WHERE attribute = ${inGroup}),
      shared AS (
        SELECT cause, source, attribute, value, records, sum(of)::BIGINT AS of
        FROM candidate JOIN total USING (cause, source, attribute, value)
        GROUP BY ALL HAVING records >= ${together.share} * sum(of))
      SELECT f.*, s.of FROM fact f JOIN shared s USING (cause, source, attribute, value)
      QUALIFY row_number() OVER (
        PARTITION BY f.cause, f.kind, f.name ORDER BY s.records DESC, f.attribute IN ('dn', ${inGroup}) DESC, f.attribute = 'dn' DESC, length(f.value) DESC, f.attribute) = 1`;

/** SQL of the names of groups at `pointer` in what a record said. */
function groupsAt(said: string): string {
  return `coalesce(from_json(json_extract(${said}, pointer), '["VARCHAR"]'), []::VARCHAR[])`;
}

/**
 * SQL of `name` and what it needs, for a WITH: the rows of `from` with no more of `was` and `became` than what differs, in whole parts:
 * without those that both begin with, and those of the rest that they end with.
 */
function differing(name: string, from: string, parts: (value: string) => string): string {
  return `
    ${name}_cut AS (SELECT *, ${parts("was")} AS a, ${parts("became")} AS b FROM ${from}),
    ${name}_headed AS (SELECT *, ${sameParts("a", "b")} AS head FROM ${name}_cut),
    ${name}_tailed AS (
      SELECT *, least(${sameParts("list_reverse(a)", "list_reverse(b)")}, len(a) - head, len(b) - head) AS tail FROM ${name}_headed),
    ${name} AS (
      SELECT * EXCLUDE (a, b, head, tail) REPLACE (${middleOf("a")} AS was, ${middleOf("b")} AS became) FROM ${name}_tailed)`;
}

/** SQL of the pieces of a value that end with a comma, as those of a DN do. */
function piecesOf(value: string): string {
  return `string_split(replace(${value}, ',', ',' || chr(1)), chr(1))`;
}

/** SQL of the words of a value: what stands between the signs that DNs, paths, addresses and names are made of, and these. */
function wordsOf(value: string): string {
  return `regexp_extract_all(${value}, '[^,;@/\\s]+|[,;@/\\s]')`;
}

/** SQL of how many parts two lists begin with in common. */
function sameParts(a: string, b: string): string {
  const first = `list_position(list_transform(list_zip(${a}, ${b}), lambda p: p[1] IS NOT DISTINCT FROM p[2]), false)`;
  return `coalesce(${first}::BIGINT - 1, len(${a}))`;
}

/** SQL of a value without the parts that it has in common with the other one. */
function middleOf(parts: string): string {
  return `array_to_string(list_slice(${parts}, head + 1, len(${parts}) - tail), '')`;
}

/**
 * SQL that makes `change_cause` of `explained`, and `cause`, the list of causes. Values that only one change has are rolled up to
 * the attribute, and so are small groups.
 */
const rollUp = `
    CREATE OR REPLACE TEMP TABLE keyed AS
    WITH fitted AS (
      SELECT e.kind, e.name, e.cause,
        CASE WHEN e.cause IN ('configuration', 'drift', 'membership', 'left out', 'other') THEN NULL ELSE coalesce(t.source, e.source) END AS source,
        CASE WHEN e.cause IN ('attribute', 'rename', 'into scope', 'out of scope', 'configuration', 'drift', 'membership', 'new', 'gone') THEN coalesce(t.attribute, e.attribute) END AS attribute,
        CASE WHEN e.cause IN ('attribute', 'rename', 'into scope', 'out of scope') THEN e.was WHEN e.cause = 'gone' THEN t.value END AS was,
        CASE WHEN e.cause IN ('attribute', 'rename', 'into scope', 'out of scope') THEN e.became WHEN e.cause = 'new' THEN t.value END AS became,
        e.whole_was, e.whole_became, t.of
      FROM explained e LEFT JOIN shared_by t ON t.cause = e.cause AND t.kind = e.kind AND t.name = e.name),
    -- Grouped: a window that counts what is different is much slower where there are many items.
    sized AS (
      SELECT cause, source, attribute, was, became, count(*) AS size
      FROM (SELECT DISTINCT cause, source, attribute, was, became, kind, name FROM fitted)
      GROUP BY cause, source, attribute, was, became),
    counted AS (SELECT *, count(*) OVER (PARTITION BY cause, source, attribute) AS values FROM sized),
    rolled AS (
      SELECT f.kind, f.name, f.cause, f.source, f.of, f.whole_was, f.whole_became,
        CASE WHEN c.size >= ${fewest} OR f.cause NOT IN ('membership', 'new', 'gone') THEN f.attribute END AS attribute,
        CASE WHEN c.size >= ${fewest} OR (c.values = 1 AND f.cause NOT IN ('new', 'gone')) THEN f.was END AS was,
        CASE WHEN c.size >= ${fewest} OR (c.values = 1 AND f.cause NOT IN ('new', 'gone')) THEN f.became END AS became
      FROM fitted f JOIN counted c ON c.cause = f.cause AND ${isSame("c", "f")}),
    large AS (
      SELECT cause, source, attribute, was, became FROM rolled GROUP BY cause, source, attribute, was, became
      QUALIFY row_number() OVER (ORDER BY count(DISTINCT (kind, name)) DESC) <= ${most})
    SELECT r.kind, r.name, r.whole_was, r.whole_became, coalesce(l.cause, 'other') AS cause, l.source, l.attribute, l.was, l.became,
      CASE WHEN l.attribute IS NOT NULL AND coalesce(l.was, l.became) IS NOT NULL THEN r.of END AS of
    FROM rolled r LEFT JOIN large l ON l.cause = r.cause AND ${isSame("l", "r")};
    CREATE OR REPLACE TEMP TABLE cause AS
    SELECT 'c' || row_number() OVER (
        ORDER BY count(DISTINCT (kind, name)) DESC, cause, source, attribute, was, became) AS id,
      cause AS kind, source, attribute, was, became,
      count(DISTINCT name) FILTER (kind = 'user') AS users, count(DISTINCT name) FILTER (kind = 'group') AS groups,
      min_by(name, (kind, name)) AS example, min_by(kind, (kind, name)) AS example_kind, any_value(of) AS of,
      min(whole_was) AS whole_was, min(whole_became) AS whole_became,
      min(whole_was) IS DISTINCT FROM max(whole_was) OR min(whole_became) IS DISTINCT FROM max(whole_became) AS differ
    FROM keyed GROUP BY cause, source, attribute, was, became;
    CREATE OR REPLACE TEMP TABLE change_cause AS
    SELECT k.kind, k.name, list(DISTINCT c.id ORDER BY c.id) AS causes FROM keyed k
    JOIN cause c ON c.kind = k.cause AND ${isSame("c", "k")}
    GROUP BY k.kind, k.name`;

/** An SQL condition: two rows have the same source, attribute and values. */
function isSame(a: string, b: string): string {
  return ["source", "attribute", "was", "became"]
    .map((column) => `${a}.${column} IS NOT DISTINCT FROM ${b}.${column}`)
    .join(" AND ");
}

interface CauseRow {
  readonly id: string;
  readonly kind: CauseKind;
  readonly source: string | null;
  readonly attribute: string | null;
  readonly was: string | null;
  readonly became: string | null;
  readonly whole_was: string | null;
  readonly whole_became: string | null;
  readonly differ: boolean;
  readonly of: bigint | null;
  readonly users: bigint;
  readonly groups: bigint;
  readonly example: string;
  readonly example_kind: Kind;
}

/** The cause in words: `department changed from "Sales" to "Revenue" (corp)`. */
export function describeCause(cause: Omit<Cause, "example">): string {
  const { kind, source, attribute = "" } = cause;
  const [from, to] = [shownValue(cause, "from"), shownValue(cause, "to")];
  const of = source === undefined ? "" : ` (${source})`;
  const step = groupAttributes.has(attribute) ? groupStep(attribute, from, to) : attributeStep(attribute, from, to);
  switch (kind) {
    case "first":
      return "first run of this sync: there is nothing to compare with";
    case "new":
      if (source === ruleSource) return "groups that rules make (groupsFromRules)";
      return `new in ${source ?? "the source"}${ofTogether(cause)}`;
    case "gone":
      if (source === ruleSource) return "groups made by rules have no members any more (groupsFromRules)";
      return `gone from ${source ?? "the source"}${ofTogether(cause)}`;
    case "grace":
      return `the grace period ended${of}`;
    case "attribute":
      return `${step}${of}`;
    case "rename":
      return `renamed: ${step}${of}`;
    case "into scope":
      return attribute === "" ? `came into scope of the rules${of}` : `came into scope: ${step}${of}`;
    case "out of scope":
      return attribute === "" ? `left the scope of the rules${of}` : `left the scope: ${step}${of}`;
    case "cleared":
      return `no longer quarantined${of}`;
    case "membership":
      return attribute === ""
        ? "members of groups changed in the source"
        : `members of ${attribute} changed in the source`;
    case "configuration":
      return attribute === "" ? "the configuration" : `the configuration changed: ${attribute}`;
    case "drift":
      return `somebody changed the target: ${attribute === "existence" ? "principals" : attribute}`;
    case "left out":
      return "left out of an earlier plan, or undone";
    case "other":
    default:
      return kind;
  }
}

/** The whole value where all have it, or the part that differs, between dots. */
function shownValue({ partial, whole, ...values }: Omit<Cause, "example">, side: "from" | "to"): string | undefined {
  const part = values[side];
  if (whole !== undefined) return whole[side];
  return partial === true && part !== undefined && part !== "" ? `…${part}…` : part;
}

/** `: 99 of the 100 below "ou=Sales,dc=example,dc=com"`. */
function ofTogether({ attribute, from, to = from, of, users, groups }: Omit<Cause, "example">): string {
  if (of === undefined || to === undefined) return "";
  const part =
    users + groups >= of ? `all ${formatNumber(of)}` : `${formatNumber(users + groups)} of the ${formatNumber(of)}`;
  const where =
    attribute === "dn" ? "below" : groupAttributes.has(attribute ?? "") ? "in the group" : `with the ${attribute}`;
  return `: ${part} ${where} ${quote(to)}`;
}

function attributeStep(attribute: string, from: string | undefined, to: string | undefined): string {
  const changed = `${attribute} changed`;
  // A part that all of them lack on one side.
  if (from === "" && to !== undefined) return `${changed}: ${quote(to)} was added`;
  if (to === "" && from !== undefined) return `${changed}: ${quote(from)} was removed`;
  if (from === undefined) return to === undefined ? changed : `${changed} to ${quote(to)}`;
  return `${changed} from ${quote(from)} to ${to === undefined ? "nothing" : quote(to)}`;
}

/** A change of one group that a list of the scope or a rule asks for. */
function groupStep(attribute: string, from: string | undefined, to: string | undefined): string {
  if (from !== undefined) return `no longer in the group ${quote(from)}`;
  return to === undefined
    ? `memberships in groups of the source changed (${attribute})`
    : `now in the group ${quote(to)}`;
}

/** How much a cause explains: `387 users and 2 groups`. */
export function amountOf({ users, groups }: Pick<Cause, "users" | "groups">): string {
  const parts = [...(users > 0 ? [pluralize(users, "user")] : []), ...(groups > 0 ? [pluralize(groups, "group")] : [])];
  return parts.join(" and ") || formatNumber(0);
}
