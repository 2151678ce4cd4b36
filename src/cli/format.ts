import { csvField, visible } from "#text.ts";

/** A moment: `2026-11-21 10:12:35Z`. */
export function exactly(iso: string): string {
  return `${new Date(iso).toISOString().slice(0, 19).replace("T", " ")}Z`;
}

const units = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1000],
] as const;

const words = {
  long: new Intl.RelativeTimeFormat("en", { style: "long" }),
  narrow: new Intl.RelativeTimeFormat("en", { style: "narrow" }),
};

/** The distance to a moment: `5 minutes ago`, `in 23 hours`; narrow: `5min ago`. */
export function relatively(iso: string, now: number, style: "long" | "narrow" = "long"): string {
  const distance = Date.parse(iso) - now;
  const [unit, size] = units.find(([, size]) => Math.abs(distance) >= size) ?? ["second", 1000];
  return words[style].format(Math.trunc(distance / size), unit);
}

/** A duration: `0.4 s`, `3 min 5 s`, `2 h 3 min`. */
export function lasting(milliseconds: number): string {
  if (milliseconds < 59_950) return `${(milliseconds / 1000).toFixed(1)} s`;
  const seconds = Math.round(milliseconds / 1000);
  const [minutes, hours] = [Math.floor(seconds / 60), Math.floor(seconds / 3600)];
  return hours === 0 ? `${minutes} min ${seconds % 60} s` : `${hours} h ${minutes % 60} min`;
}

/** A number of bytes: `1.5 MB`. */
export function inBytes(bytes: number): string {
  for (const [unit, size] of [
    ["GB", 1e9],
    ["MB", 1e6],
    ["kB", 1e3],
  ] as const) {
    if (bytes >= size) return `${(bytes / size).toFixed(1)} ${unit}`;
  }
  return `${bytes} bytes`;
}

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
  return /[",\r\n]/.test(text) ? csvField(text) : text;
}

function textOf(value: unknown, nothing: string): string {
  if (value === null || value === undefined) return nothing;
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** In characters, as a terminal counts most of them. */
function widthOf(text: string): number {
  return Array.from(text).length;
}
