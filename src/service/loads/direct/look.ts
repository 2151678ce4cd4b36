import { isDeepStrictEqual } from "node:util";
import type { Engine } from "#service/engine/engine.ts";
import { formatOf, targetOf } from "#service/loads/load-format.ts";
import type { LoadFormat } from "#service/loads/load-format.ts";
import { blocks, findSections } from "#service/loads/sections.ts";
import type { Section } from "#service/loads/sections.ts";
import type { LoadParameters } from "#wire/loads.ts";
import { RegularRows } from "./regular-rows.ts";

/** A chunk that arrives. */
export interface LookJob {
  readonly path: string;
  readonly parameters: LoadParameters;
}

/** What was found out about the rows of a chunk while it arrived, and how they were looked at. */
export interface Look {
  readonly from: number;
  readonly format: LoadFormat;
  readonly width: number;
  readonly rows: Looked | undefined;
}

/** Regular rows: how many, and what the fields of each column are made of. */
export interface Looked {
  readonly count: number;
  readonly kinds: readonly number[];
}

/**
 * Looks at the rows of a chunk while it arrives, as the load will.
 * @param reach resolves when its file has so many bytes, or all
 * @returns undefined where the load will not look at them
 */
export async function lookAtArriving(
  { path, parameters }: LookJob,
  engine: Engine,
  signal: AbortSignal,
  reach: (size: number) => Promise<void>,
): Promise<Look | undefined> {
  const table = await engine.find(targetOf(parameters));
  if (table === undefined || table.primaryKey.length > 0) return undefined;
  const format = formatOf(parameters);
  const width = table.columns.length;
  if (!isPlain(format, width)) return undefined;
  const [section] = await findSections([path], format, width, signal);
  if (section?.isPlain !== true) return undefined;
  const { from } = section;
  const rows = await scanned(blocks(path, from, signal, reach), format, width);
  return { from, format, width, rows };
}

/**
 * Whether DuckDB's CSV reader and the splitter agree on regular rows in this format. The reader differs in this: its
 * separator and enclosing character are one byte each, it has no escape apart from doubling, and it matches a null after
 * unescaping.
 */
export function isPlain(format: LoadFormat, width: number): boolean {
  const { fieldSeparator, enclosingCharacter, nullValue } = format;
  const mark = format.type === "csv" ? enclosingCharacter : "";
  return (
    (format.type === "csv" || format.escapeCharacter === "") &&
    width > 1 &&
    !format.flexible &&
    !format.trailingFieldSeparator &&
    /^[!-~\t]$/.test(fieldSeparator) &&
    /^[!-~]?$/.test(mark) &&
    /^[ -~]+$/.test(nullValue) &&
    !nullValue.includes(fieldSeparator) &&
    (mark === "" || !nullValue.includes(mark))
  );
}

/**
 * The rows of sections; undefined when one of them is not regular.
 * @param looks what is known of each already
 * @throws the signal's reason
 */
export async function regularRows(
  sections: readonly Section[],
  format: LoadFormat,
  width: number,
  signal: AbortSignal,
  looks: readonly (Look | undefined)[] = [],
): Promise<Looked | undefined> {
  let count = 0;
  const kinds = Array.from({ length: width }, () => 0);
  for (const [i, { path, from }] of sections.entries()) {
    const look = looks[i];
    const isKnown = look?.from === from && look.width === width && isDeepStrictEqual(look.format, format);
    const rows = isKnown ? look.rows : await scanned(blocks(path, from, signal), format, width);
    if (rows === undefined) return undefined;
    count += rows.count;
    for (const [column, found] of rows.kinds.entries()) kinds[column] = (kinds[column] as number) | found;
  }
  return { count, kinds };
}

async function scanned(bytes: AsyncIterable<Buffer>, format: LoadFormat, width: number): Promise<Looked | undefined> {
  const rows = new RegularRows(format, width);
  for await (const block of bytes) {
    rows.scan(block);
    if (!rows.isRegular) return undefined;
  }
  rows.end();
  return rows.isRegular ? { count: rows.count, kinds: [...rows.kinds] } : undefined;
}
