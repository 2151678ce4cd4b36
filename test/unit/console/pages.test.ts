import { expect, test } from "vitest";
import { html } from "#console/html.ts";
import { layout } from "#console/layout.ts";
import { message } from "#console/pages/message.ts";
import { overview } from "#console/pages/overview.ts";
import { changesByDay, daysKnown, growthOf } from "#console/pages/trends.ts";
import { run, timeline } from "#console/pages/run.ts";
import { listedBefore, runs } from "#console/pages/runs.ts";
import { read, runsPageQuery } from "#control/requests.ts";
import type { ListedToken } from "#control/sessions.ts";
import { accountPage, accountsPage } from "#console/pages/accounts.ts";
import { noRole, signedOut, signIn } from "#console/pages/sign-in.ts";
import { standingsOf } from "#state/record.ts";
import type { RunRecord } from "#state/record.ts";
import { hostile, textOf } from "../../support/pages.ts";
import { appliedRun, endedRun, pendingRun, runOf, trippedLimit } from "../../support/runs.ts";

const now = Date.parse("2026-11-21T12:00:00.000Z");
const status = { target: "analytics", overdue: false, skipped: [] } as const;

function overviewOf(records: readonly RunRecord[], more: object = {}): string {
  const syncs = standingsOf([{ sync: "staff", ...status, ...more }], records);
  return overview({
    now,
    syncs: syncs.map((each) => ({ ...each, mayRun: true })),
    runs: records,
  }).toString();
}

test("text from outside is harmless wherever a page has it", () => {
  for (const text of hostile) {
    const error = { message: text, problems: [text], advice: "fix" };
    const by = { name: text, from: text };
    const record = pendingRun("20261121-100000-000001", {
      sync: text,
      target: text,
      by,
      cause: "demand",
      notes: [{ text, details: [{ text }] }, { text: `two\n${text}` }],
      error,
      recovery: text,
      caution: text,
      sameAs: text,
      decisions: [{ decision: "rejected", at: "2026-11-21T11:00:00.000Z", by, digest: "d", reason: text }],
      limits: [trippedLimit({ of: text, basis: text })],
      export: { to: text, error },
    });
    const visitor = { name: text, address: "::1", token: "t", via: "service", target: text } as const;
    const own = {
      name: text,
      address: "::1",
      token: "t",
      via: "account",
      role: "administrator",
      account: text,
    } as const;
    const pages = [
      overview({
        now,
        runs: [record],
        syncs: [
          {
            ...status,
            sync: text,
            target: text,
            waiting: [record],
            lastRun: record,
            mayRun: true,
            caution: { since: record.startedAt, reason: text },
          },
        ],
      }),
      runs({ now, runs: [record], more: true, syncs: [text], runnable: [text], filter: { sync: text } }),
      run({ now, run: record, undoneBy: [record], mayDecide: true }),
      signIn({
        next: text,
        choices: [1, 2].map(() => ({ value: text, label: text })),
        provider: { name: text, problem: text },
        of: text,
        username: text,
        problem: { message: text },
      }),
      signIn({ next: text, choices: [], provider: { name: text } }),
      noRole({ name: text, groups: [text], provider: text, roles: { viewer: { claim: text, values: [text] } } }),
      signedOut(text, text),
      accountPage({ now, visitor: own, token: html``, tokens: [accessToken(text)], problem: text, secret: text }),
      accountsPage({
        now,
        visitor: own,
        token: html``,
        accounts: [{ ...own, id: text, created: record.startedAt, role: "viewer", tokens: 1 }],
        tokens: [accessToken(text)],
        problem: text,
        password: { of: text, is: text },
      }),
      message({ title: text, message: text, problems: [text], next: { href: "/", label: text } }),
    ].map((page) => layout({ title: text, version: "1", visitor, live: "/" }, page).toString());
    for (const page of pages) {
      expect(page).not.toMatch(/<script>|<img|onerror=alert\(1\)>/);
      expect(page).not.toMatch(/[\u202E\u200B]/.test(text) ? /(?<!value="[^"]*)[\u202E\u200B]/ : /\0/);
      // Everything between the tags of the layout is still there: no attribute and no element was ended early.
      expect(page.match(/<\/html>/g)).toHaveLength(1);
      expect(page).not.toMatch(/ style=| on[a-z]+="/);
    }
  }
});

function accessToken(text: string): ListedToken {
  const at = "2026-11-21T10:00:00.000Z";
  return { id: text, account: text, name: text, owner: text, created: at, expires: at };
}

