import { open } from "node:fs/promises";
import { literal } from "#duckdb/database.ts";
import type { LoadFormat } from "./format.ts";
import { blocks } from "./sections.ts";
import type { Section } from "./sections.ts";
import { createSplitter } from "./split.ts";
import type { Splitter } from "./splitter.ts";

/** A file of this size is given to DuckDB while the next one is written. */
const segmentSize = 64 * 1024 * 1024;

/**
 * Splits a section as A.7 and A.23 have it, in files that DuckDB reads in one way only: SQL table expressions with the
 * columns `flaw` and `f0`, `f1`… VARCHAR, in the order of the rows.
 * @param scratch the files, used in turn: once another expression is asked for, the one before the last is written over
 * @throws the signal's reason
 */
export async function* rewritten(
  section: Section,
  format: LoadFormat,
  columnNames: readonly string[],
  scratch: readonly string[],
  signal: AbortSignal,
): AsyncGenerator<string> {
  const source = blocks(section.path, section.from, signal);
  const splitter = createSplitter({ format, columnNames, onRow: () => undefined });
  let isOver = false;
  try {
    for (let number = 0; !isOver; number++) {
      const path = scratch[number % scratch.length] ?? "";
      const file = await open(path, "w");
      let size = 0;
      try {
        while (size < segmentSize && !isOver) {
          const { done, value } = await source.next();
          if (done === true) splitter.end();
          else splitter.scan(value);
          isOver = done === true;
          const rows = splitter.take();
          if (rows.length > 0) await file.writeFile(rows);
          size += rows.length;
        }
      } finally {
        await file.close();
      }
      if (size > 0) yield reading(path, columnNames.length, splitter);
    }
  } finally {
    await source.return(undefined);
  }
}

function reading(path: string, width: number, { longest, hasNewline }: Splitter): string {
  const names = ["flaw", ...Array.from({ length: width }, (_, i) => `f${String(i)}`)];
  const columns = names.map((name) => `'${name}': 'VARCHAR'`).join(", ");
  // With several threads DuckDB has to guess where rows begin, and gives up on some files with newlines in fields.
  // DuckDB's own limit is 2 MB; its buffer must hold several rows of the longest.
  const line = Math.max(2 * 1024 * 1024, longest + 1024);
  const buffer = Math.max(32 * 1024 * 1024, line * 2);
  return `read_csv(${literal(path)}, auto_detect = false, header = false, delim = ',', quote = '"', escape = '"',
    nullstr = '', allow_quoted_nulls = false, new_line = '\\n', strict_mode = true,
    parallel = ${String(!hasNewline)}, max_line_size = ${String(line)}, buffer_size = ${String(buffer)}, columns = {${columns}})`;
}
