import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { InputError } from "#errors.ts";
import { nearest, nfc, patternExpression, quote } from "#text.ts";
import type { SourceGroups } from "./entry.ts";
import type { Kind } from "./principal.ts";
import { componentsOf } from "./cycles.ts";
import type { GroupMembership } from "./cycles.ts";
import { statedReferences } from "./references.ts";
import type { Rules } from "./rules.ts";
import { assemblyTables } from "./tables.ts";
import type { Yielder } from "./yield.ts";

/** A list of patterns for names of the source's groups that decides who is in scope. */
export interface ScopeList {
  /** Where it stands: `users.onlyMembersOf`. */
  readonly key: string;
  readonly kind: Kind;
  /** Who is in scope: those in one of the groups, or those in none of them. */
  readonly takes: "members" | "others";
  /** Names; `*` stands for any characters. */
  readonly patterns: readonly string[];
  /** Whether who is in a group of a group counts as in it. */
  readonly nested: boolean;
}

/** Where lists can stand. */
export const scopeKeys: ReadonlySet<string> = new Set([
  "users.onlyMembersOf",
  "users.notMembersOf",
  "groups.onlyBelow",
  "groups.notBelow",
]);

/** The lists of a sync. */
export function scopeListsOf({ users, groups }: Pick<Rules, "users" | "groups">): ScopeList[] {
  const list = (rest: Omit<ScopeList, "patterns">, patterns: readonly string[] | undefined): ScopeList[] =>
    patterns === undefined ? [] : [{ ...rest, patterns: patterns.map(nfc) }];
  const { nested = false } = users;
  return [
    ...list({ key: "users.onlyMembersOf", kind: "user", takes: "members", nested }, users.onlyMembersOf),
    ...list({ key: "users.notMembersOf", kind: "user", takes: "others", nested }, users.notMembersOf),
    ...list({ key: "groups.onlyBelow", kind: "group", takes: "members", nested: true }, groups?.onlyBelow),
    ...list({ key: "groups.notBelow", kind: "group", takes: "others", nested: true }, groups?.notBelow),
  ];
}

/** What rules ask about the groups of entries. */
export interface GroupQuestions {
  readonly lists: readonly ScopeList[];
  /** The kinds that have a rule which calls `memberOf(entry)`, or `nestedMemberOf(entry)`. */
  readonly direct: readonly Kind[];
  readonly nested: readonly Kind[];
}

/** Whether a rule needs the names of groups. */
export function asksNames({ direct, nested }: GroupQuestions): boolean {
  return direct.length + nested.length > 0;
}

/**
 * Finds the groups that entries are in, before rules have judged any: so groups that the rules exclude count, too. Makes
 * the tables from `identity` to `component_above`; all cycles of groups are harmless.
 *
 * A membership is uncertain where a key may mean one of several groups. So is a group's name that a rule fails to give.
 * @param identities a query of `(seq, kind, person)`: the staged records that count, and the entry that each belongs to
 */
