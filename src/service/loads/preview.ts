import { rm } from "node:fs/promises";
import { InputError } from "#errors.ts";
import type { Engine } from "#service/engine/engine.ts";
import { dataTexts } from "#wire/texts.ts";
import type { LoadParameters } from "#wire/loads.ts";
import { parse } from "./parse.ts";
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
export interface Preview {
  /** Rows that would be accepted, and those that would be rejected, with the reasons of the first ones. */
  readonly accepted: number;
  readonly rejected: number;
  readonly errors: readonly string[];
  readonly rows: readonly PreviewRow[];
  /** There is nothing after what was looked at. */
  readonly isWhole: boolean;
}

/** A row: its values as text, null where they are null; or why it would be rejected. */
export type PreviewRow =
  | { readonly number: number; readonly values: readonly (string | null)[] }
  | { readonly number: number; readonly flaw: string };

/** How many rows and errors are shown, and how much of a value, in characters. */
const shown = { rows: 10, errors: 10, value: 200 } as const;

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
    const cut = isWhole ? "false" : "rowid = (SELECT max(rowid) FROM parsed) AND flaw IS NOT NULL";
    const { connection } = stage;
    const [counts] = await connection.rows<{ rows: bigint; rejected: bigint }>(
      `SELECT count(*) AS rows, count(flaw) AS rejected FROM parsed WHERE NOT (${cut})`,
    );
    const flaws = await connection.rows<{ number: bigint; flaw: string }>(
      `SELECT rowid + 1 AS number, flaw FROM parsed WHERE flaw IS NOT NULL AND NOT (${cut}) ORDER BY rowid LIMIT ${shown.errors}`,
    );
    const values = columns.map((_, i) => `left(v${i}::VARCHAR, ${shown.value + 1}) AS v${i}`);
    const rows = await connection.rows<Record<`v${number}`, string | null> & { number: bigint; flaw: string | null }>(
      `SELECT rowid + 1 AS number, flaw, ${values.join(", ")} FROM parsed WHERE NOT (${cut}) ORDER BY rowid LIMIT ${shown.rows}`,
    );
    const rejected = Number(counts?.rejected ?? 0);
    return {
      accepted: Number(counts?.rows ?? 0) - rejected,
      rejected,
      errors: flaws.map(({ number, flaw }) => `row ${number}, ${flaw}`),
      rows: rows.map(({ number, flaw, ...row }) =>
        flaw === null
          ? { number: Number(number), values: columns.map((_, i) => excerpt(row[`v${i}`] ?? null)) }
          : { number: Number(number), flaw },
      ),
      isWhole,
    };
  } finally {
    await stage.close();
    await rm(badRecords, { force: true });
  }
}

function excerpt(value: string | null): string | null {
  const characters = value === null ? [] : Array.from(value);
  return characters.length > shown.value ? `${characters.slice(0, shown.value).join("")}…` : value;
}
