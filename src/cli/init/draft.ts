import type { Examples } from "./examples.ts";
import { lettersOf } from "#text.ts";

/** What `rollcall init` is about to write. */
export interface Draft {
  readonly source: DraftSource;
  readonly rules: DraftRules;
  readonly target: "embedded" | DraftTarget;
  readonly approval: Approval;
  /** Absent: the sync runs on demand. */
  readonly schedule?: string | undefined;
}

/** Which plans a person must approve, the most careful choice first. */
export const approvals = {
  required: "every plan",
  "automatic-within-limits": "plans beyond a limit; others are applied at once",
  automatic: "none; a plan beyond a limit is still held",
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
  readonly include?: string;
  /** Groups that the rule makes, where the source has none. */
  readonly groups?: string;
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
  login: [
    "uid",
    "sAMAccountName",
    "userPrincipalName",
    "userName",
    "login",
    "loginName",
    "username",
    "account",
    "userid",
    "user",
    "primaryEmail",
    "name",
  ],
  userShown: ["displayName", "cn", "fullName", "name", "commonName"],
  mail: ["mail", "email", "emailAddress", "emails", "eMail"],
  title: ["title", "jobTitle", "description"],
  groupName: ["cn", "name", "displayName", "groupName", "sAMAccountName", "group", "id"],
  groupShown: ["displayName", "name", "cn", "groupName", "id"],
  description: ["description"],
  id: ["employee", "employeeId", "employeeNumber", "personId", "userId", "id", "number", "uid", "key", "login"],
  groupId: ["id", "groupId", "unit", "unitId", "key", "code", "name", "group"],
  memberOf: ["groups", "memberOf", "group", "department", "team", "unit"],
  /** True or false: whether somebody is there. */
  present: ["active", "accountEnabled", "enabled", "isActive"],
  absent: ["suspended", "archived", "disabled", "terminated", "locked", "isDisabled"],
  status: ["status", "employmentStatus", "state", "accountStatus", "userStatus"],
} as const;

/** Values that say somebody has left, or is there, in the languages of exports that we have seen. */
const gone =
  /^(?:inactive|disabled|suspended|deprovisioned|deactivated|terminated|archived|deleted|left|leaver|former|false|no|n|0|inaktiv|ausgeschieden|gesperrt|inactif|inactivo)$/i;

/** The attribute that usually has this role, spelled as in the source; undefined if there is none. */
export function usualAttribute(what: keyof typeof usual, attributes: Iterable<string>): string | undefined {
  return usualAttributes(what, attributes)[0];
}

/** All of them that are there, the best first. */
function usualAttributes(what: keyof typeof usual, attributes: Iterable<string>): string[] {
  const byName = new Map([...attributes].map((name) => [lettersOf(name), name]));
  return usual[what].map((name) => byName.get(lettersOf(name))).filter((name) => name !== undefined);
}

/** The attribute that people probably log in with: by its name, else by its values. None of a person's has spaces. */
export function likelyLogin(users: Examples): string | undefined {
  const plain = users.names().filter((name) => users.of(name).every((value) => !/\s/.test(value)));
  const word = plain.find((name) => users.of(name).some((value) => /^[a-z][\w.-]*$/i.test(value)));
  return usualAttribute("login", plain) ?? word ?? plain[0] ?? users.names()[0];
}

function isGroupName(value: unknown): boolean {
  return typeof value === "string" && !/[@=;|]/.test(value);
}

/** Attributes whose few values, each of several people, could be the names of groups, such as a department. */
export function groupAttributes(users: Examples): readonly string[] {
  const states = new Set(
    (["present", "absent", "status"] as const).flatMap((what) => usualAttributes(what, users.names())),
  );
  return users.names().filter((name) => {
    if (states.has(name)) return false;
    const values = users.fewOf(name) ?? new Map<string, number>();
    const records = [...values.values()].reduce((sum, count) => sum + count, 0);
    return values.size > 1 && records >= 2 * values.size && [...values.keys()].every(isGroupName);
  });
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
 * @param grouping the attribute of users whose values become groups; empty: none
 */
export function proposeRules(seen: Seen, hasGroups: boolean, chosen?: string, grouping = ""): DraftRules {
  const [users, groups] = [seen.users.names(), seen.groups.names()];
  const login = chosen ?? likelyLogin(seen.users) ?? "name";
  const mail = usualAttribute("mail", users);
  const title = usualAttribute("title", users);
  const include = proposeInclude(seen.users);
  const proposed: DraftRule = {
    ...(include === undefined ? {} : { include }),
    name: `lower(${entryOf(login)})`,
    displayName: entryOf(usualAttribute("userShown", users) ?? login),
    ...(title === undefined ? {} : { description: `first(${entryOf(title)})` }),
    ...(mail === undefined ? {} : { mail: `first(${entryOf(mail)})` }),
    ...(grouping === "" ? {} : { groups: entryOf(grouping) }),
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

/** A rule that leaves out those who have gone, where an attribute says so; undefined where none does. */
export function proposeInclude(users: Examples): string | undefined {
  const names = users.names();
  const isFlag = (name: string): boolean =>
    [...(users.fewOf(name)?.keys() ?? [""])].every((value) => typeof value === "boolean");
  const rules = [
    ...usualAttributes("present", names.filter(isFlag)).map((name) => `${entryOf(name)} != false`),
    ...usualAttributes("absent", names.filter(isFlag)).map((name) => `${entryOf(name)} != true`),
  ];
  for (const name of [...usualAttributes("status", names), ...usualAttributes("present", names)]) {
    const values = [...(users.fewOf(name)?.keys() ?? [])].filter((value) => typeof value === "string");
    const left = values.filter((value) => gone.test(value)).toSorted();
    const [first = ""] = left;
    if (left.length === 0 || left.length === values.length) continue;
    if (left.length === 1) rules.push(`${entryOf(name)} != ${JSON.stringify(first)}`);
    else rules.push(`!(${entryOf(name)} in ${JSON.stringify(left)})`);
  }
  return rules.length === 0 ? undefined : rules.join(" && ");
}

/** `entry.mail`, or `entry["e-mail"]` for a name that is not an identifier. */
function entryOf(attribute: string): string {
  return /^[A-Za-z_]\w*$/.test(attribute) ? `entry.${attribute}` : `entry[${JSON.stringify(attribute)}]`;
}
