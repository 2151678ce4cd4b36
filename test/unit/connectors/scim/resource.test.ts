import { expect, test } from "vitest";
import { attributesOf, objectOf } from "#connectors/scim/resource.ts";

const enterprise = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
const other = "urn:example:a:2.0:User";

test("flattens a resource", () => {
  const user = {
    id: "1",
    userName: "ada",
    active: false,
    nickName: "",
    title: null,
    name: { givenName: "Ada", familyName: "Lovelace", middleName: null },
    emails: [
      { value: "home@example.com", type: "home" },
      { value: "ada@example.com", type: "work", primary: true },
      { value: "other@example.com", type: "work" },
    ],
    phoneNumbers: [{ value: "+1" }],
    addresses: [{ type: "work", locality: "London", primary: false }],
    roles: ["admin", "", 7],
    photos: [],
    groups: [{ value: "g" }],
    [other]: { department: "Other", badge: 12 },
    [enterprise]: { department: "Engines", manager: { value: "2", displayName: "Charles", $ref: "../Users/2" } },
  };
  expect(attributesOf(user, undefined)).toEqual({
    id: "1",
    userName: "ada",
    active: false,
    "name.givenName": "Ada",
    "name.familyName": "Lovelace",
    givenName: "Ada",
    familyName: "Lovelace",
    mail: "ada@example.com",
    emails: ["home@example.com", "ada@example.com", "other@example.com"],
    "emails.primary": "ada@example.com",
    "emails.home": "home@example.com",
    "emails.work": "ada@example.com",
    phoneNumbers: ["+1"],
    "phoneNumbers.primary": "+1",
    "addresses.primary.locality": "London",
    "addresses.work.locality": "London",
    roles: ["admin", "7"],
    department: "Engines",
    badge: 12,
    manager: "2",
    "manager.displayName": "Charles",
    [`${enterprise}:department`]: "Engines",
    [`${enterprise}:manager`]: "2",
    [`${enterprise}:manager.displayName`]: "Charles",
    [`${other}:department`]: "Other",
    [`${other}:badge`]: 12,
  });
});

test("gives a name of the standard to nothing else", () => {
  const user = {
    department: "core",
    mail: "own@example.com",
    emails: [{ value: "x@y" }],
    [enterprise]: { department: "d" },
  };
  expect(attributesOf(user, new Set(["department", "mail"]))).toEqual({ department: "core", mail: "own@example.com" });
});

test("keeps what is wanted alone", () => {
  const user = { userName: "ada", name: { givenName: "Ada" }, emails: [{ value: "a@b" }] };
  expect(attributesOf(user, new Set(["mail", "name.givenName", "nothing"]))).toEqual({
    mail: "a@b",
    "name.givenName": "Ada",
  });
});

test("is not fooled by the name of the prototype", () => {
  const user = JSON.parse('{"__proto__": {"polluted": true}, "a": {"__proto__": "x"}}');
  expect(
    Object.keys(attributesOf(objectOf(user) ?? {}, undefined)).filter((name) => !name.includes("__proto__")),
  ).toEqual([]);
  expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
});

test("names attributes as the standard does, however a server writes them", () => {
  expect(objectOf({ UserName: "ada", EMAILS: [{ Value: "a@b", PRIMARY: true }], Custom: 1 })).toEqual({
    userName: "ada",
    emails: [{ value: "a@b", primary: true }],
    Custom: 1,
  });
  expect([objectOf([]), objectOf(null), objectOf("x")]).toEqual([undefined, undefined, undefined]);
});
