import { open } from "node:fs/promises";
import { identifier, interruptible, literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { removeFile } from "#files/disk.ts";
import { rowNumberOf } from "#service/engine/engine.ts";
import type { Column, Stage } from "#service/engine/engine.ts";
import { conversionOf, shown } from "./convert.ts";
import { writeRejects } from "./rejects.ts";
import { blocks, findSections } from "./sections.ts";
import type { Section } from "./sections.ts";
import { Splitter } from "./split.ts";
import type { LoadFormat } from "./load-format.ts";

/**
 * Parses, converts and checks the rows of a load into the stage's table `parsed`: one row each, in the order they were
 * sent, so that `rowid` gives the row's number, with its `flaw` if it is rejected. `accepted` is a view of the others.
 * Uses temporary files of up to 128 MiB beside `badRecords`.
 * @throws {InputError} for an unsupported format of dates and times; the signal's reason
 */
export async function parse({ connection }: Stage, input: LoadInput, signal: AbortSignal): Promise<Parsed> {
  const { format, columns, chunks } = input;
  return interruptible(connection, signal, async () => {
    await createParsed(connection, columns, format);
    const sections = await findSections(chunks, format, columns.length, signal);
    for (const section of sections) await insertRewritten(connection, input, section, signal);
    const parsed = await countParsed(connection, "true", input.maxErrors);
    if (parsed.rejected > 0)
      await writeRejects(input.badRecords, sections, format, columns.length, rejectedRows(connection), signal);
    return parsed;
  });
}

async function createParsed(connection: Connection, columns: readonly Column[], format: LoadFormat): Promise<void> {
  const types = columns.map((column, i) => `v${String(i)} ${conversionOf(column, "", format).type}`);
  await connection.run(`CREATE OR REPLACE TEMP TABLE parsed (${types.join(", ")}, flaw VARCHAR)`);
  const values = columns.map((column, i) => `v${String(i)} AS ${identifier(column.name)}`);
  await connection.run(
    `CREATE OR REPLACE TEMP VIEW accepted AS
     SELECT ${values.join(", ")}, rowid + 1 AS ${identifier(rowNumberOf(columns))} FROM parsed WHERE flaw IS NULL`,
  );
}

/** Inserts the rows of a section while the splitter works on the next ones. */
async function insertRewritten(
  connection: Connection,
  { format, columns, badRecords }: LoadInput,
  section: Section,
  signal: AbortSignal,
): Promise<void> {
  const names = columns.map((column) => column.name);
  const scratch = [0, 1].map((number) => `${badRecords}.rows.${String(number)}`);
  let inserting: Promise<void> | undefined;
  try {
    for await (const from of rewritten(section, format, names, scratch, signal)) {
      await inserting;
      signal.throwIfAborted();
      inserting = connection.run(`INSERT INTO parsed ${converted(columns, format, from)}`);
      // A failure is thrown where the insert is awaited.
      inserting.catch(() => undefined);
    }
    await inserting;
  } finally {
    await Promise.allSettled([inserting]);
    await Promise.all(scratch.map(removeFile));
  }
}

/** The rows of `parsed` from an SQL table expression with the columns `flaw`, `f0`, `f1`… */
function converted(columns: readonly Column[], format: LoadFormat, from: string): string {
  const conversions = columns.map((column, i) => conversionOf(column, `f${String(i)}`, format));
  const texts = conversions.map(({ text }, i) => `${text} AS t${String(i)}`);
  const values = conversions.map(({ value }, i) => `${value(`t${String(i)}`)} AS v${String(i)}`);
  const flaws = columns.flatMap(({ name, type, nullable, longest, isZeroFree = false }, i) => {
    const place = `column ${name}: `;
    const found: string[] = [];
    const blame = (condition: string, complaint: string): void => {
      found.push(
        `WHEN ${condition} THEN concat(${literal(place)}, ${shown(`t${String(i)}`)}, ${literal(` ${complaint}`)})`,
      );
    };
    if (type !== "VARCHAR")
      blame(`t${String(i)} IS NOT NULL AND v${String(i)} IS NULL`, conversions[i]?.complaint ?? "");
    if (longest !== undefined)
      blame(`length(rtrim(t${String(i)}, ' ')) > ${String(longest)}`, `has more than ${String(longest)} characters`);
    if (isZeroFree)
      blame(`contains(t${String(i)}, chr(0))`, "has the character U+0000, which the database cannot store");
    if (!nullable) found.push(`WHEN t${String(i)} IS NULL THEN ${literal(`${place}null, and the column is NOT NULL`)}`);
    return found;
  });
  return `SELECT ${columns.map((_, i) => `v${String(i)}`).join(", ")}, CASE WHEN flaw IS NOT NULL THEN flaw ${flaws.join(" ")} END
    FROM (SELECT *, ${values.join(", ")} FROM (SELECT flaw, ${texts.join(", ")} FROM ${from}))`;
}

/** Counts the rows of `parsed` that meet a condition, and describes the first rejected ones. */
export async function countParsed(connection: Connection, condition: string, maxErrors: number): Promise<Parsed> {
  const [counts] = await connection.rows<{ rows: bigint; rejected: bigint }>(
    `SELECT count(*) AS rows, count(flaw) AS rejected FROM parsed WHERE ${condition}`,
  );
  const rejected = Number(counts?.rejected ?? 0);
  const accepted = Number(counts?.rows ?? 0) - rejected;
  if (rejected === 0) return { accepted, rejected, errors: [] };
  const flaws = await connection.rows<{ number: bigint; flaw: string }>(
    `SELECT rowid + 1 AS number, flaw FROM parsed WHERE flaw IS NOT NULL AND ${condition} ORDER BY rowid LIMIT ${maxErrors}`,
  );
  return { accepted, rejected, errors: flaws.map(({ number, flaw }) => `row ${String(number)}, ${flaw}`) };
}

async function* rejectedRows(connection: Connection): AsyncGenerator<number[]> {
  const query = "SELECT rowid + 1 AS number FROM parsed WHERE flaw IS NOT NULL ORDER BY rowid";
  for await (const rows of connection.batches<{ number: bigint }>(query)) yield rows.map((row) => Number(row.number));
}

/** One load's input, complete on disk. */
export interface LoadInput {
  /** The files of the chunks, in the order of their rows. */
  readonly chunks: readonly string[];
  readonly format: LoadFormat;
  readonly columns: readonly Column[];
  /** How many parsing errors are described at most (A.12). */
  readonly maxErrors: number;
  /** The file that gets the rejected rows exactly as they were sent (A.13); not created when there are none. */
  readonly badRecords: string;
}

/** What became of the rows. */
export interface Parsed {
  readonly accepted: number;
  /** The true count, even beyond the limit: the whole input is examined (A.10). */
  readonly rejected: number;
  /** `row 17, column joined: "2024-13-01" does not match %Y-%m-%d` (A.12). */
  readonly errors: readonly string[];
}

/** DuckDB reads a file of this size while the next one is written, in bytes. */
const segmentSize = 64 * 1024 * 1024;

/**
 * Splits a section as A.7 and A.23 define it, into files that DuckDB can read in one way only. Yields SQL table
 * expressions with the columns `flaw` and `f0`, `f1`… VARCHAR, in the order of the rows.
 * @param scratch the files, used alternately: an expression is valid until the second one after it is requested
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
  const splitter = new Splitter(format, columnNames);
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
