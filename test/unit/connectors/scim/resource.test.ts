import { describe, expect, test } from "vitest";
import { attributesOf, entryOf, objectOf } from "#connectors/scim/resource.ts";

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

describe("values of another type than the standard's", () => {
  const of = (resource: object) => attributesOf(objectOf(resource) ?? {}, undefined);

  test.each<[unknown, boolean]>([
    ["True", true],
    ["true", true],
    [" TRUE ", true],
    [1, true],
    ["1", true],
    [{ value: "True" }, true],
    ["False", false],
    ["false", false],
    [0, false],
    ["0", false],
  ])("active: %j says %j", (active, said) => {
    expect(of({ active })).toEqual({ active: said });
    expect(of({ ACTIVE: active })).toEqual({ active: said });
    expect(of({ [other]: { active } })).toMatchObject({ active: said });
  });

  test.each([["maybe"], ["yes"], [""], [2], ["2"], [-1], [["true"]], [[]], [{}], [{ state: "on" }]])(
    "active: %j cannot be read",
    (active) => {
      expect(of({ active })["active"]).toEqual({ unreadable: expect.stringMatching(/^is ".*neither true nor false$/) });
    },
  );

  test("an active that is null is missing", () => {
    expect(of({ active: null })).toEqual({});
  });

  test.each<unknown[]>([
    [null, { value: null, type: "work" }, { value: "c@d", type: "home" }],
    [
      { value: "", primary: true },
      { value: "c@d", type: "home" },
    ],
    [{ type: "work" }, { value: "c@d" }, { value: "e@f" }],
  ])("addresses without a value are none: %j, %j, %j", (...emails) => {
    expect(of({ emails })).toMatchObject({ mail: "c@d", "emails.primary": "c@d" });
  });

  test.each([["True"], ["true"], [1], ["1"]])("primary: %j chooses", (primary) => {
    const emails = [
      { value: "a@b", primary: "False" },
      { value: "c@d", primary },
    ];
    expect(of({ emails })).toMatchObject({ mail: "c@d", "emails.primary": "c@d" });
  });

  test("a primary that nobody understands leaves it open which one is", () => {
    const found = of({
      emails: [{ value: "a@b", primary: "perhaps" }, { value: "c@d" }],
      addresses: [
        { locality: "Here", primary: "perhaps" },
        { locality: "There", primary: true },
      ],
    });
    expect(found["emails"]).toEqual(["a@b", "c@d"]);
    expect(found["addresses.primary.locality"]).toBe("There");
    for (const name of ["mail", "emails.primary"])
      expect(found[name]).toEqual({ unreadable: expect.stringMatching(/`primary` of one of the emails is "perhaps"/) });
  });

  test("numbers are texts where the standard has texts, and nowhere else", () => {
    const user = {
      id: 7,
      userName: 4711,
      externalId: 12,
      displayName: 5,
      name: { givenName: 1 },
      emails: [{ value: 3, type: "work" }],
      level: 2,
      [enterprise]: { employeeNumber: 42, manager: { value: 9 } },
    };
    expect(of(user)).toMatchObject({
      id: "7",
      userName: "4711",
      externalId: "12",
      displayName: "5",
      givenName: "1",
      "emails.work": "3",
      mail: "3",
      level: 2,
      employeeNumber: "42",
      [`${enterprise}:employeeNumber`]: "42",
      manager: "9",
    });
  });

  test("types have no case", () => {
    const user = {
      emails: [
        { value: "h@x", type: "HOME" },
        { value: "w@x", type: "Work" },
      ],
      addresses: [{ type: "WORK", locality: "London" }],
      phoneNumbers: [{ type: "Mobile", value: "+1" }],
    };
    expect(of(user)).toMatchObject({
      "emails.home": "h@x",
      "emails.work": "w@x",
      "emails.Work": "w@x",
      "addresses.work.locality": "London",
      "phoneNumbers.mobile": "+1",
    });
  });

  test.each([["a@b"], [["a@b"]], [{ value: "a@b" }], [[{ value: "a@b" }]]])("emails: %j is one address", (emails) => {
    expect(of({ emails })).toMatchObject({ emails: ["a@b"], "emails.primary": "a@b", mail: "a@b" });
  });

  test("one member alone is a list of one, and numbers are its id", () => {
    const options = { wanted: { user: undefined, group: undefined }, memberships: "both" } as const;
    const membersOf = (members: unknown) => entryOf("group", { id: 1, members }, "here", options).members;
    expect(membersOf({ value: 7 })).toEqual([{ key: "7" }]);
    expect(membersOf([7, "8", { value: 9, type: "user" }])).toEqual([
      { key: "7" },
      { key: "8" },
      { kind: "user", key: "9" },
    ]);
  });
});

test("a resource of which nothing but the id can be read is there, and its account may not read it", () => {
  const options = { wanted: { user: undefined, group: undefined }, memberships: "both" } as const;
  const blank = {
    schemas: ["urn:ietf:params:scim:schemas:core:2.0:User"],
    id: "7",
    meta: {},
    userName: null,
    emails: [],
  };
  expect(() => entryOf("user", blank, "Users", options)).toThrow(
    "Users, id 7: every value of the user but the id is null, so the account may not read it",
  );
  expect(entryOf("user", { id: "7" }, "Users", options).id).toBe("7");
  expect(entryOf("user", { ...blank, userName: "ada" }, "Users", options).attributes["userName"]).toBe("ada");
});
