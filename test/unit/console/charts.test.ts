import { describe, expect, test } from "vitest";
import type { ChartOptions } from "#service/host.ts";
import { columnsOf } from "#console/charts/columns.ts";
import { draw } from "#console/charts/draw.ts";
import { figureOf } from "#console/charts/figure.ts";
import type { Figure, FigureSize } from "#console/charts/figure.ts";
import { drawing } from "#console/html.ts";
import { hostile } from "../../support/pages.ts";

type Row = readonly unknown[];

function result(columnNames: readonly string[], rows: readonly Row[], totalRowCount = rows.length) {
  return { columnNames, rows, totalRowCount };
}

const day = (index: number): string => new Date(Date.UTC(2024, 0, 1 + index)).toISOString().slice(0, 10);
const many = (count: number, row: (index: number) => Row): Row[] => Array.from({ length: count }, (_, i) => row(i));

function figure(of: ReturnType<typeof result>, chart?: ChartOptions, size: FigureSize = "narrow"): Figure {
  const made = figureOf(of, chart, size);
  if ("problem" in made) throw new Error(made.problem);
  return made;
}

async function drawn(of: ReturnType<typeof result>, chart?: ChartOptions, size?: FigureSize): Promise<string> {
  const { spec, label } = figure(of, chart, size);
  return drawing(await draw(spec), label).toString();
}

describe("the columns of a chart", () => {
  const numbers = result(["depth", "memberships", "people"], [[1, 40, "12345678901234567890"]]);
  const months = result(["month", "net"], [["2024-01-01", "12.5000"]]);
  const three = result(["day", "site", "n"], [["2024-01-01 10:00:00", "Porto", 1]]);

  test.each([
    [numbers, undefined, { mark: "bar", x: 0, xKind: "number", y: 1, series: undefined }],
    [months, undefined, { mark: "line", x: 0, xKind: "moment", y: 1, series: undefined }],
    [months, { mark: "bar" }, { mark: "bar", x: 0, xKind: "moment", y: 1, series: undefined }],
    [three, undefined, { mark: "line", x: 0, xKind: "moment", y: 2, series: 1 }],
    [three, { x: "SITE" }, { mark: "bar", x: 1, xKind: "text", y: 2, series: undefined }],
    [numbers, { x: "people", y: "depth" }, { mark: "bar", x: 2, xKind: "number", y: 0, series: undefined }],
    [result(["n", "name"], [[1, "a"]]), {}, { mark: "bar", x: 1, xKind: "text", y: 0, series: undefined }],
  ] as const)("are those that are named, or guessed (%#)", (of, chart, expected) => {
    expect(columnsOf(of, chart)).toEqual(expected);
  });

  test.each([
    [months, { y: "nett" }, /chart\.y of the pinboard names the column "nett".*did you mean "net"\?/],
    [months, { x: "\u202Ewhatever" }, /"\\\\u\{202e\}whatever".*it returns "month", "net"/],
    [months, { y: "month" }, /month has no numbers/],
    [result(["a", "b"], [["x", "y"]]), {}, /no column has numbers/],
    [result(["a"], [[1]]), {}, /needs two columns/],
  ] as const)("or the chart says what is wrong (%#)", (of, chart, expected) => {
    expect(columnsOf(of, chart)).toEqual({ problem: expect.stringMatching(expected) });
  });
});

