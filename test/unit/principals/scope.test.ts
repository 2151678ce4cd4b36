import { describe, expect, test } from "vitest";
import { InputError, UnavailableError } from "#errors.ts";
import { assemble } from "#principals/assembly.ts";
import { compileRules } from "#principals/compile.ts";
import type { SourceRecord } from "#principals/entry.ts";
import type { Rules } from "#principals/rules.ts";
import { useConnection } from "../../support/duckdb.ts";
import { assembleAll, group, groupsOf, membership, user } from "./assembling.ts";

const connection = useConnection();

const simple = { name: "entry.name", displayName: "entry.name" };

/** Who is in scope: `user ada`. */
async function inScope(
  rules: Partial<Rules["users"]>,
  sources: Readonly<Record<string, readonly SourceRecord[]>>,
  groups?: Partial<NonNullable<Rules["groups"]>>,
): Promise<readonly string[]> {
  const assembled = await assembleAll(connection(), sources, {
    users: { ...simple, ...rules },
    ...(groups === undefined ? {} : { groups: { ...simple, ...groups } }),
  });
  return Object.keys(groupsOf(assembled));
}

const company: readonly SourceRecord[] = [
  user("ada", { memberOf: ["sales-eu"] }),
  user("bob"),
  user("cy", { memberOf: ["other"] }),
  user("dot"),
  group("app-sales", { members: [{ key: "bob" }, { key: "sales-eu", kind: "group" }] }),
  group("app-sales-us"),
  group("sales-eu"),
  group("other"),
  membership("app-sales-us", { key: "dot" }),
];

test("only direct members of the groups are in scope, whoever says so", async () => {
  expect(await inScope({ onlyMembersOf: ["app-sales*"] }, { corp: company })).toEqual(["user bob", "user dot"]);
  expect(await inScope({ onlyMembersOf: ["app-sales"] }, { corp: company }, {})).toEqual([
    "group app-sales",
    "group app-sales-us",
    "group other",
    "group sales-eu",
    "user bob",
  ]);
});
test("with nested, members of groups in them are in scope too", async () => {
  expect(await inScope({ onlyMembersOf: ["app-sales*"], nested: true }, { corp: company })).toEqual([
    "user ada",
    "user bob",
    "user dot",
  ]);
  expect(await inScope({ notMembersOf: ["app-sales*"], nested: true }, { corp: company })).toEqual(["user cy"]);
  expect(await inScope({ notMembersOf: ["app-sales*"] }, { corp: company })).toEqual(["user ada", "user cy"]);
});

test("in a cycle of groups, everybody is in all of them", async () => {
  const size = 500;
  const cycle = Array.from({ length: size }, (_, index) => [
    group(`g${index}`, { memberOf: [`g${(index + 1) % size}`] }),
    user(`u${index}`, { memberOf: [`g${index}`] }),
  ]).flat();
  const outside = [
    group("below", { memberOf: ["g0"] }),
    group("above"),
    membership("above", { key: "g7" }),
    user("out"),
  ];
  const records = [...cycle, ...outside, user("low", { memberOf: ["below"] }), user("high", { memberOf: ["above"] })];
  const count = (number: number): string =>
    `size(nestedMemberOf(entry)) == ${number} && "above" in nestedMemberOf(entry)`;
  const of = async (include: string): Promise<number> => (await inScope({ include }, { corp: records })).length;
  expect(await of(count(size + 1))).toBe(size);
  expect(await inScope({ include: count(size + 2) }, { corp: records })).toEqual(["user low"]);
  expect(await inScope({ include: count(1) }, { corp: records })).toEqual(["user high"]);
});

test("a group is called as the rules call it, or as most sources do, or by the name that its members know", async () => {
  const named: readonly SourceRecord[] = [
    user("ada", { memberOf: ["g1"] }),
    user("bob", { memberOf: ["g2"] }),
    user("cy", { memberOf: ["only mentioned"] }),
    group("g1", { attributes: { name: "id-1", cn: "Sales", code: "S" } }),
    group("g2", { attributes: { name: "Sales" } }),
  ];
  expect(await inScope({ onlyMembersOf: ["Sales"] }, { corp: named })).toEqual(["user ada", "user bob"]);
  const rules = { name: "coalesce(entry.code, entry.name)", rename: { S: "Renamed" } };
  expect(await inScope({ onlyMembersOf: ["S"] }, { corp: named }, rules)).toContain("user ada");
  expect(await inScope({ onlyMembersOf: ["only*"] }, { corp: named })).toEqual(["user cy"]);
});

test("groups below others are those themselves and all inside, even in a cycle", async () => {
  const groups: readonly SourceRecord[] = [
    group("apps", { members: [{ key: "sales" }] }),
    group("sales", { members: [{ key: "europe" }] }),
    group("europe", { memberOf: ["sales"], members: [{ key: "apps" }] }),
    group("other"),
  ];
  expect(await inScope({}, { corp: groups }, { onlyBelow: ["sales"] })).toEqual([
    "group apps",
    "group europe",
    "group sales",
  ]);
  expect(await inScope({}, { corp: groups }, { notBelow: ["europe"] })).toEqual(["group other"]);
});

