import { expect, test } from "vitest";
import { roleOf } from "#console/oidc.ts";

const options = {
  groups: "realm_access.roles",
  roles: {
    viewer: { values: ["*"] },
    approver: { values: ["identity"] },
    administrator: { claim: "email", values: ["kim@example.com"] },
  },
};

test.each([
  [{}, "viewer"],
  [{ realm_access: { roles: ["identity"] } }, "approver"],
  [{ realm_access: { roles: "identity" } }, "approver"],
  // Some providers have claims whose names have dots.
  [{ "realm_access.roles": ["identity"], realm_access: { roles: [] } }, "approver"],
  [{ realm_access: { roles: ["identity"] }, email: "kim@example.com" }, "administrator"],
  [{ realm_access: { roles: ["Identity", "identity "] }, email: ["kim@example.com.evil"] }, "viewer"],
  [{ realm_access: null, email: null }, "viewer"],
  // An address that nobody has proved gives nothing.
  [{ email: "kim@example.com", email_verified: false }, "viewer"],
  [{ email: "kim@example.com", email_verified: "false" }, "viewer"],
  [{ email: "kim@example.com", email_verified: true }, "administrator"],
])("claims %j give the role %s", (claims, role) => {
  expect(roleOf(claims, options)).toBe(role);
});

test("without a group that counts there is no role; names that every object has are none", () => {
  const { roles } = options;
  const only = {
    groups: "groups",
    roles: { approver: roles.approver, viewer: { claim: "constructor.name", values: ["Object"] } },
  };
  expect(roleOf({ groups: ["sales"] }, only)).toBeUndefined();
  expect(roleOf({ groups: ["*"] }, only)).toBeUndefined();
  expect(roleOf({ groups: ["sales", "identity"] }, only)).toBe("approver");
});
