import { InputError } from "#errors.ts";
import type { Connection } from "#duckdb/database.ts";
import { splitStatements } from "./statements.ts";

/** A node of DuckDB's syntax tree. */
export type Node = Readonly<Record<string, unknown>>;

/**
 * The syntax tree of one SELECT statement as DuckDB has it, so that nothing is read differently here than there.
 * @throws {InputError} when it is anything else
 */
export async function parseQuery(connection: Connection, sql: string): Promise<Node> {
  const [row] = await connection.rows<{ tree: string }>("SELECT json_serialize_sql($1::VARCHAR)::VARCHAR AS tree", [
    sql,
  ]);
  const parsed = JSON.parse(row?.tree ?? "{}") as {
    readonly error: boolean;
    readonly error_type?: string;
    readonly error_message?: string;
    readonly statements?: readonly Node[];
  };
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

/**
 * The statement without the ORDER BY at its end, which DuckDB would carry out even to count rows. The text is cut, and
 * the cut is taken only when it means the same but for the order: a LIMIT after it, for one, keeps it.
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

/** Where the last ORDER BY outside all parentheses begins. */
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