test("a joined person is a member by any of its records; one who was hired again is no member by the old one", async () => {
  const hr = [
    user("1", { attributes: { name: "ada", mail: "ada@x" } }),
    user("2", { attributes: { name: "bob", mail: "bob@x", status: "left" }, memberOf: ["apps"] }),
    user("3", { attributes: { name: "bob", mail: "bob@x" } }),
    user("4", { attributes: { name: "cy", mail: "cy@x" } }),
    group("apps"),
  ];
  const corp = [
    user("a", { attributes: { mail: "ada@x" }, memberOf: ["vpn"] }),
    user("c", { attributes: { mail: "cy@x" } }),
    group("vpn"),
  ];
  const scope = async (rules: Partial<Rules["users"]>): Promise<readonly string[]> => {
    const assembled = await assembleAll(
      connection(),
      { hr, corp },
      {
        users: { name: "entry.name", displayName: "entry.name", include: 'entry.status != "left"', ...rules },
        join: { users: "entry.mail" },
      },
    );
    expect(assembled.quarantined).toEqual([]);
    return Object.keys(groupsOf(assembled));
  };
  expect(await scope({ onlyMembersOf: ["vpn", "apps"] })).toEqual(["user ada"]);
  expect(await scope({ notMembersOf: ["vpn", "apps"] })).toEqual(["user bob", "user cy"]);
  expect(await scope({ include: 'entry.status != "left" && "vpn" in memberOf(entry)' })).toEqual(["user ada"]);
});

describe("nothing is concluded from what is not known", () => {
  test("a name that no group has fails the read, and says which group there is", async () => {
    const failure = await inScope({ onlyMembersOf: ["app-sale"], notMembersOf: ["x*"] }, { corp: company }).catch(
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(InputError);
    expect((failure as InputError).problems).toEqual([
      'users.onlyMembersOf: no group matches "app-sale"; there is "app-sales"',
      expect.stringMatching(/^users\.notMembersOf: no group matches "x\*"; there is "/),
      "correct the pattern, or remove it if the group is gone for good",
    ]);
    await expect(inScope({ onlyMembersOf: ["app"] }, { corp: [user("ada")] })).rejects.toMatchObject({
      problems: expect.arrayContaining(['users.onlyMembersOf: no group matches "app"; the sources have no groups']),
    });
  });

  test("who may be in one of two groups is quarantined", async () => {
    const records = [
      user("ada", { memberOf: ["g"] }),
      user("bob", { memberOf: ["g", "sure"] }),
      group("app", { keys: ["g"] }),
      group("other", { keys: ["g"] }),
      group("sure"),
    ];
    const rules = { users: { ...simple, onlyMembersOf: ["app", "sure"] } };
    const { rows, quarantined } = await assembleAll(connection(), { corp: records }, rules);
    expect(rows.map(({ name }) => name)).toEqual(["bob"]);
    expect(quarantined).toMatchObject([{ name: "ada", reason: expect.stringContaining("users.onlyMembersOf: ") }]);
    const asking = await assembleAll(
      connection(),
      { corp: records },
      { users: { ...simple, include: '"app" in memberOf(entry)' } },
    );
    expect(asking.quarantined.map(({ name, reason }) => [name, reason.slice(0, 31)])).toEqual([
      ["ada", "users.include: memberOf(entry):"],
      ["bob", "users.include: memberOf(entry):"],
    ]);
  });

  test("an optional source that cannot be read hides groups, but lets nobody in", async () => {
    const read = async (users: Partial<Rules["users"]>, join?: Rules["join"]): Promise<readonly string[]> => {
      const records = [user("ada", { memberOf: ["apps"] }), user("bob"), group("apps")];
      const rules: Rules = { users: { ...simple, ...users }, join };
      await assemble(
        connection(),
        [
          { name: "hr", records: batches(records) },
          { name: "corp", optional: true, records: broken() },
        ],
        compileRules(rules),
        { signal: new AbortController().signal },
      );
      const rows = await connection().rows<{ name: string }>("SELECT name FROM assembled ORDER BY name");
      return rows.map(({ name }) => name);
    };
    expect(await read({ onlyMembersOf: ["apps", "vpn"] })).toEqual(["ada"]);
    expect(await read({ notMembersOf: ["apps", "vpn"] })).toEqual(["bob"]);
    await expect(read({ notMembersOf: ["vpn"] }, { users: "entry.name" })).rejects.toThrow("corp is offline");
  });
});

async function* batches(records: readonly SourceRecord[]): AsyncIterable<readonly SourceRecord[]> {
  yield records;
}

async function* broken(): AsyncIterable<readonly SourceRecord[]> {
  yield [user("eve"), group("vpn")];
  throw new UnavailableError("corp is offline");
}
