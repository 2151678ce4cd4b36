import { expect, test } from "vitest";
import { html } from "#console/html.ts";
import { layout } from "#console/layout.ts";
import { people } from "#console/pages/people.ts";
import { explanation, history, principal } from "#console/pages/principal.ts";
import type { Explanation } from "#sync/explain/explain.ts";
import { appliedRun } from "../../support/runs.ts";

const now = Date.parse("2026-11-21T12:00:00.000Z");
const listedAt = "2026-11-21T11:58:00.000Z";

const hostile = [
  `<script>alert(1)</script>`,
  `"><img src=x onerror=alert(1)>`,
  "gnp.\u202Ecod\u200B",
  "line\nbreak",
  "x".repeat(255),
  "a/../b?c#d&e=%2F",
  "..",
];

function explained(text: string): Explanation {
  const check = { name: text, expect: text, over: "users", already: 0, violations: 1 };
  return {
    sync: text,
    target: text,
    records: [
      {
        source: text,
        kind: "user",
        id: text,
        origin: text,
        scope: [],
        rules: [{ rule: "users.name", expression: text, value: text, attributes: { [text]: text } }],
        verdict: "included",
        name: text,
        reason: text,
        memberships: [{ group: text, by: "group", origin: text, lost: text }],
      },
    ],
    outcomes: [
      {
        kind: "user",
        name: text,
        action: "update",
        why: text,
        change: {
          kind: "user",
          name: text,
          action: "update",
          attributes: [{ attribute: "displayName", from: text, to: text }],
          groupsAdded: [text],
          groupsRemoved: [text],
        },
        ownedFrom: [{ source: text, sourceId: text }],
        groups: [[text, text]],
        breaks: [check as never],
        byHand: [],
        waits: [{ how: "pending", limits: [], reason: text, run: text, next: [`rollcall show ${text}`] }],
      },
    ],
    foreign: [{ type: text, name: text, groups: [text] }],
    nearest: [text],
  };
}

test("names from outside are harmless on the pages of users and groups, and lead back to who has them", () => {
  for (const text of hostile) {
    const row = { kind: "group", name: text, displayName: text, mail: text } as const;
    const excerpt = { rows: [{ ...row, groups: 1, isDirect: false }], count: 300, offset: 100, pageSize: 100 };
    const details = {
      ...row,
      description: text,
      groups: [[text], [text, text]],
      records: [{ sync: text, source: text, id: text }],
    };
    const run = appliedRun({ sync: text, target: text });
    const change = explained(text).outcomes[0]!.change!;
    const of = { now, target: text, name: text, kind: "group", url: `/people?text=${text}` } as const;
    const known = { entries: [{ run, changes: [change], notes: [text] }], more: true, stored: 1, runs: 2 };
    const nobody = { ...explained(text), records: [], outcomes: [], foreign: [] };
    const pages = [
      people({ ...of, targets: [text, "b"], text, found: { ...excerpt, listedAt } }),
      people({ ...of, targets: [text], text, found: { ...excerpt, rows: [], count: 0, listedAt } }),
      people({ ...of, targets: [text], text }),
      principal({ ...of, found: { listedAt, details, members: { ...excerpt, nested: true } } }),
      principal({ ...of, found: { listedAt } }),
      principal(of),
      principal({ ...of, problem: { message: text, problems: [], advice: "retry" } }),
      explanation({
        ...of,
        explanations: [
          explained(text),
          nobody,
          { sync: text, error: { message: text, problems: [text], advice: "fix" } },
        ],
      }),
      history({ ...of, history: known }),
    ].map((page) => layout({ title: text, version: "1" }, page).toString());
    for (const page of pages) {
      expect(page).not.toMatch(/<script>alert|<img src=x/);
      // Only the fields of a form and addresses have it as it is.
      expect(page.replaceAll(/value="[^"]*"|hx-get="[^"]*"|href="[^"]*"/g, "")).not.toMatch(/[\u202E\u200B]/);
    }
    // A link to somebody has the whole name, whatever it is.
    const hrefs = [...pages[0]!.matchAll(/href="(\/people\/group\?[^"]*)"/g)].map(([, href]) =>
      href!.replaceAll("&amp;", "&"),
    );
    expect(hrefs.map((href) => new URL(href, "http://h").searchParams.get("name"))).toEqual([text]);
    expect(hrefs.map((href) => new URL(href, "http://h").pathname)).toEqual(["/people/group"]);
  }
});

test("a page says what to do where nobody is found, and while a target is being listed", () => {
  const of = { now, target: "analytics", targets: ["analytics"], text: "ada", url: "/people?text=ada" };
  const found = { rows: [], count: 0, offset: 0, pageSize: 100, listedAt };
  expect(people({ ...of, found }).toString()).toContain('href="/people/explain?target=analytics&amp;name=ada"');
  expect(people({ ...of, text: "", found }).toString()).toContain("has no users and groups yet");
  const problem = { message: "target analytics: nobody answers", problems: [], advice: "retry" } as const;
  expect(people({ ...of, problem }).toString()).toMatch(/nobody answers[^]*Try again/);
  expect(people({ ...of, problem }).toString()).not.toContain("hx-trigger");
  expect(people(of).toString()).toMatch(/is being listed[^]*href="\/people\?text=ada">Look again/);
});

test("a page of users and groups says which part it shows, and leads to the next with the same search", () => {
  const row = { kind: "user", name: "ada", displayName: null, mail: null, groups: 0 } as const;
  const found = { rows: [row], count: 250, offset: 100, pageSize: 100, listedAt };
  const page = people({
    now,
    target: "t",
    targets: ["t"],
    text: "a b",
    kind: "user",
    url: "/people",
    found,
  }).toString();
  expect(page).toMatch(/101 to 200 of\s+250/);
  expect(page).toContain('rel="prev" href="/people?target=t&amp;text=a+b&amp;kind=user"');
  expect(page).toContain('rel="next" href="/people?target=t&amp;text=a+b&amp;kind=user&amp;from=200"');
  expect(html`${page}`.toString()).not.toContain("undefined");
});
