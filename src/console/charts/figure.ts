import type { ChartOptions } from "#service/host.ts";
import { formatNumber, pluralize, withoutMiddle } from "#text.ts";
import { html } from "#console/html.ts";
import type { Html } from "#console/html.ts";
import { columnsOf } from "./columns.ts";
import type { ChartColumns, Result } from "./columns.ts";
import { labelOf, pointsOf } from "./points.ts";
import type { Bounds, Point, Points } from "./points.ts";
import { momentLabels, niceRange, numberTicks, rangeOf, timeTicks } from "./scales.ts";

/** A chart as SVG, without styles: the page's sheet colours `.chart` and its `.series-1` to `.series-8`. */
export interface Figure {
  readonly svg: Html;
  /** How a series is marked, in the order of the series. */
  readonly legend: readonly { readonly name: string; readonly dash?: string | undefined }[];
  readonly mark: ChartColumns["mark"];
  /** What is not shown as it is. */
  readonly notes: readonly string[];
}

/** For the cards of a pinboard and for phones, or for a page of its own. */
export type FigureSize = "narrow" | "wide";

const sizes = {
  narrow: { width: 380, height: 190, categories: 15, labelled: 31, sections: 120, label: 22 },
  wide: { width: 960, height: 320, categories: 60, labelled: 62, sections: 300, label: 44 },
} satisfies Record<FigureSize, Bounds & { width: number; height: number }>;

/** In pixels of the drawing, as the style sheet has it. */
const font = 12;
const rowHeight = 21;

/** Beyond so many, marks do not tell their values: the table does. */
const mostTitled = 60;

/** Patterns of lines, so that not only their colours differ. */
const dashes = ["", "6 3", "2 2", "8 3 2 3", "12 4", "1 3", "4 4", "10 2 2 2 2 2"];

/** What is drawn: the marks of each series, the names of the axes, and the size of the space inside the axes. */
interface Plot extends Points, Pick<ChartColumns, "mark" | "xKind"> {
  readonly marks: readonly (readonly Mark[])[];
  readonly x: string;
  readonly y: string;
  readonly width: number;
  readonly height: number;
}

/** A point with its place in a stack. */
interface Mark {
  readonly point: Point;
  readonly from: number;
  readonly to: number;
}

/** Draws a chart. @returns or what is wrong, for a person */
export function figureOf(
  result: Result,
  chart: ChartOptions | undefined,
  size: FigureSize,
): Figure | { readonly problem: string } {
  const columns = columnsOf(result, chart);
  if ("problem" in columns) return columns;
  const drawn = pointsOf(result, columns, sizes[size]);
  if (drawn.points.length === 0) return { problem: "There is nothing to draw: no row has a value for the chart." };
  const { mark, xKind } = columns;
  const axis = (index: number): string => labelOf(result.columnNames[index] ?? "", sizes[size].label);
  const names = { x: axis(columns.x), y: axis(columns.y) };
  const { width, height } = sizes[size];
  const plot: Plot = { ...drawn, ...names, width, height, mark, xKind, marks: marksOf(drawn, mark) };
  return {
    svg: mark === "bar" && xKind === "text" ? horizontal(plot) : vertical(plot),
    mark,
    notes: drawn.notes,
    legend: drawn.series.map((name, index) => ({ name, dash: mark === "line" ? dashes[index] : undefined })),
  };
}

/** Stacks bars and areas of several series, what is negative downwards; an area is zero where it has no point. */
function marksOf({ points, series }: Points, mark: ChartColumns["mark"]): Mark[][] {
  const tops = new Map<string, number>();
  const places = [...new Set(points.map(({ x }) => x))];
  return (series.length === 0 ? [undefined] : series).map((name) => {
    const own = points.filter((point) => point.series === name);
    const byPlace = new Map(own.map((point) => [point.x, point]));
    const all = mark === "area" ? places.map((x): Point => byPlace.get(x) ?? { x, y: 0, series: name }) : own;
    return all.map((point): Mark => {
      if (mark === "line" || mark === "dot") return { point, from: point.y, to: point.y };
      const side = `${point.y < 0} ${point.x}`;
      const from = tops.get(side) ?? 0;
      tops.set(side, from + point.y);
      return { point, from, to: from + point.y };
    });
  });
}

const markNames = { bar: "Bar chart", line: "Line chart", area: "Area chart", dot: "Dot chart" } as const;

/** The drawing, with what it shows for those who do not see it. */
function sheet({ mark, points, series, x, y, width }: Plot, height: number, content: Html): Html {
  const [least, most] = rangeOf(points.map((point) => point.y));
  const by = series.length === 0 ? "" : `, ${pluralize(series.length, "series", "series")}`;
  const range = least === most ? formatNumber(least) : `${formatNumber(least)} to ${formatNumber(most)}`;
  const label = `${markNames[mark]} of ${y} by ${x}${by}: ${pluralize(points.length, "point")}, ${range}. The table has the values.`;
  return html`<svg viewBox="0 0 ${width} ${height}" class="chart" role="img" aria-label="${label}">${content}</svg>`;
}

