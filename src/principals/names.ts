import { Rows } from "#duckdb/insert.ts";
import type { Connection } from "#duckdb/database.ts";
import { literal } from "#duckdb/database.ts";
import { messageOf, RollcallError } from "#errors.ts";
import { sameName } from "./principal.ts";
import type { Kind } from "./principal.ts";
import { inMessage } from "./quarantine.ts";
import { assemblyTables, ownSource } from "./tables.ts";
import type { Yielder } from "./yield.ts";

/** Gives the names that records get whose own is taken: the rule `unique`. */
export interface Naming {
  /** Whether the number stands in the name as its decimal digits: then it is known from a name. */
  readonly showsNumber: boolean;
  /** @throws {Error} whose message says why there is no such name */
  evaluate(name: string, n: number): string;
}

/** The names that are known beside those of the records, as queries. */
export interface KnownNames {
  /** `(kind, name, source, source_id)`: what the sync owns, and the records it is of. */
  readonly owned: string;
  /** `(kind, name)`: what is in the target, whoever made it. */
  readonly present: string;
}

/** Records that did not get the name of the rule for the first time, since it is taken. */
export interface Numbered {
  readonly count: number;
  /** The first few. */
  readonly examples: readonly { readonly kind: Kind; readonly name: string; readonly base: string }[];
}

/** The highest number that is tried. */
const highest = 10_000;
/** How many names, or records, are looked at in one go. */
const page = 20_000;
const examples = 3;

type Namings = Readonly<Partial<Record<Kind, Naming>>>;

interface NamingOptions {
  readonly ignoresCase: boolean;
  readonly yielder: Yielder;
}

const rowTables = { kept_name: assemblyTables.kept_name, name_candidate: assemblyTables.name_candidate };

/**
 * Makes the names in `staged_entry` unique, for the kinds that have a `Naming`. A record keeps the name that it owns, as
 * long as the rules could still give it. Of the others the first one, by the order of the sources and then by its id, gets
 * the name itself where nobody has or owns it, and the rest the next ones that nobody has, owns, or has in the target.
 *
 * Where several new records have a name that somebody in the target has already, it is unknown whose it is: they are
 * quarantined. So is a record that no name is left for.
 * @param options.ignoresCase names that differ in case alone are the same
 */
export async function giveNames(
  connection: Connection,
  namings: Namings,
  { owned, present }: KnownNames,
  options: NamingOptions,
): Promise<Numbered> {
  const same = sameName(options.ignoresCase);
  const kinds = (Object.keys(namings) as Kind[]).map(literal).join(", ");
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE owned_name AS
    SELECT kind, name, source, source_id FROM (${owned}) WHERE kind IN (${kinds});
    CREATE OR REPLACE TEMP TABLE present_name AS
    SELECT kind, ${same("name")} AS name FROM (${present}) WHERE kind IN (${kinds})
    EXCEPT SELECT kind, ${same("name")} FROM owned_name;
    CREATE OR REPLACE TEMP TABLE naming AS
    SELECT e.seq, e.kind, e.name AS base, NULL::VARCHAR AS name, NULL::VARCHAR AS reason,
      row_number() OVER (ORDER BY e.source, e.source_id, e.seq) AS place
    FROM staged_entry e JOIN staged_source s USING (source)
    WHERE e.reason IS NULL AND e.kind IN (${kinds}) AND s.name <> ${literal(ownSource)};
    CREATE OR REPLACE TEMP TABLE kept_name (${assemblyTables.kept_name});
    CREATE OR REPLACE TEMP TABLE name_candidate (${assemblyTables.name_candidate})`);
  await keepNames(connection, namings, options);
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE taken_name AS
    SELECT kind, ${same("name")} AS name FROM owned_name
    UNION SELECT kind, ${same("name")} FROM staged_entry ANTI JOIN naming USING (seq) WHERE name IS NOT NULL AND kind IN (${kinds});
    CREATE OR REPLACE TEMP TABLE newcomer AS
    SELECT seq, kind, ${same("base")} AS name, place, count(*) OVER (PARTITION BY kind, ${same("base")}) AS sharing,
      row_number() OVER (PARTITION BY kind, ${same("base")} ORDER BY place) AS turn
    FROM naming WHERE name IS NULL AND (kind, ${same("base")}) NOT IN (SELECT (kind, name) FROM taken_name);
    UPDATE naming SET reason = 'the name ' || ${inMessage("base")} || ' is shared by several new records and a ' || kind
      || ' in the target: it is unknown which of them is the ' || kind
    WHERE seq IN (SELECT seq FROM newcomer SEMI JOIN present_name USING (kind, name) WHERE sharing > 1);
    UPDATE naming SET name = base WHERE reason IS NULL AND seq IN (SELECT seq FROM newcomer WHERE turn = 1);
    INSERT INTO taken_name
    SELECT kind, ${same("name")} AS name FROM naming WHERE name = base EXCEPT FROM taken_name`);
  await numberNames(connection, namings, options);
  const rows = await connection.rows<{ kind: Kind; name: string; base: string }>(`
    SELECT kind, name, base FROM naming ANTI JOIN kept_name USING (seq) WHERE name <> base ORDER BY place LIMIT ${examples}`);
  const [row] = await connection.rows<{ count: bigint }>(
    "SELECT count(*) AS count FROM naming ANTI JOIN kept_name USING (seq) WHERE name <> base",
  );
  await connection.run(`
    UPDATE staged_entry SET name = n.name FROM naming n WHERE n.seq = staged_entry.seq AND n.name <> n.base;
    UPDATE staged_entry SET reason = n.reason,
      -- Without a name it could be anybody, and under the one that another record has got, it would be that one.
      name = CASE WHEN (n.kind, ${same("n.base")}) IN (SELECT (kind, name) FROM taken_name) THEN n.base || ' (' || origin || ')' ELSE n.base END
    FROM naming n WHERE n.seq = staged_entry.seq AND n.reason IS NOT NULL`);
  return { count: Number(row?.count ?? 0), examples: rows };
}

