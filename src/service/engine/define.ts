import { InputError, firstLineOf } from "#errors.ts";
import { identifier } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import type { Databases } from "./databases.ts";
import { hasWords, nameAt, splitStatements } from "./statements.ts";
import type { Statement } from "./statements.ts";
import { columnsOf } from "./tables.ts";

/** What a statement of a definition makes. */
type Definition =
  | { readonly makes: "database"; readonly database: string }
  | { readonly makes: "schema"; readonly database: string; readonly schema: string }
  | {
      readonly makes: "table";
      readonly database: string;
      readonly schema: string;
      readonly table: string;
      /** From the opening parenthesis on, as written. */
      readonly body: string;
    };

const forms = "CREATE DATABASE IF NOT EXISTS d, CREATE SCHEMA IF NOT EXISTS d.s, CREATE TABLE IF NOT EXISTS d.s.t (…)";
const makes = { DATABASE: 1, SCHEMA: 2, TABLE: 3 } as const;

/**
 * Makes what a definition names and is not there yet. The whole definition is checked before anything is made.
 * @param schemaOf the schema a name stands for; of an absent name, the default one
 * @throws {InputError} with every problem as `origin:line: …`
 */
export async function define(
  databases: Databases,
  sql: string,
  origin: string,
  schemaOf: (name: string | undefined) => string,
): Promise<void> {
  const problems: string[] = [];
  const definitions: { readonly definition: Definition; readonly place: string }[] = [];
  const known = new Set(databases.names().map((name) => name.toLowerCase()));
  await databases.use(async (connection) => {
    for (const statement of splitStatements(sql)) {
      const place = `${origin}:${statement.line}`;
      try {
        const definition = parse(sql, statement, schemaOf);
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
        problems.push(`${place}: ${firstLineOf(error)}`);
      }
    }
    report(origin, problems);
    for (const { definition, place } of definitions) {
      await make(databases, connection, definition).catch((cause: unknown) => {
        throw new InputError(`${place}: ${firstLineOf(cause)}`, { cause });
      });
    }
  });
}

function report(origin: string, problems: readonly string[]): void {
  const [first] = problems;
  if (first === undefined) return;
  throw new InputError(problems.length === 1 ? first : `${origin} has ${problems.length} problems`, { problems });
}

function parse(script: string, statement: Statement, schemaOf: (name: string | undefined) => string): Definition {
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

/** Makes the table in memory, looks at its columns, and drops it: DuckDB says what the words mean. */
async function tryTable(connection: Connection, table: string, body: string): Promise<void> {
  const scratch = `memory.main.${identifier(table)}`;
  await connection.run("BEGIN TRANSACTION");
  try {
    await connection.run(`CREATE TABLE ${scratch} ${body}`);
    const [made] = await connection.rows<{ oid: bigint }>(
      "SELECT table_oid AS oid FROM duckdb_tables() WHERE database_name = 'memory' AND table_name = $1",
      [table],
    );
    const columns = made === undefined ? [] : await columnsOf(connection, "memory", made.oid);
    const problems = columns.flatMap((column) => ("problem" in column ? [column.problem] : []));
    if (problems.length > 0) throw new InputError(`table ${table}: ${problems.join("; ")}`);
    // A load writes every column: a generated one would refuse it.
    const values = columns.map(() => "NULL").join(", ");
    await connection.raw.prepare(`INSERT INTO ${scratch} VALUES (${values})`).catch((cause: unknown) => {
      throw new InputError(`table ${table} cannot be loaded: ${firstLineOf(cause)}`, { cause });
    });
  } finally {
    await connection.run("ROLLBACK");
  }
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
