import type { CompiledRules } from "./compile.ts";
import type { Kind } from "./principal.ts";
import type { Connection } from "#duckdb/database.ts";
import { createHeld, holdAmbiguous, holdAmbiguousJoins } from "./quarantine.ts";
import { createLinks, unresolvedLinks } from "./references.ts";
import { stage, stagedTables } from "./stage.ts";
import type { Observer, OpenSource, Staged } from "./stage.ts";
import { assembledDdl } from "./tables.ts";

export interface AssemblyOptions {
  /** The name of the table that is made. */
  readonly table: string;
  readonly signal: AbortSignal;
  /** Called when all records are in tables, and what follows is SQL over them. */
  readonly staged?: () => Promise<void>;
  /** Called now and then with the number of records read so far. */
  readonly progress?: (records: number) => void;
  readonly observer?: Observer;
}

/** What became of the records. Every entry is a user, a group, excluded or quarantined. */
export interface Assembly extends Resolution, Staged {}

/**
 * Makes principals of what sources deliver: three tables, and what there is to say about them.
 *
 * - `options.table`: the columns of `assembledDdl`; one row for each principal, the configuration's groups among them.
 * - `quarantined (kind, name, source, source_id, origin, reason)`: the entries that are in scope, but of which it is
 *   unknown what they become: a rule fails; another one has the same id or name; a reference may mean this one or
 *   another. `name` is null when not even that is known. Unknown is not absent: what the target has of them stays.
 * - `contributor (kind, name, source, source_id)`: the further entries that a principal was made of, where entries of
 *   several sources are joined.
 *
 * Keys mean something only within their source. Entries that the rules exclude are as good as absent: they make
 * neither an id nor a name nor a key ambiguous. Memberships in quarantined groups are left out, since they stay what
 * they are in the target. All text is in Unicode Normalization Form C.
 *
 * Nothing is kept in JavaScript that grows with the directory. When it fails, the tables are gone.
 * @throws the error of a source, or the signal's reason
 */
export async function assemble(
  connection: Connection,
  sources: readonly OpenSource[],
  rules: CompiledRules,
  options: AssemblyOptions,
): Promise<Assembly> {
  const { signal } = options;
  const table = `"${options.table.replaceAll('"', '""')}"`;
  const interrupt = (): void => {
    connection.interrupt();
  };
  signal.addEventListener("abort", interrupt);
  try {
    signal.throwIfAborted();
    const staged = await stage(connection, sources, rules, options);
    await options.staged?.();
    const resolution = await resolve(connection, table, rules, options.observer !== undefined);
    await options.observer?.assembled(connection);
    signal.throwIfAborted();
    return { ...staged, ...resolution };
  } catch (error) {
    await drop(connection, [table, "quarantined", "contributor"]);
    throw signal.aborted ? signal.reason : error;
  } finally {
    signal.removeEventListener("abort", interrupt);
    await drop(connection, [...stagedTables, ...resolutionTables]);
  }
}

async function drop(connection: Connection, tables: readonly string[]): Promise<void> {
  await connection.run(tables.map((table) => `DROP TABLE IF EXISTS ${table};`).join(" "));
}

/** A source's record that does not become a principal, and why. */
export interface Finding {
  readonly kind: Kind;
  /** The principal's name, when that much is known. */
  readonly name?: string;
  readonly source: string;
  readonly sourceId: string;
  readonly origin: string;
  readonly reason: string;
}

/** What the staged records amount to. */
export interface Resolution {
  readonly users: number;
  readonly groups: number;
  /** Entries of which it is unknown what they become. */
  readonly quarantined: { readonly count: number; readonly examples: readonly Finding[] };
  /** References that make no membership, a line for each example. */
  readonly unresolved: { readonly count: number; readonly examples: readonly string[] };
}

/** How many examples of each are given. */
const examples = 20;
/** How many entries' groups are gathered at a time: DuckDB cannot spill the lists that it is making. */
const slice = 100_000;

/** The temporary tables that `resolve` makes. */
const resolutionTables = ["key_owner", "link", "held", "membership", "held_group", "default_group"];

/**
 * Makes the tables `target`, `contributor` and `quarantined` of the staged ones.
 * @param target an SQL identifier
 */
