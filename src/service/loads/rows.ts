import { rm } from "node:fs/promises";
import { messageOf } from "#errors.ts";
import { identifier, literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { rowNumberOf } from "#service/engine/engine.ts";
import type { Column } from "#service/engine/engine.ts";
import { conversionOf, shown } from "./convert.ts";
import type { LoadFormat } from "./format.ts";
import type { LoadInput, Parse, Parsed } from "./parsing.ts";
import { isPlain, readingRegular, regularRows } from "./regular.ts";
import { writeRejects } from "./rejects.ts";
import { rewritten } from "./rewrite.ts";
import type { RegularRows } from "./row-scan.ts";
import { findSections } from "./sections.ts";
import type { Section } from "./sections.ts";

/**
 * Parses, converts and checks the rows of a load. They are in the stage's table `parsed` then, one row each in the order
 * they were sent, so that `rowid` tells the row's number; a rejected one says what its `flaw` is. `accepted` is a view
 * of the others. Files of up to 128 MiB are written beside `badRecords` meanwhile.
 * @throws {InputError} for a format of dates and times that is not understood; the signal's reason
 */
export const parse: Parse = async (stage, input, signal): Promise<Parsed> => {
  const { connection } = stage;
  const { format, columns, chunks } = input;
  const interrupt = () => {
    connection.interrupt();
  };
  signal.throwIfAborted();
  signal.addEventListener("abort", interrupt, { once: true });
  try {
    const names = columns.map((column) => column.name);
    await createParsed(connection, columns, format);
    const paths = chunks.map(({ path }) => path);
    const sections = await findSections(paths, format, names, signal);
    for (const [i, section] of sections.entries()) {
      if (isPlain(format, columns.length) && section.isPlain) {
        const select = converted(columns, format, readingRegular(section, format, columns.length));
        const rows = regularRows(section, format, columns.length, chunks[i]?.scanned, signal);
        if (await inserted(connection, select, rows)) continue;
        signal.throwIfAborted();
      }
      await insertRewritten(connection, input, section, signal);
    }
    return await outcome(connection, input, async (rejected) => {
      await writeRejects(input.badRecords, sections, format, names, rejected, signal);
    });
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener("abort", interrupt);
  }
};

async function createParsed(connection: Connection, columns: readonly Column[], format: LoadFormat): Promise<void> {
  const types = columns.map((column, i) => `v${String(i)} ${conversionOf(column, "", format).type}`);
  await connection.run(`CREATE OR REPLACE TEMP TABLE parsed (${types.join(", ")}, flaw VARCHAR)`);
  const values = columns.map((column, i) => `v${String(i)} AS ${identifier(column.name)}`);
  await connection.run(
    `CREATE OR REPLACE TEMP VIEW accepted AS
     SELECT ${values.join(", ")}, rowid + 1 AS ${identifier(rowNumberOf(columns))} FROM parsed WHERE flaw IS NULL`,
  );
}

/**
 * Inserts what DuckDB reads by itself, while it is found out whether it reads it right: `regular` are the rows, or
 * undefined. False, when it does not, or will not (a row is too long for it, or not UTF-8): then nothing is inserted.
 */
async function inserted(
  connection: Connection,
  select: string,
  regular: Promise<RegularRows | undefined>,
): Promise<boolean> {
  const unwanted = new Error("DuckDB reads this chunk in its own way");
  let isInserting = false;
  let isRefused = false;
  const isWanted = regular.then((rows) => {
    isRefused = rows === undefined;
    if (isRefused && isInserting) connection.interrupt();
    return !isRefused;
  });
  // A failure is met where the check is waited for.
  isWanted.catch(() => undefined);
  try {
    await connection.transaction(async () => {
      const before = await countRows(connection);
      if (isRefused) throw unwanted;
      isInserting = true;
      const insert = connection.run(`INSERT INTO parsed ${select}`).finally(() => {
        isInserting = false;
      });
      const [ended] = await Promise.allSettled([insert, isWanted]);
      if (!(await isWanted)) throw unwanted;
      if (ended.status === "rejected") throw ended.reason;
      if ((await countRows(connection)) - before !== (await regular)?.count) throw unwanted;
    });
    return true;
  } catch (error) {
    if (error === unwanted) return false;
    if (/CSV Error|Parallel CSV Reader|not utf-8/i.test(messageOf(error))) return false;
    throw error;
  }
}

async function countRows(connection: Connection): Promise<number> {
  const [row] = await connection.rows<{ rows: bigint }>("SELECT count(*) AS rows FROM parsed");
  return Number(row?.rows ?? 0);
}

/** Inserts the rows of a section as the splitter finds them: some are inserted while the next ones are split. */
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
      // A failure is met where the insert is waited for.
      inserting.catch(() => undefined);
    }
    await inserting;
  } finally {
    await Promise.allSettled([inserting]);
    await Promise.all(scratch.map(async (path) => rm(path, { force: true })));
  }
}

