import { expect, test } from "vitest";
import { noAccess } from "#state/access.ts";
import type { Account } from "#state/access.ts";
import type { Actor, Decision } from "#state/record.ts";
import { lapseOf } from "#sync/coordinator/approvals.ts";

const at = "2026-11-21T10:12:35.000Z";
const ada: Account = { id: "1", via: "account", name: "Ada", role: "approver", created: at };
const grace: Account = {
  id: "2",
  via: "oidc",
  name: "grace",
  created: at,
  subject: { issuer: "https://id.example", sub: "g1" },
};

function lapse(by: Actor, accounts: readonly Account[], overrides?: Decision["overrides"]): string | undefined {
  const decision: Decision = { decision: "approved", at, by, digest: "d", ...(overrides && { overrides }) };
  return lapseOf(decision, { ...noAccess, accounts: [...accounts] });
}

test("an approval counts as long as whoever gave it may give it", () => {
  const local: Actor = { name: "ada", from: "192.0.2.1", via: "account" };
  const signedOn: Actor = { name: "grace", from: "192.0.2.1", via: "oidc", id: "https://id.example g1" };
  expect(lapse(local, [ada])).toBeUndefined();
  expect(lapse(local, [grace])).toBe("the approval of ada no longer counts: the account was removed");
  expect(lapse(local, [{ ...ada, disabled: true }])).toBe(
    "the approval of ada no longer counts: the account is disabled",
  );
  expect(lapse(local, [{ ...ada, role: "viewer" }])).toContain("no longer counts: running, approving");
  expect(lapse(local, [ada], ["deletes"])).toContain("no longer counts: overriding limits needs the role");
  expect(lapse(signedOn, [{ ...grace, role: "approver" }])).toBeUndefined();
  expect(lapse(signedOn, [ada, grace])).toContain("grace has no role");
  // Holders of the data folder, and users of the service, have no account here.
  expect(lapse({ name: "root", from: "command line", via: "command line" }, [])).toBeUndefined();
  expect(lapse({ name: "admin", from: "192.0.2.1", via: "service" }, [])).toBeUndefined();
});
