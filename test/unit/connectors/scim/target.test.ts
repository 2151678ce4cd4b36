import { describe, expect, it } from "vitest";
import { Attributes } from "#principals/attributes.ts";
import { enterprise } from "#connectors/scim/schema.ts";
import { fieldsOf, Mapping } from "#connectors/scim/target/attributes.ts";
import scim from "#connectors/scim/target/index.ts";
import { options, profileOf } from "#connectors/scim/target/options.ts";
import { parsePath, placed } from "#connectors/scim/target/paths.ts";
import { profiles } from "#connectors/scim/target/profiles.ts";
import { memberOperations, operations } from "#connectors/scim/target/requests.ts";

const url = "https://app.example.com/scim/v2";
const own = (attributes: object) => options.parse({ url, attributes }).attributes;
const mapping = (attributes: object = {}) => new Mapping(fieldsOf(own(attributes), profiles.generic));
const changesOf = (values: Parameters<Mapping["changes"]>[1], before: object, attributes: object = {}) =>
  mapping(attributes).changed("user", values, before as never);

describe("options", () => {
  it.each([
    [{ url: "https://u:p@app.example.com" }, /user or a password/],
    [{ url: "http://app.example.com/scim" }, /unencrypted/],
    [{ url, token: "a", auth: { bearer: "b" } }, /either token or auth/],
    [{ url, token: "two words" }, /without spaces/],
    [{ url, profile: "amazon" }, /expected generic, aws, entra/],
    [{ url, profile: { base: "aws", membersPerPatch: 0 } }, /1 or more/],
    [{ url, profile: { base: "aws", memberPerPatch: 5 } }, /memberPerPatch/],
    [{ url, attributes: { title: { path: "title" } } }, /attribute of every SCIM target/],
    [{ url, attributes: { secret: { path: "password" } } }, /expected a path/],
    [{ url, attributes: { team: { path: "groups" } } }, /expected a path/],
    [{ url, attributes: { "a b": { path: "x" } } }, /letters and digits/],
  ])("%j is wrong", (value, message) => {
    expect(JSON.stringify(options.safeParse(value).error?.issues)).toMatch(message);
  });

  it("takes a profile that differs from a known one", () => {
    const profile = profileOf(options.parse({ url, profile: { base: "aws", pageSize: 20, deletes: { user: false } } }));
    expect(profile).toEqual({ ...profiles.aws, pageSize: 20, deletes: { user: false, group: true } });
  });

  it("has room for every attribute that may be declared", () => {
    const attributes = Object.fromEntries(Array.from({ length: 8 }, (_, n) => [`own${n}`, { path: `own${n}` }]));
    const declared = scim.declare(options.parse({ url, attributes }));
    expect(new Attributes(declared).all.length).toBeLessThanOrEqual(31);
    expect(scim.place(options.parse({ url: `${url}/` }))).toBe(scim.place(options.parse({ url })));
  });
});

describe("paths", () => {
  it.each([
    ["title", { attribute: "title" }],
    ["name.honorificPrefix", { attribute: "name", sub: "honorificPrefix" }],
    ['phoneNumbers[type eq "mobile"].value', { attribute: "phoneNumbers", type: "mobile", sub: "value" }],
    [`${enterprise}:manager.value`, { urn: enterprise, attribute: "manager", sub: "value" }],
    ["id", undefined],
    ["Password", undefined],
    ["members", undefined],
    ['emails[type eq "work" or primary eq true]', undefined],
  ])("%s", (text, path) => expect(parsePath(text)).toEqual(path));

  it("leaves no empty objects behind", () => {
    const resource = { id: "1", name: { givenName: "A" }, [enterprise]: { department: "X" } };
    expect(
      placed(
        placed(resource, { attribute: "name", sub: "givenName" }, null),
        { urn: enterprise, attribute: "department" },
        null,
      ),
    ).toEqual({ id: "1" });
  });
});