test("a value that goes back as it was keeps its hidden characters; what is shown of it does not", () => {
  const name = "a\u202Eb\u200B";
  const page = signIn({ next: "/", choices: [{ value: "", label: "the service" }], username: name }).toString();
  expect(page).toContain(`value="${name}"`);
  expect(html`${name}`.toString()).toBe("a\\u{202e}b\\u{200b}");
});

test("the overview says first what needs a person: held plans, then waiting ones, then failures", () => {
  const counts = appliedRun().counts!;
  const held = pendingRun("20261121-110000-000003", {
    state: "held",
    heldBy: "limits",
    counts,
    limits: [trippedLimit()],
  });
  const pending = pendingRun("20261121-100000-000002", { counts, expiresAt: "2026-11-22T12:00:00.000Z" });
  const failed = endedRun({
    id: "20261121-113000-000004",
    state: "failed",
    error: { message: "ldap.example.com does not answer: is it running?", problems: [], advice: "retry" },
  });
  const text = textOf(
    overviewOf([failed, held, pending], { overdue: true, failures: { count: 3, since: "2026-11-21T09:00:00.000Z" } }),
  );
  const order = [
    "staff is held by limits: 3 users created, 1 group updated, 1 user deleted, 4 memberships added; the limit on deletions holds this",
    "staff waits for approval, expires in 1 day : 3 users created, 1 group updated, 1 user deleted, 4 memberships added.",
    "staff failed (3 times in a row, first 3 hours ago ): ldap.example.com does not answer: is it running? No further run",
    "staff is overdue: no run has ever succeeded",
  ].map((sentence) => text.indexOf(sentence));
  expect(order, text).toEqual(order.toSorted((a, b) => a - b));
  expect(order).not.toContain(-1);
});

test("a run that was cancelled is not counted as failing", () => {
  const error = { message: "The daemon is stopping.", problems: [], advice: "stop" } as const;
  const failed = endedRun({ state: "failed", error });
  expect(textOf(overviewOf([failed]))).toContain("1 failing");
  const text = textOf(overviewOf([{ ...failed, cancelled: true }]));
  expect(text).toContain("1 cancelled");
  expect(text).not.toContain("failing");
});

test("of many syncs that need attention the overview shows the first, and the others behind a click; each leads on", () => {
  const failed = runOf({ state: "failed", error: { message: "no answer", problems: [], advice: "retry" } });
  const standing = { sync: "staff", target: "analytics", skipped: [], waiting: [], mayRun: false } as const;
  const page = (count: number): string => {
    const syncs = Array.from({ length: count }, () => ({ ...standing, overdue: false, lastRun: failed }));
    return overview({ now, syncs, runs: [] }).toString();
  };
  expect(page(11)).not.toContain("more-matters");
  expect(page(11).match(/staff: <\/span>Look at the run</g)).toHaveLength(11);
  expect(textOf(page(30))).toContain("Needs attention 30");
  expect(
    page(30)
      .split("more-matters")[1]!
      .match(/Look at the run</g),
  ).toHaveLength(20);
  expect(overview({ now, syncs: [{ ...standing, overdue: true }], runs: [] }).toString()).toMatch(
    /href="\/runs\?sync=staff"[^]*Look at its runs/,
  );
});

test("with nothing to do, the overview says what happens next by itself", () => {
  const applied = appliedRun({ endedAt: "2026-11-21T11:00:00.000Z" });
  expect(textOf(overviewOf([applied], { scheduleProblem: "the next slot cannot be computed" }))).toContain(
    "never the next slot cannot be computed",
  );
  expect(textOf(overviewOf([applied], { nextSlotAt: "2026-11-21T12:15:00.000Z" }))).toContain(
    "Nothing. staff runs next, in 15 minutes.",
  );
  expect(textOf(overview({ now, syncs: [], runs: [] }).toString())).toContain("There are no syncs yet");
});

