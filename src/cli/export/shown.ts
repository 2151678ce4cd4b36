import { errorDocument } from "#errors.ts";
import type { ErrorDocument } from "#errors.ts";
import type { RunRecord } from "#sync/record.ts";
import type { Exported } from "./target.ts";

/** What was exported, as `--json` and the record of a run have it. */
export interface ExportDocument extends NonNullable<RunRecord["export"]> {
  readonly target: string;
  /** For a person: the database, with its schema if one was given, or the folder. */
  readonly to: string;
  readonly seconds: number;
  readonly tables: readonly {
    readonly table: string;
    readonly rows?: number;
    readonly seconds?: number;
    readonly error?: ErrorDocument;
  }[];
  /** Set when any table did not arrive. */
  readonly error?: ErrorDocument;
}

export function exportDocument({ target, to, seconds, tables, problem }: Exported): ExportDocument {
  return {
    target,
    to,
    seconds,
    tables: tables.map(({ table, rows, seconds, error }) =>
      error === undefined ? { table, rows, seconds } : { table, error: errorDocument(error) },
    ),
    ...(problem === undefined ? {} : { error: errorDocument(problem) }),
  };
}

/** What was exported, for a person. */
export function describeExported(sync: string, { target, to, tables, seconds }: ExportDocument): string {
  const done = tables.filter(({ error }) => error === undefined);
  if (done.length === 0) return "";
  const width = Math.max(...done.map(({ table }) => table.length));
  const counts = done.map(({ rows = 0 }) => rows.toLocaleString("en"));
  const digits = Math.max(...counts.map((count) => count.length));
  return [
    `${sync}: exported ${target} to ${to} (${seconds.toFixed(1)} s)`,
    ...done.map(({ table }, index) => `  ${table.padEnd(width)}  ${(counts[index] ?? "").padStart(digits)} rows`),
    "",
  ].join("\n");
}
