import { mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ldifEntry } from "../../support/ldap/ldif.ts";
import type { Company } from "./company.ts";
import { openFilesIn } from "./csv-medium.ts";
import { groupDn, groups, people, userDn } from "./ldap-medium.ts";
import type { Medium, Provision } from "./suite.ts";

/** A company in an LDIF file. */
export interface LdifProvision extends Provision {
  readonly path: string;
  readonly edit: (change: (text: string) => string) => Promise<void>;
}

/** How a program writes a file, and how the source reads it. */
export interface LdifForm {
  readonly name: string;
  readonly membership: "member" | "memberOf";
  /** @param entries one text each, with an empty line at its end */
  print(entries: readonly string[]): string;
  /** Beside `file`. */
  options(counts: { readonly users: number; readonly groups: number }): object;
}

const password = "hunter2-is-secret";

export function ldifMedium(form: LdifForm, faults: Medium<LdifProvision>["faults"]): Medium<LdifProvision> {
  return {
    name: form.name,
    module: new URL("../../../connectors/ldap/index.ts", import.meta.url).href,
    attributes: { login: "uid", displayName: "displayName", mail: "mail", name: "cn", description: "description" },
    faults,
    versions: true,
    async provision(company) {
      const folder = await realpath(await mkdtemp(join(tmpdir(), "rollcall-ldif-")));
      const path = join(folder, "company.ldif");
      const write = (content: Company): Promise<void> =>
        writeFile(path, form.print([...entriesOf(content, form.membership)]));
      await write(company);
      return {
        folder,
        path,
        secrets: [password],
        options: {
          file: "company.ldif",
          membership: [form.membership],
          ...form.options({ users: company.users.length, groups: company.groups.length }),
        },
        edit: async (change) => writeFile(path, change(await readFile(path, "utf8"))),
        rename: (number, login) =>
          write({
            ...company,
            users: company.users.map((user) => (user.number === number ? { ...user, login } : user)),
          }),
        held: () => openFilesIn(folder),
        dispose: () => rm(folder, { recursive: true }),
      };
    },
  };
}

function* entriesOf(company: Company, membership: LdifForm["membership"]): Generator<string> {
  yield ldifEntry(people, { objectClass: "organizationalUnit" });
  yield ldifEntry(groups, { objectClass: "organizationalUnit" });
  const members = new Map<string, string[]>(company.groups.map(({ name }) => [name, []]));
  for (const user of company.users) for (const name of user.groups) members.get(name)?.push(userDn(user.login));
  for (const group of company.groups) for (const name of group.groups) members.get(name)?.push(groupDn(group.name));
  for (const { number, login, displayName, mail, groups: own } of company.users)
    yield ldifEntry(userDn(login), {
      objectClass: "inetOrgPerson",
      uid: login,
      displayName,
      mail,
      entryUUID: uuid("8", number),
      userPassword: password,
      ...(membership === "memberOf" ? { memberOf: own.map(groupDn) } : {}),
    });
  for (const { number, name, description, groups: own } of company.groups)
    yield ldifEntry(groupDn(name), {
      objectClass: "groupOfNames",
      cn: name,
      description,
      entryUUID: uuid("9", number),
      ...(membership === "memberOf" ? { memberOf: own.map(groupDn) } : { member: members.get(name) }),
    });
}

function uuid(kind: string, number: string): string {
  return `00000000-0000-4000-${kind}000-${Buffer.from(number).toString("hex").padStart(12, "0")}`;
}
