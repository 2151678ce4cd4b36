import { expect, test } from "vitest";
import { layout } from "#console/layout.ts";
import { fieldsOf, readFields, requestOf } from "#console/load-form.ts";
import { cancellation, cycle, draft } from "#console/pages/load.ts";
import { elsewhere, loads, table } from "#console/pages/loads.ts";
import { overview } from "#console/pages/overview.ts";
import type { HostedCycle, HostedTable } from "#service/host.ts";
import { loadParameters } from "#wire/loads.ts";
import { html } from "#console/html.ts";
import { hostile, textOf } from "../../support/pages.ts";

const now = Date.parse("2026-11-21T12:00:00.000Z");
const size = { largest: 1000, text: "1 kB" };
const token = html`<input type="hidden" name="token" value="t" />`;

function tableOf(name: string): HostedTable {
  return {
    database: name,
    schema: "core_default_schema",
    name,
    columns: [
      { name, type: "BIGINT", nullable: false },
      { name: `${name}2`, type: "TIMESTAMP", nullable: true },
    ],
    primaryKey: [name],
    rows: 1234,
    isEstimated: true,
  };
}

function cycleOf(
  name: string,
  more: Partial<HostedCycle> = {},
  status: Partial<HostedCycle["status"]> = {},
): HostedCycle {
  const target = { database: name, schema: "s", table: name };
  return {
    id: "0b7f3d0e-0000-4000-8000-000000000000",
    table: target,
    file: name,
    by: name,
    isDraft: false,
    parameters: loadParameters.parse({ target, format: { null_value: name } }),
    badRecords: 12,
    ...more,
    status: {
      cycle_id: "0b7f3d0e-0000-4000-8000-000000000000",
      internal_stage: "DONE",
      status: { code: "LOAD_FAILED", message: name },
      rows_written: "0",
      ignored_row_count: "2",
      bytes_written: "40",
      buffered_bytes_size: "0",
      ingested_network_bw: "0",
      start_time: String((now - 60_000) * 1000),
      end_time: String((now - 50_000) * 1000),
      parsing_errors: [`row 1, ${name}`],
      ...status,
    },
  };
}

test("text from outside is harmless in the pages of tables and loads", () => {
  for (const text of hostile) {
    const visitor = {
      name: text,
      address: "::1",
      token: "t",
      via: "service",
      role: "administrator",
      mayLoad: true,
    } as const;
    const of = cycleOf(text);
    const fields = fieldsOf(of.parameters);
    const preview = {
      accepted: 1,
      rejected: 1,
      errors: [`row 2, ${text}`],
      rows: [
        { number: 1, values: [text, null] },
        { number: 2, flaw: text },
      ],
      keys: {
        columns: [text],
        blank: { count: 1, rows: [1] },
        doubled: { count: 1, keys: [{ key: [text, text], rows: [1, 2] }] },
        known: { count: 1, of: 2 },
      },
      isWhole: true,
    };
    const guess = { format: {}, header: [text, text], notes: [text], doubts: [text] };
    const problem = { message: text, problems: [text], advice: "fix" } as const;
    const pages = [
      loads({ now, tables: [tableOf(text), { ...tableOf(text), problem: text }], cycles: [of], size }),
      table({ now, table: tableOf(text), cycles: [of], size, token }),
      draft({ now, cycle: { ...of, isDraft: true }, table: tableOf(text), fields, guess, preview, problem, token }),
      cycle({ now, cycle: of }),
      cancellation({ now, cycle: of, token }),
      elsewhere({ target: text }),
      overview({ now, syncs: [], runs: [], loads: { tables: 1, cycles: [of] } }),
    ].map((page) => layout({ title: text, version: "1", visitor, section: "loads", live: "/" }, page).toString());
    for (const page of pages) {
      expect(page).not.toMatch(/<script>|<img|onerror=alert\(1\)>/);
      expect(page).not.toMatch(/[\u202E\u200B]/.test(text) ? /(?<!value="[^"]*)[\u202E\u200B]/ : /\0/);
      expect(page.match(/<\/html>/g)).toHaveLength(1);
      expect(page).not.toMatch(/ style=| on[a-z]+="/);
    }
  }
});

test("who may not look at the syncs has the loads alone; who may not load has everything else", () => {
  const sections = (visitor: object): string[] => {
    const base = { name: "kim", address: "::1", token: "t", via: "service" } as const;
    const page = layout({ title: "x", version: "1", visitor: { ...base, ...visitor } }, html``).toString();
    return [...page.matchAll(/<li>\s*<a href="([^"]+)"/g)].map(([, href]) => href ?? "");
  };
  expect(sections({ mayLoad: true })).toEqual(["/loads"]);
  expect(sections({ role: "viewer" })).not.toContain("/loads");
  expect(sections({ role: "viewer" })).toContain("/runs");
  expect(sections({ mayLoad: true, role: "administrator" })).toEqual(expect.arrayContaining(["/loads", "/runs", "/"]));
});

