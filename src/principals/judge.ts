import { messageOf } from "#errors.ts";
import type { Entry } from "./entry.ts";
import type { Expression } from "./expression.ts";
import type { Absence, KeepableAttribute, KindRules } from "./rules.ts";
import { normal, objectionToName, quoted, shown } from "#text.ts";

/** `quarantined`: in scope, but what it is to become is unknown; `name` is there when that much is known. */
export type Verdict =
  | { readonly verdict: "excluded" }
  | { readonly verdict: "quarantined"; readonly name?: string; readonly reason: string }
  | {
      readonly verdict: "included";
      readonly name: string;
      readonly displayName: string;
      readonly description?: string;
      readonly mail?: string;
      /** Names of groups, as the rule gave them. */
      readonly groups: readonly string[];
      /** Attributes of which the target's value stays. What is here beside it is for a principal that is created. */
      readonly kept?: readonly KeepableAttribute[];
    };

export type RuleName = keyof KindRules;

/** The rules for one kind, compiled. */
export interface KindJudge {
  readonly expressions: Partial<Record<RuleName, Expression>>;
  readonly absence: Partial<Record<KeepableAttribute, Absence>>;
  /** What the group that rules call so is called. */
  readonly groupName: (name: string) => string;
}

/** What a rule needs, in words; the types that may be known to give it. */
export const accepted: Readonly<Record<RuleName, { types: readonly string[]; wanted: string }>> = {
  include: { types: ["bool"], wanted: "true or false" },
  exclude: { types: ["bool"], wanted: "true or false" },
  name: { types: ["string", "int"], wanted: "a text" },
  displayName: { types: ["string", "int"], wanted: "a text" },
  description: { types: ["string", "int", "null"], wanted: "a text or null" },
  mail: { types: ["string", "int", "null"], wanted: "a text or null" },
  groups: {
    types: ["string", "int", "null", "list", "list<string>", "list<int>", "list<T>"],
    wanted: "a text, a list of texts or null",
  },
};

/** What becomes of one entry by the rules for its kind. Never throws: what fails is a reason for quarantine. */
export function judge(entry: Entry, key: "users" | "groups", rules: KindJudge): Verdict {
  const reasons: string[] = [];
  const evaluate = <Result>(rule: RuleName, read: (value: unknown) => Result): Result | undefined => {
    const expression = rules.expressions[rule];
    if (expression === undefined) return undefined;
    try {
      const value = expression.evaluate(entry.attributes);
      try {
        return read(value);
      } catch (error) {
        throw new Error(`${messageOf(error)}${value === null ? expression.unset(entry.attributes) : ""}`, {
          cause: error,
        });
      }
    } catch (error) {
      reasons.push(`${key}.${rule}: ${messageOf(error)}`);
      return undefined;
    }
  };
  if (evaluate("include", asBoolean) === false) return { verdict: "excluded" };
  if (evaluate("exclude", asBoolean) === true) return { verdict: "excluded" };
  const given = evaluate("name", asName);
  const name = given === undefined || key === "users" ? given : rules.groupName(given);
  const kept: KeepableAttribute[] = [];
  /** The value, or what its absence means. `unset`: what it is where the target has nothing to keep. */
  const attribute = (rule: KeepableAttribute, value: string | null | undefined, unset?: string): string | undefined => {
    if (value !== null && value !== undefined) return value;
    const absence = rules.absence[rule];
    if (absence === "keep") kept.push(rule);
    return typeof absence === "object" ? absence.default : unset;
  };
  const displayName =
    rules.absence.displayName === undefined
      ? evaluate("displayName", asName)
      : attribute("displayName", evaluate("displayName", asOptionalName), name);
  const description = attribute("description", evaluate("description", asOptionalText));
  const mail = attribute("mail", evaluate("mail", asOptionalText));
  const groups = evaluate("groups", asGroups) ?? [];
  if (reasons.length > 0 || name === undefined || displayName === undefined) {
    return { verdict: "quarantined", ...(name === undefined ? {} : { name }), reason: reasons.join("; ") };
  }
  return {
    verdict: "included",
    name,
    displayName,
    ...(description ? { description } : {}),
    ...(mail ? { mail } : {}),
    groups: groups.map(rules.groupName),
    ...(kept.length === 0 ? {} : { kept }),
  };
}

function asBoolean(value: unknown): boolean {
  if (typeof value === "boolean") return value;
  throw unexpected(value, "include");
}

function asName(value: unknown): string {
  const text = asText(value);
  if (text === undefined) throw unexpected(value, "name");
  const objection = objectionToName(text);
  if (objection !== undefined) throw new Error(`${quoted(text)} ${objection}`);
  return text;
}

function asOptionalName(value: unknown): string | null {
  return value === null ? null : asName(value);
}

/** Null is missing; an empty text is not. */
export function asOptionalText(value: unknown): string | null {
  if (value === null) return null;
  const text = asText(value);
  if (text === undefined) throw unexpected(value, "mail");
  return text;
}

/** Nulls and empty texts are no groups. */
function asGroups(value: unknown): string[] {
  return (Array.isArray(value) ? value : [value]).flatMap((each: unknown) => {
    if (each === null || each === "") return [];
    if (asText(each) === undefined) throw unexpected(each, "groups");
    return asName(each);
  });
}

/** Undefined when the value is neither a text nor an integer. */
function asText(value: unknown): string | undefined {
  if (typeof value === "bigint") return value.toString();
  if (typeof value !== "string") return undefined;
  if (!value.isWellFormed()) throw new Error(`${quoted(value)} is not valid Unicode`);
  return normal(value);
}

function unexpected(value: unknown, rule: RuleName): Error {
  return new Error(`gives ${shown(value)}, but ${accepted[rule].wanted} is needed`);
}
