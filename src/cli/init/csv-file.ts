import { isUtf8 } from "node:buffer";
import { open } from "node:fs/promises";
import { resolve } from "node:path";
import { constants, gunzipSync } from "node:zlib";
import { parse } from "csv-parse/sync";
import type { BuiltInConnector } from "#connector.ts";
import { InputError } from "#errors.ts";
import { unreadable } from "#files/disk.ts";
import { Examples } from "./examples.ts";

/** The columns of a CSV file, and the options to read it with. */
export interface Columns {
  readonly names: readonly string[];
  /** The first values of each column. */
  readonly examples: Examples;
  /** The options that differ from the connector's defaults. Absent: it is a workbook. */
  readonly dialect?: Dialect | undefined;
}

type Encoding = "utf-16le" | "utf-16be" | "utf-16" | "windows-1252";

interface Dialect {
  readonly delimiter?: string | undefined;
  readonly encoding?: Encoding | undefined;
  readonly sepLine?: true | undefined;
  readonly skipBlankRows?: true | undefined;
  readonly trailingDelimiters?: true | undefined;
}

/** How much of a file is looked at, in bytes, and in rows. */
const looked = { bytes: 1024 ** 2, rows: 200 } as const;

/** Where files are, and who reads those that are no text. */
interface Setting {
  readonly folder: string;
  readonly connectors: readonly BuiltInConnector[];
}

/** How long looking at a workbook may take, in milliseconds. */
const longestLook = 60_000;

/**
 * Finds out from its beginning how a CSV file is written, or what columns a workbook has.
 * @throws {InputError} if it cannot be read or has no header
 */
export async function columnsOf(file: string, { folder, connectors }: Setting): Promise<Columns> {
  const path = resolve(folder, file);
  const start = await startOf(path).catch((error: unknown) => {
    throw unreadable(file, path, error);
  });
  const isText = !["PK\x03\x04", "\xd0\xcf\x11\xe0"].includes(start.toString("latin1", 0, 4));
  const csv = isText ? undefined : await connectors.find(({ name }) => name === "csv")?.load();
  const sheet = await csv?.firstRows?.(file, folder, AbortSignal.timeout(longestLook));
  const { rows, dialect } = sheet === undefined ? textIn(start) : { rows: sheet, dialect: undefined };
  const [first = [], ...rest] = rows;
  const header = first.map((name) => name.trim());
  const names = header.filter((name) => name !== "");
  if (names.length === 0) throw new InputError(`${file} is empty: it has no header line`);
  const examples = new Examples();
  for (const row of rest) for (const [index, value] of row.entries()) examples.add(header[index] ?? "", value);
  return { names, examples, dialect };
}

/** The first rows of a text, and how it is written. */
function textIn(start: Buffer): { rows: readonly (readonly string[])[]; dialect: Dialect } {
  const encoding = encodingOf(start);
  const decoded = new TextDecoder(encodingName(start, encoding)).decode(start);
  const [sepLine = "", mark = ""] = /^sep=(.)\r?\n/i.exec(decoded) ?? [];
  // The last row may be cut off.
  const text = decoded.slice(sepLine.length);
  const whole = start.length < looked.bytes ? text : text.slice(0, Math.max(text.lastIndexOf("\n"), 0));
  const delimiter = mark === "" ? delimiterOf(whole) : mark;
  const rows = rowsOf(whole, delimiter);
  const [first = [], ...rest] = rows;
  const hasTrailing = first.length > 1 && first.at(-1)?.trim() === "";
  return {
    rows,
    dialect: {
      delimiter: delimiter === "," || mark !== "" ? undefined : delimiter,
      encoding,
      sepLine: mark === "" ? undefined : true,
      skipBlankRows: rest.some((row) => row.length > 1 && row.every((value) => value === "")) || undefined,
      trailingDelimiters: hasTrailing || undefined,
    },
  };
}

/** What was detected, for a person: `separated by ";", windows-1252`. */
export function describeDialect(dialect: Dialect | undefined): string {
  if (dialect === undefined) return "an Excel workbook";
  const { delimiter, encoding, sepLine, skipBlankRows, trailingDelimiters } = dialect;
  return [
    `separated by ${sepLine ? "what its first line says" : JSON.stringify(delimiter ?? ",")}`,
    encoding === "windows-1252"
      ? "windows-1252 (Western Europe; change `encoding` if names look wrong)"
      : (encoding ?? "utf-8"),
    ...(skipBlankRows ? ["blank rows are skipped"] : []),
    ...(trailingDelimiters ? ["rows end with a separator"] : []),
  ].join(", ");
}

/** What separates several references in the cells of a column: that of `;`, `|` and `,` which they contain. */
export function separatorIn(values: readonly string[]): string | undefined {
  return [";", "|", ","].find((separator) => values.some((value) => value.includes(separator)));
}

async function startOf(path: string): Promise<Buffer> {
  await using file = await open(path);
  const { buffer, bytesRead } = await file.read(Buffer.alloc(looked.bytes), 0, looked.bytes, 0);
  const bytes = buffer.subarray(0, bytesRead);
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes;
  return gunzipSync(bytes, { finishFlush: constants.Z_SYNC_FLUSH }).subarray(0, looked.bytes);
}

/** UTF-8 is undefined. Text that is neither that nor UTF-16 is what Windows writes in the West, which includes Latin-1. */
function encodingOf(start: Buffer): Encoding | undefined {
  if ((start[0] === 0xff && start[1] === 0xfe) || (start[0] === 0xfe && start[1] === 0xff)) return "utf-16";
  const zeros = (offset: number): number => {
    let count = 0;
    for (let at = offset; at < Math.min(start.length, 4096); at += 2) if (start[at] === 0) count++;
    return count;
  };
  const [even, odd] = [zeros(0), zeros(1)];
  if (even + odd > Math.min(start.length, 4096) / 8) return odd > even ? "utf-16le" : "utf-16be";
  // A character may be cut off at the end.
  return [0, 1, 2, 3].some((cut) => isUtf8(start.subarray(0, start.length - cut))) ? undefined : "windows-1252";
}

function encodingName(start: Buffer, encoding: Encoding | undefined): string {
  if (encoding === "utf-16") return start[0] === 0xff ? "utf-16le" : "utf-16be";
  return encoding ?? "utf-8";
}

/** The separator that makes the most columns of the header, and as many of the rows. */
function delimiterOf(text: string): string {
  const scored = [",", ";", "\t", "|"].map((delimiter) => {
    const [header = [], ...rows] = rowsOf(text, delimiter);
    const alike = rows.filter((row) => row.length === header.length).length;
    return { delimiter, score: header.length < 2 ? 0 : header.length * ((alike + 1) / (rows.length + 1)) };
  });
  return scored.reduce((best, one) => (one.score > best.score ? one : best)).delimiter;
}

function rowsOf(text: string, delimiter: string): readonly (readonly string[])[] {
  try {
    return parse(text, { delimiter, bom: true, relax_quotes: true, relax_column_count: true, to: looked.rows });
  } catch {
    // A quote that is never closed; the read says where.
    const [first = ""] = text.split(/\r?\n|\r/, 1);
    return [first.split(delimiter)];
  }
}
