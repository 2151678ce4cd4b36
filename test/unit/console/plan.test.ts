import { expect, test } from "vitest";
import type { Change } from "#plan/change.ts";
import { sectionsOf } from "#plan/render/shared.ts";
import { layout } from "#console/layout.ts";
import { html } from "#console/html.ts";
import { approve, conflict, part, reject, undo } from "#console/pages/decide.ts";
import { plan } from "#console/pages/plan.ts";
import type { PlanFilter, PlanPage } from "#console/pages/plan.ts";
import { appliedRun, pendingRun, trippedLimit } from "../../support/runs.ts";

const now = Date.parse("2026-11-21T12:00:00.000Z");
const counts = {
  users: { before: 100, after: 99, create: 1, update: 250, delete: 2 },
  groups: { before: 10, after: 10, create: 0, update: 0, delete: 0 },
  membershipsAdded: 3,
  membershipsRemoved: 1,
};
const nothing: PlanFilter = { action: [], attribute: [], source: [], cause: [] };
const token = html``;

/** A plan of a target that can suspend users. */
const suspending = { ...counts, users: { ...counts.users, suspend: 4, reactivate: 1 } };

/** Text as a reader sees it. */
function textOf(page: { toString(): string }): string {
  return page
    .toString()
    .replaceAll(/<[^>]*>/g, " ")
    .replaceAll(/\s+/g, " ")
    .replaceAll(" .", ".");
}

function pageOf(more: Partial<PlanPage> = {}, changes: readonly Change[] = []): PlanPage {
  const run = pendingRun("20261121-100000-000001", { counts });
  const sections = sectionsOf({ counts }).map((section) => ({ ...section, changes, offset: 0 }));
  return {
    now,
    run,
    mayDecide: true,
    filter: nothing,
    shown: { count: 253, sections, sources: [], aspects: ["displayName", "mail", "groups"] },
    ...more,
  };
}

