import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { serviceAttributes } from "#principals/attributes.ts";
import { createPlan } from "#plan/diff.ts";
import { evaluateExpectations, limitChecksOf } from "#plan/expectations.ts";
import type { ExpectationCheck } from "#plan/expectations.ts";
import { renderMarkdown } from "#plan/render/markdown.ts";
import { renderText } from "#plan/render/text.ts";
import { tablesOf } from "#plan/tables.ts";
import { checkExpectations, compileExpectations } from "#principals/expectations.ts";
import type { Expectation } from "#principals/expectations.ts";
import type { Kind } from "#principals/principal.ts";
import { refusingSlowJoins, useConnection } from "../../support/duckdb.ts";
import { cases } from "../../support/random.ts";

const tables = tablesOf(serviceAttributes);

const connection = useConnection();

interface Person {
  readonly kind: Kind;
  readonly name: string;
  readonly mail?: string | undefined;
  readonly groups: readonly string[];
}

interface World {
  readonly before: readonly Person[];
  readonly after: readonly Person[];
  /** The types in the source, by name. */
  readonly types: Readonly<Record<string, string>>;
  readonly renamed?: readonly { readonly was: string; readonly becomes: string }[];
}

async function prepare({ before, after, types, renamed = [] }: World): Promise<void> {
  const rows = (people: readonly Person[]): string => JSON.stringify(people.map((each) => ({ mail: null, ...each })));
  const columns =
    "kind, name, name AS display_name, NULL::VARCHAR AS description, mail, list_sort(groups) AS group_names";
  const table = (name: string): string => `
    CREATE OR REPLACE TABLE ${name} AS SELECT ${columns}
    FROM (SELECT unnest(from_json($1, '[{"kind":"VARCHAR","name":"VARCHAR","mail":"VARCHAR","groups":["VARCHAR"]}]'), recursive := true))`;
  await connection().run(table("actual"), [rows(before)]);
  await connection().run(table("desired"), [rows(after)]);
  await connection().run(`
    CREATE OR REPLACE TABLE contributor (${tables.contributor});
    CREATE OR REPLACE TEMP TABLE renamed (${tables.renamed}); CREATE OR REPLACE TABLE record (${tables.record})`);
  for (const { was, becomes } of renamed)
    await connection().run("INSERT INTO renamed VALUES ('user', $1, $2)", [was, becomes]);
  for (const [name, type] of Object.entries(types))
    await connection().run(
      "INSERT INTO record (kind, name, source, source_id, scope, attributes) VALUES ('user', $1, 'hr', $1, 'in', $2)",
      [name, JSON.stringify({ type })],
    );
  await createPlan(connection(), serviceAttributes);
}

const signal = new AbortController().signal;

function expectation(rest: Partial<Expectation> & Pick<Expectation, "expect">): Expectation {
  return { name: rest.expect, otherwise: "hold", most: 0, ...rest };
}

async function evaluate(
  world: World,
  expectations: readonly Expectation[],
  options: Partial<Parameters<typeof evaluateExpectations>[2]> = {},
): Promise<ExpectationCheck[]> {
  await prepare(world);
  return evaluateExpectations(refusingSlowJoins(connection()), compileExpectations(expectations), {
    attributes: serviceAttributes,
    sources: ["hr"],
    signal,
    ...options,
  });
}

const user = (name: string, ...groups: string[]): Person => ({ kind: "user", name, groups });
const group = (name: string, ...groups: string[]): Person => ({ kind: "group", name, groups });

/** The groups that a principal is in, directly or through others. */
function nestedGroups(people: readonly Person[], { groups }: Person): ReadonlySet<string> {
  const found = new Set(groups);
  for (const name of found)
    for (const up of people.find((each) => each.kind === "group" && each.name === name)?.groups ?? []) found.add(up);
  return found;
}

const members = (people: readonly Person[], { name }: Person): string[] =>
  people.filter((each) => each.kind === "user" && each.groups.includes(name)).map((each) => each.name);
const nestedMembers = (people: readonly Person[], { name }: Person): string[] =>
  people.filter((each) => each.kind === "user" && nestedGroups(people, each).has(name)).map((each) => each.name);

