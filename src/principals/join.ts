import type { CompiledRules, Verdict } from "./compile.ts";
import type { Entry } from "./entry.ts";
import type { Connection } from "#duckdb/database.ts";
import type { Rows } from "#duckdb/insert.ts";
import type { StagedTable } from "./tables.ts";
import type { Yielder } from "./yield.ts";

/** Stages an entry by its verdict. @returns false when it is excluded and has no row */
export type AddVerdict = (seq: number, source: number, entry: Entry, verdict: Verdict) => boolean;

/** How many raw entries are read at a time. */
const page = 2000;

interface RawRow {
  readonly seq: number;
  readonly person: number;
  readonly source: number;
  readonly kind: Entry["kind"];
  readonly source_id: string;
  readonly origin: string;
  readonly reason: string | null;
  readonly attributes: string;
}

/**
 * Joins the raw entries of different sources that have the same key into one, and judges it. Each attribute comes from
 * the first source that has it. The joined entry has the identity of its first record, and the references of all.
 *
 * When several entries of one source have the same key, those that the rules exclude by themselves step back for one that
 * they do not: a person who was hired again has two. When several are left it is unknown which one is meant, and the key
 * is in `ambiguous_key`.
 */
export async function joinRecords(
  connection: Connection,
  rows: Rows<StagedTable>,
  addVerdict: AddVerdict,
  rules: CompiledRules,
  yielder: Yielder,
): Promise<void> {
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE person AS
    SELECT r.*, r.seq AS person, row_number() OVER (ORDER BY r.seq) - 1 AS place FROM staged_raw r
    SEMI JOIN (SELECT kind, join_key, source FROM staged_raw WHERE join_key IS NOT NULL GROUP BY ALL HAVING count(*) > 1)
      USING (kind, join_key, source)`);
  for await (const [row] of persons(connection, yielder)) {
    if (row === undefined) continue;
    const { verdict } = rules.judge(entryOf([row]));
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
    WITH candidate AS (FROM staged_raw ANTI JOIN superseded USING (seq)),
    first_of AS (SELECT kind, join_key, min(seq) AS person FROM candidate WHERE join_key IS NOT NULL GROUP BY ALL),
    chosen AS (
      SELECT c.*, CASE WHEN a.join_key IS NULL THEN coalesce(f.person, c.seq) ELSE c.seq END AS person
      FROM candidate c LEFT JOIN ambiguous_key a USING (kind, join_key) LEFT JOIN first_of f USING (kind, join_key))
    SELECT *, row_number() OVER (ORDER BY person, source) - 1 AS place FROM chosen ORDER BY person, source`);
  for await (const records of persons(connection, yielder)) {
    const [first] = records;
    if (first === undefined) continue;
    const entry = entryOf(records);
    const verdict = rules.judge(entry);
    const { reason } = first;
    const name = "name" in verdict ? verdict.name : undefined;
    const known: Verdict = reason === null ? verdict : { verdict: "quarantined", name, reason };
    addVerdict(first.person, first.source, entry, known);
  }
  await rows.flush();
  await connectToPersons(connection);
}

/** The records of each person in turn, in the order of their sources. */
async function* persons(connection: Connection, yielder: Yielder): AsyncGenerator<readonly RawRow[]> {
  let records: RawRow[] = [];
  for (let from = 0; ; from += page) {
    const rows = await connection.rows<RawRow>(`
      SELECT seq, person, source, kind, source_id, origin, reason, attributes FROM person
      WHERE place >= ${from} AND place < ${from + page} ORDER BY place`);
    for (const row of rows) {
      if (records[0] !== undefined && records[0].person !== row.person) {
        yield records;
        records = [];
      }
      records.push(row);
      if (yielder.isDue()) await yielder.yield();
    }
    if (rows.length < page) break;
  }
  if (records.length > 0) yield records;
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
