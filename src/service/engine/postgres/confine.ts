import { InputError } from "#errors.ts";
import type { Transaction } from "#postgres/database.ts";
import { isInternal, schemasOf } from "./names.ts";

/*
 * What SQL may use. PostgreSQL itself says what a statement uses: a query becomes a temporary view, and what an administrator
 * runs the body of a temporary function. Their stored trees name every table, function, operator and type by its OID. Both
 * are rolled back, and nothing of the statement has run.
 */

/** Functions that give another value each time, and do nothing else. */
const harmless =
  /^(?:random|random_normal|gen_random_uuid|uuidv4|uuidv7|clock_timestamp|timeofday|array_sample|array_shuffle)$/;

/** Functions that say something of the server, its settings and its other tables, or run SQL that they are given. */
const telling =
  /^(?:pg_(?!typeof$|column_size$|size_pretty$|size_bytes$|input_is_valid$)|current_setting$|current_schemas$|has_|row_security_active|to_reg|inet_|obj_description|col_description|shobj_description|format_type|acl|makeacl|txid_|lo_|dblink|.*_to_xml)/;

/** Sequences are tables' own. */
const sequences = /^(?:nextval|currval|lastval|setval)$/;

/** What of PostgreSQL's own functions describes tables. */
const describing =
  /^pg_(?:typeof|column_size|size_pretty|size_bytes|input_is_valid|(?:total_)?relation_size|table_size|indexes_size|table_is_visible|encoding_to_char|get_(?:viewdef|indexdef|constraintdef|expr|serial_sequence|partkeydef|function_(?:arguments|result|identity_arguments)))$/;

/** What of PostgreSQL's own tables and views describes tables, and has no values of theirs. */
const catalogue = new Map([
  [
    "pg_catalog",
    /^pg_(?:class|namespace|attribute|attrdef|type|enum|index|indexes|constraint|tables|views|matviews|sequence|sequences|description|inherits|partitioned_table|am|depend|extension|dist_\w+)$/,
  ],
  [
    "information_schema",
    /^(?:tables|columns|views|schemata|sequences|table_constraints|key_column_usage|constraint_column_usage|referential_constraints|check_constraints)$/,
  ],
]);

interface Used {
  /** `change`: an INSERT, UPDATE, DELETE or MERGE is in it. */
  readonly kind: "relation" | "function" | "type" | "change";
  readonly schema: string;
  readonly name: string;
  readonly isVolatile: boolean;
  /** Part of an extension, or written in C: it may do anything, such as run a text as SQL. */
  readonly isForeign: boolean;
  /** A type whose text names things of all schemas; a function that has such an argument. */
  readonly isNaming: boolean;
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
  // In parentheses, equal names of columns do not matter, and nothing but a query fits.
  const view = `CREATE TEMPORARY VIEW rollcall_query AS SELECT count(*) FROM (\n${statement}\n) AS query`;
  const tree = "SELECT ev_action::text AS text FROM pg_rewrite WHERE ev_class = 'pg_temp.rollcall_query'::regclass";
  for (const used of await usedBy(transaction, view, tree)) {
    const { kind, schema, name } = used;
    if (kind === "relation") {
      // No list of what there is: not everybody who may query one database should see the others.
      if (!own.has(schema)) throw new InputError(`${schema}.${name} is no table or view of the database ${database}`);
    } else if (kind === "function") {
      const isFine = own.has(schema) ? !used.isForeign : schema === "pg_catalog" && computes(used);
      if (!isFine) throw new InputError(`the function ${name} cannot be used in a query`);
    } else if (kind === "type" && used.isNaming && !own.has(schema)) {
      throw new InputError(`the type ${name} cannot be used in a query`);
    }
  }
}

function computes({ name, isVolatile, isForeign, isNaming }: Used): boolean {
  if (isForeign) return false;
  if (isVolatile) return harmless.test(name);
  return name === "pg_typeof" || !(isNaming || telling.test(name));
}

/**
 * What an administrator may run: everything with the tables of all databases, nothing with Rollcall's own.
 * @param statement a query, INSERT, UPDATE, DELETE or MERGE without its semicolon
 * @returns whether it may change something
 * @throws {InputError} naming what it may not use
 */
export async function checkStatement(transaction: Transaction, statement: string): Promise<boolean> {
  const made = `CREATE FUNCTION pg_temp.rollcall_statement() RETURNS void BEGIN ATOMIC\n${statement}\n; END`;
  const tree = "SELECT prosqlbody::text AS text FROM pg_proc WHERE oid = 'pg_temp.rollcall_statement'::regproc";
  const used = await usedBy(transaction, made, tree);
  refuse(used);
  return used.some(mayChange);
}

function mayChange({ kind, name, isVolatile }: Used): boolean {
  return kind === "change" || (isVolatile && !harmless.test(name) && !describing.test(name));
}

/**
 * Checks what functions use that this transaction has made.
 * @throws {InputError} naming what they may not use, or that it cannot be known
 */
