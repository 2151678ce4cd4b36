import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { serviceAttributes } from "#principals/attributes.ts";
import type { Change, Counts, Plan } from "#plan/change.ts";
import { textsOf } from "#plan/change.ts";
import { createPlan } from "#plan/diff.ts";
import { renderHtml } from "#console/pages/report.ts";
import type { Report } from "#sync/report.ts";
import type { RunRecord } from "#state/record.ts";
import { visible } from "#text.ts";
import { useConnection } from "../../support/duckdb.ts";
import { textOf } from "../../support/pages.ts";
import { hostileChanges, hostileTexts, planOf } from "../../support/plans.ts";
import { cases } from "../../support/random.ts";
import { pendingRun, trippedLimit } from "../../support/runs.ts";
import { directory, fill } from "../plan/directories.ts";

const connection = useConnection();

/** The report of a run with a plan. */
async function reportOf(plan: Plan | undefined, run: Partial<RunRecord> = {}, more: Partial<Report> = {}) {
  const of = pendingRun("20261121-100000-000001", {
    ...(plan === undefined ? {} : { digest: plan.digest, counts: plan.counts }),
    ...run,
  });
  return (await Array.fromAsync(renderHtml({ run: of, runs: [of], plan, nothing: "nothing of it", ...more }))).join("");
}

const entities: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'" };

