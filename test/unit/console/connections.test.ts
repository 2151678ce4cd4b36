import { expect, test } from "vitest";
import type { Check, CheckFinding, ConfiguredSync } from "#daemon/connections.ts";
import { html } from "#console/html.ts";
import { layout } from "#console/layout.ts";
import { anchorOf, connections } from "#console/pages/connections.ts";
import type { ConnectedSync, ConnectionsPage } from "#console/pages/connections.ts";
import { runNow } from "#console/pages/run-now.ts";
import type { RunNowPage } from "#console/pages/run-now.ts";
import type { RunRecord, Standing } from "#state/record.ts";
import { hostile, textOf } from "../../support/pages.ts";
import { appliedRun, pendingRun, runOf, trippedLimit } from "../../support/runs.ts";

const now = Date.parse("2026-11-21T12:00:00.000Z");
const day = 86_400_000;
const startedAt = "2026-11-21T11:00:00.000Z";
const token = html`<input type="hidden" name="token" value="secret-token" />`;

const configured: ConfiguredSync = {
  sync: "staff",
  target: "analytics",
  sources: [{ name: "corp", optional: false }],
  schedule: "*/15 * * * *",
  timezone: "Europe/Berlin",
  retries: 3,
  overdueAfter: day,
  approval: "automatic",
  grace: 30 * day,
  beyondLimits: "hold",
  exports: false,
};

function standingOf(more: Partial<Standing> = {}): Standing {
  return { sync: "staff", target: "analytics", overdue: false, skipped: [], waiting: [], ...more };
}

const lastRead: RunRecord = appliedRun({
  startedAt,
  sources: [{ source: "corp", users: 95, groups: 9, quarantined: 2 }],
  stages: [
    { stage: "read", startedAt, milliseconds: 2000, records: 106 },
    { stage: "list", startedAt: "2026-11-21T11:30:00.000Z", milliseconds: 400 },
  ],
  limits: [trippedLimit({ value: 1, bound: 10, tripped: false, basis: "10% of 100" })],
});

function connected(more: Partial<ConnectedSync> = {}): ConnectedSync {
  return {
    ...configured,
    standing: standingOf({ lastRun: lastRead, lastSuccessAt: startedAt, nextSlotAt: "2026-11-21T12:15:00.000Z" }),
    lastRead,
    connections: [{ what: "source", name: "corp", kind: "ldap", mayCheck: false }],
    to: { what: "target", name: "analytics", kind: "https://analytics.example.com", mayCheck: true },
    mayCheck: true,
    ...more,
  };
}

function pageOf(sync: Partial<ConnectedSync> = {}, page: Partial<ConnectionsPage> = {}): string {
  return connections({ now, syncs: [connected(sync)], others: [], token, ...page }).toString();
}

function finding(more: Partial<CheckFinding>): CheckFinding {
  return { what: "source", name: "corp", reached: [], principals: [], problems: [], ...more };
}

function checkOf(...findings: CheckFinding[]): Check {
  return { startedAt, by: "ada", findings, milliseconds: 1200 };
}

test("each source and target has what the runs reached, and the schedule and limits that apply", () => {
  const text = textOf(pageOf());
  expect(text).toContain(
    "corp source · ldap Last read 1 hour ago Found 95 users, 9 groups Quarantined 2 records Took 2.0 s",
  );
  expect(text).toContain(
    "analytics target · https://analytics.example.com Last listed 30 minutes ago Has 102 users, 10 groups Took 0.4 s",
  );
  expect(text).toContain("Schedule */15 * * * * (Europe/Berlin) Next run in 15 minutes");
  expect(text).toContain("Last success 1 hour ago (overdue after 1 day)");
  expect(text).toContain("Approval none; a plan beyond a limit is held Beyond a limit nothing is applied");
  expect(text).toContain("Leavers deleted after 30 days");
  expect(text).toContain("1 limit, and how close the last plan came Deletions 1 user , at most 10 10% of 100");
});

