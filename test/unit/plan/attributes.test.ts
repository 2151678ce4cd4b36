import { expect, test } from "vitest";
import { findCauses } from "#plan/causes.ts";
import type { Change } from "#plan/change.ts";
import { depart } from "#plan/departures.ts";
import { createPlan } from "#plan/diff.ts";
import { evaluateExpectations } from "#plan/expectations.ts";
import { measure } from "#plan/limits.ts";
import { combine, freeze } from "#plan/protect.ts";
import { renderCsv } from "#plan/render/csv.ts";
import { changeLine, painter } from "#plan/render/text.ts";
import { withhold } from "#plan/selection.ts";
import { tablesOf } from "#plan/tables.ts";
import { assemble } from "#principals/assembly.ts";
import { Attributes } from "#principals/attributes.ts";
import { compileRules } from "#principals/compile.ts";
import { checkExpectations, compileExpectations } from "#principals/expectations.ts";
import type { AttributeValue, Entry } from "#principals/entry.ts";
import type { Principal } from "#principals/principal.ts";
import { useConnection } from "../../support/duckdb.ts";
import { fill } from "./directories.ts";

const connection = useConnection();

/** What some target declares that has little in common with the service. */
const attributes = new Attributes([
  { name: "userName", type: "text", kind: "user", required: true, identifies: true },
  { name: "active", type: "boolean", kind: "user" },
  { name: "emails", type: "texts", kind: "user", ignoresCase: true },
  { name: "name.givenName", type: "text", kind: "user" },
  { name: "locale", type: "text", kind: "user", onlyAtCreation: true },
  { name: "externalId", type: "text", ignoresCase: true },
]);

const tables = tablesOf(attributes);

const rules = compileRules(
  {
    users: {
      name: "entry.id",
      userName: "entry.id",
      active: "entry.state == 'on'",
      emails: { value: "entry.emails", absent: "keep" },
      "name.givenName": "entry.first",
      locale: "entry.locale",
      externalId: "entry.id",
    },
    groups: { name: "entry.id", externalId: "entry.id" },
    groupsFromRules: {},
  },
  undefined,
  undefined,
  undefined,
  undefined,
  attributes,
);

function entry(kind: Entry["kind"], id: string, values: Record<string, AttributeValue> = {}): Entry {
  return { kind, id, origin: `${id}.csv`, attributes: { id, ...values }, keys: [id], memberOf: [], members: [] };
}

async function* batches(entries: readonly Entry[]): AsyncIterable<readonly Entry[]> {
  yield entries;
}

/** Reads the entries, and combines them with the target. */
async function planOf(entries: readonly Entry[], actual: readonly Principal[], by = rules, declared = attributes) {
  await assemble(connection(), [{ name: "hr", records: batches(entries) }], by, {
    signal: new AbortController().signal,
    keepAttributes: true,
  });
  await fill(connection(), "actual", actual, declared);
  await connection().run(`
    CREATE OR REPLACE TEMP TABLE ledger (${tables.ledger}); CREATE OR REPLACE TEMP TABLE leaving_since (${tables.leaving_since});
    INSERT INTO ledger SELECT kind, name, 'hr', name FROM actual`);
  await freeze(connection(), { manage: "owned", makesGroups: true, users: [], groups: [] });
  await depart(connection(), { renames: "apply", reusedNames: "apply", after: 0, administrators: [] }, 0);
  await combine(connection(), declared);
  return createPlan(connection(), declared);
}

const ada: Principal = {
  kind: "user",
  name: "ada",
  userName: "ada",
  active: true,
  emails: ["ADA@example.com", "countess@example.com"],
  "name.givenName": "Augusta",
  locale: "fr",
  externalId: "ADA",
  groupNames: [],
};

const entries = [
  entry("user", "ada", {
    state: "off",
    emails: ["countess@example.com", "ada@example.com"],
    first: "Ada",
    locale: "en",
  }),
  entry("user", "bob", { state: "on", emails: ["b@example.com", "a@example.com", "b@example.com"], locale: "de" }),
  entry("group", "staff"),
];

