/** A process of its own: reads users and groups as Bitwarden's Directory Connector does, and prints how many. */
export interface BitwardenRequest {
  /** The URL of the module with its service for LDAP, bundled. */
  readonly module: string;
  readonly url: string;
  readonly dn: string;
  readonly password: string;
  readonly base: string;
}

interface Service {
  getEntries(force: boolean, test: boolean): Promise<readonly [groups: readonly unknown[], users: readonly unknown[]]>;
}

interface Bundle {
  readonly LdapDirectoryService: new (log: object, texts: object, state: object) => Service;
}

const { module, url, dn, password, base } = JSON.parse(process.argv[2] ?? "") as BitwardenRequest;
const { LdapDirectoryService } = (await import(module)) as Bundle;
const { hostname, port } = new URL(url);
const ldap = 0;
const directory = { hostname, port, rootPath: base, username: dn, password, ad: false, pagedSearch: true };
const sync = {
  users: true,
  userPath: "ou=people",
  userObjectClass: "inetOrgPerson",
  userEmailAttribute: "mail",
  groups: true,
  groupPath: "ou=groups",
  groupObjectClass: "groupOfNames",
  groupNameAttribute: "cn",
  memberAttribute: "member",
};
const log = { info() {}, warning: console.error, error: console.error };
const state = {
  getDirectoryType: () => Promise.resolve(ldap),
  getDirectory: () => Promise.resolve(directory),
  getSync: () => Promise.resolve(sync),
  getLastUserSync: () => Promise.resolve(null),
};
const [groups, users] = await new LdapDirectoryService(log, { t: String }, state).getEntries(true, false);
console.log(groups.length + users.length);
