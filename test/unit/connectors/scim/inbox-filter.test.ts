import { describe, expect, test } from "vitest";
import type { ScimError } from "#connectors/scim/inbox/errors.ts";
import { matches, readFilter } from "#connectors/scim/inbox/filter.ts";

const urn = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
const ada = {
  id: "a1",
  externalId: "Ext",
  userName: "CORP\\ada",
  displayName: 'Ada "the" [Countess].x eq "y"',
  active: true,
  title: "",
  emails: [
    { value: "ada@work.example", type: "work", primary: true },
    { value: "ada@home.example", type: "home" },
  ],
  meta: { lastModified: "2026-11-26T10:00:00.000Z" },
  [urn]: { employeeNumber: "7", manager: { value: "9" } },
};
const holds = (filter: string): boolean => matches(readFilter(filter), ada);

test.each([
  ['userName eq "corp\\ada"', true],
  [String.raw`userName eq "CORP\\ada"`, true],
  ['USERNAME Eq "CORP\\ADA"', true],
  ['userName eq "ada"', false],
  ['userName ew "ada" AND active eq True', true],
  ['active eq "True"', true],
  ["active eq false", false],
  ['externalId eq "Ext"', true],
  ['externalId eq "ext"', false],
  [String.raw`displayName eq "Ada \"the\" [Countess].x eq \"y\""`, true],
  ['emails.value co "HOME"', true],
  ['emails eq "ada@home.example"', true],
  ['emails[type eq "work"].value eq "ADA@work.example"', true],
  // Of one value both must hold: it is not the address for work.
  ['emails[type eq "work"].value eq "ada@home.example"', false],
  ['emails[type eq "work" and primary eq true].value sw "ada" and active eq true', true],
  ['emails[type eq "other"].value pr', false],
  ['not (emails[type eq "other"].value pr) and id eq "a1"', true],
  ["title pr", false],
  ["nickName eq null", true],
  ["nickName pr or emails pr", true],
  ['meta.lastModified gt "2026-11-26T09:00:00.000Z"', true],
  ['meta.lastModified le "2026-11-26T09:00:00.000Z"', false],
  [`${urn}:employeeNumber eq "7"`, true],
  [`${urn}:manager.value eq "9"`, true],
  [`${urn}:manager eq "9"`, true],
  ['urn:ietf:params:scim:schemas:core:2.0:User:userName sw "corp"', true],
  ["meta.lastModified gt 2026-11-26T01:59:59.5-07:00", true],
  ["userName ew ADA and active eq True", true],
  ['userName ne "corp\\ada"', false],
  ['userName eq "x" or id eq "a1" and active eq true', true],
  ['(userName eq "x" or id eq "a1") and active eq false', false],
])("%s: %s", (filter, expected) => {
  expect(holds(filter)).toBe(expected);
});

describe("refused as invalidFilter", () => {
  test.each([
    "",
    "userName",
    "userName eq",
    "userName eq ada lovelace",
    'userName is "ada"',
    'userName eq "ada',
    'emails[type eq "work"',
    "(".repeat(8_000),
    `userName eq "${"x".repeat(9_000)}"`,
  ])("%.40s", (filter) => {
    expect(() => readFilter(filter)).toThrow(
      expect.objectContaining({ status: 400, scimType: "invalidFilter" }) as ScimError,
    );
  });
});
