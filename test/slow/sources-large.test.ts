import { describe } from "vitest";
import { entraMedium } from "../contract/source/entra-medium.ts";
import { oktaMedium } from "../contract/source/okta-medium.ts";
import { readsMoreThanMemoryHolds } from "../contract/source/suite.ts";
import { httpMedium, plainOptions, reportOptions } from "../contract/source/http-medium.ts";
import { ldapMedium } from "../contract/source/ldap-medium.ts";
import { ldifMedium } from "../contract/source/ldif-medium.ts";
import { linesPacked, scimFilesMedium, scimMedium, twoLists } from "../contract/source/scim-medium.ts";
import { noOpenLdap, reader } from "../support/ldap/openldap.ts";
import { startPagedScim, startScim } from "../support/scim.ts";

// What takes long to make or to deliver more than memory holds.

const none = { before: [], during: [] };

readsMoreThanMemoryHolds(scimMedium("a SCIM server, by startIndex", { start: startScim, faults: none }), {
  users: 20_000,
  heap: 30,
});

readsMoreThanMemoryHolds(
  scimMedium("a SCIM server, by cursor, members of each group apart", {
    start: (directory, options) =>
      startPagedScim(directory, { cursors: true, largestPage: 700, memberLimit: 40, memberPages: true }, options),
    options: { groups: { members: "each", memberPages: {} }, paging: { attempts: 2 } },
    faults: none,
  }),
  { users: 30_000, heap: 40 },
);

readsMoreThanMemoryHolds(oktaMedium("Okta", { faults: none }), { users: 60_000, heap: 48 });

readsMoreThanMemoryHolds(entraMedium({}, none), { users: 60_000, heap: 48 });

const attributes = { login: "", displayName: "", mail: "", name: "", description: "" };

readsMoreThanMemoryHolds(
  httpMedium("lists over HTTP, in pages", plainOptions, { attributes, describes: [], faults: none }),
  { users: 15_000, heap: 30 },
);

readsMoreThanMemoryHolds(
  httpMedium("reports over HTTP, each in one answer", reportOptions, { attributes, describes: [], faults: none }),
  { users: 40_000, heap: 34 },
);

for (const format of [twoLists, linesPacked])
  readsMoreThanMemoryHolds(scimFilesMedium(format, none), { users: 30_000, heap: 32 });

readsMoreThanMemoryHolds(
  ldifMedium(
    {
      name: "an LDIF file of slapcat",
      membership: "member",
      print: (entries) => entries.join(""),
      options: ({ users, groups }) => ({ users: { minEntries: users }, groups: { minEntries: groups } }),
    },
    none,
  ),
  { users: 30_000, heap: 40 },
);

const noLdap = await noOpenLdap();
describe.skipIf(noLdap !== undefined)(`OpenLDAP${noLdap === undefined ? "" : ` (${noLdap})`}`, () => {
  readsMoreThanMemoryHolds(
    ldapMedium(
      { name: "ldap", membership: "member", connection: ({ url }) => ({ url, bind: reader, pageSize: 250 }) },
      none,
      [],
    ),
    { users: 30_000, heap: 32 },
  );
});
