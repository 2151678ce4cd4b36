import { listValue } from "@duckdb/node-api";
import type { Connection } from "#duckdb/database.ts";
import { identifier } from "#duckdb/database.ts";
import { firstLineOf, InputError } from "#errors.ts";
import { obstacleOf, unwritable } from "#files/disk.ts";
import { ledgerName } from "./databases.ts";
import type { Databases } from "./databases.ts";
import { columnTypes, schemaOf } from "./engine.ts";
import type { Column, ColumnType, ListedTable, Table } from "./engine.ts";
import { hasWords, nameAt, refuseProblems, splitStatements } from "./statements.ts";
import type { Statement } from "./statements.ts";

/**
 * The table of this name in a database, from DuckDB's catalogue. DuckDB allows names beyond ASCII that differ in case only;
 * of such tables, the one spelled like the request.
 * @throws {InputError} if it has a column that loads cannot write
 */
export async function findTable(
  connection: Connection,
  name: { database: string; schema: string; table: string },
): Promise<Table | undefined> {
  const [found] = await connection.rows<{ schema: string; name: string; oid: bigint; sql: string }>(
    `SELECT schema_name AS schema, table_name AS name, table_oid AS oid, sql
     FROM duckdb_tables()
     WHERE database_name = $1 AND lower(schema_name) = lower($2) AND lower(table_name) = lower($3)
     ORDER BY schema_name = $2 DESC, table_name = $3 DESC LIMIT 1`,
    [name.database, name.schema, name.table],
  );
  if (found === undefined) return undefined;
  const { columns, problems } = await columnsOf(connection, name.database, found);
  if (problems.length > 0) {
    throw new InputError(`table ${name.database}.${found.schema}.${found.name}: ${problems.join("; ")}`);
  }
  const [key] = await connection.rows<{ columns: string[] }>(
    `SELECT constraint_column_names AS columns FROM duckdb_constraints()
     WHERE database_name = $1 AND table_oid = $2 AND constraint_type = 'PRIMARY KEY'`,
    [name.database, found.oid],
  );
  return {
    database: name.database,
    schema: found.schema,
    name: found.name,
    columns,
    primaryKey: key?.columns ?? [],
  };
}

/** Counting more rows than these takes longer than a person should wait. */
const mostCounted = 200_000_000;

/** The tables of databases, by name. */
export async function listTables(connection: Connection, databases: readonly string[]): Promise<ListedTable[]> {
  // The type of an empty list is unknown.
  if (databases.length === 0) return [];
  const tables = await connection.rows<ListedRow>(
    `SELECT database_name AS database, schema_name AS schema, table_name AS name, estimated_size::DOUBLE AS estimated, sql,
       (SELECT list({name: column_name, type: data_type, nullable: is_nullable} ORDER BY column_index)
        FROM duckdb_columns() c WHERE c.database_name = t.database_name AND c.table_oid = t.table_oid)::JSON::VARCHAR AS columns,
       (SELECT any_value(constraint_column_names) FROM duckdb_constraints() k
        WHERE k.database_name = t.database_name AND k.table_oid = t.table_oid AND constraint_type = 'PRIMARY KEY') AS key
     FROM duckdb_tables() t
     WHERE list_contains($1, database_name) AND NOT (schema_name = 'main' AND table_name = $2)
     ORDER BY ALL`,
    [listValue([...databases]), ledgerName],
  );
  const isCounted = tables.reduce((sum, { estimated }) => sum + estimated, 0) <= mostCounted;
  const counts = isCounted && tables.length > 0 ? await countRows(connection, tables) : [];
  return tables.map(({ database, schema, name: called, estimated, columns: json, key, sql }, index) => {
    const columns = JSON.parse(json) as ListedTable["columns"];
    const problems = problemsOf(columns, sql);
    return {
      database,
      schema,
      name: called,
      columns,
      primaryKey: key ?? [],
      rows: counts[index] ?? estimated,
      isEstimated: !isCounted,
      problem: problems.length === 0 ? undefined : problems.join("; "),
    };
  });
}

interface ListedRow extends Pick<ListedTable, "database" | "schema" | "name"> {
  readonly estimated: number;
  readonly columns: string;
  readonly sql: string;
  readonly key: string[] | null;
}