test("a card has who leaves on which day, every limit that came near, and the expectations", () => {
  const check = { over: "users", expect: "name != ''", otherwise: "warn", most: 0, already: 0, examples: [] } as const;
  const lastRun = appliedRun({
    leaving: {
      users: 42,
      groups: 1,
      first: "2026-11-22T08:00:00.000Z",
      days: [
        { day: "2026-11-22", users: 40, groups: 1 },
        { day: "2026-12-02", users: 2, groups: 0 },
      ],
    },
    limits: [
      trippedLimit({ value: 9, bound: 10, tripped: false }),
      trippedLimit({ limit: "updates", value: 1, bound: 10, tripped: false }),
      trippedLimit({ limit: "creates", value: 0, bound: 10, tripped: false }),
    ],
    expectations: [
      { ...check, name: "badges", state: "broken", violations: 3 },
      { ...check, name: "names", state: "met", violations: 0 },
    ],
  });
  const page = overviewOf([lastRun], { overdue: true, lastSuccessAt: "2026-11-19T12:00:00.000Z" });
  const text = textOf(page);
  expect(text).toContain("42 users and 1 group leaving");
  expect(text).toContain("staff 42 users and 1 group will leave, the first on 22 November 2026");
  expect(text).toContain("2 days (UTC) 2026-11-22: 40 users and 1 group 2026-12-02: 2 users");
  // Of thirty days, the second and the twelfth.
  expect(page).toContain('d="M5 0.0h4V20h-4zM55 18.0h4V20h-4z"');
  expect(text).toContain("Deletions 9 , at most 10");
  expect(text).not.toContain("Creations");
  expect(text).toContain("staff 1 expectation is broken: badges. staff: Look at the run");
  expect(text).toContain("1 expectation broken");
  expect(text).toMatch(/overdue: the last success was 2 days ago.*2 days ago ?, overdue/);
  expect(page).toContain('href="/syncs/staff/run"');
});

test("expectations are kept or broken, each with its figures", () => {
  const check = { expect: "x", otherwise: "hold", most: 0, already: 0, violations: 0, examples: [] } as const;
  const numbers = { users: { before: 5, after: 4 }, groups: { before: 1, after: 1 } };
  const record = pendingRun("x", {
    expectations: [
      { ...check, name: "enough", expect: "users.size() > 3", state: "met", numbers },
      { ...check, name: "badges", over: "users", expect: "badge != null", state: "met", neverSet: ["badge"] },
      { ...check, name: "few", over: "groups", state: "accepted", violations: 2, most: 3 },
      {
        ...check,
        name: "Finance",
        over: "users",
        state: "tripped",
        violations: 2,
        already: 1,
        examples: [
          { kind: "user", name: "mallory", isNew: true },
          { kind: "user", name: "bob", isNew: false },
        ],
      },
      { ...check, name: "undone", over: "users", state: "unknown" },
    ],
  });
  const text = textOf(run({ now, run: record, undoneBy: [], mayDecide: true }).toString());
  expect(text).toContain("Expectations 3 kept, 1 broken, 1 not checked");
  expect(text).toContain('kept "enough": users.size() > 3 is true (5 → 4 users)'.replace(">", "&gt;"));
  expect(text).toContain('kept "badges": no user breaks it badge != null entry.badge is set in no record');
  expect(text).toContain('kept "few": 2 groups break it, at most 3 may');
  expect(text).toContain('broken "Finance": 2 users break it, 1 of them new: holds the plan');
  expect(text).toMatch(/new mallory.*already bob/);
  expect(text).toContain('not checked "undone": not evaluated');
});

test("changes are added up by day, for a month until today; so is how many users and groups there are", () => {
  const counts = appliedRun().counts!;
  const records = [
    appliedRun({ endedAt: "2026-11-21T11:00:00.000Z" }),
    appliedRun({ endedAt: "2026-11-21T01:00:00.000Z" }),
    pendingRun("x", { counts, startedAt: "2026-11-20T00:00:00.000Z", endedAt: "2026-11-20T00:00:00.000Z" }),
    appliedRun({ startedAt: "2026-11-19T23:59:58.000Z", endedAt: "2026-11-19T23:59:59.000Z" }),
    appliedRun({ startedAt: "2026-09-01T00:00:00.000Z", endedAt: "2026-09-01T00:00:00.000Z" }),
  ];
  const changed = changesByDay(records, now);
  expect(changed).toHaveLength(30);
  expect(changed.slice(-3)).toEqual([5, 0, 10]);
  const { after, before } = counts.users;
  expect(growthOf(records, now).users).toEqual({ was: after, is: after });
  expect(daysKnown(records, now)).toBe(30);
  // Of a younger history, what there was before its first run. A plan that waits has changed nothing.
  expect(growthOf(records.slice(0, 2), now).users).toEqual({ was: before, is: after });
  expect(growthOf(records.slice(2, 4), now).users).toEqual({ was: before, is: before });
  expect(daysKnown(records.slice(0, 4), now)).toBe(3);
  expect(growthOf([], now).users).toEqual({ was: 0, is: 0 });
  expect(daysKnown([], now)).toBe(1);
});

