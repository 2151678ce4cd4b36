import { formatNumber, pluralize, visible } from "#text.ts";
import { epochOf } from "./columns.ts";
import type { ChartColumns, ColumnKind, Result } from "./columns.ts";
import { momentLabels, rangeOf } from "./scales.ts";

/** A mark of a chart, or a corner of a line. */
export interface Point {
  /** A number, epoch milliseconds, or the label of a category. */
  readonly x: number | string;
  readonly y: number;
  readonly series?: string | undefined;
  /** How many points it stands for. */
  readonly count?: number;
}

/** What of a result is drawn, small enough for a page. */
export interface Points {
  readonly points: readonly Point[];
  /** The labels of categories, in the order of the rows; absent where `x` has a scale. */
  readonly categories?: readonly string[] | undefined;
  /** In the order of the rows; empty where there is only one. */
  readonly series: readonly string[];
  /** What is not shown as it is, in sentences for a person. */
  readonly notes: readonly string[];
}

/** How much of each a chart shows at most. */
export interface Bounds {
  readonly categories: number;
  /** Beyond so many, bars with a number or a moment below them have no room for labels. */
  readonly labelled: number;
  /** The sections of a scale: a line shows the lowest and the highest point of each. */
  readonly sections: number;
  /** The characters of a label. */
  readonly label: number;
}

/** Colours that are told apart. */
const mostSeries = 8;

/** The characters of the name of a series. */
const longestSeries = 60;

/** Dots lie side by side up to here; beyond it they are counted, in the cells of a grid. */
const mostDots = 500;
const grid = { columns: 30, rows: 15 };

/** Reduces the rows of a result to what a chart can show, and says so. */
export function pointsOf(result: Result, columns: ChartColumns, bounds: Bounds): Points {
  const notes: string[] = [];
  const { points, series } = firstSeries(readPoints(result, columns, notes), notes);
  const { mark, xKind } = columns;
  if (mark === "dot" && xKind !== "text") {
    if (points.length <= mostDots) return { points, series, notes };
    notes.push(`Each dot stands for those near it; the larger, the more of the ${formatNumber(points.length)} points.`);
    return { points: counted(points), series: [], notes };
  }
  const whole = mark === "bar" || mark === "area" ? sums(points) : points;
  const places = [...new Set(whole.map(({ x }) => x))];
  if (xKind === "text" || (mark === "bar" && places.length <= bounds.labelled))
    return { ...firstCategories(whole, places, xKind, bounds, notes), series, notes };
  const sorted = whole.toSorted((a, b) => Number(a.x) - Number(b.x));
  const isStacked = series.length > 0 && mark !== "line";
  const names = series.length === 0 ? [undefined] : series;
  const reduced = isStacked
    ? everySo(sorted, places.length, bounds.sections)
    : names.flatMap((name) => extremes(sorted, name, bounds.sections, mark === "bar"));
  if (reduced.length < whole.length) {
    const extreme = mark === "bar" ? "the highest" : "the lowest and the highest";
    const which = isStacked ? "evenly chosen ones are" : `${extreme} of each section ${mark === "bar" ? "is" : "are"}`;
    notes.push(`Of ${pluralize(points.length, "point")}, ${which} drawn.`);
  }
  return { points: reduced, series, notes };
}

type Read = Pick<Points, "points" | "series">;

function readPoints({ rows, totalRowCount }: Result, columns: ChartColumns, notes: string[]): Read {
  const { x, xKind, y, series } = columns;
  if (rows.length < totalRowCount)
    notes.push(`The first ${formatNumber(rows.length)} of ${formatNumber(totalRowCount)} rows are drawn.`);
  const names = new Set<string>();
  const points: Point[] = [];
  for (const row of rows) {
    const [at, value] = [positionOf(row[x], xKind), row[y]];
    if (at === undefined || value === null || value === undefined) continue;
    const name = series === undefined ? undefined : textOf(row[series]);
    if (name !== undefined) names.add(name);
    points.push({ x: at, y: Number(value), series: name });
  }
  const left = rows.length - points.length;
  if (left > 0) notes.push(`${pluralize(left, "row")} without a value ${left === 1 ? "is" : "are"} not drawn.`);
  return { points, series: [...names] };
}

function positionOf(value: unknown, kind: ColumnKind): number | string | undefined {
  if (kind === "text") return textOf(value);
  if (value === null || value === undefined) return undefined;
  const at = kind === "number" ? Number(value) : epochOf(value as string);
  return Number.isNaN(at) ? undefined : at;
}

