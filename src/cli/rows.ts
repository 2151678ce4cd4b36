import { visible } from "#text.ts";

type Rows = readonly (readonly unknown[])[];

/** How many rows are written in one piece. */
const pieceSize = 1000;

/** Shows the text of a cell, in colour. */
export type CellPaint = (text: string, column: number, row: readonly unknown[]) => string;

/** Rows as a table for a person: numbers to the right, control characters visible. */
export function* renderTable(
  columnNames: readonly string[],
  rows: Rows,
  paint: CellPaint = (text) => text,
): Generator<string> {
  const widths = columnNames.map((name) => widthOf(visible(name)));
  for (const row of rows) {
    for (const [index, cell] of cells(row).entries()) widths[index] = Math.max(widths[index] ?? 0, widthOf(cell));
  }
  const isNumber = columnNames.map((_, index) =>
    rows.every((row) => row[index] === null || typeof row[index] === "number"),
  );
  const line = (texts: readonly string[], row?: readonly unknown[]): string =>
    texts
      .map((text, index) => {
        const room = " ".repeat(Math.max(0, (widths[index] ?? 0) - widthOf(text)));
        const shown = row === undefined || text === "" ? text : paint(text, index, row);
        return row !== undefined && isNumber[index] === true ? room + shown : shown + room;
      })
      .join("  ")
      .trimEnd();
  yield `${line(columnNames.map(visible))}\n${widths.map((width) => "-".repeat(width)).join("  ")}\n`;
  for (let from = 0; from < rows.length; from += pieceSize) {
    const lines = rows.slice(from, from + pieceSize).map((row) => `${line(cells(row), row)}\n`);
    yield lines.join("");
  }
}

/** Rows as CSV with a header, values exactly as they are; a null is an empty field, an empty text is `""`. */
export function* renderCsv(columnNames: readonly string[], rows: Rows): Generator<string> {
  yield csvLine(columnNames);
  for (let from = 0; from < rows.length; from += pieceSize) {
    yield rows
      .slice(from, from + pieceSize)
      .map(csvLine)
      .join("");
  }
}

function cells(row: readonly unknown[]): string[] {
  return row.map((value) => visible(textOf(value, "NULL")));
}

function csvLine(values: readonly unknown[]): string {
  return `${values.map((value) => enclosed(value)).join(",")}\n`;
}

function enclosed(value: unknown): string {
  if (value === "") return '""';
  const text = textOf(value, "");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function textOf(value: unknown, nothing: string): string {
  if (value === null || value === undefined) return nothing;
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** In characters, as a terminal counts most of them. */
function widthOf(text: string): number {
  return Array.from(text).length;
}