const changed: readonly Change[] = [
  {
    action: "create",
    kind: "group",
    name: "staff",
    attributes: [{ attribute: "externalId", to: "staff" }],
    groupsAdded: [],
    groupsRemoved: [],
  },
  {
    action: "create",
    kind: "user",
    name: "bob",
    attributes: [
      { attribute: "userName", to: "bob" },
      { attribute: "active", to: true },
      { attribute: "emails", to: ["a@example.com", "b@example.com"] },
      { attribute: "locale", to: "de" },
      { attribute: "externalId", to: "bob" },
    ],
    groupsAdded: [],
    groupsRemoved: [],
  },
  {
    action: "suspend",
    kind: "user",
    name: "ada",
    attributes: [
      { attribute: "active", from: true, to: false },
      { attribute: "name.givenName", from: "Augusta", to: "Ada" },
    ],
    groupsAdded: [],
    groupsRemoved: [],
  },
];

test("a plan is about the attributes that the target declares, each of its type", async () => {
  const plan = await planOf(entries, [ada]);
  expect(await Array.fromAsync(plan.changes())).toEqual(changed);
  expect(plan.counts.users).toMatchObject({ create: 1, update: 0, suspend: 1, reactivate: 0, delete: 0 });
  const other = await planOf(entries.with(0, entry("user", "ada", { state: "off", first: "Ada L." })), [ada]);
  expect(other.digest).not.toBe(plan.digest);
});

test("what is given at creation alone stays, and so does what differs in case alone; a missing value is kept or cleared", async () => {
  const same = { state: "on", emails: ["COUNTESS@example.com", "ada@EXAMPLE.com"], first: "Augusta" };
  expect(await Array.fromAsync((await planOf([entry("user", "ada", same)], [ada])).changes())).toEqual([]);
  const missing = await planOf([entry("user", "ada", { state: "on" })], [ada]);
  expect((await Array.fromAsync(missing.changes())).map((each) => each.attributes)).toEqual([
    [{ attribute: "name.givenName", from: "Augusta" }],
  ]);
});

test("a name follows the rule for names, in any case; a user is active unless a rule says otherwise", async () => {
  const declared = new Attributes([
    { name: "userName", type: "text", kind: "user", isName: "user", ignoresCase: true },
    { name: "displayName", type: "text", isName: "group" },
    { name: "active", type: "boolean", kind: "user" },
  ]);
  const named = compileRules(
    {
      users: { name: "entry.id", displayName: "entry.first", active: "entry.enabled" },
      groups: { name: "entry.id" },
    },
    undefined,
    undefined,
    undefined,
    undefined,
    declared,
  );
  const of = (name: string, more: object = {}): Principal => ({
    kind: "user",
    name,
    userName: name,
    groupNames: [],
    ...more,
  });
  const actual: Principal[] = [
    of("ada", { userName: "ADA", active: true }),
    of("bob", { active: false }),
    of("cem"),
    of("dan", { userName: "daniel", active: true }),
    { kind: "group", name: "staff", displayName: "Staff", groupNames: [] },
  ];
  const people = ["ada", "bob", "cem", "dan", "eve"].map((id) =>
    entry("user", id, id === "ada" ? { enabled: false } : {}),
  );
  const plan = await planOf([...people, entry("group", "staff"), entry("group", "new")], actual, named, declared);
  const found = await Array.fromAsync(plan.changes());
  expect(found.map(({ action, name, attributes: each }) => [action, name, each])).toEqual([
    ["create", "new", [{ attribute: "displayName", to: "new" }]],
    ["update", "staff", [{ attribute: "displayName", from: "Staff", to: "staff" }]],
    [
      "create",
      "eve",
      [
        { attribute: "userName", to: "eve" },
        { attribute: "active", to: true },
      ],
    ],
    ["update", "dan", [{ attribute: "userName", from: "daniel", to: "dan" }]],
    ["suspend", "ada", [{ attribute: "active", from: true, to: false }]],
    ["reactivate", "bob", [{ attribute: "active", from: false, to: true }]],
  ]);
  expect(() => new Attributes([{ name: "userName", type: "text", isName: "user", required: true }])).toThrow(
    /never absent/,
  );
});

/** What changes of the user ada, who has the attributes `target` so far, when her record has `values`. */
async function updatesOfAda(by: typeof rules, values: Record<string, AttributeValue>, target: object) {
  const there: Principal = { kind: "user", name: "ada", groupNames: [], ...target };
  const plan = await planOf([entry("user", "ada", values)], [there], by, by.declared);
  const changes = await Array.fromAsync(plan.changes());
  return changes
    .flatMap((each) => (each.action === "update" ? each.attributes : []))
    .map(({ attribute, to }) => [attribute, to]);
}

