import { randomUUID } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { removeFile } from "#files/disk.ts";
import type { Transaction } from "#postgres/database.ts";
import { lines } from "#service/directory/list.ts";

/*
 * Rows on their way between DuckDB and PostgreSQL, as JSON, one row a line, in files of a folder that only their owner can read.
 */

/** Neither mark is ever in JSON, which escapes control characters. */
const jsonLines = String.raw`(FORMAT csv, DELIMITER E'\x1F', QUOTE E'\x1E')`;

/**
 * Writes a query of DuckDB down for `stageLines`. The file is gone when `work` has ended.
 * @param query three columns of JSON text: `line`, an object, and `description` and `mail`, which may be NULL
 */
export function writeRows<Result>(
  folder: string,
  connection: Connection,
  query: string,
  work: (path: string) => Promise<Result>,
): Promise<Result> {
  return withFile(folder, async (path) => {
    await connection.run(`COPY (${query}) TO ${literal(path)} ${lines}`);
    return work(path);
  });
}

interface Received {
  /** In PostgreSQL: one column of JSON objects. */
  readonly query: string;
  /** Their fields with DuckDB's types: `name: 'VARCHAR'`. */
  readonly columns: string;
  /** What of them, in DuckDB. */
  readonly select: string;
  /** The name of the temporary table. It replaces an earlier one. */
  readonly into: string;
}

/** Makes a relation in DuckDB of a query of PostgreSQL. */
export function receiveRows(
  folder: string,
  transaction: Transaction,
  connection: Connection,
  { query, columns, select, into }: Received,
): Promise<void> {
  return withFile(folder, async (path) => {
    const longest = { length: 0 };
    await pipeline(
      transaction.copyOut(`COPY (${query}) TO STDOUT ${jsonLines}`),
      (bytes: AsyncIterable<Buffer>) => measured(bytes, longest),
      createWriteStream(path, { flags: "wx", mode: 0o600 }),
    );
    await connection.run(`
      CREATE OR REPLACE TEMP TABLE ${into} AS SELECT ${select} FROM read_json(${literal(path)},
        format = 'newline_delimited', maximum_object_size = ${longest.length + 1}, columns = {${columns}})`);
  });
}

async function withFile<Result>(folder: string, work: (path: string) => Promise<Result>): Promise<Result> {
  const path = join(folder, randomUUID());
  try {
    return await work(path);
  } finally {
    await removeFile(path);
  }
}

/** Makes `rollcall_lines (line, description, mail)` of a file of `writeRows`, until the transaction ends. */
export async function stageLines(transaction: Transaction, path: string): Promise<void> {
  await transaction.run(
    "CREATE TEMP TABLE rollcall_lines (line json NOT NULL, description json, mail json) ON COMMIT DROP",
  );
  await pipeline(createReadStream(path), transaction.copyIn(`COPY rollcall_lines FROM STDIN ${jsonLines}`));
}

/** Passes bytes on, and notes the length of the longest line: DuckDB takes twice as much memory as it may have. */
async function* measured(bytes: AsyncIterable<Buffer>, longest: { length: number }): AsyncGenerator<Buffer> {
  let length = 0;
  for await (const chunk of bytes) {
    let start = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
      longest.length = Math.max(longest.length, length + end - start + 1);
      length = 0;
      start = end + 1;
    }
    length += chunk.length - start;
    yield chunk;
  }
}