/** A page as a strict parser sees it: about tags, attributes and references. */
function parsePage(html: string): { elements: Record<string, number>; texts: string[] } {
  const [, page = ""] = /^<!DOCTYPE html>\n(.*)$/s.exec(html) ?? expect.fail("no document type");
  const body = page.replace(/(?<=<style>)[^<]*/, "").replaceAll("<wbr />", "");
  const open: string[] = [];
  const elements: Record<string, number> = {};
  const texts: string[] = [];
  const token = /<(\/?)([a-z][a-z0-9]*)((?:\s+[a-zA-Z-]+(?:="[^"<]*")?)*)\s*(\/?)>|([^<>]+)/gy;
  let place = 0;
  for (const [whole, closing, name = "", , empty, text] of body.matchAll(token)) {
    place += whole.length;
    if (text !== undefined) {
      expect(text).toMatch(/^(?:[^&"']|&(?:amp|lt|gt|quot|#39);)*$/);
      texts.push(text.replaceAll(/&([^;]+);/g, (_, code: string) => entities[code] ?? expect.fail(code)));
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
test("nothing foreign is markup, wherever it stands, and nothing in it is hidden", async () => {
  const text = hostileTexts.join(" ");
  const by = { name: text, from: text };
  const html = await reportOf(
    planOf(hostileChanges),
    {
      sync: text,
      target: text,
      by,
      for: [text],
      limits: [trippedLimit({ of: text, basis: text })],
      notes: [
        { text: "hostile", details: [{ text: "", kind: "user", names: [text, "other"] }] },
        ...hostileTexts.map((each) => ({ text: each })),
      ],
      recovery: text,
      caution: text,
      causes: [
        { id: "c1", kind: "gone", source: text, users: 2, groups: 0, example: { kind: "user", name: text } },
        { id: "c2", kind: "drift", attribute: text, users: 1, groups: 0, example: { kind: "user", name: text } },
      ],
      error: { message: text, problems: [text], advice: "fix" },
      decisions: [{ decision: "rejected", at: "2026-11-21T11:00:00.000Z", by, digest: "d", reason: text }],
      export: { to: text },
    },
    { only: text, next: [text] },
  );
  const { elements, texts } = parsePage(html);
  for (const name of ["script", "img", "link", "iframe", "object", "form"]) expect(elements[name]).toBeUndefined();
  // Only to sections of the page itself.
  expect(html.match(/href="(?!#)[^"]*"/g)).toBeNull();
  for (const each of hostileTexts)
    expect(texts.filter((found) => found === visible(each)).length, each).toBeGreaterThanOrEqual(4);
  // What is not seen does not get out, whatever it would do there.
  expect(html).toMatch(/^[[\P{C}\n]--[\p{Default_Ignorable_Code_Point}]]*$/v);
});

test("a reader sees the verdict first, then numbers, limits and causes, the notes in full, and every change", async () => {
  const change = { kind: "user", attributes: [], groupsAdded: [], groupsRemoved: [] } as const;
  const plan = planOf([
    { ...change, action: "delete", name: "kim", groupsRemoved: ["staff"] },
    { ...change, action: "update", name: "lee", attributes: [{ attribute: "mail", from: "a@x", to: "b@x" }] },
  ]);
  const notes = [
    {
      text: "1 user is renamed",
      details: [{ text: "user bo is now lee", kind: "user", names: ["bo", "lee"] }],
    } as const,
    ...Array.from({ length: 50 }, (_, index) => ({ text: `note ${index}` })),
  ];
  const text = textOf(
    await reportOf(
      plan,
      {
        state: "held",
        heldBy: "limits",
        expiresAt: "2026-11-22T12:00:00.000Z",
        limits: [trippedLimit({ value: 1, bound: 0 })],
        causes: [
          { id: "c1", kind: "gone", source: "corp", users: 1, groups: 0, example: { kind: "user", name: "kim" } },
        ],
        notes,
        stages: [{ stage: "read", startedAt: "2026-11-21T10:00:00.000Z", milliseconds: 2000, records: 3 }],
      },
      { next: ["rollcall approve 20261121-100000-000001 --override deletes"] },
    ),
  );
  const order = [
    "held by limits began 2026-11-21 10:00:00 UTC , schedule run 20261121-100000-000001",
    "1 user updated, 1 user deleted; the limit on deletions holds this. Nothing is applied unless a person overrides this limit. It expires 2026-11-22 12:00:00 UTC.",
    "users 9 0 ~1 1 updated −1 1 deleted (11% of 9) 9",
    "Deletions 1 user , at most 0 as configured · beyond the limit",
    "1 user gone from corp 50% of the changes · kim · c1",
    "1 user is renamed user bo is now lee note 0",
    "note 49",
    "− Deleted users 1 ~ Updated users 1",
    "kim − removed from staff",
    "lee before bo mail a@x → b@x",
    "Read the sources 3 records 2.0 s",
    "About this run Began 2026-11-21 10:00:00 UTC",
    "rollcall approve 20261121-100000-000001 --override deletes",
  ].map((sentence) => text.indexOf(sentence));
  expect(order, text).toEqual(order.toSorted((a, b) => a - b));
  expect(order, text).not.toContain(-1);
});

test("a run without a plan, without changes, or without those that were asked for has a report, too", async () => {
  const failed = { state: "failed", error: { message: "people.csv is gone", problems: [], advice: "fix" } } as const;
  expect(textOf(await reportOf(undefined, failed))).toContain("Failed : people.csv is gone");
  const leaving = { users: 1, groups: 0, first: "2026-12-22T08:00:00.000Z" };
  const none = textOf(await reportOf(planOf([]), { state: "no change", leaving }));
  expect(none).toContain("1 user will leave on 22 December 2026 (9 users, 9 groups now).");
  expect(none).not.toContain("Changes");
  const plan = planOf(hostileChanges);
  const shown = { ...plan.counts, users: { ...plan.counts.users, update: 0 } };
  const nothing = await reportOf({ ...plan, shown }, {}, { only: "only: groups" });
  expect(textOf(nothing)).toMatch(/Changes only: groups nothing of it Stages/);
});

test("for any two directories, every value of every change stands in a page that is well-formed", async () => {
  await fc.assert(
    fc.asyncProperty(directory, directory, async (actual, desired) => {
      await fill(connection(), "actual", actual);
      await fill(connection(), "desired", desired);
      const plan = await createPlan(connection(), serviceAttributes);
      const { texts } = parsePage(await reportOf(plan));
      const left = new Map<string, number>();
      for (const text of texts) left.set(text, (left.get(text) ?? 0) + 1);
      for await (const { name, attributes } of plan.changes()) {
        for (const value of [
          name,
          ...attributes.map(textsOf).flatMap(({ from, to }) => [from ?? [], to ?? []].flat()),
        ]) {
          const shown = visible(value);
          expect(left.get(shown) ?? 0, shown).toBeGreaterThan(0);
          left.set(shown, (left.get(shown) ?? 0) - 1);
        }
      }
    }),
    { numRuns: cases(25) },
  );
});

test("the page may load nothing and run nothing, and its style is the one that it allows", async () => {
  const html = await reportOf(planOf(hostileChanges));
  const [, policy = ""] = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(html) ?? [];
  const [, style = ""] = /<style>(.*)<\/style>/s.exec(html) ?? [];
  const digest = createHash("sha256").update(style).digest("base64");
  expect(textOf(policy)).toBe(`default-src 'none'; style-src 'sha256-${digest}'; base-uri 'none'; form-action 'none'`);
  expect(html).not.toMatch(/style="|<script|url\(|@import|https?:/);
});

test("many groups of one principal can be unfolded", async () => {
  const groups = Array.from({ length: 1234 }, (_, index) => `g${index}`);
  const change: Change = { ...hostileChanges[0]!, attributes: [], groupsAdded: groups, groupsRemoved: [] };
  const html = await reportOf(planOf([change]));
  expect(html).toContain("1,222 more groups");
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
  for await (const chunk of renderHtml({ run: pendingRun("1", { counts }), runs: [], plan, nothing: "" })) {
    expect(chunk.length).toBeLessThan(100_000);
    break;
  }
  expect(read).toBeLessThan(1000);
  read = 0;
  const html = await reportOf(plan, {}, { limit: 250 });
  expect(html).toContain("… and 99,750 more");
  expect(parsePage(html).texts).toContain("u249");
});