/** Who joins and leaves a group, or one that is in it on either side. */
function moves(before: readonly Person[], after: readonly Person[], name: string, isNested: boolean) {
  const inside = (people: readonly Person[]): string[] =>
    people.flatMap((each) => (each.kind === "group" && nestedGroups(people, each).has(name) ? [each.name] : []));
  const groups = new Set([name, ...(isNested ? [...inside(before), ...inside(after)] : [])]);
  const users = (people: readonly Person[]): string[] =>
    people.flatMap((each) =>
      each.kind === "user" && each.groups.some((group) => groups.has(group)) ? [each.name] : [],
    );
  const some = (names: readonly string[]) =>
    names.length === 0 ? undefined : { count: names.length, names: names.toSorted().slice(0, 3) };
  const [was, will] = [users(before), users(after)];
  return {
    joining: some(will.filter((user) => !was.includes(user))),
    leaving: some(was.filter((user) => !will.includes(user))),
  };
}

type Oracle = (person: Person, people: readonly Person[], type: string | undefined) => boolean;

/** Expressions, and what they mean. */
const overUsers: Readonly<Record<string, Oracle>> = {
  '!("g1" in groups)': ({ groups }) => !groups.includes("g1"),
  '!("g1" in nestedGroups)': (person, people) => !nestedGroups(people, person).has("g1"),
  '!("g0" in nestedGroups || "g2" in groups)': (person, people) =>
    !nestedGroups(people, person).has("g0") && !person.groups.includes("g2"),
  "groups.size() < 2": ({ groups }) => groups.length < 2,
  "mail != null": ({ mail }) => mail !== undefined,
  'entry.type != "x"': (_, __, type) => type !== "x",
  '!inSource || (name == "u1") == (entry.type == "x")': ({ name }, _, type) =>
    type === undefined || (name === "u1") === (type === "x"),
};
const overGroups: Readonly<Record<string, Oracle>> = {
  "members.size() > 0": (person, people) => members(people, person).length > 0,
  "size(nestedMembers) > 1": (person, people) => nestedMembers(people, person).length > 1,
  '!("u1" in members)': (person, people) => !members(people, person).includes("u1"),
  '!("u1" in nestedMembers || "u3" in nestedMembers)': (person, people) =>
    nestedMembers(people, person).every((name) => name !== "u1" && name !== "u3"),
  '!nestedMembers.exists(each, each == "u2") && members.size() < 3': (person, people) =>
    !nestedMembers(people, person).includes("u2") && members(people, person).length < 3,
  "nestedGroups.size() == 0 && !inSource": (person, people) => nestedGroups(people, person).size === 0,
};

const groupNames = ["g0", "g1", "g2", "g3"];
const peopleOf = fc
  .record({
    users: fc.dictionary(
      fc.constantFrom("u0", "u1", "u2", "u3", "u4"),
      fc.record({ groups: fc.subarray(groupNames), mail: fc.option(fc.constantFrom("a", "b"), { nil: undefined }) }),
    ),
    groups: fc.dictionary(fc.constantFrom(...groupNames), fc.subarray(groupNames)),
  })
  .map(({ users, groups }): Person[] => {
    const known = (names: readonly string[]): string[] => names.filter((name) => Object.hasOwn(groups, name));
    return [
      ...Object.entries(users).map(([name, { groups, mail }]): Person => ({
        kind: "user",
        name,
        mail,
        groups: known(groups),
      })),
      ...Object.entries(groups).map(([name, up]): Person => ({ kind: "group", name, groups: known(up) })),
    ];
  });

