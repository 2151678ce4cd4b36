import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { openDatabase } from "#plan/database.ts";
import type { Connection, Database } from "#plan/database.ts";
import type { Column, ColumnType } from "#service/engine/engine.ts";
import type { LoadFormat } from "#service/loads/format.ts";
import { parse } from "#service/loads/rows.ts";

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
      const parsed = await parse(
        stage,
        { chunks: paths, format: { ...defaults, ...format }, columns: table, maxErrors: 100, badRecords },
        new AbortController().signal,
      );
      const values = table.map(({ name }) => `CAST("${name}" AS VARCHAR)`).join(", ");
      const rows = await connection.rows<{ row: (string | null)[]; number: bigint }>(
        `SELECT [${values}] AS row, row_number AS number FROM accepted ORDER BY row_number`,
      );
      const bad = await readFile(badRecords, "latin1").catch(() => undefined);
      await rm(badRecords, { force: true });
      return {
        rows: rows.map(({ row }) => row),
        numbers: rows.map(({ number }) => Number(number)),
        ...parsed,
        bad: bad === undefined ? undefined : bad,
      };
    },
  };
}