async function countRows(connection: Connection, tables: readonly ListedRow[]): Promise<number[]> {
  const counts = tables.map(
    ({ database, schema, name }, index) =>
      `SELECT ${index} AS position, count(*)::DOUBLE AS rows FROM ${[database, schema, name].map(identifier).join(".")}`,
  );
  const rows = await connection.rows<{ rows: number }>(`${counts.join(" UNION ALL ")} ORDER BY position`);
  return rows.map(({ rows: count }) => count);
}

/** Why loads cannot write to a table. @param sql its definition */
function problemsOf(columns: readonly { readonly name: string; readonly type: string }[], sql: string): string[] {
  const unsupported = columns.filter(({ type }) => typeOf(type) === undefined);
  return [
    ...unsupported.map(
      ({ name, type }) => `column ${name} is of type ${type}; give it one of ${columnTypes.join(", ")}`,
    ),
    ...generatedColumns(sql),
  ];
}

/** Why loads cannot write to columns that are computed from others: only DuckDB's text of the definition tells them. */
function generatedColumns(sql: string): string[] {
  if (!sql.includes("GENERATED")) return [];
  const tokens = splitStatements(sql)[0]?.tokens ?? [];
  const problems: string[] = [];
  let depth = 0;
  let column = "";
  for (const [index, { kind, text }] of tokens.entries()) {
    if (kind === "symbol" && text === "(") depth += 1;
    if (kind === "symbol" && text === ")") depth -= 1;
    if (kind === "symbol" && depth === 1 && (text === "(" || text === ",")) column = tokens[index + 1]?.text ?? "";
    if (depth === 1 && hasWords(tokens, index, ["GENERATED", "ALWAYS", "AS"]))
      problems.push(`column ${column} is GENERATED ALWAYS and cannot be loaded`);
  }
  return problems;
}

/** The type of a column that loads can write. @param type as DuckDB has it: `DECIMAL(9,2)` */
function typeOf(type: string): ColumnType | undefined {
  const base = type.startsWith("DECIMAL(") ? "DECIMAL" : type;
  return columnTypes.find((each) => each === base);
}

/** The columns of a table in order that loads can write, and why they cannot write to all. */
async function columnsOf(
  connection: Connection,
  database: string,
  { oid, sql }: { readonly oid: bigint; readonly sql: string },
): Promise<{ readonly columns: Column[]; readonly problems: string[] }> {
  const rows = await connection.rows<{
    name: string;
    type: string;
    nullable: boolean;
    width: number | null;
    scale: number | null;
  }>(
    `SELECT column_name AS name, data_type AS type, is_nullable AS nullable,
       numeric_precision AS width, numeric_scale AS scale
     FROM duckdb_columns() WHERE database_name = $1 AND table_oid = $2 ORDER BY column_index`,
    [database, oid],
  );
  const columns = rows.flatMap(({ name, type: full, nullable, width, scale }): Column[] => {
    const type = typeOf(full);
    if (type === undefined) return [];
    return [{ name, type, nullable, ...(type === "DECIMAL" ? { width: width ?? 18, scale: scale ?? 0 } : {}) }];
  });
  return { columns, problems: problemsOf(rows, sql) };
}

/** What a statement of a definition creates. */
type Definition =
  | { readonly makes: "database"; readonly database: string }
  | { readonly makes: "schema"; readonly database: string; readonly schema: string }
  | {
      readonly makes: "table";
      readonly database: string;
      readonly schema: string;
      readonly table: string;
      /** The text from the opening parenthesis on, as written. */
      readonly body: string;
    };

const forms = "CREATE DATABASE IF NOT EXISTS d, CREATE SCHEMA IF NOT EXISTS d.s, CREATE TABLE IF NOT EXISTS d.s.t (…)";
const makes = { DATABASE: 1, SCHEMA: 2, TABLE: 3 } as const;

/**
 * Creates everything in a definition that does not exist yet. The whole definition is checked first.
 * @throws {InputError} with every problem as `origin:line: …`; {UnavailableError} when the disk is full
 */
