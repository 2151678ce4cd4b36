import { expect, test } from "vitest";
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
