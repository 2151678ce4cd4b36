import { randomUUID } from "node:crypto";
import { mkdir, open, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";

/**
 * Answers of any length. DuckDB writes them to disk as fast as it can, without JavaScript touching a principal, and
 * from there they go out as slowly as the client likes: nobody who reads slowly holds a transaction or a sync.
 */
export interface Answers {
  /**
   * Computes an answer: `query` gives one column of text, its rows are the lines.
   * The file has no name any more when this returns, and is gone when the stream is closed.
   */
  compute(connection: Connection, query: string): Promise<Readable>;
}

/** What the lines never hold: JSON escapes control characters. DuckDB would quote a line that has its delimiter. */
const format = String.raw`(FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER e'\x1F')`;

const chunk = 128 * 1024;

/** Keeps answers in `folder`, which is emptied: what a killed process left is of no use. */
export async function openAnswers(folder: string): Promise<Answers> {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true, mode: 0o700 });
  return {
    compute: async (connection, query) => {
      const path = join(folder, randomUUID());
      try {
        await connection.run(`COPY (${query}) TO ${literal(path)} ${format}`);
        const file = await open(path, "r");
        return file.createReadStream({ highWaterMark: chunk });
      } finally {
        await rm(path, { force: true });
      }
    },
  };
}