export async function define(databases: Databases, sql: string, origin: string): Promise<void> {
  const problems: string[] = [];
  const definitions: { readonly definition: Definition; readonly place: string }[] = [];
  const known = new Set(databases.names().map((name) => name.toLowerCase()));
  await databases.use(async (connection) => {
    for (const statement of splitStatements(sql)) {
      const place = `${origin}:${statement.line}`;
      try {
        const definition = parse(sql, statement);
        if (definition.makes === "database") known.add(definition.database.toLowerCase());
        if (!known.has(definition.database.toLowerCase())) {
          throw new InputError(
            `there is no database ${definition.database}: ` +
              `put CREATE DATABASE IF NOT EXISTS ${definition.database}; before this statement`,
          );
        }
        if (definition.makes === "table") await tryTable(connection, definition.table, definition.body);
        definitions.push({ definition, place });
      } catch (error) {
        problems.push(`${place}: ${isReference(error) ? noReference : firstLineOf(error)}`);
      }
    }
    refuseProblems(origin, problems);
    for (const { definition, place } of definitions) {
      await make(databases, connection, definition).catch((cause: unknown) => {
        if (obstacleOf(cause) !== undefined)
          throw unwritable(`the database file ${databases.pathOf(definition.database)}`, cause);
        throw new InputError(`${place}: ${firstLineOf(cause)}`, { cause });
      });
    }
  });
}

/** DuckDB looks for the other table in memory, or takes its full name for another database's. */
function isReference(error: unknown): boolean {
  return /FOREIGN KEY constraints|Table with name .* does not exist/.test(firstLineOf(error));
}

const noReference =
  "foreign keys (REFERENCES) cannot be made here: leave them out, or make the table with `rollcall sql --database`";

function parse(script: string, statement: Statement): Definition {
  const { tokens } = statement;
  const kind = tokens[1]?.text.toUpperCase();
  if (!hasWords(tokens, 0, ["CREATE"]) || (kind !== "DATABASE" && kind !== "SCHEMA" && kind !== "TABLE")) {
    throw new InputError(`a definition holds nothing but ${forms}; this is ${statement.sql.slice(0, 60)}`);
  }
  if (!hasWords(tokens, 2, ["IF", "NOT", "EXISTS"])) {
    throw new InputError(`write CREATE ${kind} IF NOT EXISTS: a definition is applied at every start`);
  }
  const { parts, next } = nameAt(tokens, 5);
  const [database, second, third] = parts;
  const rest = tokens[next];
  const fits = kind === "TABLE" ? parts.length === 2 || parts.length === 3 : parts.length === makes[kind];
  if (database === undefined || !fits) throw new InputError(`the name does not fit: expected ${forms}`);
  if (kind !== "TABLE" || second === undefined) {
    if (rest !== undefined) throw new InputError(`unexpected "${rest.text}" after the name`);
    if (second === undefined) return { makes: "database", database };
    return { makes: "schema", database, schema: schemaOf(second) };
  }
  const last = tokens.at(-1);
  if (rest?.text !== "(" || last?.text !== ")") {
    throw new InputError("the columns are missing: CREATE TABLE IF NOT EXISTS d.s.t (name TYPE, …)");
  }
  return {
    makes: "table",
    database,
    schema: schemaOf(third === undefined ? undefined : second),
    table: third ?? second,
    body: script.slice(rest.start, last.end),
  };
}

/** Checks a table by creating it in memory, reading its columns and dropping it: DuckDB interprets the definition. */
async function tryTable(connection: Connection, table: string, body: string): Promise<void> {
  const scratch = `memory.main.${identifier(table)}`;
  await connection.transaction(async () => {
    await connection.run(`CREATE TABLE ${scratch} ${body}`);
    const [made] = await connection.rows<{ oid: bigint; sql: string }>(
      "SELECT table_oid AS oid, sql FROM duckdb_tables() WHERE database_name = 'memory' AND table_name = $1",
      [table],
    );
    const { problems } = made === undefined ? { problems: [] } : await columnsOf(connection, "memory", made);
    if (problems.length > 0) throw new InputError(`table ${table}: ${problems.join("; ")}`);
    await connection.run(`DROP TABLE ${scratch}`);
  });
}

async function make(databases: Databases, connection: Connection, definition: Definition): Promise<void> {
  if (definition.makes === "database") {
    await databases.create(definition.database);
    return;
  }
  const database = databases.find(definition.database) ?? definition.database;
  const schema = `${identifier(database)}.${identifier(definition.schema)}`;
  await (definition.makes === "schema"
    ? connection.run(`CREATE SCHEMA IF NOT EXISTS ${schema}`)
    : connection.run(`CREATE TABLE IF NOT EXISTS ${schema}.${identifier(definition.table)} ${definition.body}`));
}
