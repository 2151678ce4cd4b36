import { stripVTControlCharacters } from "node:util";
import { describe, expect, test } from "vitest";
import { serviceAttributes } from "#principals/attributes.ts";
import type { Change, Counts, Plan } from "#plan/change.ts";
import type { LimitCheck } from "#plan/limits.ts";
import { createPlan } from "#plan/diff.ts";
import { renderCsv } from "#plan/render/csv.ts";
import { renderJson } from "#plan/render/json.ts";
import { renderMarkdown } from "#plan/render/markdown.ts";
import type { Fact } from "#plan/render/shared.ts";
import { renderText } from "#plan/render/text.ts";
import type { Principal } from "#principals/principal.ts";
import { useConnection } from "../../../support/duckdb.ts";
import { fill } from "../directories.ts";

const connection = useConnection();

async function all(parts: AsyncIterable<string>): Promise<string> {
  return (await Array.fromAsync(parts)).join("");
}

const user = (name: string, rest: Partial<Principal> = {}): Principal => ({
  kind: "user",
  name,
  displayName: name,
  groupNames: [],
  ...rest,
});
const group = (name: string, rest: Partial<Principal> = {}): Principal => ({ ...user(name, rest), kind: "group" });

const many = Array.from({ length: 30 }, (_, index) => `team-${String(index + 1).padStart(2, "0")}`);
const long = `${"The board reviews quarterly figures. ".repeat(4)}Chair: `;
const unchanged = [
  user("zoe", { groupNames: ["staff"] }),
  ...["staff", "analysts", "Finance Team", ...many].map((name) => group(name)),
];
const actual = [
  ...unchanged,
  user("ada", { displayName: "Ada Lovelace", mail: "ada@old.example.com", groupNames: ["analysts", "staff"] }),
  user("bob", { displayName: "Bob, the Builder", mail: "bob@example.com", groupNames: ["staff"] }),
  user("eve\u001B[2J", { displayName: "Eve \u202Egnp.exe", groupNames: ["staff"] }),
  user("li", { displayName: "李　娜", groupNames: ["staff"] }),
  ...many.slice(0, 25).map((name) => user(`temp-${name}`, { groupNames: ["staff"] })),
  group("board", { displayName: "Board", description: `${long}Ada` }),
  group("old", { displayName: "Old `group` | <b>&amp;</b>" }),
];
const desired = [
  ...unchanged,
  user("ada", {
    displayName: "Ada King",
    description: "Countess",
    mail: "ada@example.com",
    groupNames: ["Finance Team", "staff"],
  }),
  user("carol", { displayName: "Carol [x](http://evil.example)", mail: "carol@example.com", groupNames: many }),
  user("li", { displayName: "李　娜", groupNames: ["staff", ...many] }),
  group("board", { displayName: "Board", description: `${long}Bob` }),
  group("new`s``", { displayName: "` ticks", groupNames: ["staff"] }),
];
const options = {
  title: "staff → analytics",
  limit: 20,
  notes: [
    {
      text: "1 record quarantined: they stay unchanged in the target",
      doubt: "quarantined",
      details: [{ text: "user ```eve\u0007 (people.csv:17)" }],
    },
  ],
} as const;

const facts: readonly Fact[] = [
  { label: "state", lines: ["applied", "verified \u202E"], tone: "good" },
  { label: "by", lines: ["ada </dd>"] },
];

async function planOf(before: readonly Principal[], after: readonly Principal[]): Promise<Plan> {
  await fill(connection(), "actual", before);
  await fill(connection(), "desired", after);
  return createPlan(connection(), serviceAttributes);
}

const golden = (name: string): string => new URL(`../../../fixtures/plan/${name}`, import.meta.url).pathname;

