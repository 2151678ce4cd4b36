import { InputError } from "#errors.ts";
import type { Transaction } from "#postgres/database.ts";
import { inputError } from "#postgres/errors.ts";
import type { RowSink } from "#service/engine/engine.ts";
import { maxRows } from "#service/engine/execute.ts";
import { splitStatements } from "#service/engine/statements.ts";
import type { Statement } from "#service/engine/statements.ts";
import { checkNewFunctions } from "./confine.ts";
import { translated } from "./define.ts";
import { readNamespaces } from "./names.ts";
import { permit } from "./permit.ts";
import { jsonValues } from "./values.ts";
import { readPage } from "./query.ts";

/** All statements are one transaction, through connections that others have next. */
const refused = new Set([
  "BEGIN",
  "START",
  "COMMIT",
  "END",
  "ROLLBACK",
  "ABORT",
  "SAVEPOINT",
  "RELEASE",
  "PREPARE",
  "LISTEN",
  "COPY",
]);

/** Runs an administrator's statements in order. @returns how many rows the last one has */
export async function execute(transaction: Transaction, sql: string, sink: RowSink): Promise<number> {
  const statements = splitStatements(sql);
  let rows = 0;
  let isReadOnly = false;
  for (const statement of statements) {
    const word = statement.tokens[0]?.text.toUpperCase() ?? "";
    if (refused.has(word))
      throw new InputError(
        `line ${statement.line}: ${word} cannot be run here: all statements together are one transaction`,
      );
    // Not set: what a statement uses is found out by defining something.
    if (/^SET\s+TRANSACTION\s+READ\s+ONLY$/i.test(statement.sql)) {
      isReadOnly = true;
      continue;
    }
    try {
      const wanted = translated(statement, await readNamespaces(transaction));
      const effect = await permit(transaction, wanted);
      if (isReadOnly && effect !== "reads") throw new InputError("the transaction is read-only");
      rows = await run(transaction, wanted, sink);
      if (effect === "makes a function") await checkNewFunctions(transaction);
    } catch (error) {
      const meaning = inputError(error);
      if (statements.length === 1 || meaning === undefined) throw meaning ?? error;
      throw new InputError(`the statement on line ${statement.line} (nothing was changed): ${meaning.message}`, {
        cause: error,
      });
    }
  }
  return rows;
}

async function run(
  transaction: Transaction,
  { sql, tokens }: Pick<Statement, "sql" | "tokens">,
  sink: RowSink,
): Promise<number> {
  if (/^(?:SELECT|VALUES|TABLE|WITH)$/i.test(tokens[0]?.text ?? "")) {
    await transaction.run("SAVEPOINT before_query");
    try {
      return await readPage(transaction, sql, { offset: 0, limit: maxRows }, sink);
    } catch (error) {
      // WITH … INSERT.
      if (!(error instanceof Error && /DECLARE CURSOR/.test(error.message))) throw error;
      await transaction.run("ROLLBACK TO SAVEPOINT before_query");
    }
  }
  const { fields, rows, count } = await transaction.text(sql);
  await sink.begin(fields.map(({ name }) => name));
  await sink.rows(rows.slice(0, maxRows).map((row) => jsonValues(fields, row)));
  return fields.length === 0 ? 0 : count;
}
