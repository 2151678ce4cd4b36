import { describe, expect, test } from "vitest";
import type { Resource } from "#connectors/scim/schema.ts";
import { ScimError } from "#connectors/scim/inbox/errors.ts";
import { patch } from "#connectors/scim/inbox/patch.ts";

const urn = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
const ada: Resource = {
  schemas: ["urn:ietf:params:scim:schemas:core:2.0:User", urn],
  id: "1",
  userName: "ada",
  active: true,
  name: { givenName: "Ada", familyName: "Lovelace" },
  emails: [
    { value: "ada@work.example", type: "work", primary: true },
    { value: "ada@home.example", type: "home" },
  ],
  [urn]: { employeeNumber: "7", manager: { value: "9" } },
};

const after = (...Operations: readonly object[]): Resource => patch({ Operations }, ada).resource;
const refusal = (...Operations: readonly object[]): string | undefined => {
  try {
    patch({ Operations }, ada);
  } catch (error) {
    if (error instanceof ScimError) return `${error.status} ${error.scimType}`;
    throw error;
  }
  return undefined;
};

describe("RFC 7644, 3.5.2, as Entra ID sends it", () => {
  test.each([
    ["a text that is a boolean", { op: "Replace", path: "active", value: "False" }, { active: false }],
    ["a boolean", { op: "replace", path: "active", value: false }, { active: false }],
    ["a list with one value", { op: "Replace", path: "active", value: ["False"] }, { active: false }],
    [
      "a part",
      { op: "Add", path: "name.familyName", value: "King" },
      { name: { givenName: "Ada", familyName: "King" } },
    ],
    [
      "a part of the value that a filter finds",
      { op: "Replace", path: 'emails[type eq "work"].value', value: "countess@work.example" },
      { emails: [{ value: "countess@work.example", type: "work", primary: true }, ada["emails"]![1 as never]] },
    ],
    [
      "a part of a value that is not there yet",
      { op: "Add", path: 'phoneNumbers[type eq "mobile"].value', value: "+44 1" },
      { phoneNumbers: [{ type: "mobile", value: "+44 1" }] },
    ],
    [
      "an attribute of an extension",
      { op: "Add", path: `${urn}:department`, value: "Engines" },
      { [urn]: { employeeNumber: "7", manager: { value: "9" }, department: "Engines" } },
    ],
    [
      "a manager as a text",
      { op: "Replace", path: `${urn}:manager`, value: "12" },
      { [urn]: { employeeNumber: "7", manager: { value: "12" } } },
    ],
    ["no manager", { op: "Remove", path: `${urn}:manager` }, { [urn]: { employeeNumber: "7" } }],
    [
      "dotted keys and URNs in a value without a path",
      {
        op: "replace",
        value: { displayName: "Ada King", "name.givenName": "Augusta", [`${urn}:employeeNumber`]: "8" },
      },
      {
        displayName: "Ada King",
        name: { givenName: "Augusta", familyName: "Lovelace" },
        [urn]: { employeeNumber: "8", manager: { value: "9" } },
      },
    ],
    ["an attribute that nobody knows", { op: "add", path: "shoeSize", value: 38 }, { shoeSize: 38 }],
    [
      "the core schema as a path",
      { op: "replace", path: "urn:ietf:params:scim:schemas:core:2.0:User", value: { title: "x" } },
      { title: "x" },
    ],
    [
      "the core schema as a key",
      { op: "replace", value: { "urn:ietf:params:scim:schemas:core:2.0:User": { title: "x" } } },
      { title: "x" },
    ],
    [
      "an extension and a dot",
      { op: "replace", path: `${urn}.employeeNumber`, value: "8" },
      { [urn]: { employeeNumber: "8", manager: { value: "9" } } },
    ],
    [
      "a role by what is primary",
      { op: "Add", path: 'roles[Primary eq "True"].value', value: "admin" },
      { roles: [{ primary: true, value: "admin" }] },
    ],
    ["names in any case", { op: "ADD", path: "NICKNAME", value: "a" }, { nickName: "a" }],
  ])("%s", (_, operation, expected) => {
    expect(after(operation)).toEqual({ ...ada, ...expected });
  });
});

