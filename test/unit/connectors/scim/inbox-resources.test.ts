import { expect, test } from "vitest";
import type { ScimError } from "#connectors/scim/inbox/errors.ts";
import { checked, isSelected, readResource, selected } from "#connectors/scim/inbox/resources.ts";

const user = "urn:ietf:params:scim:schemas:core:2.0:User";
const group = "urn:ietf:params:scim:schemas:core:2.0:Group";
const enterprise = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
const adScim = "http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group";

test("a user as Entra ID creates it", () => {
  const body = {
    schemas: [user, enterprise],
    externalId: "0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef",
    userName: "Test_User_ab6490ee",
    active: true,
    displayName: "lennay",
    emails: [{ primary: true, type: "work", value: "ada@work.example" }],
    meta: { resourceType: "User" },
    name: { formatted: "givenName familyName", familyName: "familyName", givenName: "givenName" },
    roles: [],
    title: null,
    [enterprise]: { employeeNumber: "7", manager: "9" },
  };
  const { meta: _, roles: __, title: ___, ...kept } = body;
  expect(readResource("user", body)).toEqual({
    resource: { ...kept, [enterprise]: { employeeNumber: "7", manager: { value: "9" } } },
  });
});

test("a user as Okta creates it: no password is stored", () => {
  const { resource } = readResource("user", {
    schemas: [user],
    UserName: "ada",
    Password: "1mz050nq",
    active: "True",
    groups: [],
    Emails: { value: "ada@work.example", primary: "true" },
    id: "mine",
  });
  expect(resource).toEqual({
    schemas: [user],
    userName: "ada",
    active: true,
    emails: [{ value: "ada@work.example", primary: true }],
  });
});

test("groups with and without members", () => {
  const body = { schemas: [group, adScim], displayName: "staff", externalId: "8aa1a0c0" };
  expect(readResource("group", body)).toEqual({ resource: body, members: undefined });
  expect(readResource("group", { displayName: "staff", members: [] }).members).toEqual([]);
  expect(readResource("group", { displayName: "staff", Members: [{ value: "1", display: "x", $ref: null }] })).toEqual({
    resource: { schemas: [group], displayName: "staff" },
    members: [{ value: "1", display: "x" }],
  });
});

test("who is suspended stays so when a PUT does not say", () => {
  const suspended = { userName: "ada", active: false };
  expect(readResource("user", { userName: "ada" }).resource["active"]).toBe(true);
  expect(readResource("user", { userName: "ada" }, suspended).resource["active"]).toBe(false);
  expect(readResource("user", { userName: "ada", active: true }, suspended).resource["active"]).toBe(true);
});

test.each([
  ["user", "text", "invalidSyntax"],
  ["user", [], "invalidSyntax"],
  ["user", {}, "invalidValue"],
  ["user", { userName: " " }, "invalidValue"],
  ["user", { userName: 7 }, "invalidValue"],
  ["user", { userName: "a", externalId: 7 }, "invalidValue"],
  ["user", { userName: "a", active: "perhaps" }, "invalidValue"],
  ["user", { userName: "a", name: "Ada" }, "invalidValue"],
  ["user", { userName: "a".repeat(1_001) }, "invalidValue"],
  ["group", { userName: "a" }, "invalidValue"],
  ["group", { displayName: "a", members: [{ display: "x" }] }, "invalidValue"],
] as const)("refused: a %s like %j", (kind, body, scimType) => {
  expect(() => readResource(kind, body)).toThrow(expect.objectContaining({ status: 400, scimType }) as ScimError);
});

test("after a PATCH, a resource still is one, and names the schemas that it needs", () => {
  expect(() => checked("user", { active: true })).toThrow("userName");
  expect(() => checked("user", { userName: "a" })).toThrow("active");
  expect(checked("user", { schemas: [user], userName: "a", active: true, [enterprise]: { department: "x" } })).toEqual({
    schemas: [user, enterprise],
    userName: "a",
    active: true,
    [enterprise]: { department: "x" },
  });
});

test("attributes and excludedAttributes", () => {
  const resource = {
    schemas: [user],
    id: "1",
    userName: "ada",
    name: { givenName: "Ada", familyName: "Lovelace" },
    emails: [{ value: "a@x", type: "work" }],
    [enterprise]: { employeeNumber: "7", department: "x" },
    meta: { resourceType: "User" },
  };
  const { userName, name, emails, [enterprise]: extension, ...always } = resource;
  expect(selected(resource, {})).toBe(resource);
  expect(selected(resource, { attributes: ["USERNAME", "name.familyName"] })).toEqual({
    ...always,
    userName,
    name: { familyName: "Lovelace" },
  });
  expect(
    selected(resource, { attributes: [`${user}:emails[type eq "work"].value`, `${enterprise}:department`] }),
  ).toEqual({
    ...always,
    emails: [{ value: "a@x" }],
    [enterprise]: { department: "x" },
  });
  expect(selected(resource, { excludedAttributes: ["emails", "id", "name.givenName", enterprise] })).toEqual({
    ...always,
    userName,
    name: { familyName: name.familyName },
  });
  expect([emails, extension]).toHaveLength(2);
  expect(() => selected(resource, { attributes: ["id"], excludedAttributes: ["id"] })).toThrow("not both");
  expect(isSelected("members", {})).toBe(true);
  expect(isSelected("members", { excludedAttributes: ["Members"] })).toBe(false);
  expect(isSelected("members", { attributes: ["displayName"] })).toBe(false);
  expect(isSelected("members", { attributes: [`${group}:members.value`] })).toBe(true);
});