test("what could not be read says so with its advice; so does a run that failed, and a sync that is overdue", () => {
  const error = { message: "source corp: no answer", problems: ["tried 3 times"], advice: "retry" };
  const unread = { ...lastRead, sources: [{ source: "corp", users: 0, groups: 0, quarantined: 0, error }] };
  const optional = textOf(pageOf({ lastRead: unread, sources: [{ name: "corp", optional: true }] }));
  expect(optional).toContain(
    "Not read : source corp: no answer tried 3 times Everything that came from it stays unchanged. It may work the next time.",
  );
  expect(optional).toContain("Last tried 1 hour ago");
  expect(optional).not.toContain("Found");
  const failed = textOf(
    pageOf({
      standing: standingOf({
        lastRun: runOf({ state: "failed", error: { ...error, advice: "fix" } }),
        failures: { count: 3, since: startedAt },
        overdue: true,
        lastSuccessAt: "2026-11-19T12:00:00.000Z",
      }),
    }),
  );
  expect(failed).toContain("Overdue : the last success was 2 days ago");
  expect(failed).toContain(
    "Failed 3 times in a row, first 1 hour ago : source corp: no answer tried 3 times Fix the problem first",
  );
  const cancelled = runOf({ state: "failed", cancelled: true, error: { ...error, advice: "stop" } });
  expect(textOf(pageOf({ standing: standingOf({ lastRun: cancelled }) }))).not.toContain("Failed");
  expect(textOf(pageOf({ standing: standingOf({ running: "r" }) }))).toMatch(/analytics running/);
  expect(textOf(pageOf({ lastRead: undefined, standing: standingOf() }))).toContain(
    "Last read never, as far as is known",
  );
});

test("a check says what `rollcall check` says, with some principals", () => {
  const check = checkOf(
    finding({ headline: "97 users, 9 groups", reached: ["OpenLDAP 2.6, encrypted"] }),
    finding({
      what: "sync",
      name: "staff",
      headline: "95 users, 9 groups, 0 excluded, 2 quarantined",
      principals: [{ kind: "user", name: "ada", displayName: "Ada Lovelace", groups: ["Engines", "Staff"] }],
      problems: [{ text: "rule mail is set in no record" }],
    }),
  );
  const text = textOf(pageOf({ check }));
  expect(text).toContain("checked 1 hour ago by ada : 97 users, 9 groups OpenLDAP 2.6, encrypted");
  expect(text).toContain("checked 1 hour ago by ada : 95 users, 9 groups, 0 excluded, 2 quarantined rule mail is set");
  expect(text).toContain("Ada Lovelace ada user Engines Staff");
  const failed = checkOf(
    finding({
      what: "target",
      name: "analytics",
      error: { message: "target analytics: the password is wrong", problems: [], advice: "fix" },
    }),
  );
  expect(textOf(pageOf({ to: { ...connected().to, check: failed } }))).toContain(
    "check failed 1 hour ago by ada target analytics: the password is wrong Fix the problem first",
  );
});

test("a check that is under way says how far it is, and cannot be begun twice; others cannot begin one", () => {
  const begun = pageOf({ check: { startedAt, by: "ada", progress: "staff: reading the sources (12,000 records) …" } });
  expect(textOf(begun)).toContain("checking staff: reading the sources (12,000 records) … begun 1 hour ago by ada");
  expect(begun.match(/<form/g)).toHaveLength(1);
  expect(textOf(pageOf({ check: { startedAt, by: "ada" } }))).toContain("checking waits for another check");
  const may = pageOf();
  expect(may.match(/name="token" value="secret-token"/g)).toHaveLength(2);
  const others = [{ what: "source", name: "old", kind: "csv", mayCheck: false } as const];
  const mayNot = pageOf({ mayCheck: false, to: { ...connected().to, mayCheck: false } }, { others });
  expect(mayNot).not.toContain("<form");
  expect(textOf(mayNot)).toContain("In no sync old source · csv");
  expect(textOf(pageOf({}, { syncs: [] }))).toContain("There are no sources and targets yet.");
});

