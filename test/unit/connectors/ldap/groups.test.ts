import fc from "fast-check";
import { expect, test } from "vitest";
import { Nesting } from "#connectors/ldap/groups.ts";
import { isRequired } from "#connectors/ldap/hidden.ts";

function nestingOf(groups: readonly string[], edges: readonly (readonly [string, string])[]) {
  const nesting = new Nesting();
  for (const group of groups) nesting.group(group);
  for (const [member, group] of edges) nesting.add(member, group);
  const warnings: string[] = [];
  nesting.warnAboutCycles((message) => warnings.push(message));
  return { nesting, warnings };
}

test("finds all parents, each once in a diamond, and none for what is no group", () => {
  const { nesting, warnings } = nestingOf(
    ["a", "b", "c", "d"],
    [
      ["a", "b"],
      ["a", "c"],
      ["b", "d"],
      ["c", "d"],
      ["ada", "a"],
      ["a", "elsewhere"],
    ],
  );
  expect(nesting.above("a").toSorted()).toEqual(["b", "c", "d"]);
  expect(nesting.above("d")).toEqual([]);
  expect(nesting.above("ada")).toEqual([]);
  expect([nesting.isGroup("a"), nesting.isGroup("ada")]).toEqual([true, false]);
  expect(warnings).toEqual([]);
});

test("reports cycles, and does not loop in them", () => {
  const { nesting, warnings } = nestingOf(
    ["a", "b", "c", "self"],
    [
      ["a", "b"],
      ["b", "c"],
      ["c", "a"],
      ["self", "self"],
    ],
  );
  expect(nesting.above("a").toSorted()).toEqual(["b", "c"]);
  expect(nesting.above("self")).toEqual([]);
  expect(warnings).toEqual([
    "the group a contains itself, directly or through other groups",
    "the group self contains itself, directly or through other groups",
  ]);
});

test("does not name hundreds of cycles", () => {
  const names = Array.from({ length: 100 }, (_, index) => `g${index}`);
  const { warnings } = nestingOf(
    names,
    names.map((name) => [name, name] as const),
  );
  expect(warnings).toHaveLength(6);
  expect(warnings.at(-1)).toBe("95 more groups contain themselves");
});

test("a chain of groups may be long", () => {
  const names = Array.from({ length: 20_000 }, (_, index) => `g${index}`);
  const { nesting } = nestingOf(
    names,
    names.slice(1).map((name, index) => [names[index]!, name] as const),
  );
  expect(nesting.above("g0")).toHaveLength(19_999);
});

test("finds what following every membership finds", () => {
  const nodes = ["a", "b", "c", "d", "e", "f"];
  const node = fc.constantFrom(...nodes);
  fc.assert(
    fc.property(fc.array(fc.tuple(node, node), { maxLength: 12 }), (edges) => {
      const { nesting, warnings } = nestingOf(nodes, edges);
      const reach = (start: string): Set<string> => {
        const found = new Set<string>();
        for (let grown = true; grown;) {
          const size = found.size;
          for (const [member, group] of edges) if (member === start || found.has(member)) found.add(group);
          grown = found.size > size;
        }
        return found;
      };
      for (const group of nodes) {
        const expected = reach(group);
        expected.delete(group);
        expect(new Set(nesting.above(group))).toEqual(expected);
      }
      expect(warnings.length > 0).toBe(nodes.some((group) => reach(group).has(group)));
    }),
  );
});

test.each([
  [
    "OpenLDAP",
    "( 2.5.6.9 NAME 'groupOfNames' DESC 'RFC2256: MUST x' SUP top STRUCTURAL MUST ( member $ cn ) MAY owner )",
    true,
  ],
  ["one attribute", "( 2.5.6.9 NAME ( 'gon' 'groupOfNames' ) MUST member )", true],
  [
    "389 Directory Server",
    "( 2.5.6.9 NAME 'groupOfNames' SUP top STRUCTURAL MUST ( cn ) MAY ( member $ owner ) )",
    false,
  ],
  ["another class", "( 1.2.3 NAME 'groupOfMembers' MUST ( member $ cn ) )", false],
  ["no such rule", "( 2.5.6.9 NAME 'groupOfNames' )", false],
])("knows from a schema whether a group must have members: %s", (_, definition, isWanted) => {
  expect(isRequired(definition, "groupofnames", "member")).toBe(isWanted);
});