test("of a list and the primary one of its values, neither is empty beside the other where rules give both", async () => {
  const declared = new Attributes(
    [
      { name: "mail", type: "text", kind: "user", ignoresCase: true, primaryOf: "emails" },
      { name: "emails", type: "texts", kind: "user" },
    ],
    { leavesOthers: true },
  );
  const [mail, emails] = [{ mail: "entry.mail" }, { emails: "entry.emails" }];
  const planned = async (
    given: Record<string, string>,
    values: Record<string, AttributeValue>,
    target: object = {},
  ) => {
    const by = compileRules(
      { users: { name: "entry.id", ...given } },
      undefined,
      undefined,
      undefined,
      undefined,
      declared,
    );
    return updatesOfAda(by, values, target);
  };
  const both = { ...mail, ...emails };
  expect(await planned(both, { emails: ["b@x", "a@x"] })).toEqual([
    ["mail", "a@x"],
    ["emails", ["a@x", "b@x"]],
  ]);
  expect(await planned(both, { emails: ["b@x", "a@x"] }, { mail: "b@x", emails: ["a@x", "b@x"] })).toEqual([]);
  expect(await planned(both, { mail: "c@x" }, { mail: "a@x", emails: ["a@x"] })).toEqual([
    ["mail", "c@x"],
    ["emails", ["c@x"]],
  ]);
  expect(await planned(both, {}, { mail: "a@x", emails: ["a@x"] })).toEqual([
    ["mail", undefined],
    ["emails", undefined],
  ]);
  expect(await planned(emails, { emails: ["a@x"] })).toEqual([["emails", ["a@x"]]]);
  expect(await planned(mail, { mail: "a@x" })).toEqual([["mail", "a@x"]]);
});

test("an attribute that shows as another one's value takes its place where that has none, and only there", async () => {
  const declared = new Attributes(
    [
      { name: "mail", type: "text", kind: "user", ignoresCase: true, primaryOf: "emails" },
      { name: "emails", type: "texts", kind: "user" },
      { name: "work", type: "text", kind: "user", besides: "mail" },
      { name: "home", type: "text", kind: "user", besides: "mail" },
    ],
    { leavesOthers: true },
  );
  const planned = async (rules: readonly string[], values: Record<string, AttributeValue>, target: object = {}) => {
    const users = Object.fromEntries([["name", "entry.id"], ...rules.map((name) => [name, `entry.${name}`])]);
    const by = compileRules({ users }, undefined, undefined, undefined, undefined, declared);
    return updatesOfAda(by, values, target);
  };
  const all = ["mail", "work", "home"];
  expect(await planned(all, { work: "w", home: "h" }, { work: "w", home: "h" })).toEqual([["mail", "w"]]);
  expect(await planned(all, { work: "w", home: "h" }, { mail: "h", work: "w", home: "h" })).toEqual([]);
  expect(await planned(all, { mail: "m", work: "w" }, { mail: "w", work: "w" })).toEqual([["mail", "m"]]);
  expect(await planned(all, {}, { mail: "w", work: "w" })).toEqual([
    ["mail", undefined],
    ["work", undefined],
  ]);
  expect(await planned(["work"], { work: "v" }, { mail: "w", work: "w" })).toEqual([["work", "v"]]);
  // No rule gives it: it stays, and the other one shows it.
  expect(await planned(["mail"], {}, { mail: "w", work: "w" })).toEqual([]);
  expect(await planned(["mail"], {}, { mail: "m", work: "w" })).toEqual([["mail", "w"]]);
  expect(await planned(["mail"], { mail: "m" }, { mail: "w", work: "w" })).toEqual([["mail", "m"]]);
});

test("limits count what becomes empty, and leave it", async () => {
  await planOf([entry("user", "ada", { state: "on" })], [ada]);
  const limits = { sources: {}, floor: 0, action: "apply-the-rest", blanked: { count: 0, per: "run" } } as const;
  await connection().run(`CREATE OR REPLACE TEMP TABLE renamed (${tables.renamed})`);
  const measured = await measure(connection(), attributes, limits);
  expect(measured.amounts.find(({ measure }) => measure === "blanked")).toMatchObject({ amount: 1, base: 5 });
  await withhold(connection(), attributes, new Set(["blanked"]));
  expect(await Array.fromAsync((await createPlan(connection(), attributes)).changes())).toEqual([]);
});

