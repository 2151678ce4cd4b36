import type { Transaction } from "./transaction.ts";

/** SQL: the database's clock in epoch milliseconds, never ahead of it, as a number of JavaScript. */
export const clockMilliseconds = "floor(extract(epoch FROM clock_timestamp()) * 1000)::float8";

/** The time by the database's clock, in epoch milliseconds: those of the machines that share it may be wrong. */
export async function readClock(through: Pick<Transaction, "rows">): Promise<number> {
  const [row] = await through.rows<{ now: number }>(`SELECT ${clockMilliseconds} AS now`);
  if (row === undefined) throw new Error("PostgreSQL has returned no row");
  return row.now;
}
