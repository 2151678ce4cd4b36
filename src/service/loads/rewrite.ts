import { open, rm } from "node:fs/promises";
import { literal } from "#plan/database.ts";
import type { LoadFormat } from "./format.ts";
import { blocks } from "./sections.ts";
import type { Section } from "./sections.ts";
import { createSplitter } from "./split.ts";
import type { Splitter } from "./split.ts";

/** Some rows of a section, written anew. */
export interface Segment {
  /** An SQL table expression with the columns `flaw` and `f0`, `f1`… VARCHAR, in the order of the rows. */
  readonly from: string;
  remove(): Promise<void>;
}

/** A file of this size is given to DuckDB while the next one is written. */
const segmentSize = 64 * 1024 * 1024;

/**
 * Splits a section as A.7 and A.23 have it, in files that DuckDB reads in one way only.
 * @param scratch the path of the files, without their endings
 * @throws the signal's reason
 */
export async function* rewritten(
  section: Section,
  format: LoadFormat,
  columnNames: readonly string[],
  scratch: string,
  signal: AbortSignal,
): AsyncGenerator<Segment> {
  const source = blocks(section.path, section.from, signal);
  const splitter = createSplitter({ format, columnNames, onRow: () => undefined });
  let isOver = false;
  try {
    for (let number = 0; !isOver; number++) {
      const path = `${scratch}.${String(number % 2)}`;
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
      const remove = async () => {
        await rm(path, { force: true });
      };
      if (size > 0) yield { from: reading(path, columnNames.length, splitter), remove };
      else await remove();
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