describe("a plan is shown", () => {
  test("without changes, with those who are on their way out in its headline", async () => {
    const plan = await planOf([user("ada")], [user("ada")]);
    const leaving = { users: 352, groups: 1, first: "2026-12-22T08:00:00.000Z" };
    expect(await all(renderText(plan, { title: "t", colour: false, leaving }))).toBe(
      "t: 352 users and 1 group will leave, the first on 22 December 2026 (1 user, 0 groups now)\n",
    );
    expect(await all(renderMarkdown(plan, { title: "t", leaving }))).toContain(
      "352 users and 1 group will leave, the first on",
    );
  });

  test("with its limits, its totals and the next commands at the end", async () => {
    const limits = [
      {
        limit: "deletes",
        of: "users",
        value: 27,
        earlier: 0,
        bound: 3,
        basis: "10% of 30",
        tripped: true,
        overridden: false,
      },
    ] as const;
    const plan = await planOf(actual, desired);
    const text = await all(renderText(plan, { ...options, colour: false, limits, next: ["rollcall approve R"] }));
    expect(text.slice(text.indexOf("\nLimits"))).toBe(`
Limits
  ✗ deletes: 27 users, at most 3 (10% of 30): tripped

staff → analytics: 1 user and 1 group created, 2 users and 1 group updated, 27 users and 1 group deleted, 62 memberships added and 28 removed
  rollcall approve R
`);
  });

  test("as CSV", async () => {
    await expect(await all(renderCsv(await planOf(actual, desired)))).toMatchFileSnapshot(golden("plan.csv"));
  });

  test("with what is known of it before everything else, and what is said where nothing of it is chosen", async () => {
    const plan = await planOf(actual, desired);
    const none = { before: 0, after: 0, create: 0, update: 0, delete: 0 };
    const shown = { users: { ...none, delete: 2 }, groups: none, membershipsAdded: 0, membershipsRemoved: 2 };
    const parts = { ...plan, shown };
    const text = await all(renderText(parts, { title: "t", facts, limit: 0, colour: false }));
    expect(text).toMatch(
      /^t {2}plan \w+\n\n {2}state {2}applied\n {9}verified \\u\{202e\}\n {2}by {5}ada <\/dd>\n\n {2}users/,
    );
    expect(text).toContain("Deleted users (2 of 27)\n");
    const markdown = await all(renderMarkdown(parts, { title: "t", facts, limit: 0 }));
    expect(markdown).toContain("- state: `applied`; `verified \\u{202e}`\n- by: `ada </dd>`\n\n| |");
    expect(markdown).toContain("### Deleted users (2 of 27)\n");
    expect(JSON.parse(await all(renderJson(parts)))).toMatchObject({ counts: plan.counts, shown });

    const nothing = { ...plan, shown: { ...shown, users: none } };
    for (const render of [
      renderMarkdown,
      (each: Plan, how: object) => renderText(each, { title: "t", colour: false, ...how }),
    ]) {
      const answer = await all(render(nothing, { title: "t", nothing: "no such change" }));
      expect(answer).toContain("no such change");
      expect(answer).not.toMatch(/Deleted|No change|no change \(/);
      expect(
        await all(render({ ...plan, counts: { ...nothing.shown } }, { title: "t", nothing: "no such change" })),
      ).toMatch(/no change \(/i);
    }
    expect(await all(renderText(undefined, { title: "t", facts: facts.slice(1), colour: false }))).toBe(
      "t\n\n  by  ada </dd>\n",
    );
    expect(await all(renderMarkdown(undefined, { title: "t", facts: facts.slice(1) }))).toBe(
      "## `t`\n\n- by: `ada </dd>`\n",
    );
  });

  test("as text", async () => {
    const text = await all(renderText(await planOf(actual, desired), { ...options, colour: false }));
    await expect(text).toMatchFileSnapshot(golden("plan.txt"));
  });

  test("as text with colour, which only adds colour", async () => {
    const plan = await planOf(actual, desired);
    const text = await all(renderText(plan, { ...options, colour: true }));
    await expect(text).toMatchFileSnapshot(golden("plan.colour.txt"));
    expect(stripVTControlCharacters(text)).toBe(await all(renderText(plan, { ...options, colour: false })));
  });

  test("as Markdown", async () => {
    const text = await all(renderMarkdown(await planOf(actual, desired), options));
    await expect(text).toMatchFileSnapshot(golden("plan.md"));
  });

  test("as JSON, with every change", async () => {
    const plan = await planOf(actual, desired);
    const text = await all(renderJson(plan));
    await expect(text).toMatchFileSnapshot(golden("plan.json"));
    const { digest, counts } = plan;
    expect(JSON.parse(text)).toEqual({ digest, counts, changes: await Array.fromAsync(plan.changes()) });
  });

  test("as one calm line when it changes nothing", async () => {
    const plan = await planOf(unchanged, unchanged);
    expect(await all(renderText(plan, { title: "staff → analytics", colour: false }))).toBe(
      "staff → analytics: no change (1 user, 33 groups)\n",
    );
    expect(await all(renderMarkdown(plan, { title: "staff → analytics" }))).toBe(
      "## `staff → analytics`\n\nNo change (1 user, 33 groups).\n",
    );
    expect(JSON.parse(await all(renderJson(plan)))).toMatchObject({ changes: [] });
  });

  test("as far as asked: with a limit of 0 the counts alone, without an end every change", async () => {
    const plan = await planOf(actual, desired);
    const none = await all(renderText(plan, { ...options, limit: 0, colour: false }));
    expect(none).toContain("Deleted users (27)\n  … and 27 more (use --all or --json)\n");
    expect(none).not.toContain("bob");
    // Who is not at the command that shows it has other ways to see the rest.
    const elsewhere = await all(
      renderText(plan, { ...options, limit: 0, colour: false, rest: "rollcall show R --all" }),
    );
    expect(elsewhere).toContain("… and 27 more (rollcall show R --all)\n");
    const every = await all(renderText(plan, { ...options, limit: Number.POSITIVE_INFINITY, colour: false }));
    for (const name of many.slice(0, 25)) expect(every).toContain(`− temp-${name}  `);
    expect(every).not.toContain("more (use");
  });
});

test("names that differ after 200 characters are told apart in lines that a terminal can show", async () => {
  const name = (last: string): string => `${"the-same-beginning-".repeat(11)}${last}`;
  const groups = ["board", "staff", "guests", "sales"].map(name);
  const users = ["ada", "bob"].map((last) =>
    user(name(last), { displayName: `${name(last)} Lovelace`, groupNames: groups }),
  );
  const plan = await planOf([], [...groups.map((each) => group(each)), ...users]);
  const lines = (await all(renderText(plan, { title: "t", colour: false, width: 100 }))).split("\n");
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(350);
  const changed = lines.filter((line) => line.startsWith("  + "));
  expect(new Set(changed).size).toBe(6);
  expect(changed.find((line) => line.includes("ada "))).toMatch(
    /^ {2}\+ the-same-begin.*…\S*-ada {2}.*Lovelace {2}\+the-same.*-board /,
  );
});

describe("a plan of a million changes", () => {
  const kind = { before: 1_000_000, after: 1_000_000, create: 0, update: 1_000_000, delete: 0 };
  const none = { before: 0, after: 0, create: 0, update: 0, delete: 0 };
  const counts: Counts = { users: kind, groups: none, membershipsAdded: 0, membershipsRemoved: 0 };

  function endless(): { plan: Plan; read: () => number } {
    let read = 0;
    return {
      read: () => read,
      plan: {
        digest: "0".repeat(64),
        counts,
        changes: async function* () {
          while (read < kind.update) {
            const attributes: Change["attributes"] = [{ attribute: "displayName", from: "a", to: `b${read}` }];
            yield {
              action: "update",
              kind: "user",
              name: `u${read++}`,
              attributes,
              groupsAdded: [],
              groupsRemoved: [],
            };
          }
        },
      },
    };
  }

  test("is read no further than it is shown", async () => {
    const { plan, read } = endless();
    const text = await all(renderText(plan, { title: "t", colour: false }));
    expect(text).toContain("… and 999,980 more (use --all or --json)");
    expect(read()).toBe(20);
  });

  test("is written as it is read", async () => {
    const { plan, read } = endless();
    for await (const chunk of renderJson(plan)) {
      expect(chunk.length).toBeLessThan(100_000);
      break;
    }
    expect(read()).toBeLessThan(2000);
  });
});

test("what the limits say is shown with a plan; text and Markdown leave out what it does not come near to", async () => {
  const check = { of: "users", earlier: 0, bound: 10, basis: "10% of 100", tripped: false, overridden: false };
  const limits: LimitCheck[] = [
    { ...check, limit: "deletes", value: 40, earlier: 3, tripped: true },
    { ...check, limit: "updates", value: 1 },
    { ...check, limit: "updates", of: "groups", value: 12, earlier: 12 },
    { ...check, limit: "creates", value: 11, tripped: true, overridden: true },
    { ...check, limit: "blanked", of: "attributes", value: 0 },
    { ...check, limit: "minUsers", of: "users of `corp\u0007", value: 9, basis: "in scope", tripped: true },
  ];
  const plan = await planOf(actual, desired);
  expect(await all(renderText(plan, { title: "t", colour: false, limit: 0, limits }))).toContain(`
Limits
  ✗ deletes: 40 users in 24 hours, 3 of them already, at most 10 (10% of 100): tripped
  ✓ updates: 1 user, at most 10 (10% of 100)
  ✓ updates: 12 groups in 24 hours, none in this plan, at most 10 (10% of 100)
  ! creates: 11 users, at most 10 (10% of 100): overridden
  ✗ minUsers: 9 users of \`corp\\u{0007}, at least 10 (in scope): tripped
`);
  expect(await all(renderMarkdown(plan, { title: "t", limit: 0, limits }))).toContain(`
### Limits

- **tripped** \`deletes: 40 users in 24 hours, 3 of them already, at most 10 (10% of 100)\`
- \`updates: 1 user, at most 10 (10% of 100)\`
- \`updates: 12 groups in 24 hours, none in this plan, at most 10 (10% of 100)\`
- **overridden** \`creates: 11 users, at most 10 (10% of 100)\`
- **tripped** \`\`minUsers: 9 users of \`corp\\u{0007}, at least 10 (in scope)\`\`
`);
  expect(JSON.parse(await all(renderJson(plan, limits))).limits).toEqual(limits);
});
