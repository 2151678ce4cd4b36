import type { Transaction } from "#postgres/database.ts";
import type { RowSink } from "#service/engine/engine.ts";
import { jsonValues } from "./values.ts";

/** How many rows a cursor moves over at a time: PostgreSQL's most. */
const mostMoved = 2 ** 31 - 1;

/** How many rows are in memory at a time: a value may have megabytes. */
const rowsAtOnce = 256;

const cursor = "rollcall_rows";

/**
 * Gives a page of a query to `sink`, through a cursor: PostgreSQL moves over the other rows, and so counts them.
 * @param statement a query without its semicolon
 * @returns how many rows it has
 */
export async function readPage(
  transaction: Transaction,
  statement: string,
  { offset, limit }: { readonly offset: number; readonly limit: number },
  sink: RowSink,
): Promise<number> {
  await transaction.text(`DECLARE ${cursor} NO SCROLL CURSOR FOR\n${statement}\n`);
  let total = 0;
  for (let isThere = true; isThere && total < offset;) {
    const size = Math.min(offset - total, mostMoved);
    const { count } = await transaction.text(`MOVE FORWARD ${size} IN ${cursor}`);
    total += count;
    isThere = count === size;
  }
  let wanted = limit;
  let isOver = false;
  let isBegun = false;
  while (!isBegun || (wanted > 0 && !isOver)) {
    const size = Math.min(rowsAtOnce, Math.max(wanted, 1));
    const { fields, rows } = await transaction.text(`FETCH FORWARD ${size} FROM ${cursor}`);
    if (!isBegun) await sink.begin(fields.map(({ name }) => name));
    isBegun = true;
    total += rows.length;
    isOver = rows.length < size;
    const page = rows.slice(0, wanted);
    wanted -= page.length;
    await sink.rows(page.map((row) => jsonValues(fields, row)));
  }
  if (!isOver) total += (await transaction.text(`MOVE FORWARD ALL IN ${cursor}`)).count;
  await transaction.run(`CLOSE ${cursor}`);
  return total;
}
