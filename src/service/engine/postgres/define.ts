import { setTimeout as delay } from "node:timers/promises";
import { InputError, RollcallError, UnavailableError } from "#errors.ts";
import { identifier } from "#postgres/database.ts";
import type { Postgres, Transaction } from "#postgres/database.ts";
import { inputError, sqlState } from "#postgres/errors.ts";
import { hasWords, nameAt, refuseProblems, splitStatements } from "#service/engine/statements.ts";
import type { Statement, Token } from "#service/engine/statements.ts";
import { meant, placeOf, qualified, readNamespaces } from "./names.ts";
import { columnsOf } from "./tables.ts";

const forms =
  "CREATE … IF NOT EXISTS, CREATE OR REPLACE, ALTER TABLE … IF NOT EXISTS, COMMENT, GRANT and SELECT create_distributed_table(…)";

/** What can be created a second time without an error. */
const repeatable = new Set([
  "SCHEMA",
  "DATABASE",
  "TABLE",
  "FOREIGN",
  "INDEX",
  "UNIQUE",
  "SEQUENCE",
  "EXTENSION",
  "SERVER",
  "USER",
]);

/**
 * How long to wait for a table that others use, in milliseconds: everybody else who wants it waits behind. Each attempt waits
 * twice as long as the one before, and the first gives up before PostgreSQL looks for a deadlock, which may end the others.
 */
const waits = { first: 500, longest: 30_000, all: 10 * 60_000 };

/**
 * Runs a definition, PostgreSQL's own SQL, in one transaction; one process does so at a time. Where a table is in use, it
 * gives back what it has and begins again.
 * @throws {InputError} with every problem as `origin:line: …`; then nothing was made
 */
export async function define(postgres: Postgres, sql: string, origin: string): Promise<void> {
  const until = performance.now() + waits.all;
  for (let wait = waits.first; ; wait = Math.min(2 * wait, waits.longest)) {
    try {
      return await defineOnce(postgres, sql, origin, wait);
    } catch (error) {
      const state = error instanceof UnavailableError ? sqlState(error.cause) : undefined;
      const isInUse = state === lockNotAvailable || state === deadlock;
      if (!isInUse || performance.now() > until) throw error;
    }
    await delay(waits.first);
  }
}

const lockNotAvailable = "55P03";
const deadlock = "40P01";

/** @param wait for each table, in milliseconds */
async function defineOnce(postgres: Postgres, sql: string, origin: string, wait: number): Promise<void> {
  await postgres.transaction(async (transaction) => {
    await transaction.lock("tables");
    // A table that is named without a schema belongs to no database.
    await transaction.run(`SET LOCAL search_path = ''; SET LOCAL lock_timeout = ${wait}`);
    const problems: string[] = [];
    for (const statement of splitStatements(sql)) {
      await transaction.run("SAVEPOINT before_statement");
      try {
        await make(transaction, translated(statement, await readNamespaces(transaction)));
        await transaction.run("RELEASE SAVEPOINT before_statement");
      } catch (error) {
        const problem = error instanceof RollcallError ? error : inputError(error);
        if (!(problem instanceof InputError)) throw error;
        problems.push(`${origin}:${statement.line}: ${problem.message}`);
        await transaction.run("ROLLBACK TO SAVEPOINT before_statement");
      }
    }
    refuseProblems(origin, problems);
  });
}

async function make(transaction: Transaction, { sql, tokens }: Pick<Statement, "sql" | "tokens">): Promise<void> {
  check(tokens);
  await transaction.text(sql);
  if (!hasWords(tokens, 0, ["CREATE", "TABLE"])) return;
  const { parts } = nameAt(tokens, 5);
  const name = parts.map((part) => identifier(part)).join(".");
  const [table] = await transaction.rows<{ oid: number }>("SELECT to_regclass($1)::oid AS oid", [name]);
  const { problems } = await columnsOf(transaction, table?.oid ?? 0);
  if (problems.length > 0) throw new InputError(`table ${parts.at(-1) ?? ""}: ${problems.join("; ")}`);
  // What a load could not name is not a table of the interface.
  placeOf(parts[0] ?? "", undefined);
}

