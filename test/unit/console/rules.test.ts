import { expect, test } from "vitest";
import type { Trial } from "#daemon/trial.ts";
import { html } from "#console/html.ts";
import { rules } from "#console/pages/rules.ts";
import type { Change, Counts } from "#plan/change.ts";
import type { Explanation } from "#sync/explain/explain.ts";
import type { Outlook } from "#sync/explain/try.ts";
import { hostile, textOf } from "../../support/pages.ts";

const now = Date.parse("2026-11-23T12:00:00.000Z");
const visitor = { name: "admin", token: "token", via: "service", role: "administrator", address: "127.0.0.1" } as const;

function page(trial: Partial<Trial>, text = "syncs:\n  staff:\n    users: {}\n"): string {
  const sync = "staff";
  const whole: Trial = { id: "1", sync, text, state: "done", startedAt: "", warnings: [], ...trial };
  return html`${rules({ now, visitor, syncs: ["staff", "other"], sync, text, name: trial.name, trial: whole })}`.toString();
}

const endedAt = "2026-11-23T11:59:00.000Z";

function explanation(displayName: string, more: Partial<Explanation> = {}): Explanation {
  return {
    sync: "staff",
    target: "analytics",
    records: [
      {
        source: "corp",
        kind: "user",
        id: "1",
        origin: "people.csv:2",
        scope: [],
        rules: [
          { rule: "users.name", expression: "entry.uid", value: "ada" },
          { rule: "users.displayName", expression: `entry.${displayName}`, value: displayName },
        ],
        verdict: "included",
        name: "ada",
        memberships: [],
      },
    ],
    outcomes: [
      {
        kind: "user",
        name: "ada",
        action: "update",
        why: "it differs",
        change: change("ada", displayName),
        ownedFrom: [],
        groups: [],
        byHand: [],
        waits: [],
      },
    ],
    foreign: [],
    nearest: [],
    ...more,
  };
}

function change(name: string, to: string): Change {
  return {
    action: "update",
    kind: "user",
    name,
    attributes: [{ attribute: "displayName", from: "before", to }],
    groupsAdded: [],
    groupsRemoved: [],
  };
}

function counts(deleted: number): Counts {
  const users = { before: 10, after: 10 - deleted, create: 0, update: 0, delete: deleted };
  return { users, groups: { ...users, delete: 0, after: 10 }, membershipsAdded: 0, membershipsRemoved: 0 };
}

function outlook(deleted: number, more: Partial<Outlook> = {}): Outlook {
  return { counts: counts(deleted), limits: [], held: [], notes: [], ...more };
}

