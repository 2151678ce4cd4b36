import type { CompiledRules } from "./compile.ts";
import type { Verdict } from "./judge.ts";
import type { Entry, SourceGroups } from "./entry.ts";
import { referenceTables } from "./references.ts";
import { asksNames, EntryGroups, findGroups, refuseUnmatched } from "./scope.ts";
import type { RollcallError } from "#errors.ts";
import type { Connection } from "#duckdb/database.ts";
import type { Rows } from "#duckdb/insert.ts";
import type { StagedTable } from "./tables.ts";
import type { Yielder } from "./yield.ts";

/** Stages an entry by its verdict. */
export type AddVerdict = (seq: number, source: number, entry: Entry, verdict: Verdict, groups?: SourceGroups) => void;

/** How many raw entries are read at a time. */
const page = 2000;

interface RawRow {
  readonly seq: number;
  readonly person: number;
  /** What its groups are found by. */
  readonly unit: number;
  readonly source: number;
  readonly kind: Entry["kind"];
  readonly source_id: string;
  readonly origin: string;
  readonly reason: string | null;
  readonly attributes: string;
  /** Whether lists of groups leave it out; and why that is unknown, if it is. */
  readonly is_out?: boolean | null;
  readonly doubt?: string | null;
}

export interface JudgeRawOptions {
  readonly addVerdict: AddVerdict;
  readonly yielder: Yielder;
  /** True: `addVerdict` gets the entries that lists of groups leave out, too. */
  readonly isObserved: boolean;
  /** Sources that could not be read: of their groups nothing is known. */
  readonly unread: OptionalUnread;
}

/** Optional sources that failed, and why. */
type OptionalUnread = readonly { readonly name: string; readonly error: RollcallError }[];

/**
 * Joins the raw entries of different sources that have the same key into one, finds the groups that each is in where rules
 * ask, and judges it. Each attribute comes from the first source that has it. The joined entry has the identity of its first
 * record, and the references of all.
 *
 * When several entries of one source have the same key, those that the rules exclude by themselves step back for one that
 * they do not: a person who was hired again has two. When several are left it is unknown which one is meant, and the key
 * is in `ambiguous_key`.
 * @returns how many entries the lists of groups leave out, without those that `addVerdict` got
 * @throws {InputError} a list names a group that no source has
 */
