import { describe, expect, test } from "vitest";
import type { ChartOptions } from "#service/host.ts";
import { columnsOf } from "#console/charts/columns.ts";
import { figureOf } from "#console/charts/figure.ts";
import type { Figure, FigureSize } from "#console/charts/figure.ts";
import { numberTicks, timeTicks } from "#console/charts/scales.ts";
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

function drawn(of: ReturnType<typeof result>, chart?: ChartOptions, size?: FigureSize): string {
  return figure(of, chart, size).svg.toString();
}

/** What the marks say when they are pointed at. */
function titles(svg: string): string[] {
  return [...svg.matchAll(/<title>([^<]*)<\/title>/g)].map(([, title = ""]) => title);
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
  test.each(cases)("%s", (_, of, chart, note) => {
    for (const size of ["narrow", "wide"] as const) {
      expect(figure(of, chart, size).notes.join(" ")).toMatch(note);
      expect(drawn(of, chart, size).length).toBeLessThan(90_000);
    }
  });

  test("a peak among ten thousand points is drawn", () => {
    const rows = many(10_000, (i) => [i, i === 4321 ? 1000 : i % 7]);
    for (const mark of ["line", "area", "bar"] as const)
      expect(drawn(result(["i", "n"], rows), { mark })).toMatch(/aria-label="[^"]*, \d to 1,000\./);
  });

  test("rows of one bar are added together, and no category is lost when its name is cut", () => {
    const long = "x".repeat(300);
    const rows = [
      ["a", 1],
      ["a", "2.5"],
      [`${long}1`, 4],
      [`${long}2`, 5],
      [null, 6],
    ];
    const shown = titles(drawn(result(["c", "n"], rows))).map((title) => title.split(": "));
    expect(shown.map(([, value]) => value)).toEqual(["3.5", "4", "5", "6"]);
    expect(new Set(shown.map(([category]) => category)).size).toBe(4);
    expect(shown.at(-1)?.[0]).toBe("(none)");
  });
});

describe("scales", () => {
  const labels = (ticks: readonly { readonly label: string }[]): string[] => ticks.map(({ label }) => label);

  test.each([
    [[0, 1], 4, false, ["0", "0.5", "1"]],
    [[0, 0.3], 4, false, ["0", "0.1", "0.2", "0.3"]],
    [[0, 3], 7, true, ["0", "1", "2", "3"]],
    [[-20, 1500], 4, true, ["0", "500", "1,000", "1,500"]],
    [[-2, 2], 2, true, ["−2", "0", "2"]],
    [[1_200_000, 1_260_000], 3, true, ["1.2M", "1.22M", "1.24M", "1.26M"]],
    [[0, 4e17], 3, true, ["0", "2E17", "4E17"]],
    [[7, 7], 3, true, ["7"]],
  ] as const)("of numbers have round ticks with distinct labels (%#)", (range, count, isWhole, expected) => {
    expect(labels(numberTicks(range, count, isWhole))).toEqual(expected);
  });

  test.each([
    [
      "2026-01-05T10:00:01",
      "2026-01-05T10:00:17",
      4,
      ["10:00:05", "10:00:10", "10:00:15"].map((each) => `2026-01-05 ${each}`),
    ],
    ["2026-01-04T20:00", "2026-01-05T03:00", 3, ["2026-01-04 21:00", "2026-01-05 00:00", "2026-01-05 03:00"]],
    ["2026-01-01", "2026-01-20", 4, ["2026-01-05", "2026-01-12", "2026-01-19"]],
    ["2025-11-20", "2026-05-01", 3, ["2026-01", "2026-04"]],
    ["1999-12-31", "2026-05-01", 6, ["2000", "2005", "2010", "2015", "2020", "2025"]],
    ["2026-02-03T00:00", "2026-02-03T00:00", 3, ["2026-02-03"]],
  ] as const)("of time have ticks at whole units of UTC (%#)", (from, to, count, expected) => {
    const at = (text: string): number => Date.parse(text.length > 10 ? `${text}Z` : text);
    expect(labels(timeTicks([at(from), at(to)], count))).toEqual(expected);
  });

  test("labels below an axis never touch, and stay within the drawing", () => {
    for (const rows of [many(31, (i) => [day(i), i]), many(15, (i) => [`name number ${i}`, i])])
      for (const mark of ["bar", "line"] as const)
        for (const size of ["narrow", "wide"] as const) {
          const svg = drawn(result(["x", "n"], rows), { mark }, size);
          const below = svg.split('<g text-anchor="middle">')[1]?.split("</g>")[0];
          const places = [...(below ?? "").matchAll(/x="([\d.]+)"[^>]*>([^<]*)</g)];
          for (const [index, [, x, label = ""]] of places.slice(1).entries())
            expect(Number(x) - Number(places[index]?.[1])).toBeGreaterThan(label.length * 6);
        }
  });
});

test("what is stacked ends where the next series begins, and a single value has room", () => {
  const rows = [
    ["a", "s", 1],
    ["a", "t", 2],
    ["a", "u", -4],
  ];
  const svg = drawn(result(["c", "s", "n"], rows));
  const ends = [...svg.matchAll(/M([\d.]+) [\d.]+H([\d.]+)/g)].map(([, from, to]) => [Number(from), Number(to)]);
  expect(ends[0]?.[1]).toBe(ends[1]?.[0]);
  expect(ends[2]?.[1]).toBe(ends[0]?.[0]);
  for (const mark of ["bar", "line", "area", "dot"] as const)
    for (const value of [0, 5, -5, 1e300])
      for (const x of ["2026-01-01", 3, "text"])
        expect(drawn(result(["x", "n"], [[x, value]]), { mark })).not.toMatch(/NaN|Infinity|undefined/);
});

test("drawings have no styles, links and sizes of their own, and their colours are those of the page", () => {
  const of = result(
    ["day", "site", "n"],
    many(90, (i) => [day((i / 3) | 0), ["Porto", "Gdańsk", "İzmir"][i % 3], i % 17]),
  );
  for (const mark of ["bar", "line", "area", "dot"] as const) {
    for (const x of ["day", "site"]) {
      const svg = drawn(of, { mark, x, y: "n", series: "site" });
      expect(svg).not.toMatch(/ style=|<style|href|<script|<image|clip|#[0-9a-f]{3}|NaN|undefined/i);
      expect(svg).toMatch(/^<svg viewBox="0 0 380 [\d.]+" class="chart" role="img"/);
      expect(svg).toContain('class="mark series-2"');
      expect(svg).toMatch(/aria-label="(?:Bar|Line|Area|Dot) chart of n by (?:day|site), 3 series/);
    }
  }
});

test("names from outside are harmless in a drawing, and seen", () => {
  for (const text of hostile) {
    const of = result(
      [text, `${text}2`, `${text}3`],
      [
        [text, text, 1],
        [`${text}x`, text, 2],
      ],
    );
    for (const mark of ["bar", "line", "area", "dot"] as const) {
      const svg = drawn(of, { mark });
      expect(svg).not.toMatch(/<script>alert|<img|[\u202E\u200B]|line\nbreak/);
      expect(svg.length).toBeLessThan(20_000);
    }
  }
  const svg = drawn(result(["gnp.\u202Ecod", "n"], [["<b>\u200B", 1]]));
  expect(svg).toContain("&lt;b&gt;\\u{200b}");
});
