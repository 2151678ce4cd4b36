import type { Examples } from "./examples.ts";

/** What `rollcall init` is about to write. */
export interface Draft {
  readonly source: DraftSource;
  readonly rules: DraftRules;
  readonly target: "embedded" | DraftTarget;
  readonly approval: Approval;
  /** Absent: the sync runs on demand. */
  readonly schedule?: string | undefined;
}

/** Who approves plans, the most careful choice first, each with an explanation. */
export const approvals = {
  required: "always: every plan needs approval",
  "automatic-within-limits": "only beyond a limit: other plans are applied at once",
  automatic: "never: but a limit still holds a plan",
} as const;
export type Approval = keyof typeof approvals;

/** A source as the file describes it: secrets are references, paths are relative to the configuration. */
export interface DraftSource {
  readonly connector: string;
  readonly options: Readonly<Record<string, unknown>>;
  readonly secrets: readonly Secret[];
}

export interface DraftTarget {
  readonly url: string;
  /** A file in PEM form. */
  readonly ca?: string | undefined;
  readonly username: string;
  readonly secret: Secret;
}

/** A secret, and how the file refers to it. */
export interface Secret {
  /** `${file:company.secret}` or `${env:NAME}`. */
  readonly reference: string;
  readonly value: string;
  /** The file beside the configuration to write it to; if that exists, the next free name. Absent: the environment has it. */
  readonly file?: string;
}

/** CEL expressions by rule. */
export type DraftRule = Readonly<Record<"name" | "displayName", string>> & {
  readonly mail?: string;
  readonly description?: string;
};

export interface DraftRules {
  readonly users: DraftRule;
  readonly groups?: DraftRule;
}

/** The names that the file gives to its source, its target and its sync. */
export const names = { source: "company", target: "analytics", sync: "staff" } as const;

/** The options as the connector gets them, with secrets instead of references. */
export function withSecrets(options: unknown, secrets: readonly Secret[]): unknown {
  if (typeof options === "string") return secrets.find(({ reference }) => reference === options)?.value ?? options;
  if (Array.isArray(options)) return options.map((each) => withSecrets(each, secrets));
  if (typeof options !== "object" || options === null) return options;
  return Object.fromEntries(Object.entries(options).map(([key, value]) => [key, withSecrets(value, secrets)]));
}

/** The attributes found in records of each kind, with examples. */
export interface Seen {
  readonly users: Examples;
  readonly groups: Examples;
}

/** The usual names of an attribute in directories and exports, the best first. Case, spaces and punctuation are ignored. */
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

/** The attribute that usually has this role, spelled as in the source; undefined if there is none. */
export function usualAttribute(what: keyof typeof usual, attributes: Iterable<string>): string | undefined {
  const byName = new Map([...attributes].map((name) => [plain(name), name]));
  return usual[what].map((name) => byName.get(plain(name))).find((name) => name !== undefined);
}

/** The attribute that people probably log in with: by its name, else by its values. None of a person's has spaces. */
export function likelyLogin(users: Examples): string | undefined {
  const plain = users.names().filter((name) => users.of(name).every((value) => !/\s/.test(value)));
  const word = plain.find((name) => users.of(name).some((value) => /^[a-z][\w.-]*$/i.test(value)));
  return usualAttribute("login", plain) ?? word ?? plain[0] ?? users.names()[0];
}

/** The attribute of users that probably refers to groups: by its name, else because it contains one of their keys. */
export function likelyMemberOf(users: Examples, keys: readonly string[]): string | undefined {
  const refers = (name: string): boolean =>
    users.of(name).some((value) => value.split(/[;|,]/).some((part) => keys.includes(part.trim())));
  return users.names().find(refers) ?? usualAttribute("memberOf", users.names());
}

/**
 * Rules for the attributes found. If none of them looks like a name, the first one is used.
 * @param chosen the attribute that people log in with
 */
export function proposeRules(seen: Seen, hasGroups: boolean, chosen?: string): DraftRules {
  const [users, groups] = [seen.users.names(), seen.groups.names()];
  const login = chosen ?? likelyLogin(seen.users) ?? "name";
  const mail = usualAttribute("mail", users);
  const title = usualAttribute("title", users);
  const proposed: DraftRule = {
    name: `lower(${entryOf(login)})`,
    displayName: entryOf(usualAttribute("userShown", users) ?? login),
    ...(title === undefined ? {} : { description: `first(${entryOf(title)})` }),
    ...(mail === undefined ? {} : { mail: `first(${entryOf(mail)})` }),
  };
  if (!hasGroups) return { users: proposed };
  const name = usualAttribute("groupName", groups) ?? groups[0] ?? "name";
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

/** `entry.mail`, or `entry["e-mail"]` for a name that is not an identifier. */
function entryOf(attribute: string): string {
  return /^[A-Za-z_]\w*$/.test(attribute) ? `entry.${attribute}` : `entry[${JSON.stringify(attribute)}]`;
}

function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, "");
}