export async function judgeRaw(
  connection: Connection,
  rows: Rows<StagedTable>,
  rules: CompiledRules,
  options: JudgeRawOptions,
): Promise<number> {
  const { addVerdict, yielder, isObserved } = options;
  const { groupQuestions } = rules;
  await choosePersons(connection, rows, rules, yielder);
  let leftOut = 0;
  if (groupQuestions !== undefined) {
    await findGroups(connection, "SELECT seq, kind, person FROM person", groupQuestions, yielder);
    await judgeLists(connection, rules, options.unread);
    if (!isObserved) {
      const [row] = await connection.rows<{ count: bigint }>(
        "SELECT count(*) AS count FROM scope_verdict WHERE is_out",
      );
      leftOut = Number(row?.count ?? 0);
    }
  }
  const withLists = groupQuestions !== undefined;
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE person AS
    SELECT p.* EXCLUDE (place) REPLACE (person AS unit), row_number() OVER (ORDER BY p.person, p.source) - 1 AS place FROM person p
    ${withLists && !isObserved ? "ANTI JOIN (FROM scope_verdict WHERE is_out) USING (person)" : ""}
    ORDER BY p.person, p.source`);
  for await (const { records, groups } of persons(connection, yielder, groupQuestions, withLists)) {
    const [first] = records;
    if (first === undefined) continue;
    const entry = entryOf(records);
    const verdict: Verdict = first.is_out === true ? { verdict: "excluded" } : rules.judge(entry, groups);
    const name = "name" in verdict ? verdict.name : undefined;
    const reason = first.reason ?? (verdict.verdict === "excluded" ? null : (first.doubt ?? null));
    const known: Verdict = reason === null ? verdict : { verdict: "quarantined", name, reason };
    addVerdict(first.person, first.source, entry, known, groups);
  }
  await rows.flush();
  await connectToPersons(connection);
  // Where there are to be no groups, nobody is in one.
  if (!rules.makesGroups) await connection.run(referenceTables.map((table) => `DELETE FROM ${table}`).join("; "));
  return leftOut;
}

/** Without what the rules read of a record: `assemble` looks at that. */
const recordColumns = "r.seq, r.source, r.kind, r.source_id, r.origin, r.join_key, r.reason, r.attributes";

/** Makes `person` with the records that each entry is made of, and `ambiguous_key`. */
async function choosePersons(
  connection: Connection,
  rows: Rows<StagedTable>,
  rules: CompiledRules,
  yielder: Yielder,
): Promise<void> {
  const { groupQuestions } = rules;
  const units = "SELECT kind, join_key, min(seq) AS unit FROM staged_raw WHERE join_key IS NOT NULL GROUP BY ALL";
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE person AS
    SELECT ${recordColumns}, r.seq AS person, coalesce(u.unit, r.seq) AS unit, row_number() OVER (ORDER BY r.seq) - 1 AS place
    FROM staged_raw r
    SEMI JOIN (SELECT kind, join_key, source FROM staged_raw WHERE join_key IS NOT NULL GROUP BY ALL HAVING count(*) > 1)
      USING (kind, join_key, source)
    LEFT JOIN (${units}) u USING (kind, join_key)`);
  const [several] = await connection.rows<{ any: boolean }>("SELECT EXISTS (FROM person) AS any");
  const asksGroups = groupQuestions !== undefined && asksNames(groupQuestions);
  // What such an entry is a member of by itself is what the whole person is: its other records are in other sources.
  if (several?.any === true && asksGroups)
    await findGroups(
      connection,
      `SELECT seq, kind, coalesce(u.unit, seq) AS person FROM staged_raw LEFT JOIN (${units}) u USING (kind, join_key)`,
      { ...groupQuestions, lists: [] },
      yielder,
    );
  for await (const { records, groups } of persons(connection, yielder, groupQuestions)) {
    const [row] = records;
    if (row === undefined) continue;
    const { verdict } = rules.judge(entryOf([row]), groups);
    rows.append("staged_alone", row.seq, verdict === "excluded" ? 1 : 0);
  }
  await rows.flush();
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE superseded AS
    SELECT seq FROM staged_raw JOIN staged_alone USING (seq)
    QUALIFY excluded = 1 AND row_number() OVER (PARTITION BY kind, join_key, source ORDER BY excluded, seq) > 1;
    CREATE OR REPLACE TEMP TABLE ambiguous_key AS
    SELECT DISTINCT kind, join_key FROM (
      SELECT kind, join_key, source FROM staged_raw JOIN staged_alone USING (seq)
      WHERE excluded = 0 GROUP BY ALL HAVING count(*) > 1);
    CREATE OR REPLACE TEMP TABLE person AS
    WITH candidate AS (SELECT ${recordColumns} FROM staged_raw r ANTI JOIN superseded USING (seq)),
    first_of AS (SELECT kind, join_key, min(seq) AS person FROM candidate WHERE join_key IS NOT NULL GROUP BY ALL)
    SELECT c.*, CASE WHEN a.join_key IS NULL THEN coalesce(f.person, c.seq) ELSE c.seq END AS person,
      NULL::INTEGER AS unit, NULL::BIGINT AS place
    FROM candidate c LEFT JOIN ambiguous_key a USING (kind, join_key) LEFT JOIN first_of f USING (kind, join_key)`);
}

/**
 * @throws {InputError} a list names a group that no source has
 * @throws the error of a source that could not be read, where its groups could keep somebody out
 */
async function judgeLists(
  connection: Connection,
  { groupQuestions, joins }: CompiledRules,
  unread: OptionalUnread,
): Promise<void> {
  const lists = groupQuestions?.lists ?? [];
  // What is unread may be a group that a list names; those who came from there stay as they are.
  const [failed] = unread;
  if (failed === undefined) return refuseUnmatched(connection, lists);
  // Of a joined entry the record is missing that says that it is in such a group.
  if (lists.some(({ takes, kind }) => takes === "others" && joins[kind])) throw failed.error;
}

/** The records of one person, and the groups that it is in, if rules ask. */
interface Person {
  readonly records: readonly RawRow[];
  readonly groups?: SourceGroups | undefined;
}

/** The persons in turn, with their records in the order of their sources. */
async function* persons(
  connection: Connection,
  yielder: Yielder,
  questions: CompiledRules["groupQuestions"],
  withLists = false,
): AsyncGenerator<Person> {
  const asksGroups = questions !== undefined && asksNames(questions);
  let records: RawRow[] = [];
  const entryGroups = asksGroups ? new EntryGroups(connection) : undefined;
  let groups: ReadonlyMap<number, SourceGroups> = new Map();
  const personOf = (rows: RawRow[]): Person => ({
    records: rows,
    groups: asksGroups ? (groups.get(rows[0]?.unit ?? 0) ?? { direct: [], nested: [] }) : undefined,
  });
  for (let from = 0; ; from += page) {
    const rows = await connection.rows<RawRow>(`
      SELECT seq, p.person, unit, source, kind, source_id, origin, p.reason, attributes
        ${withLists ? ", v.is_out, v.reason AS doubt" : ""}
      FROM (FROM person WHERE place >= ${from} AND place < ${from + page}) p
      ${withLists ? "LEFT JOIN scope_verdict v ON v.person = p.person" : ""}
      ORDER BY place`);
    // The last person of the page before may not have been handed on yet.
    const units = [...records.slice(0, 1), ...rows].map(({ unit }) => unit);
    if (entryGroups !== undefined) groups = await entryGroups.of(units);
    for (const row of rows) {
      if (records[0] !== undefined && records[0].person !== row.person) {
        yield personOf(records);
        records = [];
      }
      records.push(row);
      if (yielder.isDue()) await yielder.yield();
    }
    if (rows.length < page) break;
  }
  if (records.length > 0) yield personOf(records);
}

function entryOf(records: readonly RawRow[]): Entry {
  const [first] = records;
  if (first === undefined) throw new TypeError("a person has a record");
  const attributes: Entry["attributes"] = Object.assign(
    Object.create(null),
    ...records.toReversed().map((record) => JSON.parse(record.attributes) as Entry["attributes"]),
  );
  return {
    kind: first.kind,
    id: first.source_id,
    origin: records.map(({ origin }) => origin).join(" and "),
    attributes,
    keys: records.map(({ source_id: id }) => id),
    memberOf: [],
    members: [],
  };
}

/** Points keys and references at persons instead of records, without those of excluded or quarantined ones. */
async function connectToPersons(connection: Connection): Promise<void> {
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE staged_key AS
    SELECT k.* REPLACE (e.seq AS seq) FROM staged_key k
    LEFT JOIN person p ON p.seq = k.seq LEFT JOIN staged_entry e ON e.seq = coalesce(p.person, k.seq);
    ${referencesOf("staged_member_of", "member")};
    ${referencesOf("staged_members", "grp")};
    INSERT INTO joined_record
    SELECT p.person, p.source, p.kind, p.source_id, p.origin FROM person p
    SEMI JOIN staged_entry e ON e.seq = p.person WHERE p.seq <> p.person`);
}

function referencesOf(table: string, column: string): string {
  return `
    CREATE OR REPLACE TEMP TABLE ${table} AS
    SELECT r.* REPLACE (coalesce(p.person, r.${column}) AS ${column}) FROM ${table} r LEFT JOIN person p ON p.seq = r.${column}
    WHERE coalesce(p.person, r.${column}) IN (SELECT seq FROM staged_entry WHERE reason IS NULL)`;
}
