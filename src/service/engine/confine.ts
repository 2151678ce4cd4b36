import { InputError } from "#errors.ts";
import type { Connection } from "#duckdb/database.ts";
import { defaultSchema } from "./engine.ts";
import { parseQuery } from "./statements.ts";
import type { Node } from "./statements.ts";

/** What a query may use, read once from DuckDB's own catalogue. */
export interface Vocabulary {
  /** DuckDB's built-in functions by lower-case name: true if a query may use them. */
  readonly functions: ReadonlyMap<string, boolean>;
  /** DuckDB's built-in views, in lower case. They describe the whole instance. */
  readonly views: ReadonlySet<string>;
}

/** The contents of one database; names in lower case. */
export interface Holdings {
  readonly database: string;
  /** Tables and views, as schema, NUL, name. */
  readonly relations: ReadonlySet<string>;
  /** Macros of every database. They could read anything. */
  readonly macros: ReadonlySet<string>;
}

/** Table functions that depend on their arguments only. */
const tableFunctions = new Set(["range", "generate_series", "unnest", "repeat", "json_each", "json_tree"]);
/** Volatile functions that reveal nothing and have no effect. */
const harmless = new Set(["random", "uuid", "uuidv4", "uuidv7", "gen_random_uuid", "error", "setseed"]);
/** Functions that reveal the process, its settings or other databases, or that run text as SQL. */
const telling =
  /setting|variable|^current_(?:query|schemas|connection|transaction)|^txid_|sql$|checkpoint|^pg_get_|^nextval|^currval/;
const references = new Set(["EMPTY", "BASE_TABLE", "SUBQUERY", "JOIN", "TABLE_FUNCTION", "EXPRESSION_LIST", "PIVOT"]);

export async function readVocabulary(connection: Connection): Promise<Vocabulary> {
  const functions = await connection.rows<{ name: string; changing: boolean }>(
    `SELECT lower(function_name) AS name,
       coalesce(stability = 'VOLATILE', false) OR coalesce(has_side_effects, false)
         OR regexp_matches(coalesce(macro_definition, ''), '(?i)select|duckdb_|pragma') AS changing
     FROM duckdb_functions() WHERE internal AND function_type IN ('scalar', 'aggregate', 'macro')`,
  );
  // An overloaded name is allowed only if every function of that name is; table functions are checked in the tree.
  const allowed = new Map<string, boolean>();
  for (const { name, changing } of functions) {
    const fine = (!changing || harmless.has(name)) && !telling.test(name);
    allowed.set(name, fine && (allowed.get(name) ?? true));
  }
  const views = await connection.rows<{ name: string }>(
    "SELECT lower(view_name) AS name FROM duckdb_views() WHERE internal",
  );
  return { functions: allowed, views: new Set(views.map(({ name }) => name)) };
}

/**
 * Refuses anything but one SELECT over its own database, judged by DuckDB's own syntax tree. The instance's access to
 * files is restricted separately. A view may read whatever the administrator who created it let it read.
 * @throws {InputError} what is wrong, and where
 */
export async function checkQuery(
  connection: Connection,
  vocabulary: Vocabulary,
  holdings: Holdings,
  sql: string,
): Promise<void> {
  check(await parseQuery(connection, sql), vocabulary, holdings);
}

function check(tree: unknown, vocabulary: Vocabulary, holdings: Holdings): void {
  const nodes = [...walk(tree)];
  const locals = new Set<string>();
  for (const node of nodes) {
    for (const name of localNames(node)) locals.add(checkLocal(name, vocabulary));
  }
  for (const node of nodes) {
    const { type } = node;
    const isReference = "sample" in node && "alias" in node && !("class" in node);
    if (isReference && !references.has(String(type))) {
      throw new InputError("DESCRIBE, SHOW and SUMMARIZE cannot be used in a query");
    }
    if (type === "BASE_TABLE") checkTable(node, holdings, locals);
    if (type === "TABLE_FUNCTION") checkTableFunction(node);
    if (typeof node["function_name"] === "string") checkFunction(node["function_name"], vocabulary, holdings);
    if (type === "VALUE_PARAMETER")
      throw new InputError("a query has no parameters: write the value instead of ? or $");
  }
}

/** Every object of the tree. Not recursive: a deeply nested query must not exhaust the stack. */
function* walk(tree: unknown): Generator<Node> {
  const open: unknown[] = [tree];
  while (open.length > 0) {
    const value = open.pop();
    if (typeof value !== "object" || value === null) continue;
    if (!Array.isArray(value)) yield value as Node;
    for (const member of Object.values(value)) open.push(member);
  }
}

/** The names that WITH clauses define. */
function localNames(node: Node): string[] {
  const map = (node["cte_map"] as { readonly map?: readonly { readonly key: string }[] } | undefined)?.map ?? [];
  return map.map(({ key }) => key);
}

/**
 * A WITH name hides tables only where it is in scope. Elsewhere in the same query it could mean a file or a built-in view,
 * so such names are refused.
 */
function checkLocal(name: string, vocabulary: Vocabulary): string {
  const folded = name.toLowerCase();
  if (!/^[\p{L}_][\p{L}\p{N}_ ]*$/u.test(name) || vocabulary.views.has(folded)) {
    throw new InputError(`WITH "${name}": give it a name of letters, digits and _ that the engine does not use itself`);
  }
  return folded;
}

function checkTable(node: Node, holdings: Holdings, locals: ReadonlySet<string>): void {
  const [catalog, schema, table] = ["catalog_name", "schema_name", "table_name"].map((key) => textOf(node, key));
  const parts = [catalog, schema, table].flatMap((part) => part || []);
  const [first = "", second, third] = parts.map((part) => part.toLowerCase());
  if (second === undefined && locals.has(first)) return;
  const known = (schema: string, name: string): boolean => holdings.relations.has(`${schema}\0${name}`);
  const own = first === holdings.database.toLowerCase();
  const found =
    third !== undefined
      ? own && known(second ?? "", third)
      : second !== undefined
        ? known(own ? defaultSchema : first, second)
        : known(defaultSchema, first);
  if (!found) {
    throw new InputError(`${parts.join(".")} is not a table of the database ${holdings.database}`);
  }
}

function textOf(node: Node, key: string): string {
  const value = node[key];
  return typeof value === "string" ? value : "";
}

function checkTableFunction(node: Node): void {
  const name = textOf((node["function"] ?? {}) as Node, "function_name");
  if (!tableFunctions.has(name.toLowerCase())) {
    throw new InputError(`the table function ${name} cannot be used in a query`);
  }
}

function checkFunction(name: string, vocabulary: Vocabulary, holdings: Holdings): void {
  const folded = name.toLowerCase();
  if (holdings.macros.has(folded)) {
    throw new InputError(`${name} is a macro, which a query cannot use: write its definition instead`);
  }
  // A function that DuckDB does not list is part of its syntax, or unknown, which DuckDB then reports itself.
  if (vocabulary.functions.get(folded) === false) {
    throw new InputError(`the function ${name} cannot be used in a query`);
  }
}
