import { InputError, UnavailableError } from "#errors.ts";
import { removeFile } from "#files/disk.ts";
import { identifier, literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import type { Engine, Table } from "#service/engine/engine.ts";
import { dataTexts } from "#wire/texts.ts";
import type { LoadParameters } from "#wire/loads.ts";
import { countParsed, parse } from "./parse.ts";
import type { Parsed } from "./parse.ts";
import { formatOf, targetOf } from "./load-format.ts";

/** The beginning of a file that may be loaded. */
export interface PreviewJob {
  readonly parameters: LoadParameters;
  /** The file, in a folder that loads may read and write. It ends with a whole line. */
  readonly sample: string;
  /** There is nothing after it. */
  readonly isWhole: boolean;
}

/** How the beginning of a file would be read. */
export interface Preview extends Parsed {
  readonly rows: readonly PreviewRow[];
  /** What becomes of the accepted rows by their keys; undefined: the table has no primary key. */
  readonly keys?: PreviewKeys | undefined;
  /** There is nothing after what was looked at. */
  readonly isWhole: boolean;
}

/** Rows are named by their numbers; of each list the first ones. */
export interface PreviewKeys {
  /** The columns of the primary key. */
  readonly columns: readonly string[];
  /** Rows with a text in the key that is empty or nothing but blanks. */
  readonly blank: { readonly count: number; readonly rows: readonly number[] };
  /** Rows that are not loaded, since a later one has the same key; and such keys, each with its rows. */
  readonly doubled: {
    readonly count: number;
    readonly keys: readonly { readonly key: readonly string[]; readonly rows: readonly number[] }[];
  };
  /**
   * How many of the first keys the table has: their rows are replaced. Undefined: the table is emptied first, or
   * finding out took too long.
   */
  readonly known?: { readonly count: number; readonly of: number } | undefined;
}

/** A row: its values as text, null where they are null; or why it would be rejected. */
export type PreviewRow =
  | { readonly number: number; readonly values: readonly (string | null)[] }
  | { readonly number: number; readonly flaw: string };

/** How many rows and errors are shown, and how much of a value, in characters; how many keys, and how many rows of each. */
const shown = { rows: 10, errors: 10, value: 200, keys: 5, rowsOfKey: 5 } as const;

/** How many keys are looked up in the table, and for how long, in milliseconds. */
const lookUp = { keys: 1000, timeout: 5000 } as const;

/**
 * Reads the beginning of a file exactly as a load would, and writes nothing.
 * @throws {InputError} when the table is missing or a format is not understood
 */
export async function preview(
  { parameters, sample, isWhole }: PreviewJob,
  engine: Engine,
  signal: AbortSignal,
): Promise<Preview> {
  const table = await engine.find(targetOf(parameters));
  if (table === undefined) throw new InputError(dataTexts.noTable);
  const { columns } = table;
  const badRecords = `${sample}.bad`;
  const stage = await engine.openStage();
  try {
    const format = formatOf(parameters);
    await parse(stage, { chunks: [sample], format, columns, maxErrors: 0, badRecords }, signal);
    // A field that goes on in the next line is cut off: its row is looked at only where the file ends with it.
    const looked = isWhole ? "true" : "NOT (rowid = (SELECT max(rowid) FROM parsed) AND flaw IS NOT NULL)";
    const { connection } = stage;
    const values = columns.map((_, i) => `left(v${i}::VARCHAR, ${shown.value + 1}) AS v${i}`);
    const rows = await connection.rows<Record<`v${number}`, string | null> & { number: bigint; flaw: string | null }>(
      `SELECT rowid + 1 AS number, flaw, ${values.join(", ")} FROM parsed WHERE ${looked} ORDER BY rowid LIMIT ${shown.rows}`,
    );
    return {
      ...(await countParsed(connection, looked, shown.errors)),
      rows: rows.map(({ number, flaw, ...row }) =>
        flaw === null
          ? { number: Number(number), values: columns.map((_, i) => excerpt(row[`v${i}`] ?? null)) }
          : { number: Number(number), flaw },
      ),
      keys: await keysOf(connection, `flaw IS NULL AND ${looked}`, { table, engine, parameters, signal }),
      isWhole,
    };
  } finally {
    await stage.close();
    await removeFile(badRecords);
  }
}

/** What the key says of the rows of `parsed` that meet a condition. */
async function keysOf(
  connection: Connection,
  accepted: string,
  {
    table,
    engine,
    parameters,
    signal,
  }: { table: Table; engine: Engine; parameters: LoadParameters; signal: AbortSignal },
): Promise<PreviewKeys | undefined> {
  const places = table.primaryKey.map((key) => table.columns.findIndex(({ name }) => name === key));
  if (places.length === 0 || places.includes(-1)) return undefined;
  const texts = places.filter((place) => table.columns[place]?.type === "VARCHAR");
  const isBlank = ["false", ...texts.map((place) => `trim(v${place}) = ''`)].join(" OR ");
  const [blank] = await connection.rows<{ count: number; rows: bigint[] }>(`
    SELECT count(*)::INTEGER AS count, list(rowid + 1 ORDER BY rowid)[:${shown.rowsOfKey}] AS rows
    FROM parsed WHERE ${accepted} AND (${isBlank})`);
  const byKey = `
    SELECT [${places.map((place) => `v${place}::VARCHAR`).join(", ")}] AS key, list(rowid + 1 ORDER BY rowid) AS rows
    FROM parsed WHERE ${accepted} GROUP BY ${places.map((place) => `v${place}`).join(", ")} ORDER BY rows[1]`;
  const [doubled] = await connection.rows<{ count: number }>(
    `SELECT coalesce(sum(len(rows) - 1), 0)::INTEGER AS count FROM (${byKey})`,
  );
  const keys = await connection.rows<{ key: string[]; rows: bigint[] }>(
    `SELECT key, rows[:${shown.rowsOfKey}] AS rows FROM (${byKey}) WHERE len(rows) > 1 LIMIT ${shown.keys}`,
  );
  const first = await connection.rows<{ key: string[] }>(`SELECT key FROM (${byKey}) LIMIT ${lookUp.keys}`);
  const isEmptied = parameters.load_options.empty_target;
  return {
    columns: table.primaryKey,
    blank: { count: blank?.count ?? 0, rows: (blank?.rows ?? []).map(Number) },
    doubled: {
      count: doubled?.count ?? 0,
      keys: keys.map(({ key, rows }) => ({ key: key.map((part) => excerpt(part) ?? ""), rows: rows.map(Number) })),
    },
    known: isEmptied
      ? undefined
      : await knownOf(
          first.map(({ key }) => key),
          { table, engine, signal },
        ),
  };
}

/** How many of these keys a table has. A text becomes what its column holds, in either database. */
async function knownOf(
  keys: readonly (readonly string[])[],
  { table, engine, signal }: { table: Table; engine: Engine; signal: AbortSignal },
): Promise<PreviewKeys["known"]> {
  if (keys.length === 0) return { count: 0, of: 0 };
  const conditions = keys.map((key) =>
    table.primaryKey.map((column, index) => `${identifier(column)} = ${literal(key[index] ?? "")}`).join(" AND "),
  );
  const sql = `SELECT count(*) AS known FROM ${engine.reference(table)} WHERE (${conditions.join(") OR (")})`;
  let count = 0;
  const sink = {
    begin: async () => undefined,
    rows: async (rows: readonly (readonly unknown[])[]) => {
      count = Number(rows[0]?.[0]);
    },
  };
  try {
    await engine.query({ database: table.database, sql, limit: 1, timeout: lookUp.timeout }, signal, sink);
    return { count, of: keys.length };
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof UnavailableError) return undefined;
    throw error;
  }
}

function excerpt(value: string | null): string | null {
  const characters = value === null ? [] : Array.from(value);
  return characters.length > shown.value ? `${characters.slice(0, shown.value).join("")}…` : value;
}
