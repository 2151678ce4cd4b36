import type { DraftRule, DraftRules } from "./draft.ts";

/** The attributes that records of each kind were seen with. */
export interface Seen {
  readonly users: ReadonlySet<string>;
  readonly groups: ReadonlySet<string>;
}

/** What directories and exports call it, the best first. Compared without case, spaces and punctuation. */
const usual = {
  login: ["uid", "sAMAccountName", "userName", "login", "loginName", "username", "account", "userid", "user", "name"],
  userShown: ["displayName", "cn", "fullName", "name", "commonName"],
  mail: ["mail", "email", "emailAddress", "emails", "eMail"],
  title: ["title", "jobTitle", "description"],
  groupName: ["cn", "name", "displayName", "groupName", "sAMAccountName", "group", "id"],
  groupShown: ["displayName", "name", "cn", "groupName", "id"],
  description: ["description"],
  id: ["employee", "employeeId", "employeeNumber", "personId", "userId", "id", "number", "uid", "key", "login"],
  groupId: ["id", "groupId", "unit", "unitId", "key", "code", "name", "group"],
  memberOf: ["groups", "memberOf", "group", "department", "team", "unit"],
} as const;

/** The attribute that is usually taken for something, as it is written there; undefined when there is none. */
export function usualAttribute(what: keyof typeof usual, attributes: Iterable<string>): string | undefined {
  const byName = new Map([...attributes].map((name) => [plain(name), name]));
  return usual[what].map((name) => byName.get(plain(name))).find((name) => name !== undefined);
}

/** Rules for what was seen. A name that nothing suggests is that of the record's first attribute. */
export function proposeRules(seen: Seen, hasGroups: boolean): DraftRules {
  const { users, groups } = seen;
  const login = usualAttribute("login", users) ?? [...users][0] ?? "name";
  const mail = usualAttribute("mail", users);
  const title = usualAttribute("title", users);
  const proposed: DraftRule = {
    name: `lower(${entryOf(login)})`,
    displayName: entryOf(usualAttribute("userShown", users) ?? login),
    ...(title === undefined ? {} : { description: `first(${entryOf(title)})` }),
    ...(mail === undefined ? {} : { mail: `first(${entryOf(mail)})` }),
  };
  if (!hasGroups) return { users: proposed };
  const name = usualAttribute("groupName", groups) ?? [...groups][0] ?? "name";
  const description = usualAttribute("description", groups);
  return {
    users: proposed,
    groups: {
      name: `first(${entryOf(name)})`,
      displayName: `first(${entryOf(usualAttribute("groupShown", groups) ?? name)})`,
      ...(description === undefined ? {} : { description: `first(${entryOf(description)})` }),
    },
  };
}

/** `entry.mail`; of a name that is no identifier, `entry["e-mail"]`. */
function entryOf(attribute: string): string {
  return /^[A-Za-z_]\w*$/.test(attribute) ? `entry.${attribute}` : `entry[${JSON.stringify(attribute)}]`;
}

function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, "");
}
