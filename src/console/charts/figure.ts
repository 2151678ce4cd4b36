import type { ChartOptions } from "#service/host.ts";
import { formatNumber, pluralize } from "#text.ts";
import { columnsOf } from "./columns.ts";
import type { ChartColumns, Result } from "./columns.ts";
import { labelOf, mostSeries, pointsOf } from "./points.ts";
import type { Bounds, Point, Points } from "./points.ts";

/** A chart, ready to be drawn. */
export interface Figure {
  /** Vega-Lite's. */
  readonly spec: object;
  readonly width: number;
  readonly height: number;
  /** What it shows, for those who do not see it. */
  readonly label: string;
  /** How a series is marked, in the order of the series. */
  readonly legend: readonly { readonly name: string; readonly dash?: string | undefined }[];
  readonly mark: ChartColumns["mark"];
  /** What is not shown as it is. */
  readonly notes: readonly string[];
}

/** For the cards of a pinboard and for phones, or for a page of its own. */
export type FigureSize = "narrow" | "wide";

const sizes: Readonly<Record<FigureSize, Bounds & { readonly width: number; readonly height: number }>> = {
  narrow: { width: 380, height: 190, categories: 15, labelled: 31, sections: 120, label: 22 },
  wide: { width: 960, height: 320, categories: 60, labelled: 62, sections: 300, label: 44 },
};

/** In pixels of the drawing. */
const font = 12;
const rowHeight = 21;

/** Beyond so many marks, each of them is not read aloud any more: the table is. */
const mostRead = 60;

/** Patterns of lines, so that not only their colours differ. */
const dashes = ["", "6 3", "2 2", "8 3 2 3", "12 4", "1 3", "4 4", "10 2 2 2 2 2"];

/** @returns or what is wrong, for a person */
export function figureOf(
  result: Result,
  chart: ChartOptions | undefined,
  size: FigureSize,
): Figure | { readonly problem: string } {
  const columns = columnsOf(result, chart);
  if ("problem" in columns) return columns;
  const bounds = sizes[size];
  const drawn = pointsOf(result, columns, bounds);
  if (drawn.points.length === 0) return { problem: "There is nothing to draw: no row has a value for the chart." };
  const names = namesOf(result, columns, bounds);
  const isLying = columns.mark === "bar" && columns.xKind === "text";
  const frame = isLying ? lying(columns, drawn, names, bounds) : standing(columns, drawn, names, bounds);
  const { mark } = columns;
  return {
    ...frame,
    mark,
    label: describe(columns, drawn, names),
    notes: drawn.notes,
    legend: drawn.series.map((name, index) => ({
      name,
      dash: mark === "line" ? dashes[index] : undefined,
    })),
  };
}

interface Names {
  readonly x: string;
  readonly y: string;
}

function namesOf({ columnNames }: Result, { x, y }: ChartColumns, { label }: Bounds): Names {
  return { x: labelOf(columnNames[x] ?? "", label), y: labelOf(columnNames[y] ?? "", label) };
}

const marks = { bar: "Bar chart", line: "Line chart", area: "Area chart", dot: "Dot chart" } as const;

