import type { PrincipalValue } from "./principal.ts";
import type { Attribute } from "./attributes.ts";

/** The rules of one sync as they stand in the configuration: what becomes of an entry. Expressions are CEL's, over `entry`. */
export interface Rules {
  readonly users: UserRules;
  /** Absent: no groups are made of the source's groups. */
  readonly groups?: GroupRules | undefined;
  /** Groups that exist whatever the sources say. */
  readonly staticGroups?: readonly StaticGroup[] | undefined;
  /** Names of groups that every user is directly in. */
  readonly defaultGroups?: readonly string[] | undefined;
  /** What the groups are like that rules `groups` name and no source has. Absent: the rules make no groups of their own. */
  readonly groupsFromRules?: RuleGroups | undefined;
  /**
   * What tells, by kind, that entries of several sources are one: expressions that give a string, or null for an entry
   * that is by itself. Absent: every entry is.
   */
  readonly join?: { readonly users?: string; readonly groups?: string } | undefined;
}

/** Expressions for one kind of principal: a rule for each attribute of the target that it gives, by its name, beside these. */
export interface KindRules {
  /** A boolean; absent: every entry is included. */
  readonly include?: string | undefined;
  /** A boolean: true for the entries to leave out of those included. */
  readonly exclude?: string | undefined;
  /** A string: the principal's name. */
  readonly name: string | UniqueName;
  /** A string or a list of strings: names of further groups the principal is directly in. */
  readonly groups?: string | undefined;
  /** What `Attribute.type` says, or null: an `AttributeRule`. The rest is what `UserRules` and `GroupRules` add. */
  readonly [attribute: string]:
    | AttributeRule
    | UniqueName
    | readonly string[]
    | Readonly<Record<string, string>>
    | boolean
    | undefined;
}

/** The rule for an attribute of the target; undefined where there is none. */
export function ruleOf(rules: KindRules, { name }: Attribute): AttributeRule | undefined {
  const rule = rules[name];
  return typeof rule === "string" || (typeof rule === "object" && "absent" in rule)
    ? (rule as AttributeRule)
    : undefined;
}

export interface UserRules extends KindRules {
  /** Names of the source's groups, with wildcards: their members are in scope, nobody else. */
  readonly onlyMembersOf?: readonly string[] | undefined;
  /** Their members are not in scope. */
  readonly notMembersOf?: readonly string[] | undefined;
  /** True: members of groups in these groups count as their members. */
  readonly nested?: boolean | undefined;
}

export interface GroupRules extends KindRules {
  /** Names of the source's groups, with wildcards: they are in scope, and all groups in them, in these …, and no other. */
  readonly onlyBelow?: readonly string[] | undefined;
  /** They and all groups in them are not in scope. */
  readonly notBelow?: readonly string[] | undefined;
  /** Other names for groups, by the name that rules give: those of groups, and those that a rule `groups` gives. */
  readonly rename?: Readonly<Record<string, string>> | undefined;
}

/** An attribute of a principal that may be missing in the source: an expression, and what it means that it gives null. */
export type AttributeRule = string | { readonly value?: string; readonly absent: Absence };

/**
 * A name that is taken becomes another one: `unique` is an expression over `name`, what `value` gives, and `n`, which counts
 * from 2.
 */
export interface UniqueName {
  readonly value: string;
  readonly unique: string;
}

/**
 * What becomes of an attribute that an entry lacks. `keep`: what the target has stays; of a principal that is created,
 * it is unset (a display name is the name then). `clear`: unset. Only null is missing: an empty text is a value, and
 * clears.
 */
export type Absence = "keep" | "clear" | { readonly default: PrincipalValue };

/**
 * Expressions over `value`, the group's name, by the attributes of a group. A required one that is absent or null is the
 * name.
 */
export type RuleGroups = Readonly<Record<string, string | undefined>>;

/** A group of the configuration, with its attributes. */
export interface StaticGroup {
  readonly name: string;
  /** Names of groups that it is directly in. */
  readonly groups: readonly string[];
  readonly [attribute: string]: PrincipalValue | undefined;
}

/** What a rule has to return, in words and as the types that CEL may infer. */
export interface Accepted {
  readonly types: readonly string[];
  readonly wanted: string;
}

export const accepted = {
  boolean: { types: ["bool"], wanted: "true or false" },
  optionalBoolean: { types: ["bool", "null"], wanted: "true, false or null" },
  name: { types: ["string", "int"], wanted: "a text" },
  text: { types: ["string", "int", "null"], wanted: "a text or null" },
  texts: {
    types: ["string", "int", "null", "list", "list<string>", "list<int>", "list<T>"],
    wanted: "a text, a list of texts or null",
  },
} as const satisfies Record<string, Accepted>;

/** The rules that every target has. */
export const usualRules = {
  include: accepted.boolean,
  exclude: accepted.boolean,
  name: accepted.name,
  groups: accepted.texts,
} as const;

/** What the rule for an attribute has to return. */
export function acceptedBy({ type, required }: Attribute): Accepted {
  if (required === true) return accepted.name;
  return type === "boolean" ? accepted.optionalBoolean : accepted[type];
}
