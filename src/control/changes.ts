import { Readable } from "node:stream";
import type { Change } from "#plan/change.ts";
import { openDatabase } from "#duckdb/database.ts";
import { inChunks } from "#plan/render/sections.ts";
import { openStored } from "#plan/stored.ts";
import type { Filter } from "#plan/stored.ts";
import type { RunRecord } from "#sync/record.ts";

export interface ChangesOptions {
  /** The file of changes that was kept of the run. */
  readonly file: string;
  /** Where DuckDB may put what does not fit into memory. */
  readonly spill: string;
}

/** What a reader of changes may take of memory, in bytes: they are sorted on disk beyond it. */
const memory = 128 * 1024 * 1024;

/** The changes that a run has planned, as they were kept; read while they are asked for. */
export async function* keptChanges(
  { digest, counts }: RunRecord,
  { file, spill }: ChangesOptions,
  filter: Filter,
): AsyncGenerator<Change> {
  if (digest === undefined || counts === undefined) return;
  const database = await openDatabase({ path: ":memory:", memory, spill });
  try {
    const connection = await database.connect();
    try {
      const plan = await openStored(connection, file, { digest, counts }, filter);
      yield* plan.changes();
    } finally {
      connection.close();
    }
  } finally {
    database.close();
  }
}

/**
 * Changes as JSON: one array, or a line for each.
 * @throws what is thrown before the first of them is there
 */
export async function changesAsJson(changes: AsyncIterable<Change>, form: "array" | "lines"): Promise<Readable> {
  const iterator = changes[Symbol.asyncIterator]();
  const first = await iterator.next();
  return Readable.from(inChunks(pieces(iterator, first, form)), { objectMode: false });
}

async function* pieces(
  iterator: AsyncIterator<Change>,
  first: IteratorResult<Change>,
  form: "array" | "lines",
): AsyncIterable<string> {
  const [start, between, end] = form === "array" ? ["[\n", ",\n", "\n]\n"] : ["", "\n", "\n"];
  try {
    yield start;
    for (let { done, value } = first; done !== true; { done, value } = await iterator.next()) {
      yield `${value === first.value ? "" : between}${JSON.stringify(value)}`;
    }
    if (form === "array" || first.done !== true) yield end;
  } finally {
    await iterator.return?.();
  }
}
