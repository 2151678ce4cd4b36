import { expect, test } from "vitest";
import { isCommitted, isInvalidated } from "#duckdb/checkpoints.ts";

const committed = "Transaction COMMIT succeeded and is durable, but the autocheckpoint failed. No space left on device";

/** As DuckDB writes them. */
test.each([
  [true, true, `FATAL Error: ${committed}`],
  [true, true, `IO Error: ${committed}`],
  [false, true, `FATAL Error: Failed: database has been invalidated because of a previous fatal error. "${committed}"`],
  [false, true, 'IO Error: Database "d" has been invalidated because checkpointing failed. Detach and reattach it'],
  [
    false,
    true,
    'TransactionContext Error: Failed to commit: Checkpoint failed for database "d". The database has been invalidated. Original error: …',
  ],
  [false, false, 'TransactionContext Error: Failed to commit: Could not write file "/d/d.duckdb.wal": File too large'],
  [false, false, "Invalid Input Error: invalidated"],
] as const)("committed: %s, has to be opened again: %s: %s", (isMade, isOver, message) => {
  const error = new Error(message);
  expect([isCommitted(error), isInvalidated(error)]).toEqual([isMade, isOver]);
  expect(isInvalidated(new Error("the load failed", { cause: error }))).toBe(isOver);
});