test("a run shows its stages with what it waited for, and what is under way with how far it got", () => {
  const at = (time: string): string => `2026-11-21T${time}.000Z`;
  const stages = [
    { stage: "read", startedAt: at("10:00:00"), milliseconds: 2000, records: 3 },
    { stage: "apply", startedAt: at("11:00:02"), milliseconds: 500 },
  ] as const;
  const waited = textOf(run({ now, run: appliedRun({ stages }), undoneBy: [], mayDecide: true }).toString());
  expect(waited).toContain("Read the sources 3 records 2.0 s Waited 1 h 0 min Apply 0.5 s");
  const running = runOf({ state: "running", stages: [{ stage: "read", startedAt: at("11:59:50") }] });
  const text = textOf(run({ now, run: running, undoneBy: [], mayDecide: true, progress: 1234 }).toString());
  expect(text).toContain("Read the sources 1,234 records 10.0 s so far");
  const expiresAt = at("13:00:00");
  const held = runOf({ state: "held", heldBy: "limits", stages: stages.slice(0, 1), expiresAt });
  expect(textOf(run({ now, run: held, undoneBy: [], mayDecide: true }).toString())).toContain(
    "2.0 s Waits for a decision expires in 1 hour",
  );
});

test("the stage in which a run failed is marked as failed, those before it as done", () => {
  const stages = [
    { stage: "read", startedAt: "2026-11-21T10:00:00.000Z", milliseconds: 2000, records: 3 },
    { stage: "list", startedAt: "2026-11-21T10:00:02.000Z", milliseconds: 500 },
  ] as const;
  const tones = (state: RunRecord["state"]): unknown[] =>
    [
      ...timeline({ run: runOf({ state, stages }), now })
        .toString()
        .matchAll(/<li class="(\w+)"/g),
    ].map(([, tone]) => tone);
  expect(tones("failed")).toEqual(["done", "failed"]);
  expect(tones("no change")).toEqual(["done", "done"]);
});

test("a moment in a note is a time of the page, and what stands between backticks is code; values are not", () => {
  const notes = [
    {
      text: 'gone since `2 days`: "2026-11-30T17:16:42.848Z" is a name',
      details: [{ text: "user o`neill is leaving on 2026-11-30T17:16:42.848Z" }],
    },
  ];
  const page = run({ now, run: appliedRun({ notes }), undoneBy: [], mayDecide: true }).toString();
  expect(page).toContain('since <code>2 days</code>: "2026-11-30T17:16:42.848Z" is a name'.replaceAll('"', "&quot;"));
  expect(page).toMatch(
    /o`neill is leaving on <time datetime="2026-11-30T17:16:42.848Z"[^>]*>2026-11-30 17:16:42 UTC<\/time>/,
  );
});

test("what failed comes with what to do", () => {
  const error = { message: "people.csv is gone", problems: ["people.csv: not found"], advice: "retry" };
  const text = textOf(run({ now, run: runOf({ state: "failed", error }), undoneBy: [], mayDecide: true }).toString());
  expect(text).toContain("Failed : people.csv is gone people.csv: not found It may work the next time.");
});

test("runs are listed up to the end of a day, and page by page from there", () => {
  const before = listedBefore({ until: "2026-11-21" })!;
  expect(
    ["20261120-000000-aaaaaa", "20261121-235959-ffffff", "20261122-000000-000000"].map((id) => id < before),
  ).toEqual([true, true, false]);
  expect(listedBefore({ until: "2026-11-21", before: "20261120-000000-aaaaaa" })).toBe("20261120-000000-aaaaaa");
  const page = runs({ now, runs: [], more: false, syncs: [], runnable: [], filter: { until: "2026-11-21" } });
  expect(page.toString()).toContain('name="until" type="date" value="2026-11-21"');
  expect(textOf(page.toString())).toContain("No run matches. Show all");
  for (const until of ["yesterday", "2026-11-31", ["2026-11-20", "2026-11-21"]])
    expect(() => read(runsPageQuery, { until }, "query")).toThrow(
      expect.objectContaining({ problems: ["until: expected a date like 2026-11-21"] }),
    );
});

test("runs can be filtered and paged; an empty list says why it is empty", () => {
  const many = ["20261121-110000-000003", "20261121-100000-000002"].map((id) => pendingRun(id));
  const page = runs({
    now,
    runs: many,
    more: true,
    syncs: ["staff"],
    runnable: ["staff"],
    filter: { state: "pending" },
  }).toString();
  expect(page).toContain('href="/runs?state=pending&amp;before=20261121-100000-000002"');
  expect(page).toContain('<option value="pending" selected>pending</option>');
  const nothing = (filter: object): string =>
    textOf(runs({ now, runs: [], more: false, syncs: [], runnable: [], filter }).toString());
  expect(nothing({ state: "failed" })).toContain("No run matches.");
  expect(nothing({})).toContain("No run yet.");
});