export async function findGroups(
  connection: Connection,
  identities: string,
  { lists, direct, nested }: GroupQuestions,
  yielder: Yielder,
): Promise<void> {
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE identity AS ${identities};
    CREATE OR REPLACE TEMP TABLE key_holder AS
    SELECT source, kind, key, seq, person, min(person) OVER shared <> max(person) OVER shared AS is_shared
    FROM staged_key JOIN (SELECT seq, person FROM identity) USING (seq) WINDOW shared AS (PARTITION BY source, kind, key);
    CREATE OR REPLACE TEMP TABLE stated AS
    WITH ${statedReferences}
    SELECT r.source, r.member, r.member_key, r.grp, r.group_key,
      coalesce(r.given_kind, CASE WHEN u.key IS NULL THEN 'group' ELSE 'user' END) AS member_kind
    FROM reference r LEFT JOIN (SELECT DISTINCT source, key FROM key_holder WHERE kind = 'user') u
      ON u.source = r.source AND u.key = r.member_key;
    CREATE OR REPLACE TEMP TABLE mentioned_group AS
    SELECT source, group_key AS key, (-row_number() OVER (ORDER BY source, group_key))::INTEGER AS grp FROM (
      SELECT DISTINCT source, group_key FROM stated WHERE group_key IS NOT NULL) m
    ANTI JOIN (FROM key_holder WHERE kind = 'group') h ON h.source = m.source AND h.key = m.group_key;
    CREATE OR REPLACE TEMP TABLE source_group AS
    SELECT person AS grp, min_by(name, seq) AS name FROM staged_group JOIN identity USING (seq) GROUP BY person
    UNION ALL SELECT grp, key FROM mentioned_group;
    CREATE OR REPLACE TEMP TABLE source_membership AS
    WITH told AS (
      SELECT s.source, i.kind, i.seq, i.person AS member, true AS is_certain, s.grp, s.group_key
      FROM stated s JOIN identity i ON i.seq = s.member
      UNION ALL
      SELECT s.source, h.kind, h.seq, h.person, h.kind = 'user' OR NOT h.is_shared, s.grp, s.group_key
      FROM stated s JOIN key_holder h ON h.source = s.source AND h.kind = s.member_kind AND h.key = s.member_key)
    SELECT DISTINCT kind, seq, member, grp, is_certain FROM (
      SELECT t.kind, t.seq, t.member, i.person AS grp, t.is_certain FROM told t JOIN identity i ON i.seq = t.grp
      UNION ALL
      SELECT t.kind, t.seq, t.member, h.person, t.is_certain AND NOT h.is_shared
      FROM told t JOIN key_holder h ON h.kind = 'group' AND h.source = t.source AND h.key = t.group_key
      UNION ALL
      SELECT t.kind, t.seq, t.member, m.grp, t.is_certain
      FROM told t JOIN mentioned_group m ON m.source = t.source AND m.key = t.group_key);
    CREATE OR REPLACE TEMP TABLE group_of_group AS
    SELECT member, grp, bool_or(is_certain) AS is_certain FROM source_membership WHERE kind = 'group' GROUP BY ALL`);
  await reachLists(connection, lists);
  await collectNames(connection, { direct, nested }, yielder);
}

/** Makes `scope_reach` and `scope_way` of the lists. */
async function reachLists(connection: Connection, lists: readonly ScopeList[]): Promise<void> {
  const nested = lists.flatMap((list, place) => (list.nested ? [place] : []));
  const roots = lists.map(
    ({ patterns }, place) => `
      SELECT ${place} AS list, name, grp, true AS is_certain FROM source_group WHERE ${matchesAny("name", patterns)}
      UNION ALL SELECT ${place}, NULL, grp, false FROM source_group WHERE name IS NULL`,
  );
  const places = (kind: Kind): string =>
    lists.flatMap((list, place) => (list.kind === kind ? [place] : [])).join(", ") || "-1";
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE scope_reach AS
    WITH RECURSIVE reach(list, name, grp, is_certain) AS (
      FROM (${roots.join(" UNION ALL ") || "SELECT 0, '', 0, true WHERE false"})
      UNION
      SELECT r.list, r.name, m.member, r.is_certain AND m.is_certain
      FROM reach r JOIN group_of_group m ON m.grp = r.grp WHERE r.list IN (${nested.join(", ") || "-1"}))
    FROM reach;
    CREATE OR REPLACE TEMP TABLE scope_way AS
    SELECT r.list, m.seq, m.member AS person, r.name, bool_or(r.is_certain AND m.is_certain) AS is_certain
    FROM scope_reach r JOIN source_membership m ON m.grp = r.grp
    WHERE r.list IN (${places("user")}) AND m.kind = 'user' GROUP BY ALL
    UNION ALL
    SELECT r.list, i.seq, i.person, r.name, bool_or(r.is_certain)
    FROM scope_reach r JOIN identity i ON i.person = r.grp
    WHERE r.list IN (${places("group")}) GROUP BY ALL;
    CREATE OR REPLACE TEMP TABLE scope_verdict AS
    WITH list(list, key, kind, takes) AS (
      VALUES ${lists.map(({ key, kind, takes }, place) => `(${place}, '${key}', '${kind}', '${takes}')`).join(", ") || "(-1, '', '', '')"}),
    way AS (SELECT list, person, bool_or(is_certain) AS is_certain FROM scope_way GROUP BY ALL),
    judged AS (
      SELECT e.person, l.key, CASE l.takes
        WHEN 'members' THEN CASE WHEN w.person IS NULL THEN 'out' WHEN NOT w.is_certain THEN 'unknown' END
        ELSE CASE WHEN w.is_certain THEN 'out' WHEN NOT w.is_certain THEN 'unknown' END END AS state
      FROM (SELECT DISTINCT person, kind FROM identity) e JOIN list l USING (kind)
      LEFT JOIN way w ON w.list = l.list AND w.person = e.person)
    SELECT person, bool_or(state = 'out') AS is_out,
      string_agg(key || ': ' || ${literal(uncertain)}, '; ' ORDER BY key) FILTER (state = 'unknown') AS reason
    FROM judged WHERE state IS NOT NULL GROUP BY person`);
}

