import { InputError, messageOf } from "#errors.ts";
import type { Entry } from "./entry.ts";
import { compileExpression } from "./expression.ts";
import type { Expression } from "./expression.ts";
import type { KindRules, Rules } from "./rules.ts";
import { normal, objectionToName, quoted, shown } from "./text.ts";

/** The rules of a sync, ready for every entry. */
export interface CompiledRules {
  /** False: the sources' groups do not become groups, and their memberships do not count. */
  readonly makesGroups: boolean;
  /** What becomes of one entry. Never throws: what fails is a reason for quarantine. */
  judge(entry: Entry): Verdict;
  /** Attributes that no entry judged so far has, a line for each rule that asks for one: `users.mail: entry.mial`. */
  neverSet(): string[];
}

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
    };

/** What is wrong with a rule; `offset` counts UTF-16 units from the start of its expression. */
export interface RuleProblem {
  /** The keys that lead to the rule: `["users", "name"]`. */
  readonly path: readonly string[];
  readonly message: string;
  readonly offset?: number;
}

type RuleName = keyof KindRules;
type KindExpressions = Partial<Record<RuleName, Expression>>;

const accepted: Readonly<Record<RuleName, { types: readonly string[]; wanted: string }>> = {
  include: { types: ["bool"], wanted: "true or false" },
  name: { types: ["string", "int"], wanted: "a text" },
  displayName: { types: ["string", "int"], wanted: "a text" },
  description: { types: ["string", "int", "null"], wanted: "a text or null" },
  mail: { types: ["string", "int", "null"], wanted: "a text or null" },
  groups: {
    types: ["string", "int", "null", "list", "list<string>", "list<int>", "list<T>"],
    wanted: "a text, a list of texts or null",
  },
};
const ruleNames = Object.keys(accepted) as RuleName[];

/** Everything that can be known to be wrong with the rules before they meet an entry. */
export function checkRules(rules: Rules): RuleProblem[] {
  return compile(rules).problems;
}

/**
 * Compiles the rules.
 * @throws {InputError} with what `checkRules` finds
 */
export function compileRules(rules: Rules): CompiledRules {
  const { problems, users, groups } = compile(rules);
  if (problems.length > 0) {
    throw new InputError("the rules are not valid", {
      problems: problems.map(
        ({ path, message, offset }) =>
          `${path.join(".")}${offset === undefined ? "" : `, character ${offset + 1}`}: ${message}`,
      ),
    });
  }
  return {
    makesGroups: groups !== undefined,
    judge: (entry) => {
      if (entry.kind === "user") return judge(entry, "users", users);
      return groups === undefined ? { verdict: "excluded" } : judge(entry, "groups", groups);
    },
    neverSet: () =>
      Object.entries({ users, groups: groups ?? {} }).flatMap(([kind, expressions]) =>
        Object.entries(expressions).flatMap(([rule, expression]) =>
          expression.neverSet().map((name) => `${kind}.${rule}: entry.${name}`),
        ),
      ),
  };
}

function compile(rules: Rules): { problems: RuleProblem[]; users: KindExpressions; groups?: KindExpressions } {
  const problems: RuleProblem[] = [];
  const kind = (key: "users" | "groups", expressions: KindRules): KindExpressions => {
    const compiled: KindExpressions = {};
    for (const name of ruleNames) {
      const source = expressions[name];
      if (source === undefined) continue;
      const path = [key, name];
      const result = compileExpression(source);
      const { types, wanted } = accepted[name];
      if (!("evaluate" in result)) problems.push({ path, ...result });
      else if (key === "groups" && name === "mail") problems.push({ path, message: "a group has no mail" });
      else if (result.type !== "dyn" && !types.includes(result.type)) {
        problems.push({ path, message: `gives ${result.type}, but ${wanted} is needed` });
      } else compiled[name] = result;
    }
    return compiled;
  };
  const users = kind("users", rules.users);
  return { problems, users, ...(rules.groups === undefined ? {} : { groups: kind("groups", rules.groups) }) };
}

function judge(entry: Entry, key: "users" | "groups", rules: KindExpressions): Verdict {
  const reasons: string[] = [];
  const evaluate = <Result>(rule: RuleName, read: (value: unknown) => Result): Result | undefined => {
    const expression = rules[rule];
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
  const name = evaluate("name", asName);
  const displayName = evaluate("displayName", asName);
  const description = evaluate("description", asOptionalText);
  const mail = evaluate("mail", asOptionalText);
  const groups = evaluate("groups", asGroups) ?? [];
  if (reasons.length > 0 || name === undefined || displayName === undefined) {
    return { verdict: "quarantined", ...(name === undefined ? {} : { name }), reason: reasons.join("; ") };
  }
  return {
    verdict: "included",
    name,
    displayName,
    ...(description === undefined ? {} : { description }),
    ...(mail === undefined ? {} : { mail }),
    groups,
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

function asOptionalText(value: unknown): string | undefined {
  if (value === null) return undefined;
  const text = asText(value);
  if (text === undefined) throw unexpected(value, "mail");
  return text === "" ? undefined : text;
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