/** Fills `kept_name`, and `naming` with it. Of several records that own one name, the first one keeps it. */
async function keepNames(connection: Connection, namings: Namings, options: NamingOptions): Promise<void> {
  const { yielder } = options;
  const same = sameName(options.ignoresCase);
  const records = `
    SELECT seq, source, kind, source_id FROM staged_entry UNION ALL SELECT seq, source, kind, source_id FROM joined_record`;
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE own_name AS
    SELECT *, row_number() OVER (ORDER BY seq, name) - 1 AS turn FROM (
    SELECT DISTINCT n.seq, n.kind, n.base, o.name
    FROM owned_name o JOIN staged_source s ON s.name = o.source
    JOIN (${records}) r ON r.source = s.source AND r.kind = o.kind AND r.source_id = o.source_id
    JOIN naming n ON n.seq = r.seq) ORDER BY turn;
    INSERT INTO kept_name SELECT seq, name, 1 FROM own_name WHERE ${same("name")} = ${same("base")}`);
  const rows = new Rows(connection.raw, rowTables);
  try {
    const [all] = await connection.rows<{ size: bigint }>("SELECT count(*) AS size FROM own_name");
    for (let from = 0; from < Number(all?.size ?? 0); from += page) {
      const some = await connection.rows<{ seq: number; kind: Kind; base: string; name: string }>(`
        SELECT seq, kind, base, name FROM own_name WHERE turn >= ${from} AND turn < ${from + page} AND ${same("name")} <> ${same("base")} ORDER BY turn`);
      for (const { seq, kind, base, name } of some) {
        const number = await numberOf(namings[kind], { base, name, ...options });
        if (number !== undefined) rows.append("kept_name", seq, name, number);
        if (yielder.isDue()) await yielder.yield();
      }
      await rows.flush();
    }
  } finally {
    await rows.close();
  }
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE kept_name AS
    SELECT k.seq, k.name, k.number FROM kept_name k JOIN naming n USING (seq)
    QUALIFY row_number() OVER (PARTITION BY k.seq ORDER BY k.number) = 1;
    DELETE FROM kept_name WHERE seq NOT IN (
      SELECT k.seq FROM kept_name k JOIN naming n USING (seq)
      QUALIFY row_number() OVER (PARTITION BY n.kind, ${same("k.name")} ORDER BY n.place) = 1);
    UPDATE naming SET name = k.name FROM kept_name k WHERE k.seq = naming.seq`);
}