/** Why it is unknown who is in scope. */
const uncertain =
  "a reference to a group is ambiguous, or a group has no name, so it is unknown whether it is in one of these";

/** Makes the tables from `entry_group` to `component_above`, for entries of these kinds alone. */
async function collectNames(
  connection: Connection,
  { direct, nested }: Pick<GroupQuestions, "direct" | "nested">,
  yielder: Yielder,
): Promise<void> {
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE entry_group AS
    SELECT m.member AS person, m.seq, g.name, bool_or(g.name IS NOT NULL AND m.is_certain) AS is_certain
    FROM source_membership m JOIN source_group g USING (grp) WHERE m.${isOf(direct)} GROUP BY ALL ORDER BY person`);
  // Only a group that has groups and is in one can be in a cycle.
  const components = await componentsOf(
    connection.batches<GroupMembership>(`
      SELECT member, grp FROM group_of_group WHERE is_certain AND ${nested.length > 0}
        AND member IN (SELECT grp FROM group_of_group) AND grp IN (SELECT member FROM group_of_group)`),
    yielder,
  );
  const columns = [[...components.keys()], [...components.values()]].map((numbers) => JSON.stringify(numbers));
  await connection.run(
    `CREATE OR REPLACE TEMP TABLE group_component AS
     WITH cycle AS (
       SELECT unnest(from_json($1, '["INTEGER"]')) AS grp, unnest(from_json($2, '["INTEGER"]')) AS component)
     SELECT g.grp, coalesce(c.component, g.grp) AS component, g.name FROM source_group g LEFT JOIN cycle c USING (grp)`,
    columns,
  );
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE entry_component AS
    SELECT m.member AS person, m.seq, c.component, bool_or(m.is_certain) AS is_certain
    FROM source_membership m JOIN group_component c USING (grp) WHERE m.${isOf(nested)} GROUP BY ALL ORDER BY person;
    CREATE OR REPLACE TEMP TABLE entry_components AS
    SELECT person, string_agg(record, ';' ORDER BY record) AS key FROM (
      SELECT person, string_agg(component || CASE WHEN is_certain THEN '' ELSE '?' END, ',' ORDER BY component) AS record
      FROM entry_component GROUP BY person, seq)
    GROUP BY person ORDER BY person;
    CREATE OR REPLACE TEMP TABLE component_of_component AS
    SELECT b.component AS member, a.component, bool_or(m.is_certain) AS is_certain
    FROM group_of_group m JOIN group_component b ON b.grp = m.member JOIN group_component a ON a.grp = m.grp GROUP BY ALL;
    CREATE OR REPLACE TEMP TABLE component_above AS
    WITH RECURSIVE up(component, above, is_certain) AS (
      SELECT DISTINCT component, component, true FROM entry_component
      UNION
      SELECT u.component, m.component, u.is_certain AND m.is_certain
      FROM up u JOIN component_of_component m ON m.member = u.above)
    SELECT component, above, bool_or(is_certain) AS is_certain FROM up GROUP BY ALL ORDER BY component`);
}

/** An SQL condition: the entry is of one of the kinds. */
function isOf(kinds: readonly Kind[]): string {
  return `kind IN (${kinds.map(literal).join(", ") || "''"})`;
}

/**
 * A pattern that no group has anything to do with would take everybody out of scope, or let everybody in: a group was
 * renamed, or the pattern is misspelled.
 * @throws {InputError} naming each
 */