/** A value of the database as text. */
function textOf(value: unknown): string {
  if (value === null || value === undefined) return "(none)";
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** As many series as there are colours, by their labels. */
function firstSeries({ points, series }: Read, notes: string[]): Read {
  if (series.length === 0) return { points, series };
  if (series.length > mostSeries)
    notes.push(`The first ${mostSeries} of ${formatNumber(series.length)} series are drawn.`);
  const shown = series.slice(0, mostSeries);
  const labels = distinct(shown.map((name) => labelOf(name, longestSeries)));
  return { points: relabelled(points, "series", shown, labels), series: labels };
}

/** The points whose value is among those that are shown, with their labels. */
function relabelled(
  points: readonly Point[],
  key: "x" | "series",
  shown: readonly Point["x"][],
  labels: readonly string[],
): Point[] {
  const byValue = new Map(shown.map((value, index) => [value, labels[index]]));
  return points.flatMap((point) => {
    const label = byValue.get(point[key] ?? "");
    return label === undefined ? [] : [{ ...point, [key]: label }];
  });
}

/** Rows of the same place and series, added together. */
function sums(points: readonly Point[]): readonly Point[] {
  const byPlace = new Map<string, Point>();
  for (const point of points) {
    const key = JSON.stringify([point.x, point.series]);
    byPlace.set(key, { ...point, y: point.y + (byPlace.get(key)?.y ?? 0) });
  }
  return [...byPlace.values()];
}

function firstCategories(
  points: readonly Point[],
  places: readonly Point["x"][],
  kind: ColumnKind,
  bounds: Bounds,
  notes: string[],
): Pick<Points, "points" | "categories"> {
  const shown = places.slice(0, kind === "text" ? bounds.categories : bounds.labelled);
  if (shown.length < places.length)
    notes.push(`The first ${formatNumber(shown.length)} of ${formatNumber(places.length)} categories are drawn.`);
  const categories =
    kind === "moment"
      ? momentLabels(shown.map(Number))
      : distinct(shown.map((x) => (typeof x === "string" ? labelOf(x, bounds.label) : String(x))));
  return { points: relabelled(points, "x", shown, categories), categories };
}

/** Foreign text as a label: what is hidden is visible, what is long is cut. */
export function labelOf(text: string, longest: number): string {
  const shown = visible(text === "" ? "(empty)" : text);
  return shown.length <= longest ? shown : `${shown.slice(0, longest - 1).toWellFormed()}…`;
}

/** Two that were cut to the same text are two categories. */
function distinct(labels: readonly string[]): string[] {
  const taken = new Set<string>();
  return labels.map((label) => {
    let each = label;
    for (let count = 2; taken.has(each); count++) each = `${label} (${count})`;
    taken.add(each);
    return each;
  });
}

/** The lowest and the highest of each section, or only the highest: the shape stays. Sorted points. */
function extremes(
  sorted: readonly Point[],
  series: string | undefined,
  sections: number,
  onlyHighest: boolean,
): Point[] {
  const points = sorted.filter((point) => point.series === series);
  if (points.length <= (onlyHighest ? sections : 2 * sections)) return points;
  const size = Math.ceil(points.length / sections);
  return Array.from({ length: Math.ceil(points.length / size) }, (_, index) => {
    const section = points.slice(index * size, (index + 1) * size);
    const [low, high] = rangeOf(section.map(({ y }) => y));
    const kept = [section.findIndex(({ y }) => y === high), section.findIndex(({ y }) => y === low)];
    return section.filter((_, place) => kept.slice(0, onlyHighest ? 1 : 2).includes(place));
  }).flat();
}

/** Some places, evenly chosen, with all that is there: what is stacked stays whole. Sorted points. */
function everySo(points: readonly Point[], places: number, most: number): readonly Point[] {
  const step = Math.ceil(places / most);
  const order = new Map([...new Set(points.map(({ x }) => x))].map((x, index) => [x, index]));
  return points.filter(({ x }) => (order.get(x) ?? 0) % step === 0);
}

/** Dots that are too many to tell apart, counted. */
function counted(points: readonly Point[]): readonly Point[] {
  const column = middles(
    points.map(({ x }) => Number(x)),
    grid.columns,
  );
  const row = middles(
    points.map(({ y }) => y),
    grid.rows,
  );
  const cells = new Map<string, Point>();
  for (const point of points) {
    const [x, y] = [column(Number(point.x)), row(point.y)];
    const key = `${x} ${y}`;
    cells.set(key, { x, y, count: (cells.get(key)?.count ?? 0) + 1 });
  }
  return [...cells.values()];
}

/** The middle of the cell that a value is in. */
function middles(values: readonly number[], cells: number): (value: number) => number {
  const [low, high] = rangeOf(values);
  const size = (high - low) / cells || 1;
  return (value) => low + (Math.min(cells - 1, Math.floor((value - low) / size)) + 0.5) * size;
}
