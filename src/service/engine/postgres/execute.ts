import { InputError } from "#errors.ts";
import type { Transaction } from "#postgres/database.ts";
import { inputError } from "#postgres/errors.ts";
import type { RowSink } from "#service/engine/engine.ts";
import { splitStatements } from "#service/engine/statements.ts";
import type { Statement } from "#service/engine/statements.ts";
import { translated } from "./define.ts";
import { readNamespaces } from "./names.ts";
import type { Naming } from "./names.ts";
import { jsonValues } from "./values.ts";
import { readPage } from "./query.ts";

/** The maximum number of rows an administrator's statement returns; all of them are counted. */
const maxRows = 100_000;

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

/**
 * Runs an administrator's statements in order.
 * @returns how many rows the last one has
 */
export async function execute(transaction: Transaction, sql: string, naming: Naming, sink: RowSink): Promise<number> {
  const statements = splitStatements(sql);
  let rows = 0;
  for (const statement of statements) {
    const word = statement.tokens[0]?.text.toUpperCase() ?? "";
    if (refused.has(word))
      throw new InputError(
        `line ${statement.line}: ${word} cannot be run here: all statements together are one transaction`,
      );
    try {
      rows = await run(transaction, statement, naming, sink);
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

async function run(transaction: Transaction, statement: Statement, naming: Naming, sink: RowSink): Promise<number> {
  const { sql } = translated(statement, await readNamespaces(transaction), naming);
  if (/^(?:SELECT|VALUES|TABLE|WITH)$/i.test(statement.tokens[0]?.text ?? "")) {
    await transaction.run("SAVEPOINT before_query");
    try {
      return await readPage(transaction, sql, { offset: 0, limit: maxRows }, sink);
    } catch (error) {
      // WITH … INSERT, and SELECT INTO.
      if (!(error instanceof Error && /DECLARE CURSOR/.test(error.message))) throw error;
      await transaction.run("ROLLBACK TO SAVEPOINT before_query");
    }
  }
  const { fields, rows, count } = await transaction.text(sql);
  await sink.begin(fields.map(({ name }) => name));
  await sink.rows(rows.slice(0, maxRows).map((row) => jsonValues(fields, row)));
  return fields.length === 0 ? 0 : count;
}