/** What a mark tells when it is pointed at. */
function title({ x, y, series, count }: Point, plot: Plot): Html | false {
  if (plot.points.length > mostTitled && count === undefined) return false;
  const place = plot.xKind === "moment" ? momentLabels([x as number])[0] : formatNumber(x as number);
  const at = `${typeof x === "string" ? x : `${plot.x} ${place}`}${series === undefined ? "" : `, ${series}`}`;
  const near = count === undefined ? "" : ` (${pluralize(count, "point")} near it)`;
  return html`<title>${at}: ${formatNumber(y)}${near}</title>`;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/* Texts */

/** About how wide a text is, in pixels of the drawing: without a browser, nobody can say exactly. */
function widthOf(text: string): number {
  const wide = text.match(/[\u1100-\u{10FFFF}]/gu)?.length ?? 0;
  const narrow = text.match(/[iljtfr.,:;|!'() ]/g)?.length ?? 0;
  const capital = text.match(/[A-Zmw%]/g)?.length ?? 0;
  return Math.ceil((0.64 * text.length + 0.36 * wide + 0.18 * capital - 0.22 * narrow) * font);
}

function widest(texts: readonly string[]): number {
  return Math.max(0, ...texts.map(widthOf));
}

interface Label {
  readonly at: number;
  readonly label: string;
}

/** Labels below an axis: those that do not touch the one before, each within the drawing. */
function labelsBelow(labels: readonly Label[], y: number, { width }: Plot): Html {
  let end = -8;
  const shown = labels.flatMap(({ at, label }) => {
    const half = widthOf(label) / 2;
    const x = Math.max(half, Math.min(width - half, at));
    if (x - half < end + 8) return [];
    end = x + half;
    return [html`<text x="${round(x)}" y="${y}">${label}</text>`];
  });
  return html`<g text-anchor="middle">${shown}</g>`;
}

/* Bars of categories: each has a line of its own, whose label can be read. */

function horizontal(plot: Plot): Html {
  const { categories = [], series, points, marks, width } = plot;
  const hasValues = series.length === 0 && points.every((point) => point.y >= 0);
  const labels = categories.map((label) => withoutMiddle(label, Math.floor(width / 18)));
  const left = widest(labels) + 12;
  const inner = width - left - (hasValues ? widest(points.map((point) => formatNumber(point.y))) + 8 : 14);
  const height = categories.length * rowHeight;
  const count = Math.max(2, Math.floor(inner / 70));
  const range = niceRange(rangeOf([0, ...marks.flat().map(({ to }) => to)]), count);
  const [low, high] = hasValues ? ([0, Math.max(...points.map((point) => point.y)) || 1] as const) : range;
  const x = (value: number): number => round(left + ((value - low) / (high - low)) * inner);
  const row = new Map(categories.map((category, index) => [category as Point["x"], index * rowHeight]));
  const top = (point: Point): number => row.get(point.x) ?? 0;
  const ticks = numberTicks(
    [low, high],
    count,
    points.every((point) => Number.isInteger(point.y)),
  );
  const at = ticks.map(({ value, label }) => ({ at: x(value), label }));
  const values = hasValues
    ? points.map(
        (each) => html`<text class="value" x="${x(each.y) + 5}" y="${top(each) + 14}">${formatNumber(each.y)}</text>`,
      )
    : html`${labelsBelow(at, height + 17, plot)}
        <text x="${round(left + inner / 2)}" y="${height + 36}" text-anchor="middle">${plot.y}</text>`;
  return sheet(
    plot,
    height + (hasValues ? 2 : 42),
    html`${!hasValues && html`<path class="grid" d="${at.map((tick) => `M${tick.at} 0v${height}`).join("")}" />`}
      <g text-anchor="end">
        ${labels.map((label, index) => html`<text x="${left - 8}" y="${index * rowHeight + 14}">${label}</text>`)}
      </g>
      ${bars(plot, (each) => [x(Math.min(each.from, each.to)), top(each.point) + 2, x(Math.max(each.from, each.to)), top(each.point) + rowHeight - 3])}
      ${values}`,
  );
}

/** Bars, each with its value while there are few, otherwise one shape for a series. @param box left, top, right, bottom */
function bars(plot: Plot, box: (mark: Mark) => readonly [number, number, number, number]): Html {
  const shape = (mark: Mark): string => {
    const [left, top, right, bottom] = box(mark).map(round) as [number, number, number, number];
    return `M${left} ${top}H${right}V${bottom}H${left}z`;
  };
  const areTitled = plot.points.length <= mostTitled;
  return bySeries(plot, (marks) =>
    areTitled
      ? html`${marks.map((mark) => html`<path d="${shape(mark)}">${title(mark.point, plot)}</path>`)}`
      : html`<path d="${marks.map(shape).join("")}" />`,
  );
}

function bySeries({ marks }: Plot, draw: (marks: readonly Mark[], index: number) => Html): Html {
  return html`${marks.map((each, index) => html`<g class="mark series-${index + 1}">${draw(each, index)}</g>`)}`;
}

/* Everything else: what is measured goes up. */

function vertical(plot: Plot): Html {
  const { points, marks, mark, width, height } = plot;
  const count = Math.floor(height / 45);
  const ends = marks.flat().map(({ to }) => to);
  const [low, high] = niceRange(rangeOf(mark === "bar" || mark === "area" ? [0, ...ends] : ends), count);
  const ticks = numberTicks(
    [low, high],
    count,
    points.every((point) => Number.isInteger(point.y)),
  );
  const left = Math.max(30, widest(ticks.map(({ label }) => label)) + 12);
  const [top, inner] = [26, width - left - 24];
  const y = (value: number): number => round(top + height - ((value - low) / (high - low)) * height);
  const { x, bar, labels } = across(plot, left, inner);
  const shapes = {
    bar: () => bars(plot, (each) => [x(each.point) - bar / 2, y(each.from), x(each.point) + bar / 2, y(each.to)]),
    line: () => lines(plot, x, y),
    area: () => areas(plot, x, y),
    dot: () => dots(plot, x, y),
  };
  return sheet(
    plot,
    top + height + 42,
    html`<path class="grid" d="${ticks.map(({ value }) => `M${left} ${y(value)}h${inner}`).join("")}" />
      <text x="0" y="12">${plot.y}</text>
      <g text-anchor="end">
        ${ticks.map(({ value, label }) => html`<text x="${left - 8}" y="${y(value) + 4}">${label}</text>`)}
      </g>
      ${shapes[mark]()} ${labelsBelow(labels, top + height + 17, plot)}
      <text x="${round(left + inner / 2)}" y="${top + height + 36}" text-anchor="middle">${plot.x}</text>`,
  );
}

type X = (point: Point) => number;
type Y = (value: number) => number;

/** Where things are from left to right: in bands of categories, or along a scale. */
function across(plot: Plot, left: number, inner: number): { x: X; bar: number; labels: readonly Label[] } {
  const { categories, points, mark, xKind } = plot;
  if (categories !== undefined) {
    const band = inner / categories.length;
    const places = new Map(categories.map((label, index) => [label as Point["x"], left + (index + 0.5) * band]));
    const labels = categories.map((label) => ({ at: places.get(label) ?? 0, label }));
    return { x: (point) => places.get(point.x) ?? 0, bar: 0.78 * band, labels };
  }
  const values = points.map((point) => Number(point.x));
  const count = Math.max(2, Math.floor(inner / 60));
  const [low, high] = mark === "dot" && xKind === "number" ? niceRange(rangeOf(values), count) : rangeOf(values);
  const bar = Math.max(1, (0.8 * inner) / (new Set(values).size + 1));
  // Bars at the ends stay inside.
  const inset = mark === "bar" ? bar / 2 : 0;
  const at = (value: number): number =>
    left + inset + (low === high ? 0.5 : (value - low) / (high - low)) * (inner - 2 * inset);
  const ticks =
    xKind === "moment"
      ? timeTicks([low, high], count)
      : numberTicks([low, high], count, values.every(Number.isInteger));
  const labels = ticks.map(({ value, label }) => ({ at: at(value), label }));
  return { x: (point) => at(Number(point.x)), bar, labels };
}

function pathOf(marks: readonly Mark[], x: X, y: (mark: Mark) => number): string {
  return marks.map((each) => `${round(x(each.point))} ${y(each)}`).join("L");
}

function lines(plot: Plot, x: X, y: Y): Html {
  return bySeries(plot, (marks, index) => {
    const dash = dashes[index] ?? "";
    return html`<path
        class="line"
        d="M${pathOf(marks, x, ({ to }) => y(to))}"
        ${dash !== "" && html`stroke-dasharray="${dash}"`}
      />
      ${plot.points.length <= mostTitled && marks.map((mark) => dot(plot, mark, x, y, 3))}`;
  });
}

function areas(plot: Plot, x: X, y: Y): Html {
  return bySeries(plot, (marks) => {
    const upper = `M${pathOf(marks, x, ({ to }) => y(to))}`;
    const area = `${upper}L${pathOf(marks.toReversed(), x, ({ from }) => y(from))}z`;
    if (plot.series.length > 0) return html`<path d="${area}" />`;
    return html`<path class="soft" d="${area}" /><path class="line" d="${upper}" />`;
  });
}

function dots(plot: Plot, x: X, y: Y): Html {
  const most = Math.max(...plot.points.map(({ count = 1 }) => count));
  return html`<g class="dots">
    ${bySeries(plot, (marks) => html`${marks.map((mark) => dot(plot, mark, x, y, mark.point.count === undefined ? 3 : (plot.height / 32) * Math.sqrt(mark.point.count / most)))}`)}
  </g>`;
}

function dot(plot: Plot, mark: Mark, x: X, y: Y, radius: number): Html {
  return html`<circle cx="${round(x(mark.point))}" cy="${y(mark.to)}" r="${round(radius)}"
    >${title(mark.point, plot)}</circle
  >`;
}
