import type { TableColumn } from "#exports/format/guess.ts";
import { runSql } from "#client/sql.ts";
import type { Load } from "#client/loads.ts";
import type { Context } from "#daemon/context.ts";
import { embeddedOptions } from "#daemon/targets.ts";
import { InputError } from "#errors.ts";
import { InvalidArgumentError } from "commander";
import { didYouMean, nearest } from "#text.ts";

/** The schema of `database.table`. */
const usualSchema = "core_default_schema";

/** Database, schema and table as the interface names them, the column, and its type as DuckDB has it. */
const queries = {
  duckdb: `SELECT table_catalog, table_schema, table_name, column_name, data_type
    FROM information_schema.columns WHERE table_schema <> 'main' ORDER BY ordinal_position`,
  postgres: `SELECT split_part(nspname, '.', 1),
      coalesce(nullif(substr(nspname, strpos(nspname || '.', '.') + 1), ''), '${usualSchema}'), relname, attname,
      CASE typname WHEN 'text' THEN 'VARCHAR' WHEN 'varchar' THEN 'VARCHAR' WHEN 'int8' THEN 'BIGINT'
        WHEN 'int4' THEN 'INTEGER' WHEN 'int2' THEN 'SMALLINT' WHEN 'float8' THEN 'DOUBLE' WHEN 'float4' THEN 'FLOAT'
        WHEN 'bool' THEN 'BOOLEAN' WHEN 'numeric' THEN replace(format_type(atttypid, atttypmod), 'numeric', 'DECIMAL')
        ELSE upper(typname) END
    FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid JOIN pg_namespace n ON n.oid = relnamespace
      JOIN pg_type t ON t.oid = atttypid
    WHERE attnum > 0 AND NOT attisdropped AND relkind IN ('r', 'p', 'f')
      AND nspname NOT IN ('information_schema', 'rollcall') AND nspname NOT LIKE 'pg\\_%'
    ORDER BY attnum`,
};

/**
 * The columns of a table of the configuration's own service.
 * @throws {InputError} when there is none, with those that have nearly its name
 */
export async function columnsOfTable(
  { configuration, embedded, interruption }: Pick<Context, "configuration" | "embedded" | "interruption">,
  { database, schema = usualSchema, table }: Load["into"],
): Promise<readonly TableColumn[]> {
  const options = await embeddedOptions("embedded", embedded);
  const engine = configuration.service?.engine === "duckdb" ? "duckdb" : "postgres";
  const { rows } = await runSql(options, { sql: queries[engine] }, interruption.stop);
  const all = rows.map(([inDatabase, inSchema, inTable, name, type]) => ({
    path: [inDatabase, inSchema, inTable].map(String) as [string, string, string],
    name: String(name),
    type: String(type),
  }));
  const wanted = written([database, schema, table]);
  const found = all.filter(({ path }) => written(path).toLowerCase() === wanted.toLowerCase());
  if (found.length === 0) throw missingTable(wanted, [...new Set(all.map(({ path }) => written(path)))]);
  return found;
}

function missingTable(wanted: string, tables: readonly string[]): InputError {
  const namesake = tables.find((path) => lastPart(path) === lastPart(wanted));
  // The names of two tables in one database share most letters.
  const last = nearest(lastPart(wanted), tables.map(lastPart));
  const close = nearest(
    wanted,
    tables.filter((path) => lastPart(path) === last),
  );
  const meant = close ?? namesake;
  const hint =
    tables.length === 0
      ? "there are no tables yet"
      : meant === undefined
        ? didYouMean(wanted, tables.slice(0, 20))
        : `did you mean ${JSON.stringify(meant)}?`;
  const end = hint.endsWith("?") ? "" : ".";
  return new InputError(
    `there is no table ${wanted}; ${hint}${end} To make it, add it to the file of \`service.tables\`, or use \`rollcall sql "CREATE TABLE …"\``,
  );
}

/** As `--table` takes it: the usual schema is left out. */
function written([database, schema, table]: readonly [string, string, string]): string {
  return tableText(schema === usualSchema ? [database, table] : [database, schema, table]);
}

function lastPart(path: string): string {
  return (path.split(".").at(-1) ?? path).toLowerCase();
}

/** `a.b.c`, `a.c`; names with dots or quotes in them are written `"a.b"`. */
export function tableName(text: string): Load["into"] {
  const name = /(?:"(?<quoted>(?:[^"]|"")+)"|(?<plain>[^".]+))(?<end>\.|$)/gy;
  const parts: string[] = [];
  let isComplete = false;
  for (const { groups } of text.matchAll(name)) {
    parts.push(groups?.["plain"] ?? groups?.["quoted"]?.replaceAll('""', '"') ?? "");
    isComplete = groups?.["end"] === "";
  }
  const [database, second, third] = parts;
  if (!isComplete || parts.length > 3 || database === undefined || second === undefined) {
    throw new InvalidArgumentError('expected DATABASE.SCHEMA.TABLE or DATABASE.TABLE; "a.b" is a name with a dot.');
  }
  return third === undefined ? { database, table: second } : { database, schema: second, table: third };
}

/** The name of a table as `--table` takes it. */
export function tableText(parts: readonly string[]): string {
  return parts.map((part) => (/[."]/.test(part) ? `"${part.replaceAll('"', '""')}"` : part)).join(".");
}