describe("lists", () => {
  const [a, b] = ["a@example.com", "b@example.com"];

  it("has one primary value, which the plan or else the order says", () => {
    expect(changesOf({ emails: [a, b] }, {})["emails"]).toEqual([
      { value: a, type: "work", primary: true },
      { value: b, type: "other" },
    ]);
    expect(changesOf({ emails: [a, b], mail: b }, {})["emails"]).toEqual([
      { value: a, type: "work" },
      { value: b, type: "other", primary: true },
    ]);
  });

  it("keeps what is not planned, and what a value has beside it", () => {
    const emails = [
      { value: a, type: "home", display: "A" },
      { value: b, type: "work", primary: true },
    ];
    expect(changesOf({ emails: [a] }, { emails })["emails"]).toEqual([
      { value: a, type: "home", display: "A", primary: true },
    ]);
    expect(changesOf({ mail: "c@example.com" }, { emails })["emails"]).toEqual([
      { value: a, type: "home", display: "A" },
      { value: "c@example.com", type: "work", primary: true },
    ]);
    expect(changesOf({ emails: null }, { emails })).not.toHaveProperty("emails");
  });

  it("has no address left where nobody is to have a mail address, as the next one would be read as it", () => {
    const emails = [
      { value: a, type: "home" },
      { value: b, type: "work", primary: true },
      { value: "c@example.com", type: "other" },
    ];
    expect(changesOf({ mail: null }, { emails })).not.toHaveProperty("emails");
    const home = { home: { path: 'emails[type eq "home"].value' } };
    expect(changesOf({ mail: null }, { emails }, home)["emails"]).toEqual([{ value: a, type: "home", primary: true }]);
  });

  it("has the mail address beside the one of a type that another attribute holds, and drops it for that one", () => {
    const work = { work: { path: 'emails[type eq "work"].value' } };
    expect(changesOf({ mail: b, work: a }, {}, work)["emails"]).toEqual([
      { value: b, type: "other", primary: true },
      { value: a, type: "work" },
    ]);
    const alone = [{ value: a, type: "work", primary: true }];
    expect(changesOf({ mail: b }, { emails: alone }, work)["emails"]).toEqual([
      { value: b, type: "other", primary: true },
      { value: a, type: "work" },
    ]);
    const both = [
      { value: b, type: "other", primary: true },
      { value: a, type: "work" },
    ];
    expect(changesOf({ mail: a }, { emails: both }, work)["emails"]).toEqual(alone);
  });

  it("has values with a type of their own", () => {
    const mobile = { mobile: { path: 'phoneNumbers[type eq "mobile"].value' } };
    const made = changesOf({ mobile: "2", phoneNumbers: ["1"] }, {}, mobile);
    expect(made["phoneNumbers"]).toEqual([
      { value: "1", type: "work", primary: true },
      { value: "2", type: "mobile" },
    ]);
    expect(mapping(mobile).remote("user", { id: "1", userName: "a", ...made })?.attributes).toEqual({
      userName: "a",
      phoneNumbers: ["1"],
      mobile: "2",
    });
    expect(changesOf({ mobile: null }, made, mobile)["phoneNumbers"]).toEqual([
      { value: "1", type: "work", primary: true },
    ]);
    // The list has a value of its own, also where the other attribute has the same.
    expect(changesOf({ phoneNumbers: ["2"] }, made, mobile)["phoneNumbers"]).toEqual([
      { value: "2", type: "mobile", primary: true },
      { value: "2", type: "work" },
    ]);
  });

  it("reads what servers send in their own way", () => {
    const read = (resource: object) => mapping().remote("user", { id: 7, userName: "a", ...resource });
    expect(read({ active: "False", emails: a, title: 5 })).toMatchObject({
      id: "7",
      attributes: { active: false, mail: a, emails: [a], title: "5" },
    });
    expect(read({ [enterprise.toLowerCase()]: { Department: "X" } })?.attributes["department"]).toBe("X");
    expect(read({ emails: [], title: "", name: null })?.attributes).toEqual({ userName: "a" });
  });
});

describe("requests", () => {
  it("has a path for each attribute, or none at all", () => {
    const values = { title: "Boss", "name.givenName": "Ada", department: "X", nickName: null };
    expect(operations("user", values, {}, mapping(), profiles.generic)).toEqual([
      { op: "replace", path: "name.givenName", value: "Ada" },
      { op: "replace", path: "title", value: "Boss" },
      { op: "replace", path: `${enterprise}:department`, value: "X" },
      { op: "remove", path: "nickName" },
    ]);
    expect(operations("user", values, {}, mapping(), { ...profiles.generic, paths: false })).toEqual([
      { op: "replace", value: { name: { givenName: "Ada" }, title: "Boss", [enterprise]: { department: "X" } } },
      { op: "remove", path: "nickName" },
    ]);
  });

  it("needs one request for members that fit into it", () => {
    const ids = (count: number) => Array.from({ length: count }, (_, n) => ({ id: `m${n}` }));
    const sizes = (add: number, remove: number, profile: (typeof profiles)[keyof typeof profiles]) =>
      memberOperations(ids(add), ids(remove), profile).map((request) => request.map(({ op }) => op));
    expect(sizes(2, 1, profiles.generic)).toEqual([["add", "remove"]]);
    expect(sizes(150, 120, profiles.aws)).toEqual([["add"], ["add"], ["remove"], ["remove"]]);
    expect(sizes(21, 2, profiles.entra)).toEqual([["add"], ["add"], ["remove"], ["remove"]]);
    expect(sizes(0, 0, profiles.generic)).toEqual([]);
  });
});