test("causes name the source's attribute that an attribute of any type is made of; what somebody changed is drift", async () => {
  await planOf(entries, [ada]);
  await connection().run(`
    CREATE OR REPLACE TEMP TABLE left_out (${tables.left_out});
    CREATE OR REPLACE TABLE baseline_record AS SELECT * REPLACE (replace(attributes, '"off"', '"on"') AS attributes) FROM record;
    CREATE OR REPLACE TABLE baseline_membership (${tables.baseline_membership});
    CREATE OR REPLACE TABLE baseline_target AS
    SELECT * REPLACE ('Ada' AS "name.given_name") FROM actual`);
  const causes = await findCauses(connection(), {
    attributes,
    reads: rules.reads(),
    hasBaseline: true,
    hasGrace: false,
    changedKeys: [],
  });
  expect(causes).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ kind: "attribute", attribute: "state", from: "on", to: "off" }),
      expect.objectContaining({ kind: "drift", attribute: "name.givenName" }),
    ]),
  );
  expect(await connection().rows("SELECT name, aspect FROM drift_item ORDER BY ALL")).toContainEqual({
    name: "ada",
    aspect: "name.givenName",
  });
});

test("values of every type are written as text", async () => {
  const [, created, updated] = changed;
  const paint = painter(false);
  expect(changeLine(created!, paint, 80)).toBe("+ bob  bob <a@example.com, b@example.com>");
  expect(changeLine(updated!, paint, 80)).toBe("‖ ada  active: true → false; name.givenName: Augusta → Ada");
  const plan = await planOf(entries, [ada]);
  const csv = (await Array.fromAsync(renderCsv(plan))).join("");
  expect(csv).toContain('"user","bob","create","emails",,"a@example.com, b@example.com"');
  expect(csv).toContain('"user","ada","suspend","active","true","false"');
});

test("a declaration that cannot be is a mistake", () => {
  const declaring = (...names: string[]) => new Attributes(names.map((name) => ({ name, type: "text" })));
  for (const names of [["kind"], ["display_name"], ["mail", "mail"], ["Mail"], ["a.b-c"], [""]])
    expect(() => declaring(...names)).toThrow(/an attribute cannot be called/);
  expect(() => declaring(...Array.from({ length: 32 }, (_, place) => `a${place}`))).toThrow(/at most 31/);
});

test("a rule gives what its attribute holds, or the record is in doubt; a kind without the attribute has no rule for it", async () => {
  const judge = (values: Record<string, AttributeValue>, more: object) =>
    compileRules(
      { users: { name: "entry.id", userName: "entry.id", ...more } },
      undefined,
      undefined,
      undefined,
      undefined,
      attributes,
    ).judge(entry("user", "ada", values));
  expect(judge({ state: "on" }, { active: "entry.state" })).toMatchObject({
    verdict: "quarantined",
    reason: 'users.active: gives "on", but true, false or null is needed',
  });
  expect(judge({ emails: ["a", "", "a"] }, { emails: "entry.emails" })).toMatchObject({
    attributes: { emails: ["a", "a"] },
  });
  expect(judge({}, { active: { absent: { default: true } } })).toMatchObject({ attributes: { active: true } });
  expect(() => judge({}, { active: '"yes"' })).toThrow(/the rules are not valid/);
});

test("expectations name the attributes that the target declares, an unset list as an empty one", async () => {
  await planOf(entries, [ada]);
  const expected = (expect: string) => ({ name: expect, over: "users", expect, otherwise: "warn", most: 0 }) as const;
  const compiled = compileExpectations(
    [expected("active == true"), expected("size(emails) > 0"), expected('name_givenName != "Ada"')],
    undefined,
    undefined,
    undefined,
    attributes,
  );
  const checks = await evaluateExpectations(connection(), compiled, {
    attributes,
    sources: ["hr"],
    signal: new AbortController().signal,
  });
  expect(checks.map(({ violations, examples }) => [violations, examples.map(({ name }) => name)])).toEqual([
    [1, ["ada"]],
    [0, []],
    [1, ["ada"]],
  ]);
  expect(checkExpectations([expected('displayName == ""')], undefined, undefined, attributes)).toEqual([
    expect.objectContaining({
      message: expect.stringMatching(/there are name, userName, active, emails, name_givenName/),
    }),
  ]);
});