test("the page says that nothing is saved; names and texts from outside are harmless, and the text comes back as it was", () => {
  for (const text of hostile) {
    const error = { message: text, problems: [`rules:1:1: ${text}`], advice: "fix" };
    const changes = [change(text, text)];
    const trials: Partial<Trial>[] = [
      { error, state: "failed", endedAt, name: text, warnings: [text] },
      { explained: { before: explanation(text), after: explanation(`${text}${text}`) }, endedAt, name: text },
      {
        planned: {
          counts: counts(3),
          sections: [{ action: "delete", kind: "user", count: 30, changes }],
          before: outlook(0),
          after: outlook(3, {
            causes: [
              {
                id: "c1",
                kind: "setting",
                keys: [text],
                users: 2,
                groups: 0,
                example: { kind: "user", name: text },
              } as never,
            ],
          }),
        },
        endedAt,
      },
    ];
    for (const trial of trials) {
      const shown = page(trial, text);
      expect(shown).toContain("Nothing is saved or applied");
      expect(shown).not.toMatch(/<script>alert|<img src=x|on\w+=alert\(1\)>"/);
      const box = /<textarea[^>]*>\n?([^]*?)<\/textarea>/.exec(shown)?.[1] ?? "";
      const written = box
        .replaceAll("&lt;", "<")
        .replaceAll("&gt;", ">")
        .replaceAll("&quot;", '"')
        .replaceAll("&#39;", "'")
        .replaceAll("&amp;", "&");
      expect(written).toBe(text);
    }
  }
});

test("for one: what the next run does now and then, and the rules that say something else", () => {
  const shown = textOf(
    page({ explained: { before: explanation("cn"), after: explanation("name") }, endedAt, name: "ada" }),
  );
  expect(shown).toMatch(/Now update : it differs .*before → cn Changed update : it differs .*before → name/);
  expect(shown).toMatch(/users\.displayName Now entry\.cn → "cn" Changed entry\.name → "name"/);
  expect(shown).not.toMatch(/users\.name Now/);
});

test("for one: nothing changes; another name; somebody whom nobody knows", () => {
  const explain = (before: Explanation, after: Explanation): string =>
    textOf(page({ explained: { before, after }, endedAt, name: "ada" }));
  expect(explain(explanation("cn"), explanation("cn"))).toContain("The next run would do the same with ada");
  const [outcome] = explanation("cn").outcomes;
  const renamed = { ...explanation("cn"), outcomes: [{ ...outcome!, name: "countess" }] };
  expect(explain(explanation("cn"), renamed)).toMatch(
    /user countess Now there is none .*user ada Now update.*Changed there is none/,
  );
  const nobody = explanation("cn", { records: [], outcomes: [], nearest: ["adam"] });
  expect(explain(nobody, nobody)).toMatch(/is called ada\b.*Similar names: adam/);
});

test("for everybody: the difference, the next run with both rules, and how it stands to the limits", () => {
  const plan = (before: Outlook, after: Outlook, some = counts(30)): string => {
    const sections = [{ action: "delete", kind: "user", count: 30, changes: [change("ada", "x")] } as const];
    return textOf(page({ planned: { counts: some, sections: some === same ? [] : sections, before, after }, endedAt }));
  };
  const same = counts(0);
  const held = outlook(30, { held: ["deletes"] });
  const shown = plan(outlook(1), held);
  expect(shown).toMatch(/30 users leaving if these rules replace those of staff.*Leaving users 30 ada .*and 29 more/);
  expect(shown).toContain("the next run would be beyond the limit on deletions; now it is within its limits");
  expect(shown).toMatch(/users 0 0 1 → 30 /);
  expect(plan(held, held)).toContain("beyond the limit on deletions; as it is now");
  expect(plan(held, outlook(1))).toContain("within its limits; now it is beyond the limit on deletions");
  expect(plan(outlook(1), outlook(1), same)).toContain("want exactly what the current rules of staff want");
});

test("what is under way says what it does, fetches itself and can be stopped; what has ended does neither", () => {
  const open = (trial: Partial<Trial>): string => page({ state: "running", ...trial });
  expect(textOf(open({ state: "waiting" }))).toContain("Waits until what others try is over");
  expect(textOf(open({}))).toContain("Checking the rules");
  const progress = { side: "after", stage: "read", records: 12_000 } as const;
  const shown = open({ progress });
  expect(textOf(shown)).toContain("Reading the sources with the changed rules: 12,000 records");
  expect(shown).toMatch(/hx-get="\/rules\/1"[^>]*by-itself[^]*action="\/rules\/1\/stop"/);
  const over = page({ state: "stopped", endedAt, error: { message: "stopped", problems: [], advice: "retry" } });
  expect(over).not.toMatch(/hx-get|\/stop/);
  expect(textOf(over)).toContain("Stopped.");
});

test("a problem is shown with the line of the text that has it", () => {
  const error = {
    message: "the rules have a problem",
    problems: ["rules:3:5: syncs.staff.users: wrong"],
    advice: "fix",
  };
  expect(textOf(page({ error, state: "failed", endedAt }))).toContain("rules:3:5: syncs.staff.users: wrong users: {}");
});
