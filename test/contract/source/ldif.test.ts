import { appendFile, readFile, rename, rm, truncate, writeFile } from "node:fs/promises";
import { ldifMedium, type LdifForm, type LdifProvision } from "./ldif-medium.ts";
import { type Fault, sourceSuite } from "./suite.ts";

/** As ldapsearch prints in pages, its lines folded. */
const ldapsearch: LdifForm = {
  name: "an LDIF file of ldapsearch, members of groups",
  membership: "member",
  print: (entries) => {
    const [head, ...rest] = [entries.slice(0, 3), entries.slice(3)];
    const search = "# search result\nsearch: 2\nresult: 0 Success\n";
    const title = "# extended LDIF\n#\n# LDAPv3\n# requesting: * + \n#\n\n";
    const pages = [head, rest.flat()].map((page) => `${title}${page.map((entry) => `# comment\n${entry}`).join("")}`);
    const counts = `\n# numResponses: ${entries.length + 2}\n# numEntries: ${entries.length}\n`;
    return folded(
      `${pages.join(`${search}pagedresults: cookie=BQAAAAAAAAA=\n`)}${search}pagedresults: cookie=\n${counts}`,
    );
  },
  options: () => ({ users: {}, groups: {} }),
};

/** As slapcat prints on Windows. */
const slapcat: LdifForm = {
  name: "an LDIF file of slapcat, groups of members",
  membership: "memberOf",
  print: (entries) => `\u{FEFF}version: 1\n\n${entries.join("")}`.replaceAll("\n", "\r\n"),
  options: ({ users, groups }) => ({
    users: { base: "OU=People, DC=example,DC=com", filter: "(objectClass=person)", minEntries: users },
    groups: { base: "ou=groups,dc=example,dc=com", minEntries: groups },
  }),
};

function folded(text: string): string {
  return text.replaceAll(/^.{77,}$/gm, (line) => line.replaceAll(/(?<=.)(.{75})(?=.)/g, "$1\n "));
}

const upTo = (text: string, place: string): string => text.slice(0, text.indexOf(place));

const before: readonly Fault<LdifProvision>[] = [
  {
    name: "the file is missing",
    inject: ({ path }) => rm(path),
    message: /^company\.ldif does not exist/,
  },
  {
    name: "the file is empty",
    inject: ({ edit }) => edit(() => ""),
    message: /^company\.ldif:1: the file does not say how many entries it has|: 0 users found, expected at least 9/,
  },
  {
    name: "an entry is missing",
    inject: ({ edit }) => edit((text) => text.replace(/^(?:# comment\r?\n)?dn: uid=grace,(?:.+\r?\n)*\r?\n/m, "")),
    message: /(?:has 20 records here, and 19 were read: a part is missing|: 8 users found, expected at least 9)/,
  },
  {
    name: "the file ends within an entry",
    inject: ({ edit }) => edit((text) => text.slice(0, text.indexOf("dn: uid=grace") + 80)),
    message: /^company\.ldif:\d+: ends within an entry/,
  },
  {
    name: "an entry begins within another",
    inject: ({ edit }) => edit((text) => text.replace(/\r?\n\r?\n((?:# comment\r?\n)?dn: uid=grace)/, "\n$1")),
    message: /^company\.ldif:\d+: another entry begins, and no empty line/,
  },
  {
    name: "the file holds changes",
    inject: ({ edit }) => edit((text) => text.replace(/^objectClass: inetOrgPerson/m, "changetype: add\n$&")),
    message: /^company\.ldif:\d+: changetype: the file holds changes, not entries; export with ldapsearch/,
  },
  {
    name: "a value is in another file",
    inject: ({ edit }) => edit((text) => text.replace("userPassword: ", "jpegPhoto:< file:///hunter2-is-secret\n$&")),
    message: /^company\.ldif:\d+: jpegPhoto:< refers to a file/,
  },
  {
    name: "a group has a part of its members",
    inject: ({ edit }) => edit((text) => text.replace("objectClass: groupOfNames", "member;range=0-1499: cn=a\n$&")),
    message: /^company\.ldif:\d+: member;range=0-1499: holds only a part of the values/,
  },
  {
    name: "a value is not base64",
    inject: ({ edit }) => edit((text) => text.replace(/^userPassword: .*$/m, "userPassword:: hunter2-is-secret!")),
    message: /^company\.ldif:\d+: userPassword:: is followed by something that is not base64/,
  },
  {
    name: "a line is no LDIF",
    inject: ({ edit }) => edit((text) => text.replace(/^userPassword: .*$/m, "hunter2-is-secret")),
    message: /^company\.ldif:\d+: expected NAME: VALUE/,
  },
  {
    name: "a value is not UTF-8",
    inject: async ({ path }) =>
      writeFile(path, (await readFile(path, "latin1")).replace(/^uid: grace/m, "title: \xe9\n$&"), "latin1"),
    message: /uid=grace,.*: title has a value that is not UTF-8/,
  },
  {
    name: "a user has no id",
    inject: ({ edit }) => edit((text) => text.replace(/^entryUUID: .*\r?\n/m, "")),
    message: /^uid=ada,.* has no entryUUID.*export operational attributes too/,
  },
  {
    name: "it is UTF-16",
    inject: async ({ path }) => writeFile(path, Buffer.from(await readFile(path, "utf8"), "utf16le")),
    message: /^company\.ldif is UTF-16 text, not LDIF in UTF-8; convert it/,
  },
];

const ofLdapsearch: readonly Fault<LdifProvision>[] = [
  {
    name: "the search reached a limit",
    inject: ({ edit }) =>
      edit((text) => text.replace(/result: 0 Success(?![^]*result: )/, "result: 4 Size limit exceeded")),
    message: /^company\.ldif:\d+: the search ended with 4 Size limit exceeded/,
  },
  {
    name: "the counts are cut off",
    inject: ({ edit }) => edit((text) => upTo(text, "\n# numResponses")),
    message: /^company\.ldif:\d+: the file ends without the count/,
  },
  {
    name: "the last page is missing",
    inject: ({ edit }) => edit((text) => text.slice(0, text.indexOf("# extended", 20))),
    message: /^company\.ldif:\d+: more pages follow/,
  },
  {
    name: "a part is at another server",
    inject: ({ edit }) =>
      edit((text) =>
        text.replace(/# search result/, "# search reference\nref: ldap://other.example.com/ou=x??sub\n\n$&"),
      ),
    message: /^company\.ldif:\d+: a part is at ldap:\/\/other\.example\.com\/ou=x\?\?sub: export it there too/,
  },
];

const ofSlapcat: readonly Fault<LdifProvision>[] = [
  {
    name: "the last group is missing",
    inject: ({ edit }) => edit((text) => upTo(text, "dn: cn=Round")),
    message: /: 6 groups found, expected at least 7/,
  },
  {
    name: "a part is at another server, which an entry refers to",
    inject: ({ edit }) =>
      edit((text) => `${text}dn: ou=x,dc=x\nobjectClass: referral\nref: ldap://other.example.com/ou=x??sub\n\n`),
    message: /^company\.ldif:\d+: a part is at ldap:\/\/other\.example\.com\/ou=x\?\?sub: export it there too/,
  },
];

const during: readonly Fault<LdifProvision>[] = [
  {
    name: "the file grows",
    inject: ({ path }) => appendFile(path, "x"),
    message: /^company\.ldif changed while it was being read/,
    advice: "retry",
  },
  {
    name: "the file is cut off",
    inject: ({ path }) => truncate(path, 800),
    message: /^company\.ldif changed while it was being read/,
    advice: "retry",
  },
  {
    name: "the file is replaced",
    inject: async ({ path }) => {
      await writeFile(`${path}.new`, await readFile(path));
      await rename(`${path}.new`, path);
    },
    message: /^company\.ldif changed while it was being read/,
    advice: "retry",
  },
];

sourceSuite(ldifMedium(ldapsearch, { before: [...before, ...ofLdapsearch], during }));
sourceSuite(ldifMedium(slapcat, { before: [...before, ...ofSlapcat], during }));