test("syncs that share a source and a target have places of their own, to which a check leads back", () => {
  const second = connected({ sync: "guests", check: undefined });
  const page = pageOf({}, { syncs: [connected(), second] });
  const ids = [...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids).toEqual(expect.arrayContaining(["target-analytics:staff", "target-analytics:guests"]));
  expect(page).toContain('name="within" value="guests"');
});

test("a check leads back to a place whose name a browser would write differently in an address", () => {
  const sync = 'Löhne "Süd" <1>';
  const target = "Wi ki";
  const page = pageOf({ sync, target, to: { ...connected().to, name: target } });
  const ids = [...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id);
  // What the script looks for is the fragment as the browser has it.
  for (const anchor of [anchorOf("sync", sync), anchorOf("target", target, sync)])
    expect(ids).toContain(new URL(`http://h/connections#${anchor}`).hash.slice(1));
});

test("text from outside is harmless on both pages", () => {
  for (const text of hostile) {
    const error = { message: text, problems: [text], advice: "fix" };
    const check = checkOf(
      finding({ name: text, headline: text, reached: [text], problems: [{ text }], error }),
      finding({
        what: "sync",
        name: text,
        principals: [{ kind: text, name: text, displayName: text, mail: text, groups: [text] }],
        problems: [{ text }],
      }),
    );
    const sources = [{ name: text, optional: true }];
    const read = { ...lastRead, sources: [{ source: text, users: 1, groups: 1, quarantined: 0, error }] };
    const lastRun = runOf({ state: "failed", error });
    const standing = standingOf({ sync: text, target: text, lastRun, waiting: [pendingRun(text)], running: text });
    const source = { what: "source", name: text, kind: text, check, mayCheck: true } as const;
    const sync = connected({
      sync: text,
      target: text,
      schedule: text,
      timezone: text,
      sources,
      lastRead: read,
      standing,
      check,
      connections: [source],
      to: { ...source, what: "target" },
    });
    const caution = { since: startedAt, reason: text };
    for (const main of [
      connections({ now, syncs: [sync], others: [source], token }),
      runNow({ ...sync, now, token, standing: { ...standing, caution } }),
    ]) {
      const page = layout({ title: text, version: "1", live: "/" }, main).toString();
      expect(page).not.toMatch(/<script>|<img|onerror=alert\(1\)>/);
      expect(page).not.toMatch(/[\u202E\u200B]/.test(text) ? /(?<!value="[^"]*)[\u202E\u200B]/ : /\0/);
      expect(page.match(/<\/html>/g)).toHaveLength(1);
      expect(page).not.toMatch(/ style=| on[a-z]+="/);
    }
  }
});

test("before it begins a run, the page says what will happen, by the approval of the sync", () => {
  const said = (more: Partial<RunNowPage> = {}): string =>
    textOf(runNow({ ...configured, now, standing: standingOf(), token, ...more }).toString());
  expect(said()).toContain("It reads corp , lists analytics and plans the changes.");
  expect(said()).toContain(
    "Changes within the limits are applied to analytics at once , without approval, and verified; a plan beyond a limit is held",
  );
  expect(said({ approval: "automatic-within-limits" })).toContain("a plan beyond a limit waits for approval");
  expect(said({ beyondLimits: "apply-the-rest" })).toContain("the changes that the limit counts wait");
  expect(said({ approval: "required" })).toContain("Nothing is applied: its plan waits for approval.");
  const caution = { since: startedAt, reason: "ada has undone the run 1" };
  expect(said({ standing: standingOf({ caution }) })).toContain(
    "Nothing is applied: every plan waits for approval now, since ada has undone the run 1",
  );
  const waiting = said({ standing: standingOf({ waiting: [pendingRun("20261121-100000-000001")], running: "r" }) });
  expect(waiting).toContain("It waits until the run that is under way has ended.");
  expect(waiting).toContain("The plan of run 20261121-100000-000001 , which is pending , is replaced unless");
  expect(said()).toContain("rollcall plan staff shows what it would change");
});
