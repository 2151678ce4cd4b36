import { interruptible, literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { IncompleteReadError } from "#errors.ts";
import { shrinkHeap } from "#heap.ts";
import { nfc, quote, visible } from "#text.ts";
import { columnOf, sqlOf } from "./attributes.ts";
import type { CompiledRules } from "./compile.ts";
import { giveNames } from "./names.ts";
import type { KnownNames, Numbered } from "./names.ts";
import type { Kind } from "./principal.ts";
import {
  createHeld,
  holdAmbiguous,
  holdAmbiguousJoins,
  holdHiddenReferences,
  holdRuleGroupNames,
  inMessage,
} from "./quarantine.ts";
import { createLinks, findCutLists, noUnresolved, unresolvedLinks } from "./references.ts";
import type { CutLists, Unresolved } from "./references.ts";
import { addMissedMembers, collectSaid, countUnlisted } from "./scope.ts";
import type { Unlisted } from "./scope.ts";
import { stage } from "./stage.ts";
import type { OpenSource, Staged, StageOptions } from "./stage.ts";
import { assembledOf, assemblyTables, ownSource, ruleSource, stagedTables } from "./tables.ts";
import { Yielder } from "./yield.ts";

export interface AssemblyOptions extends StageOptions {
  /** The names that are known beside those of the records, for rules that ask for unique ones. Absent: none. */
  readonly known?: KnownNames | undefined;
  /** The target takes names that differ in case alone for the same: records that share one are quarantined. */
  readonly ignoresCase?: boolean | undefined;
}

/** A record of a source that does not become a principal. */
export interface QuarantinedRecord {
  /** The principal's name, when that much is known. */
  readonly name?: string | undefined;
  readonly sourceId: string;
  readonly origin: string;
}

/** Records that are quarantined for one reason. */
export interface QuarantineReason {
  /** Where the reasons of the records differ only in a value, that is `"…"`. */
  readonly reason: string;
  readonly kind: Kind;
  readonly count: number;
  /** The first few. */
  readonly examples: readonly QuarantinedRecord[];
}

/** The entries of which it is unknown what they become. */
export interface Quarantined {
  readonly count: number;
  /** Why, the most frequent reasons first. */
  readonly reasons: readonly QuarantineReason[];
  /** How many records have one of the reasons beyond these. */
  readonly more: number;
}

/** What the staged records amount to. */
interface Resolution {
  readonly users: number;
  readonly groups: number;
  readonly quarantined: Quarantined;
  /** References that make no membership. */
  readonly unresolved: Unresolved;
  /** Groups that a server may have cut; absent where no group is of such a size. */
  readonly cutLists?: readonly CutLists[] | undefined;
  /** Whom lists of groups leave out; absent without such lists. */
  readonly unlisted?: Unlisted | undefined;
}

/** What became of the records. Every entry is a user, a group, excluded or quarantined. */
export interface Assembly extends Resolution, Staged {
  /** Those that get another name for the first time. Absent: the rules ask for no unique names. */
  readonly numbered?: Numbered | undefined;
}

const noNames: KnownNames = {
  owned: "SELECT '' AS kind, '' AS name, '' AS source, '' AS source_id WHERE false",
  present: "SELECT '' AS kind, '' AS name WHERE false",
};

/** Reads the sources, and makes principals of their records: `readRecords` and `assembleRecords` in one. */
export async function assemble(
  connection: Connection,
  sources: readonly OpenSource[],
  rules: CompiledRules,
  options: AssemblyOptions,
): Promise<Assembly> {
  const staged = await readRecords(connection, sources, rules, options);
  return assembleRecords(connection, sources, rules, staged, options);
}

/**
 * Reads the sources into `stagedTables`, with what the rules make of each record. After an error the tables are gone.
 * @throws the error of a source, or the signal's reason
 */
export async function readRecords(
  connection: Connection,
  sources: readonly OpenSource[],
  rules: CompiledRules,
  options: StageOptions,
): Promise<Staged> {
  try {
    return await interruptible(connection, options.signal, () => stage(connection, sources, rules, options));
  } catch (error) {
    await drop(connection, { ...stagedTables, ...assembledOf(rules.declared) });
    throw error;
  } finally {
    await connection.returnMemory();
  }
}

/**
 * Makes principals of the records that were read: the tables of `assembledOf`, and a summary. The staged tables are gone
 * then; after an error, all of them.
 *
 * Keys mean something only within their source. Entries that the rules exclude count as absent: they make no id, name or
 * key ambiguous. Memberships in quarantined groups are left out, since those groups keep the members that they have in
 * the target: unknown is not absent. All text is in Unicode Normalization Form C.
 *
 * Nothing that grows with the directory is held in JavaScript.
 * @throws {IncompleteReadError} a record came twice; or the signal's reason
 */
export async function assembleRecords(
  connection: Connection,
  sources: readonly Pick<OpenSource, "name" | "uniqueIds">[],
  rules: CompiledRules,
  staged: Staged,
  options: AssemblyOptions,
): Promise<Assembly> {
  const { signal } = options;
  try {
    return await interruptible(connection, signal, async () => {
      await refuseRepeated(
        connection,
        sources.filter(({ uniqueIds }) => uniqueIds).map(({ name }) => name),
      );
      const numbered =
        Object.keys(rules.namings).length === 0
          ? undefined
          : await giveNames(connection, rules.namings, options.known ?? noNames, {
              ignoresCase: options.ignoresCase ?? false,
              yielder: new Yielder(signal),
            });
      const read = staged.sources.reduce((sum, { users, groups }) => sum + users + groups, 0);
      const resolution = await resolve(connection, rules, { ...options, isLarge: read >= large });
      await options.observer?.assembled(connection);
      signal.throwIfAborted();
      return { ...staged, ...resolution, ...(numbered === undefined ? {} : { numbered }) };
    });
  } catch (error) {
    await drop(connection, assembledOf(rules.declared));
    throw error;
  } finally {
    await drop(connection, { ...stagedTables, ...assemblyTables });
    await connection.returnMemory();
  }
}

/**
 * A record that comes twice took the place of one that did not come: pages overlap, or it moved while it was read.
 * @param sources names of those that deliver every record once
 * @throws {IncompleteReadError}
 */
async function refuseRepeated(connection: Connection, sources: readonly string[]): Promise<void> {
  if (sources.length === 0) return;
  const [repeated] = await connection.rows<{ source: string; kind: Kind; id: string; times: bigint; others: bigint }>(`
    WITH record AS (
      SELECT source, kind, source_id FROM staged_entry ANTI JOIN staged_raw USING (seq)
      UNION ALL SELECT source, kind, source_id FROM staged_raw
      UNION ALL SELECT source, kind, source_id FROM staged_excluded)
    SELECT s.name AS source, kind, left(source_id, 80) AS id, count(*) AS times, count(*) OVER () - 1 AS others
    FROM record JOIN (SELECT * FROM staged_source WHERE name IN (${sources.map((name) => literal(nfc(name))).join(", ")})) s
      USING (source)
    GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL LIMIT 1`);
  if (repeated === undefined) return;
  const { source, kind, id, times, others } = repeated;
  const origins = await connection.rows<{ origin: string }>(`
    SELECT DISTINCT left(origin, 200) AS origin FROM (
      SELECT source, kind, source_id, origin FROM staged_entry
      UNION ALL SELECT source, kind, source_id, origin FROM staged_raw) e JOIN staged_source s USING (source)
    WHERE s.name = ${literal(source)} AND kind = ${literal(kind)} AND left(source_id, 80) = ${literal(id)}
    ORDER BY origin LIMIT 3`);
  // Of two copies of one record the place says nothing that the id does not.
  const places = origins.length < 2 ? "" : ` (${origins.map(({ origin }) => visible(origin)).join("; ")})`;
  throw new IncompleteReadError(
    `source ${source}: the ${kind} with the id ${quote(id)} came ${times === 2n ? "twice" : `${times} times`}${places}` +
      `${others === 0n ? "" : `, and ${others} more ${others === 1n ? "record" : "records"} likewise`}, so others may not have come at all`,
    { torn: true },
  );
}

async function drop(connection: Connection, tables: object): Promise<void> {
  const statements = Object.keys(tables).map((table) => `DROP TABLE IF EXISTS ${table};`);
  await connection.run(statements.join(" "));
}

/** How many reasons of each are given, and how many quarantined records for each. */
const shown = { reasons: 10, records: 3 };
/**
 * How many entries' groups are gathered at a time: DuckDB cannot spill the lists that it is making. Numbers take less room than
 * names, so that of these it may be two row groups, which two threads share.
 */
const gathered = { numbers: 2 * 122_880, names: 100_000 };

/** Reading so many users and groups leaves tens of megabytes of garbage, which takes 50 ms to collect. */
const large = 50_000;

/** Makes the tables of `assembledOf` from the staged ones. */
async function resolve(
  connection: Connection,
  rules: CompiledRules,
  { observer, keepAttributes = false, ignoresCase = false, signal, isLarge }: AssemblyOptions & { isLarge: boolean },
): Promise<Resolution> {
  const { defaultGroups, judgesLate, groupQuestions } = rules;
  const asksGroups = groupQuestions !== undefined;
  // The largest tables are still to come, and reading leaves much garbage.
  await Promise.all([createHeld(connection, ignoresCase), isLarge ? shrinkHeap() : undefined]);
  if (judgesLate) await holdAmbiguousJoins(connection);
  const losesLinks = await createLinks(connection, observer !== undefined);
  if (losesLinks || asksGroups) await holdAmbiguous(connection, asksGroups);
  if (losesLinks) await holdHiddenReferences(connection);
  if (ignoresCase && rules.groupOfRule !== undefined) await holdRuleGroupNames(connection);
  const unresolved = losesLinks ? await unresolvedLinks(connection, shown.reasons) : noUnresolved;
  const cutLists = await findCutLists(connection);
  await connection.run(`
    CREATE OR REPLACE TABLE lost_reference AS
    SELECT s.name AS source, l.key, e.kind, e.name
    FROM (FROM lost_link WHERE state IS NULL) l
    JOIN staged_source s USING (source) JOIN staged_entry e ON e.seq = coalesce(l.member, l.grp)`);
  const defaults = defaultGroups.map(literal).join(", ");
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE held_group AS
    SELECT DISTINCT name FROM staged_entry e SEMI JOIN held USING (seq) WHERE e.kind = 'group' AND e.name IS NOT NULL;
    CREATE OR REPLACE TEMP TABLE default_group AS
    SELECT unnest([${defaults}]::VARCHAR[]) AS name EXCEPT SELECT name FROM held_group`);
  await createRuleGroups(connection, rules, ignoresCase, signal);
  await createPrincipals(connection, rules);
  await connection.run(`
    CREATE OR REPLACE TABLE contributor AS
    SELECT e.kind, e.name, s.name AS source, j.source_id
    FROM joined_record j JOIN staged_entry e USING (seq) JOIN staged_source s ON s.source = j.source
    WHERE j.seq NOT IN (SELECT seq FROM held);
    CREATE OR REPLACE TABLE quarantined AS
    SELECT e.kind, e.name, s.name AS source, e.source_id, e.origin, h.reason
    FROM (SELECT seq, string_agg(DISTINCT reason, '; ' ORDER BY reason) AS reason FROM held GROUP BY seq) h
    JOIN staged_entry e USING (seq) JOIN staged_source s USING (source)
    ORDER BY e.seq;
    INSERT INTO quarantined SELECT 'group', name, ${literal(ruleSource)}, name, origin, reason FROM held_rule_group ORDER BY name`);
  if (asksGroups) {
    await addMissedMembers(connection);
    await collectSaid(connection, keepAttributes ? groupQuestions : undefined, gathered.names);
  }
  await createRecords(connection, rules, keepAttributes);
  const [counts] = await connection.rows<Record<"users" | "groups", bigint>>(`
    SELECT count(*) FILTER (kind = 'user') AS users, count(*) FILTER (kind = 'group') AS groups FROM assembled`);
  return {
    users: Number(counts?.users ?? 0),
    groups: Number(counts?.groups ?? 0),
    quarantined: await summarizeQuarantined(connection),
    unresolved,
    cutLists: cutLists.length === 0 ? undefined : cutLists,
    unlisted: groupQuestions && (await countUnlisted(connection, groupQuestions.lists)),
  };
}

/** A DN: the first group is what follows its first RDN. */
const containerPattern = String.raw`^\w[\w.-]*=(?:[^,\\]|\\.)*,(\w[\w.-]*=.*)$`;

/** Makes `record`. */
async function createRecords(
  connection: Connection,
  { judgesLate, groupQuestions, kept }: CompiledRules,
  keepAttributes: boolean,
): Promise<void> {
  const asksGroups = groupQuestions !== undefined;
  const attributes = asksGroups
    ? // Joined as texts: parsed, the names of many groups need many times their memory.
      `CASE WHEN v.is_out THEN coalesce(g.said, '{}') WHEN g.said IS NULL THEN s.attributes
        WHEN coalesce(s.attributes, '{}') = '{}' THEN g.said
        ELSE left(s.attributes, -1) || ',' || substr(g.said, 2) END AS attributes`
    : "s.attributes";
  const late = `
      UNION ALL
      SELECT r.seq, r.source, r.kind, r.source_id, r.origin, e.seq, e.name, r.said FROM (SELECT *, ${kept.json} AS said FROM staged_raw) r
      LEFT JOIN person p USING (seq) LEFT JOIN staged_entry e ON e.seq = coalesce(p.person, r.seq)`;
  await connection.run(`
    CREATE OR REPLACE TABLE record AS
    WITH seen AS (
      SELECT seq, source, kind, source_id, origin, seq AS entry, name, ${kept.json} AS attributes
      FROM staged_entry ANTI JOIN staged_raw USING (seq) WHERE ${keepAttributes}
      ${judgesLate ? late : ""}
      UNION ALL
      SELECT seq, source, kind, source_id, NULL, NULL, NULL, ${kept.json} FROM staged_excluded)
    SELECT s.kind, s.name, o.name AS source, s.source_id,
      CASE ${asksGroups ? "WHEN v.is_out THEN 'unlisted' " : ""}WHEN s.entry IS NULL THEN 'excluded' WHEN s.entry IN (SELECT seq FROM held) THEN 'quarantined' ELSE 'in' END AS scope,
      CASE WHEN contains(s.origin, '=') AND s.attributes IS NOT NULL${asksGroups ? " AND v.is_out IS NOT TRUE" : ""}
        THEN nullif(regexp_extract(s.origin, '${containerPattern}', 1), '') END AS container,
      ${attributes}
    FROM seen s JOIN staged_source o USING (source)
    ${asksGroups ? "LEFT JOIN said_group g ON g.seq = s.seq LEFT JOIN identity i ON i.seq = s.seq LEFT JOIN scope_verdict v ON v.person = i.person" : ""};
    CREATE OR REPLACE TABLE rule_membership AS
    SELECT e.kind, e.name, n.name AS grp FROM staged_group_name n JOIN staged_entry e ON e.seq = n.member
    WHERE ${keepAttributes}`);
}

/** Makes `assembled`. */
async function createPrincipals(connection: Connection, { declared: attributes }: CompiledRules): Promise<void> {
  const values = attributes.all.map(({ type }, index) => {
    const column = `e.${attributes.columns[index]}`;
    return type === "texts" ? `list_sort(list_distinct(from_json(${column}, '["VARCHAR"]')))` : column;
  });
  await connection.run(`
    CREATE OR REPLACE TABLE assembled (${assembledOf(attributes).assembled});
    CREATE OR REPLACE TEMP TABLE group_place AS
    SELECT any_value(seq) AS seq, name, row_number() OVER (ORDER BY name)::INTEGER AS place FROM (
      SELECT seq, name FROM staged_entry WHERE kind = 'group' AND seq NOT IN (SELECT seq FROM held)
      UNION ALL SELECT NULL, name FROM staged_group_name
      UNION ALL SELECT NULL, name FROM default_group)
    GROUP BY name`);
  const [last] = await connection.rows<{ seq: number | null }>("SELECT max(seq) AS seq FROM staged_entry");
  for (let from = 0; from <= (last?.seq ?? 0); from += gathered.numbers) {
    const within = (column: string): string => `${column} >= ${from} AND ${column} < ${from + gathered.numbers}`;
    await connection.run(`
      INSERT INTO assembled
      WITH given AS (
        SELECT l.member, g.place FROM link l JOIN group_place g ON g.seq = l.grp WHERE ${within("l.member")}
        UNION ALL
        SELECT n.member, g.place FROM staged_group_name n JOIN group_place g USING (name)
        WHERE ${within("n.member")} AND n.name NOT IN (FROM held_group)
        UNION ALL
        SELECT e.seq, g.place FROM staged_entry e, default_group d JOIN group_place g USING (name)
        WHERE ${within("e.seq")} AND e.kind = 'user'),
      gathered AS (
        SELECT member, list_sort(list(DISTINCT place)) AS places FROM given GROUP BY member)
      SELECT ${["e.kind", "e.name", ...values].join(", ")},
        coalesce(list_transform(g.places, lambda place: n.names[place]), []), s.name, e.source_id, e.origin, e.kept
      FROM staged_entry e JOIN staged_source s USING (source) LEFT JOIN gathered g ON g.member = e.seq,
        (SELECT list(name ORDER BY place) AS names FROM group_place) n
      WHERE ${within("e.seq")} AND e.seq NOT IN (SELECT seq FROM held)`);
  }
}

/**
 * Counts quarantined records by reason: those that share a name by that name, others whatever the value in doubt is.
 * @param most how many reasons are named, and how many records of each
 */
export async function summarizeQuarantined(connection: Connection, most = shown): Promise<Quarantined> {
  const [total] = await connection.rows<{ count: bigint }>("SELECT count(*) AS count FROM quarantined");
  const rows = await connection.rows<{
    reason: string;
    kind: Kind;
    count: bigint;
    examples: readonly (QuarantinedRecord & { name: string | null })[];
  }>(`
    SELECT if(count(DISTINCT reason) = 1, any_value(reason), shape) AS reason, kind, count(*) AS count,
      arg_min({'name': name, 'sourceId': source_id, 'origin': origin}, place, ${most.records}) AS examples
    FROM (
      SELECT *, rowid AS place, if(regexp_matches(reason, '${sharing}'),
        regexp_replace(reason, '${sharing}.*', '\\1 is shared by several records'),
        array_to_string(list_transform(regexp_extract_all(reason, '${tokens}'),
          lambda token: if(regexp_full_match(token, '${quoted}'), '"…"', token)), '')) AS shape
      FROM quarantined)
    GROUP BY shape, kind ORDER BY count(*) DESC, min(place) LIMIT ${most.reasons}`);
  const reasons = rows.map(({ reason, kind, count, examples }) => ({
    reason,
    kind,
    count: Number(count),
    examples: examples.map(({ name, sourceId, origin }) => ({ name: name ?? undefined, sourceId, origin })),
  }));
  const count = Number(total?.count ?? 0);
  return { count, reasons, more: reasons.reduce((left, each) => left - each.count, count) };
}

/** A quoted value in a reason, and what reasons of records say that share an id, a name or a key (see quarantine.ts). */
const quoted = String.raw`"(?:[^"\\]|\\.)*"`;
/** A quoted value, the code that a reason advises to write, and what is between. */
const tokens = `(?s)${quoted}|\`[^\`]*\`|[^"\`]+|.`;
const sharing = `(${quoted}) (?:is also used by|may also mean)`;

