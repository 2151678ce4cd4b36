import { formatNumber, pluralize, visible } from "#text.ts";
import { epochOf } from "./columns.ts";
import type { ChartColumns, ColumnKind, Result } from "./columns.ts";

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
export const mostSeries = 8;

/** The characters of the name of a series. */
const longestSeries = 60;

/** Dots lie side by side up to here; beyond it they are counted. */
const mostDots = 500;

const none = "(none)";

/** Reduces the rows of a result to what a chart can show, and says so. */
export function pointsOf(result: Result, columns: ChartColumns, bounds: Bounds): Points {
  const notes: string[] = [];
  const read = readPoints(result, columns, notes);
  const { points, series } = firstSeries(read, notes);
  const counted = points.length;
  if (columns.mark === "dot" && columns.xKind !== "text") {
    if (points.length <= mostDots) return { points, series, notes };
    notes.push(`Each dot stands for those near it; the larger, the more of the ${formatNumber(counted)} points.`);
    return { points: counts(points), series: [], notes };
  }
  const isDiscrete = columns.xKind === "text" || (columns.mark === "bar" && countOf(points) <= bounds.labelled);
  if (isDiscrete) {
    const summed = columns.mark === "dot" || columns.mark === "line" ? points : sums(points);
    return { ...firstCategories(summed, columns.xKind, bounds, notes), series, notes };
  }
  const whole = columns.mark === "bar" || columns.mark === "area" ? sums(points) : points;
  const sorted = whole.toSorted((a, b) => Number(a.x) - Number(b.x));
  const bySeries = series.length === 0 ? [sorted] : series.map((name) => sorted.filter((each) => each.series === name));
  const isStacked = series.length > 0 && columns.mark !== "line";
  const reduced = isStacked
    ? everySo(sorted, bounds.sections)
    : bySeries.flatMap((each) => extremes(each, bounds.sections, columns.mark === "bar"));
  if (reduced.length < whole.length) {
    const kept = isStacked
      ? "evenly chosen ones are drawn"
      : columns.mark === "bar"
        ? "the highest of each section is drawn"
        : "the lowest and the highest of each section are drawn";
    notes.push(`Of ${pluralize(counted, "point")}, ${kept}.`);
  }
  return { points: reduced, series, notes };
}

interface Read {
  readonly points: readonly Point[];
  readonly series: readonly string[];
}

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
  if (value === null || value === undefined) return none;
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** As many series as there are colours, by their labels. */
function firstSeries({ points, series }: Read, notes: string[]): Read {
  if (series.length > mostSeries)
    notes.push(`The first ${mostSeries} of ${formatNumber(series.length)} series are drawn.`);
  const shown = series.slice(0, mostSeries);
  const labels = distinct(shown.map((name) => labelOf(name, longestSeries)));
  const byName = new Map(shown.map((name, index) => [name, labels[index]]));
  if (series.length === 0) return { points, series };
  return {
    points: points.flatMap((point) => {
      const label = byName.get(point.series ?? "");
      return label === undefined ? [] : [{ ...point, series: label }];
    }),
    series: labels,
  };
}

function countOf(points: readonly Point[]): number {
  return new Set(points.map(({ x }) => x)).size;
}

/** Rows of the same place and series, added together. */
function sums(points: readonly Point[]): readonly Point[] {
  const byPlace = new Map<string, Point>();
  for (const point of points) {
    const key = JSON.stringify([point.x, point.series]);
    const before = byPlace.get(key);
    byPlace.set(key, before === undefined ? point : { ...point, y: before.y + point.y });
  }
  return [...byPlace.values()];
}

function firstCategories(
  points: readonly Point[],
  kind: ColumnKind,
  { categories: most, labelled, label: longest }: Bounds,
  notes: string[],
): Pick<Points, "points" | "categories"> {
  const all = [...new Set(points.map(({ x }) => x))];
  const shown = all.slice(0, kind === "text" ? most : labelled);
  if (shown.length < all.length)
    notes.push(`The first ${formatNumber(shown.length)} of ${formatNumber(all.length)} categories are drawn.`);
  const labels = distinct(shown.map((x) => (typeof x === "string" ? labelOf(x, longest) : String(x))));
  const texts = kind === "moment" ? momentLabels(shown.map(Number)) : labels;
  const byPlace = new Map(shown.map((x, index) => [x, texts[index] ?? ""]));
  return {
    points: points.flatMap((point) => {
      const x = byPlace.get(point.x);
      return x === undefined ? [] : [{ ...point, x }];
    }),
    categories: texts,
  };
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

/** Moments as short as they are clear: years, months, days, or with the time. */
function momentLabels(moments: readonly number[]): string[] {
  const texts = moments.map((each) => new Date(each).toISOString());
  const length = [4, 7, 10, 16].find((length) =>
    texts.every((text) => text.slice(length) === "0000-01-01T00:00:00.000Z".slice(length)),
  );
  return texts.map((text) => text.slice(0, length ?? 23).replace("T", " "));
}

/** The lowest and the highest of each section, or only the highest: the shape stays. Sorted points. */
function extremes(points: readonly Point[], sections: number, onlyHighest: boolean): readonly Point[] {
  if (points.length <= (onlyHighest ? sections : 2 * sections)) return points;
  const size = Math.ceil(points.length / sections);
  const kept: Point[] = [];
  for (let start = 0; start < points.length; start += size) {
    const section = points.slice(start, start + size);
    const highest = section.reduce((most, point) => (point.y > most.y ? point : most));
    const lowest = section.reduce((least, point) => (point.y < least.y ? point : least));
    if (onlyHighest || lowest === highest) kept.push(highest);
    else kept.push(...(Number(lowest.x) <= Number(highest.x) ? [lowest, highest] : [highest, lowest]));
  }
  return kept;
}

/** Some places, evenly chosen, with all that is there: what is stacked stays whole. Sorted points. */
function everySo(points: readonly Point[], most: number): readonly Point[] {
  const places = [...new Set(points.map(({ x }) => x))];
  if (places.length <= most) return points;
  const step = Math.ceil(places.length / most);
  const kept = new Set(places.filter((_, index) => index % step === 0));
  return points.filter(({ x }) => kept.has(x));
}

/** How many columns and rows the grid has in which dots are counted. */
const grid = { columns: 30, rows: 15 };

/** Dots that are too many to tell apart, counted. */
function counts(points: readonly Point[]): readonly Point[] {
  const column = cellOf(
    points.map(({ x }) => Number(x)),
    grid.columns,
  );
  const row = cellOf(
    points.map(({ y }) => y),
    grid.rows,
  );
  const cells = new Map<string, Point>();
  for (const point of points) {
    const [x, y] = [column(Number(point.x)), row(point.y)];
    const key = JSON.stringify([x, y]);
    cells.set(key, { x, y, count: (cells.get(key)?.count ?? 0) + 1 });
  }
  return [...cells.values()];
}

/** The middle of the cell that a value is in. */
function cellOf(values: readonly number[], cells: number): (value: number) => number {
  const least = values.reduce((a, b) => Math.min(a, b));
  const size = (values.reduce((a, b) => Math.max(a, b)) - least) / cells;
  return (value) =>
    size === 0 ? value : least + (Math.min(cells - 1, Math.floor((value - least) / size)) + 0.5) * size;
}
