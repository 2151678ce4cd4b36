import { InputError } from "#errors.ts";
import type { Transaction } from "#postgres/database.ts";
import { defaultSchema } from "#service/engine/engine.ts";
import type { Column, ColumnType, ListedTable, Table, TableName } from "#service/engine/engine.ts";
import { fold, meant, qualified, readNamespaces, soughtPlace } from "./names.ts";

/** PostgreSQL's types that loads write, and what a load converts fields to. */
const columnTypes: Readonly<Record<string, ColumnType>> = {
  text: "VARCHAR",
  varchar: "VARCHAR",
  int8: "BIGINT",
  int4: "INTEGER",
  int2: "SMALLINT",
  float8: "DOUBLE",
  float4: "FLOAT",
  numeric: "DECIMAL",
  bool: "BOOLEAN",
  date: "DATE",
  time: "TIME",
  timestamp: "TIMESTAMP",
  uuid: "UUID",
};

/** For messages. */
const typeList =
  "text, bigint, integer, smallint, double precision, real, numeric(p, s), boolean, date, time, timestamp, uuid";

/** The most digits of a DECIMAL that DuckDB converts a field to. */
const mostDigits = 38;

/** A table, and the schema that PostgreSQL has it in. */
export interface FoundTable {
  readonly table: Table;
  readonly namespace: string;
}

/**
 * The table of this name; undefined if there is none.
 * @throws {InputError} if it has a column that loads cannot write
 */
export async function findTable(
  transaction: Pick<Transaction, "rows">,
  name: TableName,
): Promise<FoundTable | undefined> {
  const place = soughtPlace(name.database, name.schema);
  const namespace = meant(place.namespace, await readNamespaces(transaction));
  // PostgreSQL takes no text with the character 0, not even to say that there is no such name.
  if (namespace === undefined || name.table.includes("\0")) return undefined;
  const tables = await transaction.rows<{ oid: number; name: string }>(
    `SELECT c.oid, c.relname::text AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'f') AND (lower(c.relname) = lower($2) OR c.relname ~ '[^ -~]')`,
    [namespace, name.table],
  );
  const table = meant(
    name.table,
    tables.map(({ name }) => name),
  );
  const oid = tables.find((found) => found.name === table)?.oid;
  if (table === undefined || oid === undefined) return undefined;
  const { columns, problems } = await columnsOf(transaction, oid);
  const schema = fold(namespace) === fold(place.database) ? defaultSchema : namespace.slice(place.database.length + 1);
  const database = namespace.slice(0, place.database.length);
  if (problems.length > 0) throw new InputError(`table ${database}.${schema}.${table}: ${problems.join("; ")}`);
  return { namespace, table: { database, schema, name: table, columns, primaryKey: await keyOf(transaction, oid) } };
}

/** Counting more than these bytes takes longer than a person should wait. */
const mostCounted = 2 ** 30;

/** The tables of all databases, by name. */
export async function listTables(transaction: Pick<Transaction, "rows">): Promise<ListedTable[]> {
  const namespaces = await readNamespaces(transaction);
  const tables = await transaction.rows<{ oid: number; namespace: string; name: string; size: number; rows: number }>(
    `SELECT c.oid, n.nspname::text AS namespace, c.relname::text AS name,
       pg_relation_size(c.oid)::float8 AS size, greatest(c.reltuples, 0)::float8 AS rows
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = ANY($1) AND c.relkind IN ('r', 'p', 'f') AND NOT c.relispartition
       AND has_table_privilege(c.oid, 'SELECT')
     ORDER BY n.nspname, c.relname`,
    [namespaces],
  );
  const isEstimated = tables.reduce((sum, { size }) => sum + size, 0) > mostCounted;
  const listed: ListedTable[] = [];
  for (const { oid, namespace, name, rows: estimated } of tables) {
    const [count] = isEstimated
      ? [{ rows: estimated }]
      : await transaction.rows<{ rows: number }>(`SELECT count(*)::float8 AS rows FROM ${qualified(namespace, name)}`);
    const { columns, problems } = await columnsOf(transaction, oid);
    const [database = "", ...schema] = namespace.split(".");
    listed.push({
      database,
      schema: schema.length === 0 ? defaultSchema : schema.join("."),
      name,
      columns: columns.map(({ name: column, type, width, scale, nullable }) => ({
        name: column,
        type: type === "DECIMAL" ? `DECIMAL(${width ?? 18},${scale ?? 0})` : type,
        nullable,
      })),
      primaryKey: await keyOf(transaction, oid),
      rows: count?.rows ?? estimated,
      isEstimated,
      problem: problems.length === 0 ? undefined : problems.join("; "),
    });
  }
  return listed;
}

/** The columns of a table in order, and what keeps loads from writing to them. */
export async function columnsOf(
  transaction: Pick<Transaction, "rows">,
  oid: number,
): Promise<{ readonly columns: Column[]; readonly problems: string[] }> {
  const rows = await transaction.rows<{
    name: string;
    type: string;
    shown: string;
    modifier: number;
    required: boolean;
    made: string;
  }>(
    `SELECT a.attname::text AS name, t.typname::text AS type, format_type(a.atttypid, a.atttypmod) AS shown,
       a.atttypmod AS modifier, a.attnotnull AS required, concat(a.attgenerated, nullif(a.attidentity, 'd')) AS made
     FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
     WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`,
    [oid],
  );
  const problems: string[] = [];
  const columns = rows.flatMap((row): Column[] => {
    if (row.made !== "") {
      problems.push(`column ${row.name} is GENERATED ALWAYS and cannot be loaded`);
      return [];
    }
    const type = columnTypes[row.type];
    const limits = type === "DECIMAL" ? decimalOf(row.modifier) : type === "VARCHAR" ? textOf(row.modifier) : {};
    if (type === undefined || limits === undefined) {
      problems.push(`column ${row.name} is of type ${row.shown}; give it one of ${typeList}`);
      return [];
    }
    return [{ name: row.name, type, nullable: !row.required, ...limits }];
  });
  return { columns, problems };
}

/** Width and scale of `numeric(p, s)`; undefined when DuckDB has no such DECIMAL. */
function decimalOf(modifier: number): { width: number; scale: number } | undefined {
  if (modifier < 4) return undefined;
  const width = ((modifier - 4) >> 16) & 0xffff;
  // Eleven bits with a sign.
  const scale = ((((modifier - 4) & 0x7ff) ^ 1024) - 1024) | 0;
  return width > mostDigits || scale < 0 || scale > width ? undefined : { width, scale };
}

/** What `text` and `varchar(n)` hold. */
function textOf(modifier: number): Pick<Column, "longest" | "isZeroFree"> {
  return { longest: modifier < 4 ? undefined : modifier - 4, isZeroFree: true };
}

async function keyOf(transaction: Pick<Transaction, "rows">, oid: number): Promise<string[]> {
  const rows = await transaction.rows<{ name: string }>(
    `SELECT a.attname::text AS name
     FROM pg_index i CROSS JOIN unnest(i.indkey::int2[]) WITH ORDINALITY AS key (number, place)
       JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = key.number
     WHERE i.indrelid = $1 AND i.indisprimary ORDER BY key.place`,
    [oid],
  );
  return rows.map(({ name }) => name);
}
