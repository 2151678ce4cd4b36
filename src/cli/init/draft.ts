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