describe("a chart of many rows stays small, and says what it leaves out", () => {
  const series = (index: number): string => `series ${index % 12}`;
  const cases: readonly (readonly [string, ReturnType<typeof result>, ChartOptions, RegExp])[] = [
    [
      "categories",
      result(
        ["c", "n"],
        many(500, (i) => [`category ${i}`, i]),
      ),
      {},
      /first \d+ of 500 categories/,
    ],
    [
      "bars",
      result(
        ["i", "n"],
        many(10_000, (i) => [i, i % 77]),
      ),
      {},
      /10,000 points, the highest of each section/,
    ],
    [
      "line",
      result(
        ["i", "n"],
        many(10_000, (i) => [i, i % 77]),
      ),
      { mark: "line" },
      /the lowest and the highest/,
    ],
    [
      "days",
      result(
        ["d", "n"],
        many(10_000, (i) => [day(i), i % 77]),
      ),
      {},
      /the lowest and the highest/,
    ],
    [
      "area",
      result(
        ["i", "s", "n"],
        many(9_999, (i) => [(i / 3) | 0, `s${i % 3}`, 5]),
      ),
      { mark: "area" },
      /evenly/,
    ],
    [
      "dots",
      result(
        ["x", "y"],
        many(10_000, (i) => [i % 311, (i * 31) % 977]),
      ),
      { mark: "dot" },
      /10,000 points/,
    ],
    [
      "series",
      result(
        ["d", "s", "n"],
        many(9_600, (i) => [day((i / 12) | 0), series(i), i]),
      ),
      {},
      /first 8 of 12 series/,
    ],
    [
      "rows",
      result(
        ["d", "n"],
        many(10, (i) => [day(i), i]),
        45_000,
      ),
      {},
      /first 10 of 45,000 rows/,
    ],
    [
      "empty values",
      result(
        ["d", "n"],
        [
          [day(1), 1],
          [day(2), null],
          [null, 3],
        ],
      ),
      {},
      /2 rows without a value/,
    ],
  ];
  test.each(cases)("%s", async (_, of, chart, note) => {
    for (const size of ["narrow", "wide"] as const) {
      expect(figure(of, chart, size).notes.join(" ")).toMatch(note);
      expect((await drawn(of, chart, size)).length).toBeLessThan(90_000);
    }
  });

  test("a peak among ten thousand points is drawn", () => {
    const rows = many(10_000, (i) => [i, i === 4321 ? 1000 : i % 7]);
    for (const mark of ["line", "area", "bar"] as const)
      expect(JSON.stringify(figure(result(["i", "n"], rows), { mark }).spec)).toContain('"x":4321,"y":1000');
  });

  test("rows of one bar are added together, and no category is lost when its name is cut", () => {
    const long = "x".repeat(300);
    const { spec } = figure(
      result(
        ["c", "n"],
        [
          ["a", 1],
          ["a", "2.5"],
          [`${long}1`, 4],
          [`${long}2`, 5],
          [null, 6],
        ],
      ),
    );
    const { values } = (spec as { data: { values: { x: string; y: number }[] } }).data;
    expect(values.map(({ y }) => y)).toEqual([3.5, 4, 5, 6]);
    expect(new Set(values.map(({ x }) => x)).size).toBe(4);
    expect(values.at(-1)?.x).toBe("(none)");
  });
});

test("drawings have no styles, links and sizes of their own, and their colours are those of the page", async () => {
  const of = result(
    ["day", "site", "n"],
    many(90, (i) => [day((i / 3) | 0), ["Porto", "Gdańsk", "İzmir"][i % 3], i % 17]),
  );
  for (const mark of ["bar", "line", "area", "dot"] as const) {
    for (const x of ["day", "site"]) {
      const svg = await drawn(of, { mark, x, y: "n", series: "site" });
      expect(svg).not.toMatch(/ style=|<style|href|<script|<image|clip|#[0-9a-f]{3}|NaN|undefined/i);
      expect(svg).toMatch(/^<svg\s+viewBox="0 0 380 [\d.]+"\s+class="chart"\s+role="graphics-document"/);
      expect(svg).toContain("var(--series-2)");
      expect(svg).toMatch(/aria-label="(?:Bar|Line|Area|Dot) chart of n by (?:day|site), 3 series/);
    }
  }
});

test("names from outside are harmless in a drawing, and seen", async () => {
  for (const text of hostile) {
    const of = result(
      [text, `${text}2`, `${text}3`],
      [
        [text, text, 1],
        [`${text}x`, text, 2],
      ],
    );
    for (const mark of ["bar", "line", "area", "dot"] as const) {
      const svg = await drawn(of, { mark });
      expect(svg).not.toMatch(/<script>alert|<img|[\u202E\u200B]|line\nbreak/);
      expect(svg.length).toBeLessThan(20_000);
    }
  }
  const svg = await drawn(result(["gnp.\u202Ecod", "n"], [["<b>\u200B", 1]]));
  expect(svg).toContain("&lt;b&gt;\\u{200b}");
});

test("a drawing with anything but shapes and text is refused", () => {
  const inside = (content: string): string => `<svg viewBox="0 0 1 1"><g>${content}</g></svg>`;
  expect(drawing(inside('<path d="M0.123456,1"/>'), "label").toString()).toContain('d="M0.1,1"');
  for (const content of [
    "<script>1</script>",
    '<g onclick="x"></g>',
    '<g style="fill:red"></g>',
    '<a href="/">x</a>',
    '<g xlink:href="/"></g>',
    "<style>a</style>",
    '<image href="x"/>',
    "<g x=1></g>",
  ])
    expect(() => drawing(inside(content), "label")).toThrow(/more than shapes and text/);
});
