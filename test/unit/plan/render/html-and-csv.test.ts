import { createHash } from "node:crypto";
import { parse } from "csv-parse/sync";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Change, Counts, Plan } from "#plan/change.ts";
import { createPlan } from "#plan/diff.ts";
import { renderCsv } from "#plan/render/csv.ts";
import { renderHtml } from "#plan/render/html.ts";
import { visible } from "#text.ts";
import { useConnection } from "../../../support/duckdb.ts";
import { directory, fill } from "../directories.ts";
import { cases } from "../../../support/random.ts";

const connection = useConnection();

async function all(parts: AsyncIterable<string>): Promise<string> {
  return (await Array.fromAsync(parts)).join("");
}

const entities: Readonly<Record<string, string>> = { "#38": "&", "#60": "<", "#62": ">", "#34": '"', "#39": "'" };

/** A page as an XML parser sees it, as far as a page of ours goes: strict about tags, attributes and references. */
function parsePage(html: string): { elements: Record<string, number>; texts: string[] } {
  const [, body = ""] = /^<!DOCTYPE html>\n(.*)$/s.exec(html) ?? expect.fail("no document type");
  const open: string[] = [];
  const elements: Record<string, number> = {};
  const texts: string[] = [];
  const token = /<(\/?)([a-z][a-z0-9]*)((?: [a-z-]+="[^"<]*")*)(\/?)>|([^<>]+)/gy;
  let place = 0;
  for (const [whole, closing, name = "", , empty, text] of body.matchAll(token)) {
    place += whole.length;
    if (text !== undefined) {
      if (open.at(-1) !== "style") {
        expect(text).toMatch(/^(?:[^&"']|&#\d+;)*$/);
        texts.push(text.replaceAll(/&(#\d+);/g, (_, code: string) => entities[code] ?? expect.fail(code)));
      }
    } else if (closing === "/") expect(open.pop()).toBe(name);
    else {
      elements[name] = (elements[name] ?? 0) + 1;
      if (empty !== "/") open.push(name);
    }
  }
  expect(body.slice(place, place + 80)).toBe("");
  expect(open).toEqual([]);
  return { elements, texts };
}

const hostile = [
  "<script>alert(1)</script>",
  "</style><script>",
  "</b></div><!--",
  "&lt;img src=x onerror=alert(1)&gt;",
  `" onmouseover="alert(1)`,
  "]]>",
  "=cmd|' /C calc'!A0",
  "+1",
  "-1",
  "@SUM(A1)",
  "＝1+1",
  "\t=1",
  "\r=1",
  "a\nb",
  'a"b',
  "\u202Egnp.exe",
  "\u2066iso",
  "\u001B[2J",
  "\u0000",
  "\uD800",
  "שלום",
];

function planOf(changes: readonly Change[]): Plan {
  const of = (kind: Change["kind"]) => {
    const count = (action: Change["action"]) =>
      changes.filter((each) => each.kind === kind && each.action === action).length;
    return { before: 9, after: 9, create: count("create"), update: count("update"), delete: count("delete") };
  };
  return {
    digest: "0".repeat(64),
    counts: { users: of("user"), groups: of("group"), membershipsAdded: 0, membershipsRemoved: 0 },
    changes: async function* (only) {
      for (const change of changes)
        if (only === undefined || (only.kind === change.kind && only.action === change.action)) yield change;
    },
  };
}

const hostileChanges = hostile.map((text): Change => ({
  action: "update",
  kind: "user",
  name: text,
  attributes: [
    { attribute: "displayName", from: text, to: `${text} ` },
    { attribute: "mail", from: text },
  ],
  groupsAdded: [text],
  groupsRemoved: [text],
}));

describe("as HTML", () => {
  test("nothing foreign is markup, wherever it stands, and nothing in it is hidden", async () => {
    const [text] = hostile;
    const html = await all(
      renderHtml(planOf(hostileChanges), {
        title: hostile.join(),
        facts: [{ label: "by", lines: hostile }],
        limits: [
          {
            limit: "deletes",
            of: `users of ${text}`,
            value: 1,
            earlier: 0,
            bound: 0,
            basis: `${text}`,
            tripped: true,
            overridden: false,
          },
        ],
        notes: hostile,
      }),
    );
    const { elements, texts } = parsePage(html);
    for (const name of ["script", "img", "link", "iframe", "a", "object"]) expect(elements[name]).toBeUndefined();
    for (const each of hostile) {
      expect(texts.filter((found) => found === visible(each)).length, each).toBeGreaterThanOrEqual(4);
    }
    // What is not seen does not get out, whatever it would do there.
    expect(html).toMatch(/^[[\P{C}\n]--[\p{Default_Ignorable_Code_Point}]]*$/v);
  });

  test("for any two directories, every value of every change stands in a page that is well-formed", async () => {
    await fc.assert(
      fc.asyncProperty(directory, directory, async (actual, desired) => {
        await fill(connection(), "actual", actual);
        await fill(connection(), "desired", desired);
        const plan = await createPlan(connection());
        const { texts } = parsePage(await all(renderHtml(plan, { title: "t" })));
        const left = new Map<string, number>();
        for (const text of texts) left.set(text, (left.get(text) ?? 0) + 1);
        for await (const { name, attributes } of plan.changes()) {
          for (const value of [name, ...attributes.flatMap(({ from, to }) => [from ?? [], to ?? []].flat())]) {
            const shown = visible(value);
            expect(left.get(shown) ?? 0, shown).toBeGreaterThan(0);
            left.set(shown, (left.get(shown) ?? 0) - 1);
          }
        }
      }),
      { numRuns: cases(40) },
    );
  });

  test("the page may load nothing and run nothing, and its style is the one that it allows", async () => {
    const html = await all(renderHtml(planOf([]), { title: "t" }));
    const [, policy = ""] = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(html) ?? [];
    const [, style = ""] = /<style>(.*)<\/style>/s.exec(html) ?? [];
    const digest = createHash("sha256").update(style).digest("base64");
    expect(policy).toBe(`default-src 'none'; style-src 'sha256-${digest}'; base-uri 'none'; form-action 'none'`);
    expect(html).not.toMatch(/style="|<script|url\(|@import|https?:/);
  });

  test("many groups of one principal can be unfolded", async () => {
    const groups = Array.from({ length: 1234 }, (_, index) => `g${index}`);
    const change: Change = { ...hostileChanges[0]!, attributes: [], groupsAdded: groups, groupsRemoved: [] };
    const html = await all(renderHtml(planOf([change]), { title: "t" }));
    expect(html).toContain("<details><summary>1,214 more</summary>");
    expect(parsePage(html).texts).toEqual(expect.arrayContaining(groups));
  });

  test("all changes are in it, unless a limit says otherwise; it is written as they are read", async () => {
    let read = 0;
    const kind = { before: 0, after: 0, create: 0, update: 100_000, delete: 0 };
    const none = { ...kind, update: 0 };
    const counts: Counts = { users: kind, groups: none, membershipsAdded: 0, membershipsRemoved: 0 };
    const endless = async function* (): AsyncIterable<Change> {
      while (read < 100_000) yield { ...hostileChanges[0]!, name: `u${read++}` };
    };
    const plan: Plan = { digest: "0", counts, changes: endless };
    for await (const chunk of renderHtml(plan, { title: "t" })) {
      expect(chunk.length).toBeLessThan(100_000);
      break;
    }
    expect(read).toBeLessThan(1000);
    read = 0;
    const html = await all(renderHtml(plan, { title: "t", limit: 250 }));
    expect(html).toContain("… and 99,750 more");
    expect(parsePage(html).texts).toContain("u249");
  });
});

describe("as CSV", () => {
  test("no spreadsheet runs anything in it, and every row has its columns", async () => {
    const csv = await all(renderCsv(planOf(hostileChanges)));
    expect(csv.startsWith('\uFEFF"kind","name","action","what","from","to"\n')).toBe(true);
    const rows = parse<Record<string, string>>(csv, { bom: true, columns: true });
    expect(rows).toHaveLength(hostile.length * 4);
    for (const row of rows) for (const value of Object.values(row)) expect(value).not.toMatch(/^[=+\-@\t\r\n＝＋－＠]/);
    const names = new Set(rows.map(({ name }) => name?.replace(/^'/, "")));
    expect([...names]).toEqual(hostile.map(visible));
    expect(csv.slice(1)).toMatch(/^[[\P{C}\n]--[\p{Default_Ignorable_Code_Point}]]*$/v);
  });

  test("an attribute that is unset is not one that is empty; memberships are one row each", async () => {
    const change: Change = {
      action: "update",
      kind: "group",
      name: "a,b",
      attributes: [
        { attribute: "description", from: "" },
        { attribute: "mail", to: "x" },
      ],
      groupsAdded: ["in"],
      groupsRemoved: ["out"],
    };
    const [, ...rows] = (await all(renderCsv(planOf([change])))).trimEnd().split("\n");
    expect(rows).toEqual([
      '"group","a,b","update","description","",',
      '"group","a,b","update","mail",,"x"',
      '"group","a,b","update","membership","out",',
      '"group","a,b","update","membership",,"in"',
    ]);
  });
});
