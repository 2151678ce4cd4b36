import { ldifChange, ldifDelete, ldifEntry, ldifRename, rdnValue } from "../../support/ldap/ldif.ts";
import type { LdifValues } from "../../support/ldap/ldif.ts";
import { admin, base, startOpenLdap } from "../../support/ldap/openldap.ts";
import type { OpenLdap } from "../../support/ldap/openldap.ts";
import { sites } from "./company.ts";
import type { Company, Person } from "./company.ts";

export const people = `ou=people,${base}`;
export const groups = `ou=groups,${base}`;

/** A group that may be empty, unlike `groupOfNames`. */
const schema = [
  "objectclass ( 1.3.6.1.4.1.4203.666.11.1 NAME 'groupOfMembers' SUP top STRUCTURAL MUST cn MAY ( member $ description ) )",
];

/** The company's LDAP server. */
export interface CompanyDirectory {
  readonly server: OpenLdap;
  /**
   * Changes the directory to what the company is now.
   * @param ids the immutable ids of entries that are added, by their keys, as when they come back from a backup
   */
  save(company: Company, ids?: ReadonlyMap<string, string>): Promise<void>;
  /** The immutable ids of all entries, by their keys: `person 17`, `team 3`. */
  backup(): Promise<Map<string, string>>;
}

interface Entry {
  readonly dn: string;
  readonly rdn: string;
  readonly parent: string;
  readonly attributes: Readonly<Record<string, LdifValues>>;
}

export async function startDirectory(): Promise<CompanyDirectory> {
  const units = [people, groups, ...sites.map((site) => `ou=${site},${people}`)];
  const server = await startOpenLdap({
    ldif: units.map((dn) => ldifEntry(dn, { objectClass: "organizationalUnit" })),
    schema,
    overlays: ["syncprov"],
  });
  let saved = new Map<string, Entry>();
  return {
    server,
    save: async (company, ids = new Map()) => {
      const next = entriesOf(company);
      const ldif = changesBetween(saved, next, ids);
      const as = ["-a", "-x", "-H", server.ldapiUrl, "-D", admin.dn, "-w", admin.password];
      // Only so does a server take ids that it has not made itself.
      if (ldif !== "") await server.tool("/usr/bin/ldapmodify", ids.size > 0 ? [...as, "-e", "relax"] : as, ldif);
      saved = next;
    },
    backup: async () => {
      const as = ["-x", "-LLL", "-o", "ldif-wrap=no", "-H", server.ldapiUrl, "-D", admin.dn, "-w", admin.password];
      const printed = await server.tool("/usr/bin/ldapsearch", [...as, "-b", base, "entryUUID"]);
      const idOf = new Map(
        printed.split("\n\n").flatMap((entry) => {
          const [, dn, id] = /^dn(:: .*|: .*)\n[^]*^entryUUID: (.*)$/m.exec(entry) ?? [];
          return dn === undefined || id === undefined ? [] : [[plain(decoded(dn)), id] as const];
        }),
      );
      const ids = new Map(
        [...saved].flatMap(([key, { dn }]) => {
          const id = idOf.get(plain(dn));
          if (id === undefined) throw new Error(`the directory has no ${dn}`);
          return [[key, id] as const];
        }),
      );
      return ids;
    },
  };
}

function entriesOf(company: Company): Map<string, Entry> {
  const of = (rdn: string, parent: string, attributes: Entry["attributes"]): Entry => ({
    dn: `${rdn},${parent}`,
    rdn,
    parent,
    attributes,
  });
  const persons = [...company.people].map(
    ([number, person]) =>
      [
        `person ${number}`,
        of(`uid=${rdnValue(person.uid)}`, `ou=${person.site},${people}`, attributesOf(person)),
      ] as const,
  );
  const dnOfTeam = (name: string): string => `cn=${rdnValue(name)},${groups}`;
  const dnOfPerson = new Map(persons.map(([key, { dn }]) => [key, dn]));
  const teams = [...company.teams].map(([number, { name, description, people, teams }]) => {
    const member = [
      ...[...people].flatMap((each) => dnOfPerson.get(`person ${each}`) ?? []),
      ...[...teams].flatMap((each) => {
        const within = company.teams.get(each);
        return within === undefined ? [] : [dnOfTeam(within.name)];
      }),
    ];
    const attributes = { objectClass: "groupOfMembers", description: valuesOf(description), member };
    return [`team ${number}`, of(`cn=${rdnValue(name)}`, groups, attributes)] as const;
  });
  return new Map([...persons, ...teams]);
}

function attributesOf({ name, mail, title, department, type }: Person): Entry["attributes"] {
  return {
    objectClass: "inetOrgPerson",
    cn: name,
    sn: name.split(" ").at(-1),
    displayName: name,
    mail: valuesOf(mail),
    title: valuesOf(title),
    departmentNumber: department,
    employeeType: type,
  };
}

function valuesOf(value: string | undefined): readonly string[] {
  return value === undefined ? [] : [value];
}

/** What makes the one of the other: who goes first, so that names are free. */
function changesBetween(
  before: ReadonlyMap<string, Entry>,
  after: ReadonlyMap<string, Entry>,
  ids: ReadonlyMap<string, string>,
): string {
  const deleted = [...before].filter(([key]) => !after.has(key)).map(([, { dn }]) => ldifDelete(dn));
  const [renamed, added, changed]: [string[], string[], string[]] = [[], [], []];
  for (const [key, entry] of after) {
    const was = before.get(key);
    if (was === undefined) {
      const id = ids.get(key);
      added.push(ldifEntry(entry.dn, id === undefined ? entry.attributes : { ...entry.attributes, entryUUID: id }));
      continue;
    }
    if (was.dn !== entry.dn)
      renamed.push(ldifRename(was.dn, entry.rdn, was.parent === entry.parent ? undefined : entry.parent));
    const different = Object.entries(entry.attributes).filter(
      ([name, values]) => JSON.stringify(values) !== JSON.stringify(was.attributes[name]),
    );
    if (different.length > 0) changed.push(ldifChange(entry.dn, "replace", Object.fromEntries(different)));
  }
  return [...deleted, ...renamed, ...added, ...changed].join("");
}

/** A DN as LDIF has it after `dn`. */
function decoded(dn: string): string {
  return dn.startsWith("::") ? Buffer.from(dn.slice(2), "base64").toString() : dn.slice(2);
}

/** Without escapes, which servers write in another way: `\\2B` for `\\+`. */
function plain(dn: string): string {
  return dn
    .replaceAll(/\\([0-9A-Fa-f]{2})/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
    .replaceAll("\\", "");
}
