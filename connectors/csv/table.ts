import { createHash } from "node:crypto";
import { InputError, messageOf } from "#errors.ts";
import { OpenFiles } from "#files/source-file.ts";
import type { OpenFile } from "#files/source-file.ts";
import { lookupKey } from "#principals/lookup.ts";
import type { LookupTable } from "#principals/lookup.ts";
import { formatNumber, nfc, quote } from "#text.ts";
import { textOf } from "./decode.ts";
import { dialectOf } from "./options.ts";
import { assertColumns, at, rowsOf, shaped, withoutSepLine } from "./rows.ts";
import type { Place, Row } from "./rows.ts";

/** More is a source of its own, which rules join. */
const mostRows = 100_000;
/** Fields, and characters in them: a table is held in memory. */
const most = { fields: 10_000_000, characters: 64 * 1024 * 1024 };

/**
 * The table in a CSV file: its first column is the key. It is UTF-8, or UTF-16 with a byte order mark; its fields are
 * separated by what its header has: commas, semicolons or tabs.
 * @throws {IncompleteReadError} the file is missing, empty, or changing
 * @throws {InputError} it is malformed, or two rows have one key; the message names the line
 */
export async function readTable(name: string, folder: string, signal: AbortSignal): Promise<LookupTable> {
  await using opened = await OpenFiles.open([name], { folder }, {}, signal);
  try {
    const [file, ...more] = opened.files;
    if (file === undefined || more.length > 0)
      throw new InputError(`${name}: a table is one file: give its name without a pattern`);
    const table = await tableOf(file, signal);
    await opened.assertUnchanged();
    return table;
  } catch (error) {
    // A source says what its settings could do about it; a table has none.
    if (!(error instanceof InputError)) throw error;
    throw new InputError(error.message.replace(/set encoding to the file's, .*$/, "save the file as UTF-8"));
  }
}

async function tableOf(file: OpenFile, signal: AbortSignal): Promise<LookupTable> {
  const { name } = file;
  const place: Place = { file: name, line: 1 };
  const { encoding, delimiter } = await guess(file);
  const lenient = { sepLine: true, skipBlankRows: true, shortRows: true, trailingDelimiters: true };
  const { dialect, text } = await withoutSepLine(
    textOf(file, encoding, place, signal),
    dialectOf({ encoding, delimiter, ...lenient }),
    place,
  );
  let columns: readonly string[] | undefined;
  const rows = new Map<string, readonly string[]>();
  const lines = new Map<string, number>();
  const hash = createHash("sha256");
  let characters = 0;
  for await (const found of rowsOf(text, dialect, place)) {
    for (const each of found) {
      if (columns === undefined) {
        columns = columnsIn(each, name);
        hash.update(JSON.stringify(columns));
        continue;
      }
      const row = shaped(each, columns.length, name, dialect);
      if (row === undefined) continue;
      const fields = row.fields.map((field) => nfc(field.trim()));
      const here = at({ file: name, line: row.line });
      const key = keyIn(fields[0] ?? "", here);
      if (key === "") throw new InputError(`${here}: the key (column ${quote(columns[0] ?? "")}) is empty`);
      const earlier = lines.get(key);
      if (earlier !== undefined)
        throw new InputError(
          `${here}: the key ${quote(key)} is already used in line ${earlier}; remove one of the rows`,
        );
      if (rows.size === mostRows)
        throw new InputError(
          `${here}: more than ${formatNumber(mostRows)} rows are too many to look up in; read the file as a source, and join it`,
        );
      characters += fields.reduce((sum, field) => sum + field.length, 0);
      if (characters > most.characters || rows.size * columns.length > most.fields)
        throw new InputError(
          `${here}: the table is too large to look up in (at most 10 million fields, 64 Mi characters); leave out columns that no rule reads`,
        );
      lines.set(key, row.line);
      rows.set(key, fields);
      hash.update(JSON.stringify(fields));
    }
  }
  if (columns === undefined) throw new InputError(`${name} is empty; its first line names the columns, the key first`);
  return { columns, rows, digest: hash.digest("hex") };
}

function keyIn(field: string, here: string): string {
  try {
    return lookupKey(field);
  } catch (error) {
    throw new InputError(`${here}: ${messageOf(error)}; remove it`, { cause: error });
  }
}

/** How the file is encoded, and the delimiter that its first line has most often. */
async function guess(file: OpenFile): Promise<{ readonly encoding: "utf-8" | "utf-16"; readonly delimiter: string }> {
  const head = await file.head(64 * 1024);
  const isUtf16 = (head[0] === 0xff && head[1] === 0xfe) || (head[0] === 0xfe && head[1] === 0xff);
  const encoding = isUtf16 ? "utf-16" : "utf-8";
  const text = head.toString(isUtf16 ? "utf-16le" : "utf-8");
  const first = text.replace(/^sep=.*[\r\n]+/i, "").split(/[\r\n]/, 1)[0] ?? "";
  const often = (delimiter: string): number => first.split(delimiter).length;
  const [delimiter = ","] = [",", ";", "\t"].sort((one, other) => often(other) - often(one));
  return { encoding, delimiter };
}

function columnsIn({ fields, line }: Row, name: string): readonly string[] {
  assertColumns(fields, at({ file: name, line }));
  const columns = fields.map((field) => nfc(field.trim()));
  const places = new Map<string, number>();
  while (columns.at(-1) === "") columns.pop();
  for (const [index, column] of columns.entries()) {
    const earlier = places.get(column);
    const place = at({ file: name, line });
    if (column === "") throw new InputError(`${place}: column ${index + 1} of the header has no name`);
    if (earlier !== undefined)
      throw new InputError(
        `${place}: columns ${earlier + 1} and ${index + 1} are both called ${quote(column)}; rename one`,
      );
    places.set(column, index);
  }
  return columns;
}
