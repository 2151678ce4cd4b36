/** What `rollcall init` is about to write. */
export interface Draft {
  readonly source: DraftSource;
  readonly rules: DraftRules;
  readonly target: "embedded" | DraftTarget;
  readonly approval: Approval;
  /** Absent: the sync runs on demand. */
  readonly schedule?: string;
}

/** Who lets a plan be applied, the most careful first, and what that means. */
export const approvals = {
  required: "a person, always: every plan waits until `rollcall approve`",
  "automatic-within-limits": "a person where a plan is beyond its limits; other plans are applied at once",
  automatic: "nobody; a plan beyond its limits is held all the same",
} as const;
export type Approval = keyof typeof approvals;

/** A source as it stands in the file: secrets are references, paths relative to the configuration. */
export interface DraftSource {
  readonly connector: string;
  readonly options: Readonly<Record<string, unknown>>;
  readonly secrets: readonly Secret[];
}

export interface DraftTarget {
  readonly url: string;
  /** A file in PEM form. */
  readonly ca?: string;
  readonly username: string;
  readonly secret: Secret;
}

/** A secret, and how the file refers to it. */
export interface Secret {
  /** `${file:company.secret}` or `${env:NAME}`. */
  readonly reference: string;
  readonly value: string;
  /** The name of the file beside the configuration that holds it, or the next free one; absent: it is in the environment. */
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

/** The names that the file gives to the one source, target and sync that it has. */
export const names = { source: "company", target: "analytics", sync: "staff" } as const;

/** The options as the connector gets them: secrets in place of their references. */
export function withSecrets(options: unknown, secrets: readonly Secret[]): unknown {
  if (typeof options === "string") return secrets.find(({ reference }) => reference === options)?.value ?? options;
  if (Array.isArray(options)) return options.map((each) => withSecrets(each, secrets));
  if (typeof options !== "object" || options === null) return options;
  return Object.fromEntries(Object.entries(options).map(([key, value]) => [key, withSecrets(value, secrets)]));
}

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
