import { z } from "zod";

/** SQL statements, run one after the other in `database`, which may be absent if there is only one. */
export const sqlRequest = z.object({ sql: z.string(), database: z.string().optional() });
export type SqlRequest = z.infer<typeof sqlRequest>;

/** The rows of the last statement. Values are as in pinboards (B.15). */
export const sqlResult = z.object({
  columnNames: z.array(z.string()),
  rows: z.array(z.array(z.unknown())),
  /** Greater than the length of `rows` if the answer was cut. */
  totalRowCount: z.number(),
});
export type SqlResult = z.infer<typeof sqlResult>;