test("names from outside are harmless in plans and decisions, and go back as they were", () => {
  for (const text of [
    "<script>alert(1)</script>",
    `"><img src=x>`,
    "gnp.\u202Ecod\u200B",
    "two\nlines",
    "x".repeat(255),
  ]) {
    const change: Change = {
      action: "update",
      kind: "user",
      name: text,
      attributes: [{ attribute: "mail", from: text, to: text }],
      groupsAdded: [text, ...Array.from({ length: 20 }, (_, index) => `${text}${index}`)],
      groupsRemoved: [text],
    };
    const example = { kind: "user", name: text } as const;
    const run = pendingRun("20261121-100000-000001", {
      sync: text,
      target: text,
      counts,
      causes: [
        {
          id: "c1",
          kind: "attribute",
          source: text,
          attribute: text,
          from: text,
          to: text,
          users: 2,
          groups: 0,
          example,
        },
        { id: "c2", kind: "drift", attribute: text, users: 1, groups: 0, example },
      ],
      limits: [trippedLimit({ of: text, basis: text })],
      notes: [{ text, details: [{ text, kind: "user", names: [text, `${text}2`] }] }],
      decisions: [
        { decision: "rejected", at: "2026-11-21T11:00:00.000Z", by: { name: text, from: text }, digest: "d" },
      ],
    });
    const selection = { except: [{ kind: "user", name: text }] } as const;
    const named = { count: 60, examples: [{ action: "create", kind: "user", name: text }] } as const;
    const pages = [
      plan(pageOf({ run, filter: { ...nothing, name: text, group: text, kind: "user" } }, [change])),
      approve({ now, run, token, selection, counts }),
      part({ now, run }),
      reject({ now, run, token }),
      undo({ now, run, token }),
      conflict({
        now,
        run,
        message: text,
        newer: { run, differences: { gone: named, added: named, other: named, same: 1 } },
      }),
    ];
    expect(pages[1]?.toString()).toContain(
      `name="except" value="user:${text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;")}"`,
    );
    for (const page of pages.map((each) => layout({ title: text, version: "1" }, each).toString())) {
      expect(page).not.toMatch(/<script>|<img/);
      expect(page.replaceAll(/ value="[^"]*"/g, "")).not.toMatch(/[\u202E\u200B]/);
      expect(page).not.toMatch(/ style=| on[a-z]+="/);
    }
  }
});

test("a plan says its verdict first, then numbers, limits and causes, then its changes", () => {
  const run = pendingRun("20261121-100000-000001", {
    state: "held",
    heldBy: "limits",
    counts,
    expiresAt: "2026-11-22T12:00:00.000Z",
    limits: [trippedLimit({ value: 2, bound: 1 })],
    causes: [
      { id: "c1", kind: "gone", source: "corp", users: 2, groups: 0, example: { kind: "user", name: "kim" } },
      { id: "c2", kind: "drift", attribute: "mail", users: 1, groups: 0, example: { kind: "user", name: "lee" } },
    ],
  });
  const text = textOf(plan(pageOf({ run })));
  const order = [
    "1 user created, 250 users updated, 2 users deleted, 3 memberships added and 1 removed; the limit on deletions holds this. Nothing is applied unless a person overrides this limit. It expires in 1 day.",
    "users 100 +1 1 created ~250 250 updated −2 2 deleted (2% of 100) 99",
    "Deletions 2 users , at most 1 as configured · beyond the limit",
    "2 users gone from corp 1% of the changes · such as kim · c1",
    "Changed in the target",
    "somebody changed the target: mail",
    "− Deleted users 2",
    "All 250 updated users",
    "Override, delete 2 users…",
  ].map((sentence) => text.indexOf(sentence));
  expect(order, text).toEqual(order.toSorted((a, b) => a - b));
  expect(order, text).not.toContain(-1);
});

test("of many causes the largest are shown, and the others behind a click", () => {
  const page = (count: number): string => {
    const causes = Array.from({ length: count }, (_, index) => {
      const cause = { id: `c${index + 1}`, kind: "gone", source: `s${index}`, users: 1, groups: 0 } as const;
      return { ...cause, example: { kind: "user", name: "kim" } } as const;
    });
    return plan(pageOf({ run: pendingRun("20261121-100000-000001", { counts, causes }) })).toString();
  };
  expect(page(9)).not.toContain('class="more"');
  expect(page(31)).toMatch(/gone from s7[^]*<summary>23 more<\/summary>[^]*gone from s8/);
});

test("whoever decides sees what the plan notes, long lists of it folded", () => {
  const details = ["u1", "u2", "u3", "u4", "u5", "u6"].map((each) => ({ text: `user ${each}: mail "a; b"` }));
  const notes = [{ text: "6 mail values that aren't one address:", details }, { text: "2 principals left alone" }];
  const page = plan(pageOf({ run: pendingRun("20261121-100000-000001", { counts, notes }) })).toString();
  const [before = "", after = ""] = page.split('id="changes"');
  expect(before).toMatch(/<summary>6 mail values that aren&#39;t one address<\/summary>[^]*user u6[^]*left alone/);
  expect(after).not.toContain("left alone");
});

test("an approved plan that the target has outrun says that it was not applied, and how to plan again", () => {
  const problems = Array.from({ length: 8 }, (_, index) => `group Team ${index}: it was to be created`);
  const error = { message: "the plan is out of date", problems, advice: "stop" } as const;
  const run = pendingRun("20261121-100000-000001", { counts, error });
  const page = plan(pageOf({ run })).toString();
  expect(textOf(page)).toContain("Not applied : the plan is out of date group Team 0");
  expect(page).toMatch(/<summary>More<\/summary>[^]*Team 7[^]*href="\/syncs\/staff\/run"/);
  expect(plan(pageOf({ run, mayDecide: false })).toString()).not.toContain("/syncs/staff/run");
  expect(plan(pageOf({ run: { ...run, undoes: "r" } })).toString()).not.toContain("/syncs/staff/run");
});

test("a change shows each value before and after, and a rename its other name", () => {
  const change: Change = {
    action: "update",
    kind: "user",
    name: "lee",
    attributes: [
      { attribute: "mail", from: "a@example.com", to: "b@example.com" },
      { attribute: "description", to: "new" },
    ],
    groupsAdded: ["staff"],
    groupsRemoved: ["interns"],
  };
  const run = pendingRun("20261121-100000-000001", {
    counts,
    notes: [{ text: "1 rename", details: [{ text: "", kind: "user", names: ["kim", "lee"] }] }],
  });
  const text = textOf(plan(pageOf({ run }, [change])));
  expect(text).toContain(
    "lee before kim mail, description − removed from interns + added to staff mail a@example.com → b@example.com description unset → new",
  );
});

test("of a principal in 10,000 groups a page has the first ones, and says how many there are", () => {
  const groupsRemoved = Array.from({ length: 5_000 }, (_, index) => `old${index}`);
  const groupsAdded = Array.from({ length: 5_000 }, (_, index) => `new${index}`);
  const change: Change = { action: "update", kind: "user", name: "lee", attributes: [], groupsAdded, groupsRemoved };
  const page = plan(pageOf({}, [change])).toString();
  expect(textOf(page)).toContain("9,988 more groups");
  expect(textOf(page)).toContain("… and 9,888 more");
  expect(page).toContain("old111<");
  expect(page).not.toContain("old112<");
  expect(page).not.toContain("new0<");
});

test("the only section is read page by page, with the filter in every link", () => {
  const [section] = sectionsOf({ counts, shown: { ...counts, users: { ...counts.users, create: 0, delete: 0 } } });
  const sections = [{ ...section!, changes: [], offset: 100, pageSize: 100 }];
  const filter = { ...nothing, action: ["update"], kind: "user", name: "a b" };
  const page = plan(
    pageOf({ filter, shown: { count: 250, sections, sources: [], aspects: ["displayName", "mail", "groups"] } }),
  ).toString();
  expect(textOf(page)).toContain("Previous 101 to 200 of 250 Next");
  expect(page).toContain("/plan?action=update&amp;kind=user&amp;name=a+b&amp;from=200#changes");
  expect(page).toContain('href="/runs/20261121-100000-000001/approve?action=update&amp;kind=user&amp;name=a+b"');
});

test("only whoever may decide gets buttons, and only while there is something to decide", () => {
  expect(textOf(plan(pageOf()))).toContain("Approve, delete 2 users… Approve a part… Reject…");
  const looking = textOf(plan(pageOf({ mayDecide: false })));
  expect(looking).toContain("Approvers and administrators decide.");
  expect(looking).not.toContain("Approve, ");
  const applied = textOf(plan(pageOf({ run: appliedRun({ counts }), shown: undefined })));
  expect(applied).not.toContain("Approve, ");
  expect(applied).toContain("The changes of this run are no longer stored");
});

test("whoever may not override limits is told so where the button would be, and may still apply a part", () => {
  const run = pendingRun("r", {
    state: "held",
    heldBy: "limits",
    counts,
    limits: [trippedLimit({ value: 2, bound: 1 })],
  });
  const page = plan(pageOf({ run, noOverrides: "overriding limits needs the role administrator" }));
  expect(textOf(page)).toContain("Overriding limits needs the role administrator.");
  expect(textOf(page)).not.toContain("Override, delete");
  expect(page.toString()).toContain("Approve a part…");
});

test("an approval is asked once, with numbers; a limit is only overridden by a tick and a reason", () => {
  const held = pendingRun("20261121-100000-000001", {
    state: "held",
    heldBy: "limits",
    counts,
    limits: [trippedLimit(), trippedLimit({ limit: "updates" })],
  });
  const page = approve({ now, run: held, token, selection: {}, counts }).toString();
  expect(textOf(page)).toContain("Delete 2 users, apply 251 other changes");
  expect(page.match(/name="override" value="(?:deletes|updates)"\s+required/g)).toHaveLength(2);
  expect(page).toMatch(/name="reason"[^>]*required/);
  // A part that deletes nobody is not red because the whole plan would.
  const created = { ...counts, users: { ...counts.users, update: 0, delete: 0 } };
  const few = approve({ now, run: held, token, selection: { only: ["create"] }, counts: created }).toString();
  expect(few).not.toContain('class="danger"');
  // Neither is it asked to override limits that it cannot be beyond.
  expect(few).not.toContain('name="override"');
  const some = { ...created, users: { ...created.users, delete: 2 } };
  const deleting = approve({ now, run: held, token, selection: { only: ["delete"] }, counts: some }).toString();
  expect([...deleting.matchAll(/name="override" value="(\w+)"/g)].map(([, limit]) => limit)).toEqual(["deletes"]);
  expect(textOf(few)).toContain("(only create)");
  const these = Array.from({ length: 20 }, (_, index) => ({ kind: "user" as const, name: `u${index}` }));
  const many = textOf(approve({ now, run: held, token, selection: { these }, counts: created }));
  expect(many).toContain("(only 20 users and groups)");
  expect(many).toMatch(/20 names user u0 .*user u19/);
  const none = { ...counts, users: { ...counts.users, create: 0, update: 0, delete: 0 } };
  const empty = approve({ now, run: held, token, selection: { only: [] }, counts: none }).toString();
  expect(textOf(empty)).toContain("Nothing of the plan is selected.");
  expect(empty).not.toContain('type="submit"');
  // Approving a plan that waits because of its limits overrides them.
  const noOverrides = "overriding limits needs the role administrator; kim has the role approver";
  const waiting = { ...held, state: "pending" } as const;
  for (const selection of [{}, { only: ["create" as const] }]) {
    const shown = approve({ now, run: waiting, token, selection, counts, noOverrides }).toString();
    expect(textOf(shown)).toContain(`This plan is beyond the limits on deletions, updates: ${noOverrides}.`);
    expect(shown).not.toContain('type="submit"');
  }
  expect(approve({ now, run: waiting, token, selection: {}, counts }).toString()).toContain('type="submit"');
});

test("suspensions have their own row, filter and button, where the target can suspend", () => {
  const run = pendingRun("20261121-100000-000001", { counts: suspending });
  const page = plan(pageOf({ run })).toString();
  const text = textOf(page);
  expect(text).toContain("users groups memberships before 100 10 created");
  expect(text).toMatch(/suspended ‖4 4 suspended 0 reactivated ↺1 1 reactivated 0 deleted/);
  expect(text).toContain("‖ suspended + created ~ updated ↺ reactivated");
  expect(text).toContain("Approve, delete 2 users, suspend 4 users…");
  const asked = textOf(approve({ now, run, token, selection: {}, counts: suspending }));
  expect(asked).toContain("Delete 2 users, suspend 4 users, apply 252 other changes");
  expect(textOf(part({ now, run }))).toContain("‖4 4 suspended");
  expect(textOf(plan(pageOf()))).not.toMatch(/suspend|reactivat/);
});
