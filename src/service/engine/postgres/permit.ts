import { InputError } from "#errors.ts";
import type { Transaction } from "#postgres/database.ts";
import { hasWords } from "#service/engine/statements.ts";
import type { Statement, Token } from "#service/engine/statements.ts";
import { checkFunctions, checkStatement } from "./confine.ts";
import { fold, isInternal } from "./names.ts";

/*
 * What an administrator may run with `rollcall sql`: queries and changes of rows, whose trees PostgreSQL itself makes, and
 * definitions of tables and views, which it takes apart for nobody. Their names are read here.
 */

const queries = ["SELECT", "VALUES", "TABLE", "WITH", "INSERT", "UPDATE", "DELETE", "MERGE"];

const tables = ["TABLE", "VIEW", "MATERIALIZED VIEW", "INDEX", "SEQUENCE", "SCHEMA", "STATISTICS"];

/** What may be defined, by the words that a statement begins with. */
const definitions: Readonly<Record<string, readonly string[]>> = {
  CREATE: [...tables, "UNLOGGED TABLE", "OR REPLACE VIEW", "UNIQUE INDEX", "FUNCTION", "OR REPLACE FUNCTION"],
  ALTER: tables,
  DROP: [...tables, "FUNCTION"],
  "COMMENT ON": [...tables, "COLUMN", "CONSTRAINT", "FUNCTION"],
  TRUNCATE: [""],
  ANALYZE: [""],
  LOCK: [""],
  "REFRESH MATERIALIZED": ["VIEW"],
  REINDEX: ["TABLE", "INDEX"],
};

/** What is not there lasts longer than a transaction, or is a matter of the server. */
const elsewhere =
  "`sql` runs queries, INSERT, UPDATE, DELETE and MERGE, and defines tables, views, indexes, sequences and schemas; everything else belongs in psql";

/** What a statement may do; what makes a function is to be checked afterwards, with `checkNewFunctions`. */
export type Effect = "reads" | "writes" | "makes a function";

/**
 * @throws {InputError} naming what cannot be run, or what it may not use; PostgreSQL's error where it cannot be read
 */
export async function permit(
  transaction: Transaction,
  { sql, tokens }: Pick<Statement, "sql" | "tokens">,
): Promise<Effect> {
  const start = tokens[0]?.start ?? 0;
  const from = (place: number): string => sql.slice((tokens[place]?.start ?? 0) - start);
  const first = hasWords(tokens, 0, ["EXPLAIN"]) ? afterExplain(tokens) : 0;
  if (tokens[first]?.text === "(" || queries.some((word) => hasWords(tokens, first, [word]))) {
    if (tokens.some((_, place) => hasWords(tokens, place, ["INTO"]) && isSelectInto(tokens, first, place)))
      throw new InputError("write CREATE TABLE … AS SELECT … instead of SELECT … INTO");
    return (await checkStatement(transaction, from(first))) ? "writes" : "reads";
  }
  const isDefinition = Object.entries(definitions).some(([verb, objects]) =>
    objects.some((object) => hasWords(tokens, 0, `${verb} ${object}`.trim().split(" "))),
  );
  if (!isDefinition || first > 0)
    throw new InputError(`${tokens[0]?.text.toUpperCase()} cannot be run here: ${elsewhere}`);
  checkNames(tokens);
  const called = tokens.flatMap(({ kind, text }, place) => {
    if (kind !== "word" && kind !== "quoted") return [];
    return tokens[place + 1]?.text === "(" ? [kind === "word" ? text.toLowerCase() : text] : [];
  });
  await checkFunctions(transaction, called);
  const query = queryOf(tokens);
  if (query !== undefined) {
    const end = (tokens[query.end]?.start ?? start + sql.length) - start;
    await checkStatement(transaction, sql.slice((tokens[query.start]?.start ?? 0) - start, end));
  }
  const isFunction = [1, 3].some((place) => hasWords(tokens, place, ["FUNCTION"]));
  return isFunction && hasWords(tokens, 0, ["CREATE"]) ? "makes a function" : "writes";
}

/** The place of the statement that EXPLAIN is about. */
function afterExplain(tokens: readonly Token[]): number {
  let place = 1;
  if (tokens[place]?.text === "(") {
    while (place < tokens.length && tokens[place]?.text !== ")") place += 1;
    return place + 1;
  }
  while (["ANALYZE", "ANALYSE", "VERBOSE"].some((word) => hasWords(tokens, place, [word]))) place += 1;
  return place;
}

/** Whether the INTO belongs to a SELECT, which creates a table then. */
function isSelectInto(tokens: readonly Token[], first: number, into: number): boolean {
  return (
    hasWords(tokens, first, ["SELECT"]) &&
    !hasWords(tokens, into - 1, ["INSERT"]) &&
    !hasWords(tokens, into - 1, ["MERGE"])
  );
}

/** @throws {InputError} naming a schema that is nobody's tables, or text that may hide one */
function checkNames(tokens: readonly Token[]): void {
  for (const [place, { kind, text }] of tokens.entries()) {
    const [next, last] = [tokens[place + 1], tokens[place - 1]];
    const isQuoted = kind === "quoted" || kind === "string";
    if (text === "$" || (isQuoted && last?.text === "&") || (kind === "string" && last?.kind === "string"))
      throw new InputError("a definition has neither U& before names and strings, nor parts of strings side by side");
    if (kind !== "word" && kind !== "quoted") continue;
    const isSchema = next?.text === "." && isInternal(text) && fold(text) !== "pg_catalog";
    if (isSchema || fold(text) === "rollcall")
      throw new InputError(`permission denied: the schema ${text} is not a database of the service`);
    const word = text.toUpperCase();
    if (kind === "word" && place > 0 && place < 4 && (word === "TEMP" || word === "TEMPORARY" || word === "RECURSIVE"))
      throw new InputError(`${word} cannot be used here`);
    const isAll = hasWords(tokens, place, ["ALL", "IN", "TABLESPACE"]);
    const isSecond = place > 1 && hasWords(tokens, 0, ["CREATE", "SCHEMA"]) && kind === "word";
    if (isAll || (isSecond && (word === "CREATE" || word === "GRANT")))
      throw new InputError(`${word} cannot be used here: one statement is for one thing`);
  }
}

/** The query of CREATE … AS: the places of its first token, and of the one after its last. */
function queryOf(tokens: readonly Token[]): { readonly start: number; readonly end: number } | undefined {
  if (!hasWords(tokens, 0, ["CREATE"])) return undefined;
  let depth = 0;
  for (const [place, { kind, text }] of tokens.entries()) {
    if (kind === "symbol" && (text === "(" || text === ")")) depth += text === "(" ? 1 : -1;
    const after = tokens[place + 1];
    if (depth > 0 || !hasWords(tokens, place, ["AS"]) || after === undefined) continue;
    const isQuery = after.text === "(" || [...queries, "EXECUTE"].some((word) => hasWords(tokens, place + 1, [word]));
    if (isQuery) return { start: place + 1, end: endOf(tokens) };
  }
  return undefined;
}

/** Without what follows the query of a view or a table. */
function endOf(tokens: readonly Token[]): number {
  const endings = [
    ["WITH", "DATA"],
    ["WITH", "NO", "DATA"],
    ["WITH", "CHECK", "OPTION"],
    ["WITH", "LOCAL", "CHECK", "OPTION"],
    ["WITH", "CASCADED", "CHECK", "OPTION"],
  ];
  const ending = endings.find((words) => hasWords(tokens, tokens.length - words.length, words));
  return tokens.length - (ending?.length ?? 0);
}
