import { InputError } from "#errors.ts";
import type { Transaction } from "#postgres/database.ts";
import { schemasOf } from "./names.ts";

/*
 * What a query may use: tables and views of its database, and functions that compute. PostgreSQL itself says what it uses: the
 * query becomes a temporary view, whose stored tree names every table, function and operator by its OID, and the view is
 * rolled back.
 */

/** Functions that give another value each time, and do nothing else. */
const harmless =
  /^(?:random|random_normal|gen_random_uuid|uuidv4|uuidv7|clock_timestamp|timeofday|array_sample|array_shuffle)$/;

/** Functions that say something of the server, its settings and its other tables, or run SQL that they are given. */
const telling =
  /^(?:pg_(?!typeof$|column_size$|size_pretty$|size_bytes$|input_is_valid$)|current_setting$|has_|row_security_active|to_reg|inet_|obj_description|col_description|shobj_description|txid_|lo_|dblink|.*_to_xml)/;

interface Used {
  readonly kind: "relation" | "function";
  readonly schema: string;
  readonly name: string;
  readonly volatile: boolean;
}

/**
 * @param statement one statement without its semicolon
 * @param namespaces all schemas that may hold tables
 * @throws {InputError} naming what the query may not use; PostgreSQL's error if it is no query
 */
export async function checkQuery(
  transaction: Transaction,
  statement: string,
  database: string,
  namespaces: readonly string[],
): Promise<void> {
  const own = new Set(schemasOf(database, namespaces));
  await transaction.run("SAVEPOINT before_check");
  // In parentheses, equal names of columns do not matter, and nothing but a query fits.
  await transaction.text(`CREATE TEMPORARY VIEW rollcall_query AS SELECT count(*) FROM (\n${statement}\n) AS query`);
  const used = await transaction.rows<Used>(usedBy);
  await transaction.run("ROLLBACK TO SAVEPOINT before_check");
  for (const { kind, schema, name, volatile } of used) {
    if (kind === "relation") {
      // No list of what there is: not everybody who may query one database should see the others.
      if (!own.has(schema)) throw new InputError(`${schema}.${name} is no table or view of the database ${database}`);
    } else if (!own.has(schema)) {
      if (schema !== "pg_catalog" || (volatile ? !harmless.test(name) : telling.test(name)))
        throw new InputError(`the function ${name} cannot be used in a query`);
    }
  }
}

const usedBy = `
  WITH tree AS MATERIALIZED (
    SELECT found[1] AS kind, found[2]::oid AS oid
    FROM pg_rewrite, regexp_matches(ev_action::text, ':(relid|funcid|aggfnoid|winfnoid|opno|tsmhandler) (\\d+)', 'g') AS found
    WHERE ev_class = 'pg_temp.rollcall_query'::regclass
  ),
  functions AS (
    SELECT oid FROM tree WHERE kind NOT IN ('relid', 'opno')
    UNION SELECT oprcode::oid FROM pg_operator WHERE oid IN (SELECT oid FROM tree WHERE kind = 'opno')
  )
  SELECT 'relation' AS kind, nspname::text AS schema, relname::text AS name, false AS volatile
  FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace
  WHERE pg_class.oid IN (SELECT oid FROM tree WHERE kind = 'relid') AND pg_class.oid <> 'pg_temp.rollcall_query'::regclass
  UNION ALL
  SELECT 'function', nspname::text, proname::text, provolatile = 'v'
  FROM pg_proc JOIN pg_namespace n ON n.oid = pronamespace
  WHERE pg_proc.oid IN (SELECT oid FROM functions)`;
