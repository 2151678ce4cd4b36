import type { Change } from "./change.ts";
import type { Connection } from "#duckdb/database.ts";
import { changeOfRow } from "./plan.ts";
import type { ChangeRow } from "./plan.ts";
import { matches } from "./protect.ts";
import { parquet } from "./stored.ts";

/** What a file of changes has of a principal. */
export interface Trace {
  readonly file: string;
  readonly change: Change;
}

/**
 * The changes of every principal with a name, users and groups, in files with the columns of `change_sides`: in the
 * order of the files' names, the last first.
 * @param name in which `*` stands for any characters
 * @throws the library's error when a file is not there, or damaged
 */
export async function* readTraces(
  connection: Connection,
  files: readonly string[],
  name: string,
): AsyncIterable<Trace> {
  if (files.length === 0) return;
  const batches = connection.batches<ChangeRow & { filename: string }>(`
    SELECT filename, action::VARCHAR AS action, kind::VARCHAR AS kind, before, after FROM ${parquet(files)}
    WHERE ${matches("name", [name])} ORDER BY filename DESC, name, kind`);
  for await (const rows of batches)
    for (const { filename, ...row } of rows) yield { file: filename, change: changeOfRow(row) };
}