function check(tokens: readonly Token[]): void {
  const [first, second] = tokens.map(({ text }) => text.toUpperCase());
  if (first === "COMMENT" || first === "GRANT" || first === "SELECT") return;
  const text = tokens.map(({ text }) => text.toUpperCase()).join(" ");
  if (first === "ALTER" && second === "TABLE" && text.includes(" IF NOT EXISTS ")) return;
  if (first === "CREATE" && hasWords(tokens, 1, ["OR", "REPLACE"])) return;
  if (first !== "CREATE" || !repeatable.has(second ?? ""))
    throw new InputError(`a definition holds nothing but ${forms}; this is ${text.slice(0, 60)}`);
  if (!text.includes(" IF NOT EXISTS "))
    throw new InputError(`write CREATE ${second ?? ""} IF NOT EXISTS: a definition is applied at every start`);
  if (second === "TABLE") {
    const { parts } = nameAt(tokens, 5);
    if (parts.length !== 2)
      throw new InputError("the name does not fit: expected CREATE TABLE IF NOT EXISTS schema.table (…)");
  }
}

/**
 * Statements in the words of the interface, which PostgreSQL does not have, in PostgreSQL's: CREATE DATABASE d, CREATE SCHEMA
 * d.s and CREATE TABLE d.s.t. So a file with no more than them suits both engines.
 */
export function translated(
  { sql, tokens }: Statement,
  namespaces: readonly string[],
): Pick<Statement, "sql" | "tokens"> {
  if (!hasWords(tokens, 0, ["CREATE"]) || !hasWords(tokens, 2, ["IF", "NOT", "EXISTS"])) return { sql, tokens };
  const { parts, next } = nameAt(tokens, 5);
  const [database = "", second, third] = parts.map((part, index) => folded(part, tokens[5 + 2 * index]));
  const start = tokens[0]?.start ?? 0;
  const rest = tokens[next];
  const isOver = rest === undefined;
  const rewritten = (text: string): Pick<Statement, "sql" | "tokens"> => {
    const whole = isOver ? text : `${text} ${sql.slice(rest.start - start)}`;
    return { sql: whole, tokens: splitStatements(whole)[0]?.tokens ?? [] };
  };
  if (hasWords(tokens, 1, ["DATABASE"]) && parts.length === 1 && isOver) {
    const { namespace } = placeOf(database, undefined);
    return rewritten(`CREATE SCHEMA IF NOT EXISTS ${identifier(meant(namespace, namespaces) ?? namespace)}`);
  }
  if (hasWords(tokens, 1, ["SCHEMA"]) && parts.length === 2 && isOver) {
    const { namespace } = placeOf(existing(database, namespaces), second);
    return rewritten(`CREATE SCHEMA IF NOT EXISTS ${identifier(meant(namespace, namespaces) ?? namespace)}`);
  }
  if (hasWords(tokens, 1, ["TABLE"]) && parts.length === 3 && third !== undefined) {
    const { namespace } = placeOf(existing(database, namespaces), second);
    return rewritten(`CREATE TABLE IF NOT EXISTS ${qualified(meant(namespace, namespaces) ?? namespace, third)}`);
  }
  if (hasWords(tokens, 1, ["TABLE"]) && parts.length === 2 && second !== undefined)
    return rewritten(`CREATE TABLE IF NOT EXISTS ${qualified(existing(database, namespaces), second)}`);
  return { sql, tokens };
}

/** PostgreSQL has names without quotes in lower case. */
function folded(part: string, token: Token | undefined): string {
  return token?.kind === "word" ? part.toLowerCase() : part;
}

function existing(database: string, namespaces: readonly string[]): string {
  const found = meant(database, namespaces);
  if (found === undefined)
    throw new InputError(
      `there is no database ${database}: put CREATE SCHEMA IF NOT EXISTS ${database}; before this statement`,
    );
  return found;
}
