import { InputError, UnavailableError, messageOf } from "#errors.ts";
import type { Connection } from "#duckdb/database.ts";

/**
 * Runs `work` on a connection until the signal stops it.
 * @throws the signal's reason once it was given, whatever the engine made of it
 */
export async function interruptible<Result>(
  connection: Connection,
  signal: AbortSignal,
  work: () => Promise<Result>,
): Promise<Result> {
  signal.throwIfAborted();
  let again: NodeJS.Timeout | undefined;
  const stop = (): void => {
    connection.interrupt();
    // An interrupt between two statements is lost: the next one would run to its end.
    again = setInterval(connection.interrupt, 20);
  };
  signal.addEventListener("abort", stop, { once: true });
  try {
    const result = await work();
    signal.throwIfAborted();
    return result;
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener("abort", stop);
    clearInterval(again);
  }
}

const wrong =
  /^(?:Constraint|Conversion|Binder|Catalog|Parser|Not implemented|Out of Range|Invalid Input|Permission|Syntax) Error/;
const busy = /^(?:TransactionContext|Transaction|Out of Memory) Error/;

/** What DuckDB's error means to the caller: the SQL or the rows are wrong, or the engine was too busy. */
export function meaningOf(error: unknown): unknown {
  // The binding says so before errors of syntax.
  const message = messageOf(error).replace(/^Failed to extract statements: /, "");
  if (wrong.test(message) || /^Invalid|^Could not convert/.test(message)) {
    return new InputError(message, { cause: error });
  }
  return busy.test(message) ? new UnavailableError(message, { cause: error }) : error;
}