export async function refuseUnmatched(connection: Connection, lists: readonly ScopeList[]): Promise<void> {
  const problems: string[] = [];
  for (const { key, patterns } of lists) {
    const found = await connection.rows<{ pattern: string; matched: boolean }>(`
      SELECT pattern, EXISTS (FROM source_group WHERE regexp_full_match(name, expression, 's')) AS matched
      FROM (VALUES ${patterns.map((each) => `(${literal(each)}, ${literal(patternExpression(each))})`).join(", ")}) p(pattern, expression)`);
    for (const { pattern, matched } of found)
      if (!matched) problems.push(`${key}: no group matches ${quote(pattern)}; ${await hint(connection, pattern)}`);
  }
  if (problems.length === 0) return;
  throw new InputError("the scope names groups that no source has; nothing was changed", {
    problems: problems.concat("correct the pattern, or remove it if the group is gone for good"),
  });
}

/** How many names are compared with a pattern. */
const compared = 1000;

async function hint(connection: Connection, pattern: string): Promise<string> {
  const bare = pattern.replaceAll("*", "");
  const rows = await connection.rows<{ name: string }>(`
    SELECT DISTINCT name FROM source_group WHERE name IS NOT NULL
    ORDER BY jaro_winkler_similarity(lower(name), lower(${literal(bare)})) DESC, name LIMIT ${compared}`);
  const names = rows.map(({ name }) => name);
  if (names.length === 0) return "the sources have no groups";
  const meant = nearest(bare, names) ?? names[0] ?? "";
  return `there is ${quote(meant)}`;
}

/** An SQL condition: the column matches one of the patterns. */
function matchesAny(column: string, patterns: readonly string[]): string {
  return `regexp_full_match(${column}, ${literal(patterns.map(patternExpression).join("|"))}, 's')`;
}

/** How many names are kept for entries in the same groups. */
const mostNames = 1_000_000;