describe("as Okta sends it", () => {
  test("a value without a path, with the id along", () => {
    expect(after({ op: "replace", value: { active: false } })).toEqual({ ...ada, active: false });
    expect(after({ op: "replace", value: { id: "1", displayName: "x" } })).toEqual({ ...ada, displayName: "x" });
    expect(refusal({ op: "replace", value: { id: "2", displayName: "x" } })).toBe("400 mutability");
  });

  test("members, in the order of the operations", () => {
    const group = { id: "g", displayName: "staff" };
    const { resource, members } = patch(
      {
        schemas: ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
        Operations: [
          { op: "remove", path: 'members[value eq "1"]' },
          { op: "add", path: "members", value: [{ value: "2", display: "grace", $ref: null }] },
          { op: "Remove", path: "members", value: [{ value: "3" }, { value: "4" }] },
          { op: "replace", path: "members", value: [{ value: "5" }] },
          { op: "remove", path: "members" },
        ],
      },
      group,
    );
    expect(resource).toEqual(group);
    expect(members).toEqual([
      { op: "remove", ids: ["1"] },
      { op: "add", members: [{ value: "2", display: "grace" }] },
      { op: "remove", ids: ["3", "4"] },
      { op: "clear" },
      { op: "add", members: [{ value: "5" }] },
      { op: "clear" },
    ]);
  });
});

test.each([
  ["an unknown operation", { op: "set", path: "active", value: true }, "400 invalidSyntax"],
  ["no operation", {}, "400 invalidSyntax"],
  ["a path that is none", { op: "add", path: "emails[", value: 1 }, "400 invalidPath"],
  ["a filter that is none", { op: "replace", path: "emails[type is work].value", value: "x" }, "400 invalidFilter"],
  ["a removal without a path", { op: "remove", value: { active: true } }, "400 noTarget"],
  ["what is no boolean", { op: "replace", path: "active", value: "perhaps" }, "400 invalidValue"],
  ["a text without a path", { op: "replace", value: "inactive" }, "400 invalidValue"],
  [
    "the core schema without attributes",
    { op: "remove", path: "urn:ietf:params:scim:schemas:core:2.0:User" },
    "400 noTarget",
  ],
  ["the id", { op: "replace", path: "id", value: "2" }, "400 mutability"],
  ["the groups of a user", { op: "add", path: "groups", value: [{ value: "g" }] }, "400 mutability"],
  ["a password", { op: "replace", path: "password", value: "hunter2" }, "400 mutability"],
  [
    "a filter that describes no value",
    { op: "replace", path: 'phoneNumbers[type ne "home"].value', value: "1" },
    "400 noTarget",
  ],
  ["a member without an id", { op: "add", path: "members", value: [{ display: "x" }] }, "400 invalidValue"],
])("refused, and nothing is changed: %s", (_, operation, expected) => {
  expect(refusal({ op: "replace", path: "title", value: "x" }, operation)).toBe(expected);
});

test("removals take what is meant and no more", () => {
  expect(after({ op: "remove", path: 'emails[type eq "home"]' })["emails"]).toEqual([ada["emails"]![0 as never]]);
  expect(after({ op: "remove", path: "emails", value: [{ value: "ada@work.example" }] })["emails"]).toEqual([
    ada["emails"]![1 as never],
  ]);
  expect(after({ op: "remove", path: "emails" })).not.toHaveProperty("emails");
  expect(after({ op: "remove", path: "name.familyName" })["name"]).toEqual({ givenName: "Ada" });
  expect(after({ op: "remove", path: 'emails[type eq "work"].primary' })["emails"]).toEqual([
    { value: "ada@work.example", type: "work" },
    ada["emails"]![1 as never],
  ]);
});

test("what is there already stays as it is, and in its place", () => {
  const again = { value: "ada@work.example", type: "work" };
  expect(after({ op: "add", path: "emails", value: [again] })).toEqual(ada);
  const named = { ...again, display: "Ada" };
  expect(after({ op: "add", path: "emails", value: named })["emails"]).toEqual([
    { ...named, primary: true },
    ada["emails"]![1 as never],
  ]);
});

test("the case of a type does not matter", () => {
  const value = [{ value: "ada@home.example", type: "Home" }];
  expect(after({ op: "remove", path: "emails", value })["emails"]).toEqual([ada["emails"]![0 as never]]);
  expect(after({ op: "add", path: "emails", value })["emails"]).toHaveLength(2);
});

test("an extension is removed as a whole", () => {
  expect(after({ op: "replace", value: { [urn]: null } })).not.toHaveProperty([urn]);
  expect(after({ op: "remove", path: urn })).not.toHaveProperty([urn]);
});

test("one value is primary", () => {
  expect(after({ op: "add", path: "emails", value: [{ value: "new@x", primary: "True" }] })["emails"]).toEqual([
    { value: "ada@work.example", type: "work", primary: false },
    { value: "ada@home.example", type: "home" },
    { value: "new@x", primary: true },
  ]);
});

test("a name that JavaScript has for itself is a name like any other", () => {
  const value = JSON.parse('{"site": {"__proto__": {"polluted": true}, "constructor": 1}}') as object;
  expect(Object.keys(after({ op: "add", value })["site"] as object)).toEqual(["__proto__", "constructor"]);
  expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
});
