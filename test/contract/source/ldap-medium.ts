import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { makeCertificate } from "../../support/certificates.ts";
import { ldifEntry, ldifRename, rdnValue } from "../../support/ldap/ldif.ts";
import { base, type OpenLdap, reader, startOpenLdap } from "../../support/ldap/openldap.ts";
import type { Company, CompanyGroup, CompanyUser } from "./company.ts";
import type { Medium, Provision } from "./suite.ts";

/** A company in an OpenLDAP server. */
export interface LdapProvision extends Provision {
  readonly server: OpenLdap;
}

/** One of the ways to reach a server and to write memberships down. */
export interface LdapForm {
  readonly name: string;
  /** The attribute that holds memberships: of groups, or (`memberOf`) of their members. */
  readonly membership: "member" | "uniqueMember" | "memberOf";
  /** The options of the connection: url, tls, bind. */
  connection(server: OpenLdap, files: { readonly cert: string; readonly key: string }): object;
}

export const people = `ou=people,${base}`;
export const groups = `ou=groups,${base}`;

/** Groups that may be empty, unlike `groupOfNames`; and `memberOf` without the overlay that keeps it. */
export const schema = [
  `attributetype ( 1.2.840.113556.1.2.102 NAME 'memberOf' EQUALITY distinguishedNameMatch
    SYNTAX 1.3.6.1.4.1.1466.115.121.1.12 )`,
  `objectclass ( 1.3.6.1.4.1.4203.666.11.1 NAME 'groupOfMembers' SUP top STRUCTURAL MUST cn
    MAY ( member $ uniqueMember $ memberOf $ description ) )`,
  `objectclass ( 1.3.6.1.4.1.4203.666.11.2 NAME 'memberObject' SUP top AUXILIARY MAY memberOf )`,
];

export function ldapMedium(
  form: LdapForm,
  faults: Medium<LdapProvision>["faults"],
  describes: NonNullable<Medium<LdapProvision>["describes"]>,
): Medium<LdapProvision> {
  return {
    name: form.name,
    module: new URL("../../../connectors/ldap/index.ts", import.meta.url).href,
    attributes: { login: "uid", displayName: "displayName", mail: "mail", name: "cn", description: "description" },
    faults,
    describes,
    versions: true,
    async provision(company) {
      const folder = await mkdtemp(join(tmpdir(), "rollcall-ldap-"));
      const server = await startOpenLdap({
        ldif: companyLdif(company, form.membership),
        schema,
        overlays: ["syncprov"],
      });
      const certificate = await makeCertificate({ dns: ["reader"] }, { issuer: server.authority });
      const files = { cert: join(folder, "reader.pem"), key: join(folder, "reader.key") };
      await writeFile(files.cert, certificate.cert);
      await writeFile(files.key, certificate.key);
      return {
        folder,
        server,
        secrets: [reader.password],
        options: {
          ...form.connection(server, files),
          users: { base: people, filter: "(objectClass=inetOrgPerson)" },
          groups: { base: groups, filter: "(objectClass=groupOfMembers)" },
          membership: [form.membership],
        },
        async rename(number, login) {
          const user = company.users.find((each) => each.number === number);
          await server.modify(ldifRename(userDn(user?.login ?? ""), `uid=${rdnValue(login)}`));
        },
        held: () => server.connections(),
        async dispose() {
          await server[Symbol.asyncDispose]();
          await rm(folder, { recursive: true });
        },
      };
    },
  };
}

export function userDn(login: string): string {
  return `uid=${rdnValue(login)},${people}`;
}

export function groupDn(name: string): string {
  return `cn=${rdnValue(name)},${groups}`;
}

export function organizationalUnit(dn: string): string {
  return ldifEntry(dn, { objectClass: "organizationalUnit" });
}

export function* companyLdif(company: Company, membership: LdapForm["membership"]): Generator<string> {
  yield organizationalUnit(people);
  yield organizationalUnit(groups);
  const members = new Map<string, string[]>(company.groups.map(({ name }) => [name, []]));
  for (const user of company.users) for (const name of user.groups) members.get(name)?.push(userDn(user.login));
  for (const group of company.groups) for (const name of group.groups) members.get(name)?.push(groupDn(group.name));
  const memberships = (of: CompanyUser | CompanyGroup, own: readonly string[] = []): Record<string, string[]> =>
    membership === "memberOf" ? { memberOf: of.groups.map(groupDn) } : { [membership]: [...own] };

  for (const user of company.users) {
    const { login, displayName, mail } = user;
    yield ldifEntry(userDn(login), {
      objectClass: ["inetOrgPerson", "memberObject"],
      cn: displayName.replace("\n", " "),
      sn: login,
      displayName,
      mail,
      ...(membership === "memberOf" ? memberships(user) : {}),
    });
  }
  for (const group of company.groups) {
    const { name, description } = group;
    yield ldifEntry(groupDn(name), {
      objectClass: "groupOfMembers",
      description,
      ...memberships(group, members.get(name)),
    });
  }
}
