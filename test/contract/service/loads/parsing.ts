import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { openDatabase } from "#duckdb/database.ts";
import type { Connection, Database } from "#duckdb/database.ts";
import type { Column, ColumnType } from "#service/engine/engine.ts";
import { readDirectly } from "#service/loads/direct/direct.ts";
import type { LoadFormat } from "#service/loads/load-format.ts";
import { parse } from "#service/loads/parse.ts";
import type { LoadInput } from "#service/loads/parse.ts";

/** The defaults of specification 2.2. */
export const defaults: LoadFormat = {
  type: "csv",
  fieldSeparator: ",",
  trailingFieldSeparator: false,
  enclosingCharacter: '"',
  escapeCharacter: "",
  nullValue: "(null)",
  hasHeaderRow: false,
  flexible: false,
  convertedToEpoch: true,
  dateTimeFormat: "%Y%m%d %H:%M:%S",
  dateFormat: "%Y%m%d",
  timeFormat: "%H:%M:%S",
  skipSecondFraction: false,
  secondFractionStart: ".",
  useBitValues: false,
  trueFormat: "T",
  falseFormat: "F",
};

export interface Outcome {
  /** Values as DuckDB writes them, null where they are. */
  readonly rows: (string | null)[][];
  readonly numbers: number[];
  readonly accepted: number;
  readonly rejected: number;
  readonly errors: readonly string[];
  /** Whether the rows could be read in one pass as well. */
  readonly isDirect: boolean;
  /** The file of rejected rows, byte for byte; undefined when there is none. */
  readonly bad: string | undefined;
}

/** `a INTEGER`, `b VARCHAR NOT NULL`, `c DECIMAL(9,2)`. */
export function columnsOf(...definitions: readonly string[]): Column[] {
  return definitions.map((definition) => {
    const [, name = "", type = "", width, scale, not] =
      /^(\w+) (\w+)(?:\((\d+),(\d+)\))?( NOT NULL)?$/.exec(definition) ?? [];
    return {
      name,
      type: type as ColumnType,
      ...(width === undefined ? {} : { width: Number(width), scale: Number(scale) }),
      nullable: not === undefined,
    };
  });
}

/** Opens a stage for the tests of a file, and parses chunks in it. */
export function useParsing(): {
  load(
    columns: readonly string[],
    format: Partial<LoadFormat>,
    ...chunks: readonly (string | Uint8Array)[]
  ): Promise<Outcome>;
  connection(): Connection;
  folder(): string;
} {
  let database: Database;
  let connection: Connection;
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "rollcall-parsing-"));
    database = await openDatabase({ path: ":memory:", memory: 512 * 1024 * 1024, spill: join(folder, "spill") });
    connection = await database.connect();
  });
  afterAll(async () => {
    connection.close();
    database.close();
    await rm(folder, { recursive: true });
  });
  return {
    connection: () => connection,
    folder: () => folder,
    load: async (columns, format, ...chunks) => {
      const paths = await Promise.all(
        chunks.map(async (chunk, i) => {
          const path = join(folder, `chunk${i}`);
          await writeFile(path, chunk);
          return path;
        }),
      );
      const badRecords = join(folder, "bad");
      const table = columnsOf(...columns);
      const stage = { connection, close: async () => undefined };
      const { signal } = new AbortController();
      const complete = { ...defaults, ...format };
      const input = {
        chunks: paths,
        format: complete,
        columns: table,
        maxErrors: 100,
        badRecords,
      };
      const parsed = await parse(stage, input, signal);
      const values = table.map(({ name }) => `CAST("${name}" AS VARCHAR)`).join(", ");
      const rows = await connection.rows<{ row: (string | null)[]; number: bigint }>(
        `SELECT [${values}] AS row, row_number AS number FROM accepted ORDER BY row_number`,
      );
      const bad = await readFile(badRecords, "latin1").catch(() => undefined);
      await rm(badRecords, { force: true });
      const direct = await readOnce(connection, input);
      if (direct !== undefined) {
        expect(direct).toEqual(rows.map(({ row }) => row));
        expect(parsed.rejected).toBe(0);
      }
      return {
        rows: rows.map(({ row }) => row),
        numbers: rows.map(({ number }) => Number(number)),
        ...parsed,
        bad: bad === undefined ? undefined : bad,
        isDirect: direct !== undefined,
      };
    },
  };
}

/** The rows as they are read in one pass; undefined where they cannot be. */
async function readOnce(connection: Connection, input: LoadInput): Promise<(string | null)[][] | undefined> {
  const stage = { connection, close: async () => undefined };
  const values = input.columns.map(({ name }) => `CAST("${name}" AS VARCHAR)`).join(", ");
  const nulls = input.columns.filter(({ nullable }) => !nullable).map(({ name }) => `"${name}" IS NULL`);
  const select = `SELECT [${values}] AS row, ${["false", ...nulls].join(" OR ")} AS refused FROM accepted`;
  let rows: { row: (string | null)[]; refused: boolean }[] = [];
  const parsed = await readDirectly(stage, input, new AbortController().signal, async ({ accepted }) => {
    rows = await connection.rows(select);
    // The table itself refuses nulls, and as many rows as were not expected.
    if (rows.length !== accepted || rows.some(({ refused }) => refused)) throw new Error("refused");
  }).catch(() => undefined);
  return parsed === undefined ? undefined : rows.map(({ row }) => row);
}
