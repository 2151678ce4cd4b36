import { messageOf } from "#errors.ts";
import { describeValue, nfc, objectionToKey, quote, visible } from "#text.ts";
import { RunBudgetError } from "./budget.ts";
import type { AttributeValue, Entry, SourceGroups } from "./entry.ts";
import { attributeOf } from "./expression.ts";
import type { Expression, GroupFunction } from "./expression.ts";
import type { Naming } from "./names.ts";
import { objectionToName } from "./principal.ts";
import type { Absence, KeepableAttribute, KindRules, RuleGroups } from "./rules.ts";
import { groupAttributes } from "./scope.ts";

/** `quarantined`: in scope, but it is unknown what it becomes; with `name` when that much is known. */
export type Verdict =
  | { readonly verdict: "excluded" }
  | { readonly verdict: "quarantined"; readonly name?: string; readonly reason: string }
  | {
      readonly verdict: "included";
      readonly name: string;
      readonly displayName: string;
      readonly description?: string | undefined;
      readonly mail?: string | undefined;
      /** Names of groups, from the rule. */
      readonly groups: readonly string[];
      /** Attributes of which the target's value stays; the values here are for a principal that is created. */
      readonly kept?: readonly KeepableAttribute[] | undefined;
    };

export interface RuleGroup {
  readonly displayName: string;
  readonly description?: string | undefined;
}

/** No `key`: the entry stands alone. `reason`: the rule failed, so whether it does is unknown. */
export interface JoinKey {
  readonly key?: string | undefined;
  readonly reason?: string | undefined;
}

/** One rule, evaluated for one entry. */
export interface RuleTrace {
  /** `users.name`. */
  readonly rule: string;
  readonly expression: string;
  /** What it reads, null for what is not set; absent when it may read any attribute. */
  readonly attributes?: Readonly<Record<string, AttributeValue | null>> | undefined;
  /** The result: a text, a list of texts, true, false or null. */
  readonly value?: unknown;
  /** Why there is no result. */
  readonly error?: string | undefined;
}

export type RuleName = keyof KindRules;

/** The rules for one kind, compiled. */
export interface KindJudge {
  readonly expressions: Partial<Record<RuleName, Expression>>;
  readonly absence: Partial<Record<KeepableAttribute, Absence>>;
  /** The name of a group after `rename`. */
  readonly groupName: (name: string) => string;
  readonly naming?: Naming | undefined;
}

/** What each rule has to return, in words and as the types that CEL may infer. */
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

/** An entry that is being judged. One object: closures for each entry are a tenth of what a read allocates. */
interface Judging {
  readonly entry: Entry;
  readonly key: "users" | "groups";
  readonly rules: KindJudge;
  readonly known: SourceGroups | undefined;
  /** Why rules failed. */
  readonly reasons: string[];
  kept?: KeepableAttribute[];
}

/** What becomes of one entry by the rules for its kind. What fails is a reason for quarantine. */
export function judge(entry: Entry, key: "users" | "groups", rules: KindJudge, known?: SourceGroups): Verdict {
  const judging: Judging = { entry, key, rules, known, reasons: [] };
  if (evaluate(judging, "include", asBoolean) === false) return { verdict: "excluded" };
  if (evaluate(judging, "exclude", asBoolean) === true) return { verdict: "excluded" };
  const given = evaluate(judging, "name", asName);
  const name = seen(judging, "name", given === undefined || key === "users" ? given : rules.groupName(given));
  const displayName =
    rules.absence.displayName === undefined
      ? evaluate(judging, "displayName", asName)
      : orAbsence(judging, "displayName", evaluate(judging, "displayName", asOptionalName), name);
  const description = orAbsence(judging, "description", evaluate(judging, "description", asOptionalText));
  const mail = orAbsence(judging, "mail", evaluate(judging, "mail", asOptionalText));
  const groups = (evaluate(judging, "groups", asGroups) ?? []).map(rules.groupName);
  for (const group of groups) seen(judging, "groups", group);
  if (judging.reasons.length > 0 || name === undefined || displayName === undefined) {
    return { verdict: "quarantined", name, reason: judging.reasons.join("; ") };
  }
  return {
    verdict: "included",
    name,
    displayName,
    description: description || undefined,
    mail: mail || undefined,
    groups,
    kept: judging.kept,
  };
}

/** What a rule gives; undefined where there is none, or it fails: then the reason is noted. */
function evaluate<Result>(
  { entry: { attributes }, key, rules, known, reasons }: Judging,
  rule: RuleName,
  read: (value: unknown) => Result,
): Result | undefined {
  const expression = rules.expressions[rule];
  if (expression === undefined) return undefined;
  try {
    const value = expression.evaluate(attributes, known);
    try {
      return read(value);
    } catch (error) {
      throw new Error(`${messageOf(error)}${value === null ? expression.unset(attributes) : ""}`, { cause: error });
    }
  } catch (error) {
    reasons.push(`${key}.${rule}: ${reasonOf(error)}`);
    return undefined;
  }
}

/** The name; undefined where nobody could see what it is: it would be another principal beside one that looks the same. */
function seen({ key, reasons }: Judging, rule: RuleName, name: string | undefined): string | undefined {
  const objection = name === undefined ? undefined : objectionToKey(name);
  if (objection === undefined) return name;
  reasons.push(`${key}.${rule}: ${hiddenIn(name ?? "", objection)}`);
  return undefined;
}