/** The number with which the rule gives the name; undefined: none does. */
async function numberOf(
  naming: Naming | undefined,
  { base, name, ignoresCase, yielder }: NamingOptions & { readonly base: string; readonly name: string },
): Promise<number | undefined> {
  if (naming === undefined) return undefined;
  const wanted = ignoresCase ? name.toLowerCase() : name;
  const gives = async (n: number): Promise<boolean> => {
    if (yielder.isDue()) await yielder.yield();
    try {
      const given = naming.evaluate(base, n);
      return (ignoresCase ? given.toLowerCase() : given) === wanted;
    } catch (error) {
      if (error instanceof RollcallError) throw error;
      return false;
    }
  };
  if (!naming.showsNumber) {
    for (let n = 2; n <= highest; n += 1) if (await gives(n)) return n;
    return undefined;
  }
  for (const [digits] of name.matchAll(/\d+/g))
    for (let from = 0; from < digits.length; from += 1)
      for (let to = from + 1; to <= Math.min(digits.length, from + 5); to += 1) {
        const n = Number(digits.slice(from, to));
        if (n >= 2 && n <= highest && (await gives(n))) return n;
      }
  return undefined;
}

/** A name that several records share, and how many of them have none yet. */
interface Shared {
  readonly kind: Kind;
  readonly base: string;
  readonly waiting: number;
}

/** Gives the next free names to those in `naming` that have none yet. */
async function numberNames(connection: Connection, namings: Namings, options: NamingOptions): Promise<void> {
  const { yielder } = options;
  const same = sameName(options.ignoresCase);
  const shared = (limit: string): Promise<readonly Shared[]> =>
    connection.rows<Shared>(`
      SELECT kind, base, count(*)::INTEGER AS waiting FROM unnamed GROUP BY kind, base ORDER BY kind, base LIMIT ${limit}`);
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE unnamed AS
    SELECT seq, kind, base, place FROM naming WHERE name IS NULL AND reason IS NULL;
    CREATE OR REPLACE TEMP TABLE given_name (${assemblyTables.given_name})`);
  const rows = new Rows(connection.raw, rowTables);
  /** The number that comes next and how many are tried, by kind and name; only of those that are looked at. */
  let next = new Map<string, { readonly n: number; readonly most: number }>();
  try {
    for (;;) {
      const some = await shared(String(page));
      if (some.length === 0) break;
      const known = next;
      next = new Map();
      await connection.run("DELETE FROM name_candidate");
      const failed: { readonly kind: Kind; readonly base: string; readonly reason: string }[] = [];
      for (const { kind, base, waiting } of some) {
        const key = `${kind} ${base}`;
        const { n: from, most } = known.get(key) ?? { n: 2, most: waiting };
        const end = Math.min(from + most, highest + 1);
        let n = from;
        try {
          if (from > highest) throw new Error(`all names up to number ${highest} are taken`);
          for (; n < end; n += 1) {
            rows.append("name_candidate", kind, base, n, namings[kind]?.evaluate(base, n) ?? base);
            if (yielder.isDue()) await yielder.yield();
          }
        } catch (error) {
          if (error instanceof RollcallError) throw error;
          if (n === from) failed.push({ kind, base, reason: `${kind}s.name.unique: ${messageOf(error)}` });
        }
        // Where few are free, more are tried each time.
        next.set(key, { n, most: 2 * most });
      }
      await rows.flush();
      for (const { kind, base, reason } of failed)
        await connection.run(`
          UPDATE naming SET reason = ${literal(reason)}
          WHERE seq IN (SELECT seq FROM unnamed WHERE kind = ${literal(kind)} AND base = ${literal(base)});
          DELETE FROM unnamed WHERE kind = ${literal(kind)} AND base = ${literal(base)}`);
      await connection.run(`
        CREATE OR REPLACE TEMP TABLE free_name AS
        SELECT kind, base, c.name, row_number() OVER (PARTITION BY kind, base ORDER BY n) AS turn
        FROM (FROM name_candidate QUALIFY row_number() OVER (PARTITION BY kind, ${same("name")} ORDER BY base, n) = 1) c
        WHERE (kind, ${same("c.name")}) NOT IN (SELECT (kind, name) FROM taken_name)
          AND (kind, ${same("c.name")}) NOT IN (SELECT (kind, name) FROM present_name);
        INSERT INTO given_name
        SELECT w.seq, f.kind, f.name
        FROM (
          SELECT seq, kind, base, row_number() OVER (PARTITION BY kind, base ORDER BY place) AS turn
          FROM unnamed SEMI JOIN free_name USING (kind, base)) w JOIN free_name f USING (kind, base, turn);
        INSERT INTO taken_name SELECT g.kind, ${same("g.name")} FROM given_name g SEMI JOIN unnamed u ON u.seq = g.seq;
        DELETE FROM unnamed WHERE seq IN (SELECT seq FROM given_name)`);
    }
    await connection.run("UPDATE naming SET name = g.name FROM given_name g WHERE g.seq = naming.seq");
  } finally {
    await rows.close();
  }
}
