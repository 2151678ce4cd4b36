import { expect, it } from "vitest";
import { Attributes, serviceAttributes } from "#principals/attributes.ts";
import { compileRules } from "#principals/compile.ts";

const declared = [
  { name: "userName", type: "text", kind: "user", isName: "user" },
  { name: "displayName", type: "text", isName: "group" },
  { name: "externalId", type: "text" },
  { name: "active", type: "boolean", kind: "user" },
  { name: "title", type: "text", kind: "user" },
] as const;
const names = (attributes: Attributes) => attributes.all.map(({ name, kind = "both" }) => `${name} ${kind}`);
const rules = { users: { name: "entry.id", externalId: "entry.id" }, groups: { name: "entry.id" } };

it("what no rule gives stays as the target has it, where the target wants that", () => {
  const compiled = compileRules(
    rules,
    undefined,
    undefined,
    undefined,
    undefined,
    new Attributes(declared, { leavesOthers: true }),
  );
  expect(names(compiled.declared)).toEqual(["userName user", "displayName group", "externalId user", "active user"]);
});

it("what the configuration's own groups have is given, too", () => {
  const own = { ...rules, staticGroups: [{ name: "all", externalId: "g-1", groups: [] }] };
  const compiled = compileRules(
    own,
    undefined,
    undefined,
    undefined,
    undefined,
    new Attributes(declared, { leavesOthers: true }),
  );
  expect(names(compiled.declared)).toContain("externalId both");
});

it("otherwise it is cleared", () => {
  expect(compileRules({ users: { name: "entry.id", displayName: "entry.id" } }).declared).toBe(serviceAttributes);
});
