import { expect, test } from "vitest";
import type { HostPinboard, HostVisualization } from "#service/host.ts";
import { layout } from "#console/layout.ts";
import { card, pinboard, pinboards, single } from "#console/pages/pinboards.ts";
import type { Page, Shown } from "#console/pages/pinboards.ts";
import { hostile, textOf } from "../../support/pages.ts";

const now = Date.parse("2026-11-21T12:00:00.000Z");
const id = (digit: string): string => `${digit.repeat(8)}-0000-4000-8000-000000000000`;

const visualization: HostVisualization = { id: id("b"), name: "people", title: "People", type: "TABLE" };
const board: HostPinboard = { id: id("a"), name: "Sales", modified: now, visualizations: [visualization] };

function rows(columnNames: readonly string[], rows: Page["rows"], more: Partial<Page> = {}): Shown {
  const result = { columnNames, rows, totalRowCount: rows.length, offset: 0, pageSize: 100, ...more };
  return { kind: "rows", result };
}

test("the list says what is on each pinboard, and where one comes from when there is none", () => {
  const list = [
    { ...board, description: "By month" },
    { ...board, name: "New", visualizations: [] },
  ];
  const text = textOf(pinboards({ now, list }).toString());
  expect(text).toMatch(/Sales By month 1 table changed just now|Sales By month 1 table changed /);
  expect(text).toContain("New nothing on it yet");
  expect(pinboards({ now, list: [] }).toString()).toMatch(/service\.pinboards[^]*rollcall reload/);
  expect(textOf(pinboard({ ...board, visualizations: [] }, []).toString())).toContain(
    "Nothing is on this pinboard yet",
  );
});

test("names and values from outside are harmless, however long", () => {
  for (const text of hostile) {
    const of = { ...visualization, title: text, name: text };
    const shown: Shown[] = [
      rows([text, text], [[text, [text]]], { totalRowCount: 12 }),
      { kind: "problem", message: text, problems: [text] },
      { kind: "later" },
      {
        kind: "rows",
        result: { columnNames: [text], rows: [[text]], totalRowCount: 1, offset: 0, pageSize: 1 },
        chart: { problem: text },
      },
    ];
    const on = { ...board, name: text, description: text, visualizations: [of] };
    const pages = [
      pinboards({ now, list: [on] }),
      ...shown.flatMap((each) => [
        pinboard(on, [card({ pinboard: on, visualization: of, shown: each })]),
        single({ pinboard: on, visualization: of, shown: each }),
        single({ pinboard: on, visualization: { ...of, type: "HEADLINE" }, shown: each }),
      ]),
    ].map((page) => layout({ title: text, version: "1" }, page).toString());
    for (const page of pages) expect(page).not.toMatch(/<script>alert|<img src=x|[\u202E\u200B]/);
  }
});

test("a table says which rows it shows, leads to the others, and stays short", () => {
  const many = rows(["n", "text"], [[1, "a"]], { totalRowCount: 345 });
  const first = card({ pinboard: board, visualization, shown: many }).toString();
  expect(textOf(first)).toContain("The first 1 of 345 rows. Show all");
  const own = `/pinboards/${id("a")}/${id("b")}`;
  expect(first).toContain(`href="${own}"`);
  const next = rows(["n"], [[1]], { totalRowCount: 345, offset: 100 });
  const whole = single({ pinboard: board, visualization, shown: next }).toString();
  expect(whole).toMatch(/101 to 200 of\s+345/);
  expect(whole).toContain(`rel="prev" href="${own}"`);
  expect(whole).toContain(`rel="next" href="${own}?from=200"`);
  expect(whole).toContain(`href="${own}/download" download`);

  const columns = Array.from({ length: 300 }, (_, index) => `column ${index}`);
  const wide = rows(
    columns,
    Array.from({ length: 100 }, () => columns.map(() => "\u202E".repeat(1000))),
  );
  const long = single({ pinboard: board, visualization, shown: wide }).toString();
  expect(long.length).toBeLessThan(300_000);
  expect(textOf(long)).toContain("270 more columns: the download has all of them.");
  expect(textOf(long)).toContain("Long values are cut");
});

test("figures have separators of thousands, and every digit; values that are not there say so", () => {
  const of = { ...visualization, type: "HEADLINE" } as const;
  const shown = rows(["a", "b", "c", "d", "e"], [[1234567, "-1234567.50", 0.1, null, "on time"]], { totalRowCount: 3 });
  const text = textOf(card({ pinboard: board, visualization: of, shown }).toString());
  expect(text).toContain("a 1,234,567 b −1,234,567.50 c 0.1 d – e on time All 3 rows");
  const none = card({ pinboard: board, visualization: of, shown: rows(["a"], []) }).toString();
  expect(textOf(none)).toContain("No rows.");
});

test("what is not there yet is fetched when it is in sight, and leads to itself without JavaScript", () => {
  const page = card({ pinboard: board, visualization, shown: { kind: "later" } }).toString();
  const own = `/pinboards/${id("a")}/${id("b")}`;
  expect(page).toContain(`hx-get="${own}?as=card"`);
  expect(page).toContain(`hx-select="#viz-${id("b")}"`);
  expect(page).toContain(`id="viz-${id("b")}"`);
  expect(page).toMatch(new RegExp(`<a href="${own}">Show only this one</a>`));
});

test("a console without a service does not mention pinboards", () => {
  const visitor = { name: "ada", address: "", token: "t", via: "service", role: "administrator" } as const;
  const page = (hidden: readonly "pinboards"[]): string =>
    layout({ title: "t", version: "1", visitor, hidden }, pinboards({ now, list: [] })).toString();
  expect(page([])).toContain('<a href="/pinboards"');
  expect(page(["pinboards"])).not.toContain('<a href="/pinboards"');
});