/** The rows of `parsed` from an SQL table expression with the columns `flaw`, `f0`, `f1`… */
function converted(columns: readonly Column[], format: LoadFormat, from: string): string {
  const conversions = columns.map((column, i) => conversionOf(column, `f${String(i)}`, format));
  const texts = conversions.map(({ text }, i) => `${text} AS t${String(i)}`);
  const values = conversions.map(({ value }, i) => `${value(`t${String(i)}`)} AS v${String(i)}`);
  const flaws = columns.flatMap(({ name, type, nullable }, i) => {
    const place = `column ${name}: `;
    const found: string[] = [];
    if (type !== "VARCHAR") {
      const complaint = literal(` ${conversions[i]?.complaint ?? ""}`);
      found.push(
        `WHEN t${String(i)} IS NOT NULL AND v${String(i)} IS NULL THEN concat(${literal(place)}, ${shown(`t${String(i)}`)}, ${complaint})`,
      );
    }
    if (!nullable) found.push(`WHEN t${String(i)} IS NULL THEN ${literal(`${place}null, and the column is NOT NULL`)}`);
    return found;
  });
  return `SELECT ${columns.map((_, i) => `v${String(i)}`).join(", ")}, CASE WHEN flaw IS NOT NULL THEN flaw ${flaws.join(" ")} END
    FROM (SELECT *, ${values.join(", ")} FROM (SELECT flaw, ${texts.join(", ")} FROM ${from}))`;
}

/** Counts the rows, describes the first that were rejected and has all of them written. */
async function outcome(
  connection: Connection,
  input: LoadInput,
  write: (rejected: AsyncIterable<number[]>) => Promise<void>,
): Promise<Parsed> {
  const [counts] = await connection.rows<{ rows: bigint; rejected: bigint }>(
    "SELECT count(*) AS rows, count(flaw) AS rejected FROM parsed",
  );
  const rejected = Number(counts?.rejected ?? 0);
  const accepted = Number(counts?.rows ?? 0) - rejected;
  if (rejected === 0) return { accepted, rejected, errors: [] };
  const flaws = await connection.rows<{ number: bigint; flaw: string }>(
    `SELECT rowid + 1 AS number, flaw FROM parsed WHERE flaw IS NOT NULL ORDER BY rowid LIMIT ${String(input.maxErrors)}`,
  );
  await write(rejectedRows(connection));
  return { accepted, rejected, errors: flaws.map(({ number, flaw }) => `row ${String(number)}, ${flaw}`) };
}

async function* rejectedRows(connection: Connection): AsyncGenerator<number[]> {
  const query = "SELECT rowid + 1 AS number FROM parsed WHERE flaw IS NOT NULL ORDER BY rowid";
  for await (const rows of connection.batches<{ number: bigint }>(query)) yield rows.map((row) => Number(row.number));
}