function describe({ mark }: ChartColumns, { points, series }: Points, { x, y }: Names): string {
  const values = points.map((point) => point.y);
  const [least, most] = [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
  const by = series.length === 0 ? "" : `, ${pluralize(series.length, "series", "series")}`;
  const range = least === most ? shown(least) : `${shown(least)} to ${shown(most)}`;
  return `${marks[mark]} of ${y} by ${x}${by}: ${pluralize(points.length, "point")}, ${range}. The table has the values.`;
}

/** A number as a label. */
function shown(value: number): string {
  return formatNumber(value);
}

/* The parts of a specification */

type Frame = Pick<Figure, "spec" | "width" | "height">;

/** About how wide a text is, in pixels of the drawing: without a browser, nobody can say exactly. */
function widthOf(text: string): number {
  let units = 0;
  for (const character of text)
    units +=
      character >= "\u1100"
        ? 1
        : /[iljtfr.,:;|!'() ]/.test(character)
          ? 0.42
          : /[A-Zmw%]/.test(character)
            ? 0.82
            : 0.64;
  return Math.ceil(units * font);
}

function widest(texts: readonly string[]): number {
  return Math.max(0, ...texts.map(widthOf));
}

/** Colours come from the style sheet: a drawing is right in the light and in the dark. */
const config = {
  font: "inherit",
  view: { stroke: null },
  axis: {
    labelColor: "var(--quiet)",
    titleColor: "var(--quiet)",
    gridColor: "var(--line)",
    domainColor: "var(--line)",
    tickColor: "var(--line)",
    labelFontSize: font,
    titleFontSize: font,
    titleFontWeight: "normal",
    labelLimit: 0,
    titleLimit: 0,
    labelPadding: 6,
    ticks: false,
  },
  point: { size: 30 },
  scale: { barBandPaddingInner: 0.25, bandPaddingOuter: 0.15 },
};

const colours = Array.from({ length: mostSeries }, (_, index) => `var(--series-${index + 1})`);

/** What all charts share. @param values the points, each with `d`, what is read aloud of it */
function base(drawn: Points, names: Names, columns: ChartColumns): { data: object; color: object; aria: boolean } {
  const { points, series } = drawn;
  const values = points.map((point) => ({ ...point, d: spoken(point, names, columns) }));
  return {
    data: { values },
    color:
      series.length === 0
        ? { value: colours[0] }
        : {
            field: "series",
            type: "nominal",
            sort: null,
            legend: null,
            scale: { domain: [...series], range: colours.slice(0, series.length) },
          },
    aria: points.length <= mostRead,
  };
}

function spoken({ x, y, series, count }: Point, names: Names, { xKind }: ChartColumns): string {
  const at =
    typeof x === "string"
      ? x
      : xKind === "moment"
        ? `${names.x} ${new Date(x).toISOString().slice(0, 16).replace("T00:00", "").replace("T", " ")}`
        : `${names.x} ${shown(x)}`;
  const of = series === undefined ? "" : `, ${series}`;
  return count === undefined ? `${at}${of}: ${shown(y)}` : `near ${at}, ${shown(y)}: ${pluralize(count, "point")}`;
}

/** What every drawing has: its size inside the padding, which the labels are in. */
function sheet(inner: { readonly width: number; readonly height: number }, padding: Padding): object {
  return { ...inner, padding, autosize: "none", background: null, config };
}

type Padding = Readonly<Record<"left" | "right" | "top" | "bottom", number>>;

/** Bars that lie: each category has a line of its own, whose label can be read. */
function lying(columns: ChartColumns, drawn: Points, names: Names, { width }: { readonly width: number }): Frame {
  const { points, categories = [], series } = drawn;
  const { data, color, aria } = base(drawn, names, columns);
  const hasValues = series.length === 0 && points.every(({ y }) => y >= 0);
  const left = Math.min(0.5 * width, widest(categories) + 12);
  const right = hasValues ? widest(points.map(({ y }) => shown(y))) + 8 : 14;
  const padding = { left, right, top: 4, bottom: hasValues ? 4 : 40 };
  const inner = { width: width - padding.left - padding.right, height: categories.length * rowHeight };
  const y = { field: "x", type: "nominal", sort: null, scale: { domain: categories }, title: null };
  const x = {
    field: "y",
    type: "quantitative",
    // The numbers are beside the bars.
    axis: hasValues ? null : { ...valueAxis(points, inner.width), title: names.y },
  };
  const spec = {
    data,
    ...sheet(inner, padding),
    encoding: { y: { ...y, axis: { domain: false } }, x },
    layer: [
      {
        mark: { type: "bar", aria },
        encoding: { color, description: { field: "d" } },
      },
      ...(hasValues
        ? [
            {
              transform: [{ calculate: "format(datum.y, ',')", as: "label" }],
              mark: { type: "text", align: "left", dx: 5, fontSize: font, color: "var(--text)", aria: false },
              encoding: { text: { field: "label" } },
            },
          ]
        : []),
    ],
  };
  return { spec, width, height: inner.height + padding.top + padding.bottom };
}

/** Everything else: what is measured goes up. */
function standing(
  columns: ChartColumns,
  drawn: Points,
  names: Names,
  { width, height }: { readonly width: number; readonly height: number },
): Frame {
  const { mark, xKind } = columns;
  const { points, categories, series } = drawn;
  const { data, color, aria } = base(drawn, names, columns);
  const [numbers, hasFewPoints] = [valueAxis(points, height), points.length <= 40];
  const left = Math.max(30, widest(largest(points)) + 14);
  const isTilted = categories !== undefined && xKind === "text" && isCrowded(categories, width - left);
  const padding = { left, right: 24, top: 26, bottom: isTilted ? 24 + Math.min(120, widest(categories) * 0.75) : 42 };
  const inner = { width: width - padding.left - padding.right, height };
  const x =
    categories === undefined
      ? {
          field: "x",
          type: xKind === "moment" ? "temporal" : "quantitative",
          scale: xKind === "moment" ? { type: "utc" } : { zero: false, nice: mark === "dot" },
          axis: {
            title: names.x,
            grid: mark === "dot",
            tickCount: Math.ceil(inner.width / 90),
            labelOverlap: true,
            labelFlush: true,
          },
        }
      : {
          field: "x",
          type: "ordinal",
          sort: null,
          scale: { domain: categories },
          axis: { title: names.x, labelAngle: isTilted ? -40 : 0, labelOverlap: !isTilted },
        };
  const y = {
    field: "y",
    type: "quantitative",
    ...(mark === "line" || mark === "dot" ? { scale: { zero: false, nice: true } } : {}),
    axis: {
      ...numbers,
      title: names.y,
      titleAngle: 0,
      titleAlign: "left",
      titleAnchor: "end",
      titleBaseline: "bottom",
      titleX: -left + 4,
      titleY: -12,
      domain: false,
    },
    ...(mark === "area" && series.length > 0 ? { impute: { value: 0 } } : {}),
  };
  const isThin = mark === "bar" && categories === undefined;
  const shape = {
    bar: { type: "bar", ...(isThin && { size: Math.max(1, Math.floor((0.8 * inner.width) / (points.length + 1))) }) },
    line: { type: "line", strokeWidth: 2, point: hasFewPoints },
    area: { type: "area", ...(series.length === 0 ? { fillOpacity: 0.35, line: true } : {}) },
    dot: { type: "point", filled: true, opacity: 0.75 },
  }[mark];
  const isCounted = points.some(({ count }) => count !== undefined);
  const spec = {
    data,
    ...sheet(inner, padding),
    mark: { ...shape, aria: aria && mark !== "line" && mark !== "area" },
    encoding: {
      x,
      y,
      color,
      // What is one shape for all points is not read aloud point by point.
      ...(mark !== "line" && mark !== "area" && { description: { field: "d" } }),
      ...(mark === "line" &&
        series.length > 0 && {
          strokeDash: {
            field: "series",
            type: "nominal",
            legend: null,
            scale: {
              domain: [...series],
              range: dashes.slice(0, series.length).map((dash) => dash.split(" ").filter(Boolean).map(Number)),
            },
          },
        }),
      ...(isCounted && {
        size: { field: "count", type: "quantitative", legend: null, scale: { range: [12, 260] } },
      }),
    },
  };
  return { spec, width, height: height + padding.top + padding.bottom };
}

/** Large numbers are short: `1.2M`. */
function valueAxis(points: readonly Point[], length: number): object {
  const isWhole = points.every(({ y }) => Number.isInteger(y));
  return {
    ...(isLarge(points) && { format: "~s" }),
    ...(isWhole && { tickMinStep: 1 }),
    tickCount: Math.max(2, Math.floor(length / 45)),
    grid: true,
  };
}

function isLarge(points: readonly Point[]): boolean {
  return points.some(({ y }) => Math.abs(y) >= 100_000);
}

/** Texts about as wide as the numbers at the axis. */
function largest(points: readonly Point[]): string[] {
  if (isLarge(points)) return ["100.5M"];
  const most = points.reduce((most, { y }) => Math.max(most, Math.abs(y)), 0);
  const sign = points.some(({ y }) => y < 0) ? "−" : "";
  return [`${sign}${most < 10 ? "0.25" : formatNumber(Math.ceil(most) * 2)}`];
}

function isCrowded(categories: readonly string[], width: number): boolean {
  return widest(categories) + 8 > width / categories.length;
}
