import { z } from "zod";

/** Statements of an administrator, one after the other, with `database` as the current one; absent: the only one. */
export const sqlRequest = z.object({ sql: z.string(), database: z.string().optional() });
export type SqlRequest = z.infer<typeof sqlRequest>;

/** The rows of the last statement. Values are as in pinboards (B.15). */
export const sqlResult = z.object({
  columnNames: z.array(z.string()),
  rows: z.array(z.array(z.unknown())),
  /** More than `rows` has, when there are too many for one answer. */
  totalRowCount: z.number(),
});
export type SqlResult = z.infer<typeof sqlResult>;