test("a load is cancelled only once that is confirmed", () => {
  const of = cycleOf("x", {}, { internal_stage: "INGESTING", status: { code: "OK" } });
  const page = cycle({ now, cycle: of }).toString();
  expect(page).toContain(`href="/loads/${of.id}/cancel"`);
  expect(page).not.toContain("<form");
  expect(cancellation({ now, cycle: of, token }).toString()).toContain(`method="post" action="/loads/${of.id}/cancel"`);
  const done = cycleOf("x", {}, { internal_stage: "DONE", status: { code: "OK" } });
  expect(cycle({ now, cycle: done }).toString()).not.toContain("/cancel");
});

test("the state of a cycle is told by a word, at every stage", () => {
  const told = (more: Partial<HostedCycle>, status: Partial<HostedCycle["status"]>): string =>
    textOf(loads({ now, tables: [], cycles: [cycleOf("x", more, status)], size }).toString());
  const ok = { status: { code: "OK" } } as const;
  expect(told({ isDraft: true }, { ...ok, internal_stage: "INGESTING", bytes_written: "0" })).toContain("arriving");
  expect(told({ isDraft: true }, { ...ok, internal_stage: "INGESTING" })).toContain("waits for you");
  expect(told({}, { ...ok, internal_stage: "INGESTING" })).toContain("accepts data");
  expect(told({}, { ...ok, internal_stage: "COMMITTING" })).toContain("loading");
  expect(told({}, { ...ok, ignored_row_count: "0" })).toMatch(/loaded x/);
  expect(told({}, ok)).toContain("loaded in part");
  expect(told({}, {})).toContain("failed");
  expect(told({}, { status: { code: "CANCELLED" } })).toContain("cancelled");
});

test("the form says what the interface takes, and comes back as it was", () => {
  const request = {
    target: { database: "d", table: "t" },
    format: {
      type: "delimited",
      field_separator: "\t",
      escape_character: "\\",
      null_value: "\\N",
      has_header_row: true,
      date_time: { date_format: "%d.%m.%Y", skip_second_fraction: true },
      boolean: { true_format: "ja", false_format: "nein" },
    },
    load_options: { empty_target: true, max_ignored_rows: 3 },
  };
  const parameters = loadParameters.parse(request);
  const fields = fieldsOf(parameters);
  expect(fields.field_separator).toBe("\\t");
  const again = readFields(new URLSearchParams(Object.entries(fields).filter(([, value]) => value !== "")));
  expect(loadParameters.parse({ ...requestOf(again), target: request.target })).toEqual(parameters);
});

test.each([
  ["field_separator", ";;", "Separator: expected one character; \\t is a tab"],
  ["max_ignored_rows", "-1", "Rows that may be rejected: expected a whole number"],
  ["max_ignored_rows", "1e3", "Rows that may be rejected: expected a whole number"],
  ["type", "xml", "Kind of file: expected csv or delimited"],
  ["field_separator", '"', "the separator is the enclosing character"],
] as const)("a %s of %j is refused, by its label", (field, value, problem) => {
  const fields = { ...fieldsOf(loadParameters.parse({ target: { database: "d", table: "t" } })), [field]: value };
  expect(() => requestOf(fields)).toThrow(expect.objectContaining({ status: 400, problems: [problem] }));
});

test("where there are no syncs, the overview leads to the loads; without the privilege it does not", () => {
  const alone = textOf(overview({ now, syncs: [], runs: [], loads: { tables: 2, cycles: [] } }).toString());
  expect(alone).toMatch(/There are no syncs yet[^]*Load a file into one of 2 tables/);
  expect(textOf(overview({ now, syncs: [], runs: [], loads: { tables: 0, cycles: [] } }).toString())).toContain(
    "service.tables",
  );
  expect(textOf(overview({ now, syncs: [], runs: [] }).toString())).not.toContain("Recent loads");
});

test("a preview says what keys make of the rows: blank, doubled, new, or in the place of rows of the table", () => {
  const of = { ...cycleOf("x.csv"), isDraft: true };
  const fields = fieldsOf(of.parameters);
  const preview = { accepted: 400, rejected: 0, errors: [], rows: [], isWhole: false };
  const none = { count: 0, rows: [] };
  const told = (keys: object): string => {
    const all = { columns: ["id"], blank: none, doubled: { count: 0, keys: [] }, ...keys };
    return textOf(
      draft({ now, cycle: of, table: tableOf("t"), fields, preview: { ...preview, keys: all }, token }).toString(),
    );
  };
  expect(told({ blank: { count: 7, rows: [2, 3] } })).toContain("7 rows have a blank in the key id : rows 2, 3, ….");
  const doubled = { count: 2, keys: [{ key: ["7"], rows: [3, 9, 12] }] };
  expect(told({ doubled })).toMatch(/2 rows would not be loaded[^]*7 : rows 3, 9, 12/);
  expect(told({ known: { count: 1, of: 398 } })).toMatch(
    /1 row of the table would be replaced : 1 of the first 398 keys is there already/,
  );
  expect(told({ known: { count: 0, of: 398 } })).toMatch(/None of the first 398 keys is in the table/);
  expect(told({})).not.toMatch(/key id|replaced|in the table:/);
});
