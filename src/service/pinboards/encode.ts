import { setImmediate } from "node:timers/promises";
import type { Page } from "#service/engine/engine.ts";

/** How the rows of an answer are written: as arrays, or as objects by column name (B.11). */
export type Format = "COMPACT" | "FULL";

/** A page as bytes of JSON, ready to be sent any number of times. */
export interface EncodedPage {
  readonly columnNames: readonly string[];
  readonly totalRowCount: number;
  readonly rowCount: number;
  /** The rows with commas between them, without the brackets around them. */
  readonly rows: readonly Buffer[];
}

/** Characters after which a piece ends and others get their turn: about a millisecond's work. */
const pieceLength = 64 * 1024;

export async function encodePage({ columnNames, rows, totalRowCount }: Page, format: Format): Promise<EncodedPage> {
  const encodeRow = format === "COMPACT" ? JSON.stringify : objectWriter(columnNames);
  const pieces: Buffer[] = [];
  let text = "";
  for (const [index, row] of rows.entries()) {
    text += index === 0 ? encodeRow(row) : `,${encodeRow(row)}`;
    if (text.length < pieceLength) continue;
    pieces.push(Buffer.from(text));
    text = "";
    await setImmediate();
  }
  pieces.push(Buffer.from(text));
  return { columnNames, totalRowCount, rowCount: rows.length, rows: pieces };
}

/** Writes a row as an object: by hand, since an object would put columns called `1` and `2` first. */
function objectWriter(columnNames: readonly string[]): (row: readonly unknown[]) => string {
  const keys = distinctNames(columnNames).map((name, index) => `${index === 0 ? "" : ","}${JSON.stringify(name)}:`);
  return (row) => {
    let text = "{";
    for (const [index, key] of keys.entries()) text += key + JSON.stringify(row[index]);
    return `${text}}`;
  };
}

/** The second column of a name gets `_2`, the third `_3` (B.11), unless a column is called so. */
function distinctNames(columnNames: readonly string[]): string[] {
  const taken = new Set(columnNames);
  const met = new Map<string, number>();
  return columnNames.map((name) => {
    let count = (met.get(name) ?? 0) + 1;
    let distinct = name;
    if (count > 1) {
      while (taken.has(`${name}_${count}`)) count += 1;
      distinct = `${name}_${count}`;
      taken.add(distinct);
    }
    met.set(name, count);
    return distinct;
  });
}