/** The groups of entries, for the rules that ask. Entries in the same groups share a list of those around them. */
export class EntryGroups {
  readonly #connection: Connection;
  /** By the key of `entry_components`; undefined where that is uncertain. */
  readonly #around = new Map<string, readonly string[] | undefined>();
  #names = 0;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** @param entries their numbers, as in `entry_group.person` */
  async of(entries: readonly number[]): Promise<ReadonlyMap<number, SourceGroups>> {
    if (entries.length === 0) return new Map();
    const within = `person BETWEEN ${Math.min(...entries)} AND ${Math.max(...entries)}`;
    const direct = await this.#connection.rows<{ person: number; names: readonly string[] | null; certain: boolean }>(`
      SELECT person, list(DISTINCT name ORDER BY name) FILTER (name IS NOT NULL) AS names, bool_and(is_certain) AS certain
      FROM entry_group WHERE ${within} GROUP BY person`);
    const nested = await this.#connection.rows<{ person: number; key: string }>(`
      SELECT person, key FROM entry_components WHERE ${within}`);
    await this.#lookUp(new Set(nested.map(({ key }) => key)));
    const groups = new Map<number, SourceGroups>();
    for (const { person, names, certain } of direct)
      groups.set(person, { direct: certain ? (names ?? []) : undefined, nested: [] });
    for (const { person, key } of nested)
      groups.set(person, { direct: [], ...groups.get(person), nested: this.#around.get(key) });
    return groups;
  }

  /** Finds what is not known yet. */
  async #lookUp(keys: ReadonlySet<string>): Promise<void> {
    if (this.#names > mostNames) {
      this.#around.clear();
      this.#names = 0;
    }
    const unknown = [...keys].filter((key) => !this.#around.has(key));
    if (unknown.length === 0) return;
    const rows = await this.#connection.rows<{ key: string; names: readonly string[] | null; certain: boolean }>(
      `WITH part AS (
         SELECT key, record, rtrim(part, '?')::INTEGER AS component, NOT ends_with(part, '?') AS is_certain
         FROM (SELECT key, record, unnest(string_split(record, ',')) AS part FROM (
           SELECT key, unnest(string_split(key, ';')) AS record FROM (SELECT unnest(from_json($1, '["VARCHAR"]')) AS key)))),
       named AS (
         SELECT p.key, p.record, g.name, bool_or(g.name IS NOT NULL AND p.is_certain AND a.is_certain) AS is_certain
         FROM part p JOIN component_above a USING (component) JOIN group_component g ON g.component = a.above GROUP BY ALL)
       SELECT key, list(DISTINCT name ORDER BY name) FILTER (name IS NOT NULL) AS names, bool_and(is_certain) AS certain
       FROM named GROUP BY key`,
      [JSON.stringify(unknown)],
    );
    for (const { key, names, certain } of rows) {
      this.#around.set(key, certain ? (names ?? []) : undefined);
      this.#names += names?.length ?? 0;
    }
  }
}

/** What a list says of one entry. */
export interface ScopeTrace {
  /** `users.onlyMembersOf`. */
  readonly list: string;
  readonly patterns: readonly string[];
  readonly nested: boolean;
  /** For each matching group that it is in, the shortest way there: it is in the first, which is in the second … */
  readonly ways: readonly (readonly string[])[];
  /** What the list says: in scope, not in scope, or unknown. */
  readonly says: "in" | "out" | "unknown";
}

/** `sales-eu, which is in app-sales`. */
export function describeWay(way: readonly string[]): string {
  return way.join(", which is in ");
}

/** The most ways and groups that are told of one entry. */
const told = 20;

/** What the lists say of one entry, and the groups that it is directly in. */
export async function scopeOfEntry(
  connection: Connection,
  person: number,
  kind: Kind,
  lists: readonly ScopeList[],
): Promise<{ readonly scope: readonly ScopeTrace[]; readonly groups: readonly string[] }> {
  const scope: ScopeTrace[] = [];
  const direct = await connection.rows<{ grp: number; name: string | null }>(`
    SELECT DISTINCT grp, g.name FROM source_membership m JOIN source_group g USING (grp) WHERE m.member = ${person}
    ORDER BY name LIMIT 1000`);
  for (const [place, list] of lists.entries()) {
    if (list.kind !== kind) continue;
    const [row] = await connection.rows<{ found: boolean; certain: boolean | null }>(`
      SELECT count(*) > 0 AS found, bool_or(is_certain) AS certain FROM scope_way WHERE list = ${place} AND person = ${person}`);
    const isMember = row?.certain ?? false;
    const ways = isMember ? await waysTo(connection, { place, nested: list.nested, kind, person, direct }) : [];
    const says = row?.found === true && !isMember ? "unknown" : isMember === (list.takes === "members") ? "in" : "out";
    scope.push({ list: list.key, patterns: list.patterns, nested: list.nested, ways, says });
  }
  return { scope, groups: direct.slice(0, told).flatMap(({ name }) => name ?? []) };
}

/** Breadth first, from the groups it is in upwards, so that each way is a shortest one. */
async function waysTo(
  connection: Connection,
  {
    place,
    nested,
    kind,
    person,
    direct,
  }: {
    readonly place: number;
    readonly nested: boolean;
    readonly kind: Kind;
    readonly person: number;
    readonly direct: readonly { readonly grp: number; readonly name: string | null }[];
  },
): Promise<string[][]> {
  const [self] =
    kind === "user"
      ? []
      : await connection.rows<{ grp: number; name: string | null }>(
          `SELECT grp, name FROM source_group WHERE grp = ${person}`,
        );
  const start = self === undefined ? direct : [self];
  const ways = new Map(start.map(({ grp, name }) => [grp, [name ?? "?"]]));
  let frontier = nested ? [...ways.keys()] : [];
  while (frontier.length > 0) {
    const rows = await connection.rows<{ member: number; grp: number; name: string | null }>(`
      SELECT m.member, m.grp, g.name FROM group_of_group m JOIN source_group g USING (grp)
      WHERE m.is_certain AND m.member IN (${frontier.join(", ")}) ORDER BY ALL`);
    frontier = [];
    for (const { member, grp, name } of rows) {
      if (ways.has(grp)) continue;
      ways.set(grp, [...(ways.get(member) ?? []), name ?? "?"]);
      frontier.push(grp);
    }
  }
  if (ways.size === 0) return [];
  const roots = await connection.rows<{ grp: number }>(`
    SELECT DISTINCT g.grp FROM source_group g SEMI JOIN scope_reach r ON r.list = ${place} AND r.name = g.name
    WHERE g.grp IN (${[...ways.keys()].join(", ")}) LIMIT ${told}`);
  return roots.flatMap(({ grp }) => [ways.get(grp) ?? []]);
}

/** How what is in an entry's groups is called beside its attributes, in `record`. */
export const groupAttributes = { direct: "memberOf(entry)", nested: "nestedMemberOf(entry)" } as const;

/**
 * Makes `said_group`: the groups that decided about each record, as JSON, by list or function.
 * @param questions absent: nobody wants to know
 * @param slice how many records are looked at at a time: DuckDB cannot spill the lists that it is making
 */
export async function collectSaid(
  connection: Connection,
  questions: GroupQuestions | undefined,
  slice: number,
): Promise<void> {
  await connection.run(`CREATE OR REPLACE TEMP TABLE said_group (${assemblyTables.said_group})`);
  if (questions === undefined) return;
  const keys = questions.lists.map(({ key }, place) => `(${place}, ${literal(key)})`).join(", ") || "(-1, '')";
  const [last] = await connection.rows<{ seq: number | null }>("SELECT max(seq) AS seq FROM identity");
  for (let from = 0; from <= (last?.seq ?? 0); from += slice) {
    const within = `seq >= ${from} AND seq < ${from + slice}`;
    await connection.run(`
      INSERT INTO said_group
      WITH record AS MATERIALIZED (
        SELECT seq, string_agg(component, ',' ORDER BY component) AS components FROM entry_component
        WHERE is_certain AND ${within} GROUP BY seq),
      around AS (
        SELECT components, list(DISTINCT g.name ORDER BY g.name)::JSON AS names
        FROM (SELECT components, unnest(string_split(components, ','))::INTEGER AS component FROM (SELECT DISTINCT components FROM record))
        JOIN component_above a USING (component) JOIN group_component g ON g.component = a.above
        WHERE a.is_certain AND g.name IS NOT NULL GROUP BY components)
      SELECT seq, json_group_object(attribute, names)::VARCHAR FROM (
        SELECT seq, attribute, list(DISTINCT name ORDER BY name)::JSON AS names FROM (
          SELECT seq, key AS attribute, name FROM scope_way JOIN (VALUES ${keys}) l(list, key) USING (list)
          WHERE is_certain AND ${within}
          UNION ALL
          SELECT seq, ${literal(groupAttributes.direct)}, name FROM entry_group WHERE is_certain AND ${within})
        GROUP BY ALL
        UNION ALL
        SELECT seq, ${literal(groupAttributes.nested)}, names FROM record JOIN around USING (components))
      GROUP BY seq`);
  }
}

/** How many users and groups lists leave out, and which lists there are. */
export interface Unlisted {
  readonly users: number;
  readonly groups: number;
  readonly lists: readonly string[];
}

export async function countUnlisted(
  connection: Connection,
  lists: readonly ScopeList[],
): Promise<Unlisted | undefined> {
  if (lists.length === 0) return undefined;
  const [row] = await connection.rows<Record<"users" | "groups", bigint>>(`
    SELECT count(DISTINCT person) FILTER (kind = 'user') AS users, count(DISTINCT person) FILTER (kind = 'group') AS groups
    FROM identity SEMI JOIN (FROM scope_verdict WHERE is_out) USING (person)`);
  return { users: Number(row?.users ?? 0), groups: Number(row?.groups ?? 0), lists: lists.map(({ key }) => key) };
}

/** Adds to `lost_reference` the members that groups of the lists name and nobody is: they may have moved during the read. */
export async function addMissedMembers(connection: Connection): Promise<void> {
  await connection.run(`
    INSERT INTO lost_reference
    SELECT DISTINCT o.name, s.member_key, ${literal(scopeKind)}, g.name
    FROM (FROM stated ANTI JOIN staged_key k ON k.source = stated.source AND k.key = stated.member_key
      WHERE member_key IS NOT NULL) s
    JOIN staged_source o USING (source)
    LEFT JOIN identity i ON i.seq = s.grp
    LEFT JOIN key_holder h ON h.kind = 'group' AND h.source = s.source AND h.key = s.group_key
    JOIN source_group g ON g.grp = coalesce(i.person, h.person)
    WHERE g.grp IN (SELECT grp FROM scope_reach)`);
}

/** The kind, in `lost_reference`, of a group that decides who is in scope; its name is the source's. */
export const scopeKind = "scope";
