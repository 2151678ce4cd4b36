import { InputError } from "#errors.ts";
import type { Connection } from "#duckdb/database.ts";
import type { Column, ColumnType, Table } from "./engine.ts";

const columnTypes: ReadonlySet<string> = new Set<ColumnType>([
  "VARCHAR",
  "BIGINT",
  "INTEGER",
  "SMALLINT",
  "DOUBLE",
  "FLOAT",
  "DECIMAL",
  "BOOLEAN",
  "DATE",
  "TIME",
  "TIMESTAMP",
  "UUID",
]);

/** The types a column may have, as a message lists them. */
const typeList = [...columnTypes].join(", ");

/**
 * The table of that name in a database, as DuckDB's catalogue has it. Of several that differ in case alone, which DuckDB
 * allows beyond ASCII, the one that is spelt like the request.
 * @throws {InputError} when a column has a type that loads do not write
 */
export async function findTable(
  connection: Connection,
  name: { database: string; schema: string; table: string },
): Promise<Table | undefined> {
  const [found] = await connection.rows<{ schema: string; name: string; oid: bigint }>(
    `SELECT schema_name AS schema, table_name AS name, table_oid AS oid
     FROM duckdb_tables()
     WHERE database_name = $1 AND lower(schema_name) = lower($2) AND lower(table_name) = lower($3)
     ORDER BY schema_name = $2 DESC, table_name = $3 DESC LIMIT 1`,
    [name.database, name.schema, name.table],
  );
  if (found === undefined) return undefined;
  const columns = await columnsOf(connection, name.database, found.oid);
  const unsupported = columns.flatMap((column) => ("problem" in column ? [column.problem] : []));
  if (unsupported.length > 0) {
    throw new InputError(`table ${name.database}.${found.schema}.${found.name}: ${unsupported.join("; ")}`);
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
    columns: columns.flatMap((column) => ("problem" in column ? [] : [column])),
    primaryKey: key?.columns ?? [],
  };
}

/** The columns of a table in its order; of one with a type that loads do not write, what is wrong with it. */
export async function columnsOf(
  connection: Connection,
  database: string,
  table: bigint,
): Promise<(Column | { readonly problem: string })[]> {
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
    [database, table],
  );
  return rows.map(({ name, type, nullable, width, scale }) => {
    const base = type.startsWith("DECIMAL(") ? "DECIMAL" : type;
    if (!isColumnType(base)) return { problem: `column ${name} is of type ${type}; give it one of ${typeList}` };
    if (base !== "DECIMAL") return { name, type: base, nullable };
    return { name, type: base, nullable, width: width ?? 18, scale: scale ?? 0 };
  });
}

function isColumnType(type: string): type is ColumnType {
  return columnTypes.has(type);
}
