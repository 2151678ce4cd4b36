import { expect, test } from "vitest";
import { html } from "#console/html.ts";
import { layout } from "#console/layout.ts";
import { people } from "#console/pages/people.ts";
import { explanation } from "#console/pages/explanation.ts";
import { membershipPicture } from "#console/pages/memberships.ts";
import { history, principal } from "#console/pages/principal.ts";
import { search } from "#console/pages/search.ts";
import type { Explanation } from "#sync/explain/explain.ts";
import { textOf } from "../../support/pages.ts";
import { appliedRun } from "../../support/runs.ts";

const now = Date.parse("2026-11-21T12:00:00.000Z");
const listedAt = "2026-11-21T11:58:00.000Z";
const nobody = { rows: [], count: 0, counts: { user: 0, group: 0 }, tab: "user", offset: 0, listedAt } as const;

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
    const row = { kind: "group", name: text, known: { displayName: text, mail: text } } as const;
    const excerpt = { rows: [{ ...row, groups: 1, members: 2, isDirect: false }], count: 300, offset: 100 };
    const shown = { ...excerpt, counts: { user: 0, group: 300 }, tab: "group", listedAt } as const;
    const details = {
      ...row,
      attributes: { displayName: text, description: text, mail: text },
      groups: [[text], [text, text]],
      records: [{ sync: text, source: text, id: text }],
    };
    const run = appliedRun({ sync: text, target: text });
    const change = explained(text).outcomes[0]!.change!;
    const of = { now, target: text, name: text, kind: "group", url: `/people?text=${text}` } as const;
    const known = { entries: [{ run, changes: [change], notes: [text] }], more: true, stored: 1, runs: 2 };
    const silent = { ...explained(text), records: [], outcomes: [], foreign: [] };
    const deleted = [{ ...row, run }];
    const pages = [
      people({ ...of, targets: [text, "b"], text, found: shown }),
      people({ ...of, targets: [text], text, found: nobody }),
      people({ ...of, targets: [text], text, found: nobody, deleted }),
      people({ ...of, targets: [text], text, found: { ...nobody, tab: "deleted" }, deleted: [] }),
      people({ ...of, targets: [text], text }),
      principal({ ...of, found: { listedAt, details, members: { ...excerpt, nested: true } } }),
      principal({ ...of, found: { listedAt } }),
      principal({ ...of, found: { listedAt }, deletedBy: run, mayUndo: true }),
      principal(of),
      principal({ ...of, problem: { message: text, problems: [], advice: "retry" } }),
      explanation({
        ...of,
        since: "2026-11-21T11:59:50.000Z",
        answers: [
          { sync: text, sources: [text, text], stage: "read" },
          explained(text),
          silent,
          { sync: text, error: { message: text, problems: [text], advice: "fix" } },
        ],
      }),
      explanation({ ...of, answers: [silent] }),
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

test("what somebody waits for is told with times of the page, which a browser shows in its own zone", () => {
  const [outcome] = explained("ada").outcomes;
  const waits = [
    {
      how: "pending",
      limits: [],
      since: "2026-11-21T10:00:00.000Z",
      run: "20261121-100000-000001",
      expiresAt: "2026-11-22T10:00:00.000Z",
      next: [],
    } as const,
  ];
  const answers = [{ ...explained("ada"), outcomes: [{ ...outcome!, waits }] }];
  const page = explanation({ now, target: "analytics", name: "ada", answers }).toString();
  expect(page).toMatch(/Waits since <time datetime="2026-11-21T10:00:00.000Z"/);
  expect(page).toMatch(/can be approved until <time datetime="2026-11-22T10:00:00.000Z"/);
});

test("an explanation shows what is known, which sync is still asked for what, and asks for the rest", () => {
  const of = { now, target: "analytics", name: "ada", since: "2026-11-21T11:59:50.000Z" };
  const asking = [
    { sync: "staff", sources: ["hr", "ldap"], stage: "read" },
    { sync: "guests", sources: ["scim"], stage: "list" },
    { sync: "robots", sources: ["csv"] },
  ] as const;
  const silent = { ...explained("ada"), sync: "others", records: [], outcomes: [], foreign: [] };
  const page = explanation({ ...of, answers: [...asking, silent] }).toString();
  expect(textOf(page)).toMatch(
    /Not every sync has answered yet\.\s+Asked 10 seconds ago.*staff : reads hr , ldap.*guests : lists analytics.*robots : waits for its turn/s,
  );
  expect(page).toContain(
    'hx-get="/people/explain?target=analytics&amp;name=ada&amp;since=2026-11-21T11%3A59%3A50.000Z"',
  );
  // Somebody may be theirs.
  expect(textOf(page)).not.toContain("is called");
  expect(explanation({ ...of, answers: [silent] }).toString()).not.toContain("hx-get");
  const gone = explanation({ now, target: "analytics", name: "ada" }).toString();
  expect(textOf(gone)).toContain("The syncs are no longer asked. Ask them again");
  expect(gone).not.toContain("hx-trigger");
});

test("a page says what to do where nobody is found, and while a target is being listed", () => {
  const of = { now, target: "analytics", targets: ["analytics"], text: "ada", url: "/people?text=ada" };
  expect(people({ ...of, found: nobody }).toString()).toContain('href="/people/explain?target=analytics&amp;name=ada"');
  expect(people({ ...of, text: "", found: nobody }).toString()).toContain("has no users yet");
  const problem = { message: "target analytics: nobody answers", problems: [], advice: "retry" } as const;
  expect(people({ ...of, problem }).toString()).toMatch(/nobody answers[^]*Try again/);
  expect(people({ ...of, problem }).toString()).not.toContain("hx-trigger");
  expect(people(of).toString()).toMatch(/is being listed[^]*href="\/people\?text=ada">Look again/);
  expect(textOf(people({ ...of, isBusy: true }).toString())).toContain("A run to analytics is under way");
  // The heading of a person comes with the list, which knows what they are called.
  const unknown = principal({ ...of, kind: "user", name: "ada" }).toString();
  expect(unknown).toMatch(/<hgroup id="who">[^]*hx-select-oob="#who"/);
});

test("a search says which targets it knows nothing of yet, and is asked again for them", () => {
  const of = { now, text: "ada", places: [], runnable: [], syncs: [], runs: [], people: [], failed: [] };
  const waits = search({ ...of, unlisted: ["analytics"] }).toString();
  expect(textOf(waits)).toContain("Nothing else is called ada. analytics is not listed yet");
  expect(waits).toContain("data-again");
  expect(textOf(search({ ...of, unlisted: [] }).toString())).toContain("Nothing is called ada.");
  const failed = search({ ...of, unlisted: [], failed: ["grafana"] }).toString();
  expect(textOf(failed)).toContain("Without people and groups of grafana , which could not be listed.");
  expect(failed).not.toContain("data-again");
});

test("a page of users and groups says which part it shows, and leads to the next with the same search", () => {
  const row = { kind: "user", name: "ada", known: { displayName: null, mail: null }, groups: 0 } as const;
  const found = { ...nobody, rows: [row], count: 250, counts: { user: 250, group: 3 }, offset: 100 };
  const page = people({
    now,
    target: "t",
    targets: ["t"],
    text: "a b",
    tab: "user",
    url: "/people",
    found,
  }).toString();
  expect(page).toMatch(/101 to 200 of\s+250/);
  expect(page).toContain('rel="prev" href="/people?target=t&amp;text=a+b&amp;kind=user"');
  expect(page).toContain('rel="next" href="/people?target=t&amp;text=a+b&amp;kind=user&amp;from=200"');
  expect(html`${page}`.toString()).not.toContain("undefined");
});

test("whoever was deleted is found among those who are there, and leads to the run that did it", () => {
  const run = appliedRun({ sync: "staff", target: "t" });
  const deleted = [{ kind: "user", name: "joan", known: { displayName: "Joan Clarke", mail: null }, run }] as const;
  const of = { now, target: "t", targets: ["t"], text: "joan", url: "/people?text=joan", found: nobody, deleted };
  const page = people(of).toString();
  expect(page).toMatch(/Deleted\s+<small>1 match among users and groups that a run has deleted/);
  expect(page).toContain('href="/people/user?target=t&amp;name=joan"');
  expect(page).toContain(`href="/runs/${run.id}"`);
  expect(page).not.toContain("look for");
  const gone = { now, target: "t", name: "joan", kind: "user", url: "/", found: { listedAt }, deletedBy: run } as const;
  expect(principal({ ...gone, mayUndo: true }).toString()).toMatch(/deleted this user[^]*href="\/runs\/[^"]*\/undo"/);
  expect(principal({ ...gone, mayUndo: false }).toString()).not.toContain("/undo");
});

test("memberships are a picture of paths: each group once, beside the group that it is reached through", () => {
  const paths = [["a"], ["b"], ["a", "c"], ["a", "c", "d"], ["a", "e"]];
  const picture = membershipPicture("kim", paths, (group) => `/${group}`)?.toString() ?? "";
  expect([...picture.matchAll(/<a href="\/(\w)"/g)].map(([, group]) => group)).toEqual(["a", "c", "d", "e", "b"]);
  // The root, its first group and what is reached through it begin on one line.
  const heights = [...picture.matchAll(/<text x="[\d.]+" y="([\d.]+)">(\w+)</g)].map(([, y, group]) => [group, y]);
  const at = Object.fromEntries(heights) as Record<string, string>;
  expect(new Set([at["kim"], at["a"], at["c"], at["d"]]).size).toBe(1);
  expect(Number(at["b"])).toBeGreaterThan(Number(at["e"]));
  const many = Array.from({ length: 41 }, (_, index) => [`g${index}`]);
  expect(membershipPicture("kim", many, String)).toBeUndefined();
});