async function resolve(
  connection: Connection,
  target: string,
  { defaultGroups, joins }: Pick<CompiledRules, "defaultGroups" | "joins">,
  keepLinks = false,
): Promise<Resolution> {
  await createHeld(connection);
  if (joins) await holdAmbiguousJoins(connection);
  await createLinks(connection, keepLinks);
  await holdAmbiguous(connection);
  const unresolved = await unresolvedLinks(connection, examples);
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE membership AS
    SELECT DISTINCT member, grp FROM link
    WHERE lost_key IS NULL AND member NOT IN (SELECT seq FROM held) AND grp NOT IN (SELECT seq FROM held);
    ${keepLinks ? "" : "DROP TABLE link"}`);
  await createPrincipals(connection, target, defaultGroups);
  await connection.run(`
    CREATE OR REPLACE TABLE contributor AS
    SELECT e.kind, e.name, s.name AS source, j.source_id
    FROM joined_record j JOIN staged_entry e USING (seq) JOIN staged_source s ON s.source = j.source
    WHERE j.seq NOT IN (SELECT seq FROM held);
    CREATE OR REPLACE TABLE quarantined AS
    SELECT e.kind, e.name, s.name AS source, e.source_id, e.origin, h.reason
    FROM (SELECT seq, string_agg(DISTINCT reason, '; ' ORDER BY reason) AS reason FROM held GROUP BY seq) h
    JOIN staged_entry e USING (seq) JOIN staged_source s USING (source)
    ORDER BY e.seq`);
  const [counts] = await connection.rows<Record<"users" | "groups" | "quarantined", bigint>>(`
    SELECT count(*) FILTER (kind = 'user') AS users, count(*) FILTER (kind = 'group') AS groups,
      (SELECT count(*) FROM quarantined) AS quarantined
    FROM ${target}`);
  return {
    users: Number(counts?.users ?? 0),
    groups: Number(counts?.groups ?? 0),
    quarantined: { count: Number(counts?.quarantined ?? 0), examples: await findings(connection) },
    unresolved,
  };
}

async function createPrincipals(
  connection: Connection,
  target: string,
  defaultGroups: readonly string[],
): Promise<void> {
  const defaults = defaultGroups.map((name) => `'${name.replaceAll("'", "''")}'`).join(", ");
  await connection.run(`
    CREATE OR REPLACE TABLE ${target} (${assembledDdl});
    CREATE OR REPLACE TEMP TABLE held_group AS
    SELECT DISTINCT name FROM staged_entry e SEMI JOIN held USING (seq) WHERE e.kind = 'group' AND e.name IS NOT NULL;
    CREATE OR REPLACE TEMP TABLE default_group AS
    SELECT unnest([${defaults}]::VARCHAR[]) AS name EXCEPT SELECT name FROM held_group`);
  const [last] = await connection.rows<{ seq: number | null; named: boolean }>(
    "SELECT max(seq) AS seq, EXISTS (FROM staged_group_name) OR EXISTS (FROM default_group) AS named FROM staged_entry",
  );
  // No two groups that count have one name: only a name that stands in a rule may be there twice.
  const distinct = last?.named === true ? "DISTINCT " : "";
  for (let from = 0; from <= (last?.seq ?? 0); from += slice) {
    const within = (column: string): string => `${column} >= ${from} AND ${column} < ${from + slice}`;
    await connection.run(`
      INSERT INTO ${target}
      WITH group_name AS (
        SELECT m.member, g.name FROM membership m JOIN staged_entry g ON g.seq = m.grp WHERE ${within("m.member")}
        UNION ALL
        SELECT n.member, n.name FROM staged_group_name n
        WHERE ${within("n.member")} AND n.name NOT IN (FROM held_group)
        UNION ALL
        SELECT e.seq, d.name FROM staged_entry e, default_group d WHERE ${within("e.seq")} AND e.kind = 'user'),
      gathered AS (
        SELECT member, list(${distinct}name ORDER BY name) AS names FROM group_name GROUP BY member)
      SELECT e.kind, e.name, e.display_name, e.description, e.mail, coalesce(g.names, []), s.name, e.source_id, e.origin,
        e.kept
      FROM staged_entry e JOIN staged_source s USING (source) LEFT JOIN gathered g ON g.member = e.seq
      WHERE ${within("e.seq")} AND e.seq NOT IN (SELECT seq FROM held)`);
  }
}

async function findings(connection: Connection): Promise<Finding[]> {
  const rows = await connection.rows<Omit<Finding, "name"> & { name: string | null }>(`
    SELECT kind, name, source, source_id AS "sourceId", origin, reason FROM quarantined LIMIT ${examples}`);
  return rows.map(({ name, ...rest }) => (name === null ? rest : Object.assign(rest, { name })));
}
