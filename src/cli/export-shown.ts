import type { Exported } from "./export-target.ts";
import { errorDocument } from "./output.ts";

/** What was exported, for a person. */
export function describeExported(sync: string, { target, to, tables, seconds }: Exported): string {
  const done = tables.filter(({ error }) => error === undefined);
  if (done.length === 0) return "";
  const width = Math.max(...done.map(({ table }) => table.length));
  const counts = done.map(({ rows }) => rows.toLocaleString("en"));
  const digits = Math.max(...counts.map((count) => count.length));
  return [
    `${sync}: exported ${target} to ${to} (${seconds.toFixed(1)} s)`,
    ...done.map(({ table }, index) => `  ${table.padEnd(width)}  ${(counts[index] ?? "").padStart(digits)} rows`),
    "",
  ].join("\n");
}

/** What was exported, as `--json` shows it: `{target, to, seconds, tables: [{table, rows, seconds} | {table, error}], error?}`. */
export function exportDocument({ target, to, seconds, tables, problem }: Exported): object {
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