/** How many groups are described at a time. */
const describedTogether = 1000;

/**
 * Makes `rule_group`: the groups that rules put somebody into and no source has. Those that the rules cannot describe are
 * added to `held_group` and `held_rule_group`. Runs in `assemble`, once it is known which entries count.
 */
async function createRuleGroups(
  connection: Connection,
  { groupOfRule, declared: attributes }: CompiledRules,
  ignoresCase: boolean,
  signal: AbortSignal,
): Promise<void> {
  const yielder = new Yielder(signal);
  await connection.run(`
    CREATE OR REPLACE TABLE rule_group (${assembledOf(attributes).rule_group});
    CREATE OR REPLACE TEMP TABLE held_rule_group (name VARCHAR, origin VARCHAR, reason VARCHAR)`);
  if (groupOfRule === undefined) return;
  const all = attributes.of("group");
  const columns = all.map(columnOf);
  // What every group has is its name, unless a rule says something else.
  const named = all.filter(({ required }) => required === true).map(columnOf);
  await connection.run(`
    INSERT INTO rule_group BY NAME
    WITH named AS (
      SELECT n.name, min_by({'kind': e.kind, 'name': e.name, 'origin': e.origin}, e.seq) AS first, count(*) AS times
      FROM staged_group_name n JOIN staged_entry e ON e.seq = n.member JOIN staged_source s USING (source)
      WHERE s.name <> ${literal(ownSource)} AND e.seq NOT IN (SELECT seq FROM held)
      GROUP BY n.name)
    SELECT name, ${named.map((column) => `name AS ${column}, `).join("")}
      'the rule ' || first.kind || 's.groups of ' || first.name || ', ' || first.origin
        || CASE WHEN times > 1 THEN ', and of ' || (times - 1) || ' more' ELSE '' END AS origin
    FROM named ANTI JOIN (SELECT name FROM staged_entry WHERE kind = 'group' AND name IS NOT NULL) g USING (name)`);
  if (ignoresCase)
    await connection.run(`
      INSERT INTO held_rule_group
      SELECT g.name, any_value(g.origin), 'the name ' || ${inMessage("g.name")} || ' is also used by ' || ${inMessage("min(o.name)")}
      FROM rule_group g JOIN (SELECT name FROM rule_group UNION SELECT name FROM staged_entry WHERE kind = 'group') o
        ON lower(o.name) = lower(g.name) AND o.name <> g.name
      GROUP BY g.name;
      DELETE FROM rule_group WHERE name IN (SELECT name FROM held_rule_group)`);
  for (let from = 0; ; from += describedTogether) {
    const some = await connection.rows<{ name: string }>(
      `SELECT name FROM rule_group ORDER BY name LIMIT ${describedTogether} OFFSET ${from}`,
    );
    const described: { name: string; made: ReturnType<typeof groupOfRule> }[] = [];
    for (const { name } of some) {
      described.push({ name, made: groupOfRule(name) });
      if (yielder.isDue()) await yielder.yield();
    }
    const values = described.flatMap(({ name, made }) =>
      "reason" in made || Object.values(made.attributes).every((value) => value === undefined)
        ? []
        : `(${[literal(name), ...all.map((each) => sqlOf(each, made.attributes[each.name]))].join(", ")})`,
    );
    if (values.length > 0)
      await connection.run(`
        UPDATE rule_group SET ${columns.map((column) => `${column} = coalesce(v.${column}, rule_group.${column})`).join(", ")}
        FROM (VALUES ${values.join(", ")}) v(${["name", ...columns].join(", ")}) WHERE v.name = rule_group.name`);
    const held = described.flatMap(({ name, made }) =>
      "reason" in made ? `(${[name, made.reason].map(literal).join(", ")})` : [],
    );
    if (held.length > 0)
      await connection.run(`
        INSERT INTO held_rule_group
        SELECT name, origin, v.reason FROM (VALUES ${held.join(", ")}) v(name, reason) JOIN rule_group USING (name)`);
    if (some.length < describedTogether) break;
  }
  await connection.run(`
    DELETE FROM rule_group WHERE name IN (SELECT name FROM held_rule_group);
    INSERT INTO held_group SELECT name FROM held_rule_group`);
}
