import type { Connection } from "#duckdb/database.ts";

/** How many were found, and the first few. */
export interface Found<Item> {
  readonly count: number;
  readonly examples: readonly Item[];
}

export const nothing: Found<never> = { count: 0, examples: [] };

/** Counts the rows of a query, and returns the first `most` of them. @param order SQL of what they are sorted by */
export async function findSome<Item extends object>(
  connection: Connection,
  query: string,
  order: string,
  most = 20,
): Promise<Found<Item>> {
  const rows = await connection.rows<Item & { found_in_all?: number }>(
    `SELECT *, (count(*) OVER ())::INTEGER AS found_in_all FROM (${query}) ORDER BY ${order} LIMIT ${most}`,
  );
  const count = rows[0]?.found_in_all ?? 0;
  for (const row of rows) delete row.found_in_all;
  return { count, examples: rows };
}