test("violations, and those that the target has already, are what the expressions say one by one", async () => {
  await fc.assert(
    fc.asyncProperty(
      peopleOf,
      fc.option(peopleOf, { nil: undefined, freq: 12 }),
      fc.dictionary(fc.constantFrom("u0", "u1", "u2", "u3"), fc.constantFrom("x", "y")),
      // What is asked together decides what is read.
      fc.subarray(
        [
          ...Object.keys(overUsers).map((expect) => expectation({ over: "users", expect })),
          ...Object.keys(overGroups).map((expect) => expectation({ over: "groups", expect })),
        ],
        { minLength: 1 },
      ),
      async (after, other, types, expectations) => {
        const before = other ?? after;
        const checks = await evaluate({ before, after, types }, expectations);
        for (const { expect: expression, over, violations, already, examples, state } of checks) {
          const isMet = { ...overUsers, ...overGroups }[expression]!;
          const kind = over === "users" ? "user" : "group";
          const breaks = (people: readonly Person[], name: string): boolean =>
            people.some(
              (each) =>
                each.kind === kind &&
                each.name === name &&
                !isMet(each, people, kind === "user" ? types[name] : undefined),
            );
          const names = after.filter((each) => each.kind === kind && breaks(after, each.name)).map(({ name }) => name);
          const old = names.filter((name) => breaks(before, name));
          expect({ expression, violations, already, state }).toEqual({
            expression,
            violations: names.length,
            already: old.length,
            state: names.length === 0 ? "met" : old.length === names.length ? "broken" : "tripped",
          });
          const fresh = names.filter((name) => !old.includes(name)).toSorted();
          expect(examples.map(({ name, isNew }) => [name, isNew])).toEqual([
            ...fresh.map((name) => [name, true]),
            ...old.toSorted().map((name) => [name, false]),
          ]);
          for (const { name, isNew, joining, leaving } of kind === "group" && expression.includes("embers")
            ? examples
            : [])
            expect({ expression, joining, leaving }).toEqual({
              expression,
              ...(isNew ? moves(before, after, name, expression.includes("nestedMembers")) : {}),
            });
        }
      },
    ),
    { numRuns: cases(20) },
  );
});

describe("a verdict", () => {
  const finance = expectation({ name: "no contractors", over: "users", expect: '!("finance" in groups)', most: 1 });
  const world = { before: [group("finance"), user("ada", "finance"), user("bob"), user("cy")], types: {} };

  test("counts what is accepted, and holds only a plan that makes it worse", async () => {
    const one = [group("finance"), user("ada", "finance"), user("bob"), user("cy")];
    const two = [group("finance"), user("ada", "finance"), user("bob", "finance"), user("cy")];
    expect(await evaluate({ ...world, after: one }, [finance])).toMatchObject([{ state: "accepted", violations: 1 }]);
    expect(await evaluate({ ...world, after: two }, [finance])).toMatchObject([{ state: "tripped", already: 1 }]);
    expect(await evaluate({ ...world, before: two, after: two }, [finance])).toMatchObject([{ state: "broken" }]);
    const overrides = ["expectation:no contractors"] as const;
    expect(await evaluate({ ...world, after: two }, [finance], { overrides })).toMatchObject([{ state: "overridden" }]);
    expect(await evaluate({ ...world, after: two }, [{ ...finance, otherwise: "warn" }])).toMatchObject([
      { state: "broken" },
    ]);
  });

  test("is a limit for those that hold or ask", async () => {
    const after = [group("finance"), user("ada", "finance"), user("bob", "finance"), user("cy", "finance")];
    const checks = await evaluate({ ...world, after }, [
      finance,
      { ...finance, name: "asks", otherwise: "approve" },
      { ...finance, name: "warns", otherwise: "warn" },
    ]);
    expect(limitChecksOf(checks)).toEqual(
      [
        ["expectation:no contractors", "hold"],
        ["expectation:asks", "approve"],
      ].map(([limit, otherwise]) => ({
        limit,
        of: "users",
        value: 3,
        earlier: 0,
        bound: 1,
        basis: '!("finance" in groups)',
        tripped: true,
        overridden: false,
        otherwise,
      })),
    );
  });

  test("of numbers is about what the plan makes of them, even where they were too low before", async () => {
    const enough = expectation({ expect: "users.size() > 3" });
    const before = [user("ada"), user("bob")];
    const more = [...before, user("cy")];
    expect(await evaluate({ before, after: more, types: {} }, [enough])).toMatchObject([
      { state: "tripped", already: 1, numbers: { users: { before: 2, after: 3 } } },
    ]);
    const other = [user("ada"), { ...user("bob"), mail: "b" }, group("g")];
    expect(await evaluate({ before, after: other, types: {} }, [enough])).toMatchObject([{ state: "broken" }]);
    expect(await evaluate({ before, after: [...more, user("di")], types: {} }, [enough])).toMatchObject([
      { state: "met", violations: 0 },
    ]);
  });

  test("knows a renamed user by the old name", async () => {
    const before = [group("finance"), user("ada", "finance")];
    const after = [group("finance"), user("lovelace", "finance")];
    const none = { ...finance, most: 0 };
    expect(await evaluate({ before, after, types: {} }, [none])).toMatchObject([{ state: "tripped", already: 0 }]);
    const renamed = [{ was: "ada", becomes: "lovelace" }];
    expect(await evaluate({ before, after, types: {}, renamed }, [none])).toMatchObject([
      { state: "broken", already: 1 },
    ]);
  });

  test("that cannot be told is a violation, with the reason", async () => {
    const failing = expectation({ over: "users", expect: "entry.type > 3" });
    const [check] = await evaluate({ before: [], after: [user("ada"), user("eve")], types: { ada: "x", eve: "y" } }, [
      failing,
    ]);
    expect(check).toMatchObject({ violations: 2, already: 0 });
    expect(check?.examples[0]?.reason).toContain("is text; write `int(entry.type) > 3`");
  });

  test("is unknown where the sources were not read, if it asks for them", async () => {
    const checks = await evaluate(
      { before: [], after: [user("ada")], types: {} },
      [expectation({ over: "users", expect: "inSource" }), expectation({ over: "users", expect: 'name != "ada"' })],
      { knowsSources: false },
    );
    expect(checks).toMatchObject([
      { state: "unknown", violations: 0 },
      { state: "tripped", violations: 1 },
    ]);
  });
});