/** Says what cannot be seen, and what to do. */
function hiddenIn(text: string, objection: string): string {
  return `${visible(quote(text))} ${objection}; correct the source, or use trim(…) or replace(…) in the rule`;
}

/**
 * The value, or what its absence means.
 * @param unset the value where the target has none to keep
 */
function orAbsence(
  judging: Judging,
  rule: KeepableAttribute,
  value: string | null | undefined,
  unset?: string,
): string | undefined {
  if (value !== null && value !== undefined) return value;
  const absence = judging.rules.absence[rule];
  if (absence === "keep") (judging.kept ??= []).push(rule);
  return typeof absence === "object" ? absence.default : unset;
}

function asBoolean(value: unknown): boolean {
  if (typeof value === "boolean") return value;
  throw unexpected(value, "include");
}

function asName(value: unknown): string {
  const text = asText(value);
  if (text === undefined) throw unexpected(value, "name");
  const objection = objectionToName(text);
  if (objection !== undefined) throw new Error(`${quote(text)} ${objection}`);
  return text;
}

function asOptionalName(value: unknown): string | null {
  return value === null ? null : asName(value);
}

/** Null is missing; an empty text is not. */
function asOptionalText(value: unknown): string | null {
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
  if (!value.isWellFormed()) throw new Error(`${quote(value)} is not valid Unicode`);
  return nfc(value);
}

function unexpected(value: unknown, rule: RuleName): Error {
  const hint = Array.isArray(value) ? "; first(…) takes the first of them" : "";
  return new Error(`gives ${describeValue(value)}, but ${accepted[rule].wanted} is needed${hint}`);
}

export function isKeepable(name: RuleName): name is KeepableAttribute {
  return name === "displayName" || name === "description" || name === "mail";
}

/** The attributes that name a group in most sources. */
export const usualNames = ["cn", "displayName", "name"];

export function sourceNameOf(group: Entry, rules: KindJudge | undefined): string | undefined {
  const { attributes } = group;
  if (rules !== undefined) {
    try {
      return known(asName(rules.expressions.name?.evaluate(attributes)));
    } catch (error) {
      reasonOf(error);
      const { include, exclude } = rules.expressions;
      const evaluate = (rule: Expression | undefined): unknown => {
        try {
          return rule?.evaluate(attributes);
        } catch (error) {
          reasonOf(error);
          return undefined;
        }
      };
      if (evaluate(include) !== false && evaluate(exclude) !== true) return undefined;
    }
  }
  const usual = usualNames.flatMap((name) => attributeOf(attributes, name) ?? []);
  return known(nfc(String(usual[0] ?? group.id)));
}

/** A group's name that looks like another one is not known. */
function known(name: string): string | undefined {
  return objectionToKey(name) === undefined ? name : undefined;
}

export function describeGroup(
  rules: Partial<Record<keyof RuleGroups, Expression>>,
  value: string,
): RuleGroup | { readonly reason: string } {
  let rule = "displayName";
  try {
    const displayName = asOptionalName(rules.displayName?.evaluate({ value }) ?? null) ?? value;
    rule = "description";
    return { displayName, description: asOptionalText(rules.description?.evaluate({ value }) ?? null) || undefined };
  } catch (error) {
    return { reason: `groupsFromRules.${rule}: ${reasonOf(error)}` };
  }
}

export function traceOf(
  rule: string,
  expression: Expression,
  { attributes }: Entry,
  groups: SourceGroups | undefined,
): RuleTrace {
  const { source, attributes: names, asksGroups } = expression;
  const own = (names ?? []).map((name) => [name, attributeOf(attributes, name) ?? null] as const);
  const ofGroups = asksGroups.map(
    (name) => [groupAttributeOf(name), groups?.[name === "memberOf" ? "direct" : "nested"] ?? null] as const,
  );
  const read = names === undefined ? {} : { attributes: Object.fromEntries([...own, ...ofGroups]) };
  try {
    return { rule, expression: source, ...read, value: plain(expression.evaluate(attributes, groups)) };
  } catch (error) {
    return { rule, expression: source, ...read, error: reasonOf(error) };
  }
}

/** A value of CEL as JSON has it. */
function plain(value: unknown): unknown {
  if (typeof value === "bigint") return value.toString();
  if (value instanceof Date) return value.toISOString();
  if (Array.isArray(value)) return value.map(plain);
  return typeof value === "object" && value !== null ? describeValue(value) : value;
}

/**
 * Why a rule gives nothing for a record.
 * @throws {RunBudgetError} the error concerns the whole run
 */
function reasonOf(error: unknown): string {
  if (error instanceof RunBudgetError) throw error;
  return messageOf(error);
}

export function joinKeyOf(kind: "users" | "groups", expression: Expression, { attributes }: Entry): JoinKey {
  try {
    const key = asOptionalText(expression.evaluate(attributes));
    const objection = key ? objectionToKey(key) : undefined;
    if (objection !== undefined) throw new Error(hiddenIn(key ?? "", objection));
    return key ? { key } : {};
  } catch (error) {
    return { reason: `join.${kind}: ${reasonOf(error)}` };
  }
}

export function groupAttributeOf(name: GroupFunction): string {
  return groupAttributes[name === "memberOf" ? "direct" : "nested"];
}