export async function checkNewFunctions(transaction: Transaction): Promise<void> {
  const isNew = "age(xmin) <= age(pg_current_xact_id()::xid)";
  const [opaque] = await transaction.rows<{ name: string }>(
    `SELECT proname::text AS name FROM pg_proc
     WHERE ${isNew} AND (prosqlbody IS NULL OR prokind <> 'f' OR proconfig IS NOT NULL) LIMIT 1`,
  );
  if (opaque !== undefined)
    throw new InputError(
      `the function ${opaque.name}: here a function is one expression, RETURN …; put others into the file of service.tables`,
    );
  const tree = `SELECT concat(prosqlbody::text, proargdefaults::text) AS text FROM pg_proc WHERE ${isNew}`;
  refuse(await usedBy(transaction, undefined, tree));
}

/** @throws {InputError} naming a function of these names that an administrator may not use */
export async function checkFunctions(transaction: Transaction, names: readonly string[]): Promise<void> {
  if (names.length === 0) return;
  refuse(await transaction.rows<Used>(`${functions} WHERE proname = ANY($1)`, [names]));
}

function refuse(all: readonly Used[]): void {
  for (const used of all) {
    const { kind, schema, name } = used;
    if (kind === "relation" && isInternal(schema) && catalogue.get(schema)?.test(name) !== true)
      throw new InputError(`permission denied: ${schema}.${name} is not a table of a database of the service`);
    if (kind === "function" && !isForAdministrators(used))
      throw new InputError(`permission denied: the function ${name} cannot be used here`);
  }
}

function isForAdministrators({ schema, name, isVolatile, isForeign }: Used): boolean {
  if (isForeign) return false;
  if (schema !== "pg_catalog") return !isInternal(schema);
  if (name.startsWith("pg_")) return describing.test(name);
  if (isVolatile) return harmless.test(name) || sequences.test(name);
  return !/^(?:lo_|dblink|.*_to_xml)/.test(name);
}

/** @param made what makes the tree that `tree` selects as `text`; undefined: it is there */
async function usedBy(transaction: Transaction, made: string | undefined, tree: string): Promise<Used[]> {
  if (made !== undefined) {
    await transaction.run("SAVEPOINT before_check");
    await transaction.text(made);
  }
  const used = await transaction.rows<Used>(usedByTree(tree));
  if (made !== undefined) await transaction.run("ROLLBACK TO SAVEPOINT before_check");
  return used;
}

/** Types whose texts list what there is in the server, and their arrays. */
const naming = `
  SELECT oid FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace
    AND typname ~ '^_?(reg(class|collation|namespace|oper|operator|proc|procedure|role|type)|aclitem|refcursor)$'`;

const functions = `
  SELECT 'function' AS kind, nspname::text AS schema, proname::text AS name, provolatile = 'v' AS "isVolatile",
    (nspname <> 'pg_catalog' AND lanname IN ('c', 'internal')) OR EXISTS (
      SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = pg_proc.oid AND d.deptype = 'e'
    ) AS "isForeign",
    (proargtypes::oid[] || prorettype) && ARRAY(${naming}) AS "isNaming"
  FROM pg_proc JOIN pg_namespace n ON n.oid = pronamespace JOIN pg_language l ON l.oid = prolang`;

/** Texts in a tree are escaped, so that none looks like a field. */
function usedByTree(tree: string): string {
  return `
  WITH source AS MATERIALIZED (${tree}),
  field AS MATERIALIZED (
    SELECT found[1] AS key, found[2]::oid AS oid FROM source, regexp_matches(text, ':(\\w+) (\\d+)', 'g') AS found
    WHERE found[1] ~ 'relid$|funcid$|fnoid$|^opno$|op$|tsmhandler|typ' AND length(found[2]) < 11
    UNION ALL
    SELECT found[1], member::oid
    FROM source, regexp_matches(text, ':(\\w*types|opnos) \\(o ([0-9 ]+)\\)', 'g') AS found,
      regexp_split_to_table(trim(found[2]), ' +') AS member
  ),
  called AS (
    SELECT oid FROM field WHERE key ~ 'funcid$|fnoid$|tsmhandler'
    UNION SELECT oprcode::oid FROM pg_operator WHERE oid IN (SELECT oid FROM field WHERE key ~ '^opnos?$|op$')
  )
  SELECT 'relation' AS kind, nspname::text AS schema, relname::text AS name, false AS "isVolatile",
    false AS "isForeign", false AS "isNaming"
  FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace
  WHERE pg_class.oid IN (SELECT oid FROM field WHERE key = 'relid')
    AND NOT (relname = 'rollcall_query' AND relpersistence = 't')
  UNION ALL
  ${functions} WHERE pg_proc.oid IN (SELECT oid FROM called)
  UNION ALL
  SELECT 'change', '', '', true, false, false FROM source WHERE text ~ ':commandType [2-9]'
  UNION ALL
  SELECT 'type', nspname::text, typname::text, false, false,
    t.oid IN (${naming}) OR typbasetype IN (${naming}) OR typtype = 'c'
  FROM pg_type t JOIN pg_namespace n ON n.oid = typnamespace
  WHERE t.oid IN (SELECT oid FROM field WHERE key ~ 'typ' AND key !~ 'typmod' AND key <> 'funcresulttype')`;
}
