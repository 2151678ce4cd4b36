import type { Output } from "#daemon/output.ts";
import { csvField, visible } from "#text.ts";

type Rows = readonly (readonly unknown[])[];

/** How many rows are written in one piece. */
const pieceSize = 1000;

/** Shows the text of a cell, in colour. */
export type CellPaint = (text: string, column: number, row: readonly unknown[]) => string;

/** How a table is shown. */
export interface TableLayout {
  /** The width of each column in characters; 0: it is not shown, for want of room. */
  readonly widths: readonly number[];
}

/** What may become of the columns of a table that is wider than the terminal. */
export interface Fitting {
  /** How many characters a line has; absent: as many as it needs. */
  readonly room?: number | undefined;
  /** The indexes of columns whose texts may be cut. */
  readonly flexible: readonly number[];
  /** The indexes of columns that may be left out if that is not enough, the first one first. */
  readonly expendable: readonly number[];
}

/** Columns are not cut to fewer characters than this. */
const narrowest = 8;
const gap = 2;

/** The widths of the columns of a table, so that its lines fit into the room. */
export function layOut(columnNames: readonly string[], rows: Rows, fitting?: Fitting): TableLayout {
  const widths = columnNames.map((name) => widthOf(visible(name)));
  for (const row of rows) {
    for (const [index, cell] of cells(row).entries()) widths[index] = Math.max(widths[index] ?? 0, widthOf(cell));
  }
  const { room = Number.POSITIVE_INFINITY, flexible = [], expendable = [] } = fitting ?? {};
  const excess = (): number => widths.reduce((sum, width) => sum + (width === 0 ? 0 : width + gap), -gap) - room;
  const cut = (): void => {
    for (let over = excess(); over > 0; over = excess()) {
      const [widest, next] = flexible.toSorted((one, other) => (widths[other] ?? 0) - (widths[one] ?? 0));
      const width = widest === undefined ? 0 : (widths[widest] ?? 0);
      if (widest === undefined || width <= narrowest) return;
      // Down to the next one at once, then one by one.
      const step = Math.max(1, Math.min(over, width - (next === undefined ? 0 : (widths[next] ?? 0))));
      widths[widest] = Math.max(narrowest, width - step);
    }
  };
  const wanted = [...widths];
  cut();
  for (const column of expendable) {
    if (excess() <= 0) break;
    // With one column less, the others may have their room back.
    wanted[column] = 0;
    widths.splice(0, widths.length, ...wanted);
    cut();
  }
  return { widths };
}

/** Rows as a table for a person: numbers to the right, control characters visible, texts cut to the layout. */
export function* renderTable(
  columnNames: readonly string[],
  rows: Rows,
  {
    layout: { widths } = layOut(columnNames, rows),
    paint = (text) => text,
  }: { readonly layout?: TableLayout; readonly paint?: CellPaint | undefined } = {},
): Generator<string> {
  const isNumber = columnNames.map((_, index) =>
    rows.every((row) => row[index] === null || typeof row[index] === "number"),
  );
  const line = (texts: readonly string[], row?: readonly unknown[]): string =>
    texts
      .flatMap((whole, index) => {
        const width = widths[index] ?? 0;
        if (width === 0) return [];
        const text = cutTo(width, whole);
        const room = " ".repeat(Math.max(0, width - widthOf(text)));
        const shown = row === undefined || text === "" ? text : paint(text, index, row);
        return [row !== undefined && isNumber[index] === true ? room + shown : shown + room];
      })
      .join("  ")
      .trimEnd();
  const rule = widths.filter((width) => width > 0).map((width) => "-".repeat(width));
  yield `${line(columnNames.map(visible))}\n${rule.join("  ")}\n`;
  for (let from = 0; from < rows.length; from += pieceSize) {
    const lines = rows.slice(from, from + pieceSize).map((row) => `${line(cells(row), row)}\n`);
    yield lines.join("");
  }
}

/**
 * Writes a table that fits into the terminal.
 * @returns the columns that there was no room for
 */
export async function writeTable(
  output: Output,
  columnNames: readonly string[],
  rows: Rows,
  { paint, ...fitting }: Omit<Fitting, "room"> & { readonly paint?: CellPaint },
): Promise<string[]> {
  const layout = layOut(columnNames, rows, { ...fitting, room: output.terminal ? output.width : undefined });
  for (const part of renderTable(columnNames, rows, { layout, paint })) await output.write(part);
  return columnNames.filter((_, column) => layout.widths[column] === 0);
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
  return /[",\r\n]/.test(text) ? csvField(text) : text;
}

function textOf(value: unknown, nothing: string): string {
  if (value === null || value === undefined) return nothing;
  return typeof value === "string" ? value : JSON.stringify(value);
}

function cutTo(width: number, text: string): string {
  if (text.length <= width || widthOf(text) <= width) return text;
  return `${Array.from(text)
    .slice(0, width - 1)
    .join("")}…`;
}

/** In characters, as a terminal counts most of them. */
function widthOf(text: string): number {
  return Array.from(text).length;
}