test("only the first twenty by name are kept of many, the rest is counted", async () => {
  const names = Array.from({ length: 5000 }, (_, index) => `u${(index * 7919) % 5000}`.padEnd(6, "-"));
  const after = names.map((name) => user(name));
  const [check] = await evaluate({ before: [], after, types: {} }, [
    expectation({ over: "users", expect: "mail != null" }),
  ]);
  expect(check?.violations).toBe(5000);
  expect(check?.examples.map(({ name }) => name)).toEqual(names.toSorted().slice(0, 20));
});

test("a group is judged by its members, whose change is the reason; hidden characters of names are shown", async () => {
  const before = [group("team"), user("ada", "team"), user("b\u202Eob", "team"), user("cy")];
  const after = [group("team"), user("ada"), user("b\u202Eob"), user("cy", "team")];
  const small = expectation({ name: "teams have two", over: "groups", expect: "members.size() > 1" });
  const expectations = await evaluate({ before, after, types: {} }, [small]);
  expect(expectations[0]?.examples).toEqual([
    expect.objectContaining({
      name: "team",
      joining: { count: 1, names: ["cy"] },
      leaving: { count: 2, names: ["ada", "b\u202Eob"] },
    }),
  ]);
  const plan = await createPlan(connection(), serviceAttributes);
  const text = (await Array.fromAsync(renderText(plan, { title: "t", colour: false, expectations }))).join("");
  expect(text).toContain(
    'Expectations\n  ✗ "teams have two": 1 group breaks it: holds the plan\n      team: cy joins, ada and b\\u{202e}ob leave\n',
  );
  const markdown = (await Array.fromAsync(renderMarkdown(plan, { title: "t", expectations }))).join("");
  expect(markdown).toContain('### Expectations\n\n- **broken by this plan** `"teams have two": 1 group breaks it');
  expect(markdown).not.toContain("\u202E");
});

test("bad expressions are found before anything is read, with their place", () => {
  const faults = (over: Expectation["over"], expect: string): string[] =>
    checkExpectations([{ over, expect }]).map(({ message, offset }) => `${offset ?? ""} ${message}`);
  expect(faults("users", '!("a" in groups) || entry.type == "x"')).toEqual([]);
  expect(faults("users", "members.size() > 0")).toEqual([
    "0 Unknown variable: members; there are name, displayName, description, mail, groups, nestedGroups, inSource, entry; an attribute of the source is read as entry.NAME",
  ]);
  expect(faults("groups", "members.size()")).toEqual([" gives int, but true or false is needed"]);
  expect(faults(undefined, 'users.exists(u, u == "ada")').join("")).toContain("for each of them write over: users");
  expect(faults(undefined, "entry.type == 1").join("")).toContain("there are users, groups");
  expect(faults("users", "lowr(name) == name")).toEqual(["0 unknown function `lowr`; did you mean `lower`?"]);
});
