import type { ChartOptions } from "#service/host.ts";
import { nearest, visible } from "#text.ts";

/** Rows of a query as `pinboarddata` has them: numbers that JSON cannot hold exactly and moments are texts (B.15). */
export interface Result {
  readonly columnNames: readonly string[];
  readonly rows: readonly (readonly unknown[])[];
  /** Of the whole result, not of the rows here. */
  readonly totalRowCount: number;
}

/** What the values of a column are; those that are null tell nothing. */
export type ColumnKind = "number" | "moment" | "text";

const decimal = /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/;
const moment = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?$/;

function kindOf({ rows }: Result, column: number): ColumnKind {
  const values = rows.map((row) => row[column]).filter((value) => value !== null && value !== undefined);
  if (values.length === 0) return "text";
  if (values.every((value) => isNumeric(value))) return "number";
  return values.every((value) => typeof value === "string" && moment.test(value)) ? "moment" : "text";
}

/** Whether it is a number, or the text of one that JSON cannot hold. */
export function isNumeric(value: unknown): value is number | string {
  return typeof value === "number" || (typeof value === "string" && decimal.test(value));
}

/** In epoch milliseconds; a day begins at midnight UTC. */
export function epochOf(text: string): number {
  return Date.parse(`${text.replace(" ", "T")}${text.length > 10 ? "" : "T00:00"}Z`);
}

/** The columns that a chart shows, by index. */
export interface ChartColumns {
  readonly mark: NonNullable<ChartOptions["mark"]>;
  readonly x: number;
  readonly xKind: ColumnKind;
  readonly y: number;
  readonly series?: number | undefined;
}

/**
 * Finds the columns that a pinboard names. What it does not name is guessed: `y` is the first column of numbers, `x` the
 * first other one; with a column of text between two others, that is the series; a line for moments, otherwise bars.
 * @returns or what is wrong, for a person
 */
export function columnsOf(result: Result, chart: ChartOptions = {}): ChartColumns | { readonly problem: string } {
  const { columnNames } = result;
  const named: Partial<Record<"x" | "y" | "series", number>> = {};
  for (const key of ["x", "y", "series"] as const) {
    const name = chart[key];
    if (name === undefined) continue;
    const index = indexOf(columnNames, name);
    if (index === undefined) return { problem: unknownColumn(key, name, columnNames) };
    named[key] = index;
  }
  const all = columnNames.map((_, index) => index);
  const isFree = (index: number): boolean => !Object.values(named).includes(index);
  const numbers = all.filter((index) => kindOf(result, index) === "number");
  // Of two columns of numbers, the second is what is measured.
  const y = named.y ?? numbers.find((index) => isFree(index) && (index > 0 || named.x !== undefined)) ?? numbers[0];
  if (y === undefined)
    return { problem: "There is nothing to draw: no column has numbers. The rows are in the table." };
  if (kindOf(result, y) !== "number")
    return { problem: `There is nothing to draw: ${visible(columnNames[y] ?? "")} has no numbers.` };
  const x = named.x ?? all.find((index) => index !== y && isFree(index));
  if (x === undefined) return { problem: "There is nothing to draw: a chart needs two columns." };
  const xKind = kindOf(result, x);
  const isWhole = chart.x === undefined && chart.y === undefined && columnNames.length === 3;
  const between = all.find((index) => index !== x && index !== y && kindOf(result, index) === "text");
  const series = named.series ?? (isWhole ? between : undefined);
  return { mark: chart.mark ?? (xKind === "moment" ? "line" : "bar"), x, xKind, y, series };
}

/** Names of columns are case-insensitive in SQL. */
function indexOf(columnNames: readonly string[], name: string): number | undefined {
  const exact = columnNames.indexOf(name);
  const index = exact >= 0 ? exact : columnNames.findIndex((column) => column.toLowerCase() === name.toLowerCase());
  return index < 0 ? undefined : index;
}

function unknownColumn(key: string, name: string, columnNames: readonly string[]): string {
  const meant = nearest(name, columnNames);
  const advice =
    meant === undefined
      ? `it returns ${columnNames.map((column) => JSON.stringify(visible(column))).join(", ")}`
      : `did you mean ${JSON.stringify(visible(meant))}?`;
  return `chart.${key} of the pinboard names the column ${JSON.stringify(visible(name))}, which the query does not return; ${advice}`;
}
