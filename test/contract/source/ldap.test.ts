import { writeFile } from "node:fs/promises";
import { describe } from "vitest";
import { makeAuthority } from "../../support/certificates.ts";
import { ldifChange, ldifRename } from "../../support/ldap/ldif.ts";
import { noOpenLdap, reader } from "../../support/ldap/openldap.ts";
import { groups, ldapMedium, type LdapForm, type LdapProvision, people } from "./ldap-medium.ts";
import { type Fault, sourceSuite } from "./suite.ts";

const database = "olcDatabase={1}mdb,cn=config";
const sizeLimit = (limit: string): string => ldifChange(database, "replace", { olcSizeLimit: limit });
/** The access of the database: the first rule is the one that counts. */
const access = (rule: string): string =>
  ldifChange(database, "replace", {
    olcAccess: [
      "{0}to attrs=userPassword by anonymous auth by * none",
      `{1}${rule}`,
      "{2}to * by users read by anonymous auth",
    ],
  });

const before: readonly Fault<LdapProvision>[] = [
  {
    name: "the groups are somewhere else",
    inject: ({ server }) => server.modify(ldifRename(groups, "ou=teams")),
    message: /search for groups.*: ou=groups,dc=example,dc=com does not exist/,
  },
  {
    name: "the server gives only a few entries",
    inject: ({ server }) => server.configure(sizeLimit("5")),
    message: /search for users.*: sizeLimitExceeded.*let the account read everything/,
  },
  {
    name: "the server gives only a few entries for all pages together",
    inject: ({ server }) => server.configure(sizeLimit("size.soft=unlimited size.hard=unlimited size.prtotal=5")),
    message: /search for users.*: sizeLimitExceeded/,
  },
  {
    name: "the users may not be seen",
    inject: ({ server }) => server.configure(access(`to dn.subtree="${people}" by * none`)),
    message: /search for users.*: ou=people,dc=example,dc=com does not exist, or may not be seen/,
  },
  {
    name: "no user may be seen",
    inject: ({ server }) => server.configure(access(`to dn.children="${people}" by * none`)),
    message: /ou=people,.*: 0 users found, expected at least 1/,
  },
  {
    name: "what identifies a user may not be seen",
    inject: ({ server }) => server.configure(access("to attrs=entryUUID by * none")),
    message: /uid=ada,.*entryUUID/,
  },
];

const serverGone: Fault<LdapProvision> = {
  name: "the server is gone",
  inject: ({ server }) => server.kill(),
  message: /nothing listens at \S+:\d+ \(ECONNREFUSED\)/,
};

const wrongPassword: Fault<LdapProvision> = {
  name: "the password is another one",
  inject: ({ server }) => server.modify(ldifChange(reader.dn, "replace", { userPassword: "another" })),
  message: /invalidCredentials/,
};

const wrongAuthority: Fault<LdapProvision> = {
  name: "the certificate is from nobody we know",
  inject: async ({ server }) => writeFile(server.caFile, (await makeAuthority()).cert),
  message: /the certificate of \S+:\d+ is not from an authority that is trusted here/,
};

const during: readonly Fault<LdapProvision>[] = [
  {
    name: "the server stops giving entries",
    inject: ({ server }) => server.configure(sizeLimit("1")),
    // A change of its configuration keeps it busy for a moment.
    message: /search for (users|groups).*(sizeLimitExceeded|busy)/,
  },
  {
    name: "the groups are moved away",
    inject: ({ server }) => server.modify(ldifRename(groups, "ou=teams")),
    message: /ou=groups,dc=example,dc=com does not exist/,
  },
];

const limits = { read: "1s" };
const duringConnected: readonly Fault<LdapProvision>[] = [
  {
    name: "the server is killed",
    inject: ({ server }) => server.kill(),
    message: /search for (users|groups).*(the server closed the connection|the connection was lost)/,
  },
  {
    name: "the server says nothing more",
    inject: async ({ server }) => server.pause(),
    message: /no answer for 1 s/,
  },
];

/** Small pages: so that most of a company of thousands is still to come after the first batch. */
const pageSize = 250;

const plain: LdapForm = {
  name: "ldap, members of groups, a simple bind",
  membership: "member",
  connection: ({ url }) => ({ url, bind: reader, limits, pageSize }),
};

const tls: LdapForm = {
  name: "ldap over TLS, groups of members, a client certificate",
  membership: "memberOf",
  connection: ({ ldapsUrl, caFile }, { cert, key }) => ({
    url: ldapsUrl,
    tls: { ca: caFile, cert, key },
    bind: { sasl: "EXTERNAL" },
    limits,
    pageSize,
  }),
};

const startTls: LdapForm = {
  name: "ldap with StartTLS, unique members of groups, SASL PLAIN",
  membership: "uniqueMember",
  connection: ({ url, caFile }) => ({
    url,
    tls: { starttls: true, ca: caFile },
    bind: { sasl: "PLAIN", username: "reader", password: reader.password },
    limits,
    pageSize,
  }),
};

const reason = await noOpenLdap();
describe.skipIf(reason !== undefined)(`OpenLDAP${reason === undefined ? "" : ` (${reason})`}`, () => {
  sourceSuite(
    ldapMedium(plain, { before: [...before, serverGone, wrongPassword], during: [...during, ...duringConnected] }, [
      /ldap:\/\//,
      /cn=reader,dc=example/,
    ]),
  );
  // What a search answers does not depend on the connection: the others have what a connection can suffer.
  sourceSuite(
    ldapMedium(tls, { before: [serverGone, wrongAuthority], during: duringConnected }, [/ldaps:\/\//, /cn=reader/]),
  );
  sourceSuite(
    ldapMedium(startTls, { before: [serverGone, wrongPassword, wrongAuthority], during: duringConnected }, [/TLS/]),
  );
});
