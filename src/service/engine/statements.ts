import type { Connection } from "#duckdb/database.ts";
import { InputError } from "#errors.ts";

/** A token of SQL: an identifier or keyword, a quoted identifier, a string, or any other single character. */
export interface Token {
  readonly kind: "word" | "quoted" | "string" | "symbol";
  /** As written; for a quoted identifier, the name without its quotes. */
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

/** One statement of a script, without its semicolon. */
export interface Statement {
  readonly sql: string;
  /** Its tokens, with positions in the script. */
  readonly tokens: readonly Token[];
  /** The line of its first token, from 1. */
  readonly line: number;
}

const pieces = new RegExp(
  [
    String.raw`(?<space>\s+|--[^\n\r]*)`,
    String.raw`(?<quoted>"(?:[^"]|"")*")`,
    String.raw`(?<escaped>[eE]'(?:[^'\\]|''|\\[^])*')`,
    String.raw`(?<string>'(?:[^']|'')*')`,
    String.raw`(?<dollar>\$(?<tag>(?:[\p{L}_][\p{L}\p{N}_]*)?)\$[^]*?\$\k<tag>\$)`,
    String.raw`(?<word>[\p{L}_][\p{L}\p{N}_$]*)`,
    // A number is one token, so that the letter in 1e5 is not a word.
    String.raw`(?<number>\d[\p{L}\p{N}_]*)`,
    String.raw`(?<symbol>[^])`,
  ].join("|"),
  "uy",
);

/**
 * Splits a script at its semicolons. It understands only quoting and comments; what a statement means is left to DuckDB.
 * @throws {InputError} when it has the character U+0000, where both engines' parsers stop
 */
export function splitStatements(script: string): Statement[] {
  if (script.includes("\0")) throw new InputError("SQL cannot have the character U+0000");
  const statements: Statement[] = [];
  let tokens: Token[] = [];
  const finish = (): void => {
    const [first, last] = [tokens[0], tokens.at(-1)];
    if (first === undefined || last === undefined) return;
    statements.push({ sql: script.slice(first.start, last.end), tokens, line: lineOf(script, first.start) });
    tokens = [];
  };
  for (const token of tokenize(script)) {
    if (token.kind === "symbol" && token.text === ";") finish();
    else tokens.push(token);
  }
  finish();
  return statements;
}

function* tokenize(script: string): Generator<Token> {
  let at = 0;
  while (at < script.length) {
    if (script.startsWith("/*", at)) {
      at = endOfComment(script, at);
      continue;
    }
    pieces.lastIndex = at;
    const groups = pieces.exec(script)?.groups;
    const text = groups === undefined ? "" : script.slice(at, pieces.lastIndex);
    const start = at;
    // The last alternative matches any character, so there is always progress.
    at = Math.max(pieces.lastIndex, start + 1);
    if (groups === undefined || groups["space"] !== undefined) continue;
    if (groups["quoted"] !== undefined) {
      yield { kind: "quoted", text: text.slice(1, -1).replaceAll('""', '"'), start, end: at };
      continue;
    }
    const isString = (groups["escaped"] ?? groups["string"] ?? groups["dollar"]) !== undefined;
    const kind = isString ? "string" : groups["word"] === undefined ? "symbol" : "word";
    yield { kind, text, start, end: at };
  }
}

/** Comments nest, as in PostgreSQL. */
function endOfComment(script: string, start: number): number {
  const marks = /\/\*|\*\//g;
  marks.lastIndex = start;
  let depth = 0;
  for (let mark = marks.exec(script); mark !== null; mark = marks.exec(script)) {
    depth += mark[0] === "/*" ? 1 : -1;
    if (depth === 0) return marks.lastIndex;
  }
  return script.length;
}

function lineOf(script: string, position: number): number {
  return script.slice(0, position).split("\n").length;
}

/** Whether the tokens starting at `from` are these keywords. Case does not matter. */
export function hasWords(tokens: readonly Token[], from: number, words: readonly string[]): boolean {
  return words.every((word, index) => {
    const token = tokens[from + index];
    return token?.kind === "word" && token.text.toUpperCase() === word;
  });
}

/** The dotted name that starts at `from`: its parts, and the index of the token after it. No parts if there is no name. */
export function nameAt(tokens: readonly Token[], from: number): { parts: string[]; next: number } {
  const parts: string[] = [];
  let next = from;
  for (;;) {
    const token = tokens[next];
    if (token === undefined || (token.kind !== "word" && token.kind !== "quoted") || token.text === "") {
      return { parts: [], next: from };
    }
    parts.push(token.text);
    next += 1;
    const dot = tokens[next];
    if (dot?.kind !== "symbol" || dot.text !== ".") return { parts, next };
    next += 1;
  }
}

/** A table that a definition creates where it is missing, with the names of its columns as they are written. */
export interface DefinedTable {
  readonly parts: readonly string[];
  readonly columns: readonly string[];
  readonly line: number;
}

const constraints = new Set(["PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "CONSTRAINT", "LIKE", "EXCLUDE"]);

/** The tables of a definition that an engine has accepted. */
export function definedTables(script: string): DefinedTable[] {
  return splitStatements(script)
    .filter(({ tokens }) => hasWords(tokens, 0, ["CREATE", "TABLE", "IF", "NOT", "EXISTS"]))
    .map(({ tokens, line }) => {
      const { parts, next } = nameAt(tokens, 5);
      const columns: string[] = [];
      let depth = 0;
      let isFirst = false;
      for (const { kind, text } of tokens.slice(next)) {
        const mark = kind === "symbol" ? text : "";
        if (mark === "(") depth += 1;
        if (mark === ")") depth -= 1;
        // Columns are all that stands right behind the name: PostgreSQL has parentheses further down for something else.
        if (depth === 0) break;
        if (isFirst && (kind === "quoted" || (kind === "word" && !constraints.has(text.toUpperCase()))))
          columns.push(text);
        isFirst = depth === 1 && (mark === "(" || mark === ",");
      }
      return { parts, columns, line };
    });
}

/** @throws {InputError} when a definition has problems, with all of them */
export function refuseProblems(origin: string, problems: readonly string[]): void {
  const [first] = problems;
  if (first === undefined) return;
  throw new InputError(problems.length === 1 ? first : `${origin} has ${problems.length} problems`, { problems });
}

/** A node of DuckDB's syntax tree. */
export type Node = Readonly<Record<string, unknown>>;

/**
 * DuckDB's own syntax tree of one SELECT statement, so that both always read it the same way.
 * @throws {InputError} if it is anything else
 */
export async function parseQuery(connection: Connection, sql: string): Promise<Node> {
  const [row] = await connection.rows<{ tree: string }>("SELECT json_serialize_sql($1::VARCHAR)::VARCHAR AS tree", [
    sql,
  ]);
  const parsed = treeOf(row?.tree ?? "{}");
  if (parsed.error) {
    throw new InputError(
      parsed.error_type === "not implemented"
        ? "a query is one SELECT statement: nothing else can be run here (a PIVOT needs its values: ON column IN (…))"
        : `the SQL cannot be read: ${parsed.error_message ?? "it is malformed"}`,
    );
  }
  const [statement, ...more] = parsed.statements ?? [];
  if (statement === undefined || more.length > 0) {
    throw new InputError(`a query is one SELECT statement, not ${parsed.statements?.length ?? 0}`);
  }
  return statement;
}

interface Tree {
  readonly error: boolean;
  readonly error_type?: string;
  readonly error_message?: string;
  readonly statements?: readonly Node[];
}

function treeOf(text: string): Tree {
  try {
    return JSON.parse(text) as Tree;
  } catch (cause) {
    throw new InputError("the SQL has a number that is larger than any DOUBLE", { cause });
  }
}

/**
 * The statement without its final ORDER BY, which DuckDB would execute even to count rows. The text is cut only if it means
 * the same except for the order; for example, a LIMIT after it keeps it.
 */
export async function unordered(connection: Connection, statement: string): Promise<string> {
  const end = lastOrder(statement);
  if (end === undefined) return statement;
  const shorter = statement.slice(0, end);
  try {
    const [whole, cut] = await Promise.all([parseQuery(connection, statement), parseQuery(connection, shorter)]);
    return JSON.stringify(withoutOrder(whole)) === JSON.stringify(cut) ? shorter : statement;
  } catch {
    return statement;
  }
}

/** The position of the last ORDER BY outside all parentheses. */
function lastOrder(statement: string): number | undefined {
  let depth = 0;
  let found: number | undefined;
  for (const [index, token] of (splitStatements(statement)[0]?.tokens ?? []).entries()) {
    if (token.kind === "symbol" && "([{".includes(token.text)) depth += 1;
    if (token.kind === "symbol" && ")]}".includes(token.text)) depth -= 1;
    if (depth === 0 && index > 0 && token.kind === "word" && token.text.toUpperCase() === "ORDER") found = token.start;
  }
  return found;
}

function withoutOrder(statement: Node): Node {
  const node = statement["node"] as { readonly modifiers: readonly Node[] };
  return {
    ...statement,
    node: { ...node, modifiers: node.modifiers.filter((modifier) => modifier["type"] !== "ORDER_MODIFIER") },
  };
}
