import { messageOf } from "#errors.ts";
import { describeValue, nfc, objectionToKey, quote, visible } from "#text.ts";
import type { PrincipalValue, PrincipalValues } from "./principal.ts";
import type { Attribute } from "./attributes.ts";
import { RunBudgetError } from "./budget.ts";
import type { AttributeValue, Entry, SourceGroups } from "./entry.ts";
import { attributeOf } from "./expression.ts";
import type { Expression, GroupFunction } from "./expression.ts";
import type { Naming } from "./names.ts";
import { objectionToName } from "./principal.ts";
import { accepted } from "./rules.ts";
import type { Absence, Accepted } from "./rules.ts";
import { groupAttributes } from "./scope.ts";

/** `quarantined`: in scope, but it is unknown what it becomes; with `name` when that much is known. */
export type Verdict =
  | { readonly verdict: "excluded" }
  | { readonly verdict: "quarantined"; readonly name?: string; readonly reason: string }
  | {
      readonly verdict: "included";
      readonly name: string;
      /** What the rules give, by attribute of the target. */
      readonly attributes: PrincipalValues;
      /** Names of groups, from the rule. */
      readonly groups: readonly string[];
      /** Attributes of which the target's value stays; the values here are for a principal that is created. */
      readonly kept?: readonly string[] | undefined;
    };

/** A group that rules make. */
export interface RuleGroup {
  /** What the rules give; of a required attribute without a value the name takes the place. */
  readonly attributes: PrincipalValues;
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

/** The rules for one kind, compiled. */
export interface KindJudge {
  /** By rule: `name`, or an attribute of the target. */
  readonly expressions: Readonly<Record<string, Expression>>;
  readonly absence: Readonly<Record<string, Absence>>;
  /** The attributes of the kind. */
  readonly attributes: readonly Attribute[];
  /** The names of attributes that have one value together. */
  readonly together: readonly (readonly string[])[];
  /** The name of a group after `rename`. */
  readonly groupName: (name: string) => string;
  readonly naming?: Naming | undefined;
}

/** An entry that is being judged. One object: closures for each entry are a tenth of what a read allocates. */
interface Judging {
  readonly entry: Entry;
  readonly key: "users" | "groups";
  readonly rules: KindJudge;
  readonly known: SourceGroups | undefined;
  /** Why rules failed. */
  readonly reasons: string[];
  kept?: string[];
}

/** What becomes of one entry by the rules for its kind. What fails is a reason for quarantine. */
export function judge(entry: Entry, key: "users" | "groups", rules: KindJudge, known?: SourceGroups): Verdict {
  const judging: Judging = { entry, key, rules, known, reasons: [] };
  if (evaluate(judging, "include", asBoolean) === false) return { verdict: "excluded" };
  if (evaluate(judging, "exclude", asBoolean) === true) return { verdict: "excluded" };
  const given = evaluate(judging, "name", asName);
  const name = seen(judging, "name", given === undefined || key === "users" ? given : rules.groupName(given));
  const attributes: Record<string, PrincipalValue> = {};
  let isComplete = name !== undefined;
  for (const attribute of rules.attributes) {
    const value = valueOf(judging, attribute, name);
    if (value !== undefined) attributes[attribute.name] = value;
    else if (attribute.required === true) isComplete = false;
  }
  for (const names of rules.together) {
    const objection = objectionToValues(key, names, attributes);
    if (objection !== undefined) judging.reasons.push(objection);
  }
  const groups = evaluate(judging, "groups", asGroups)?.map(rules.groupName) ?? none;
  for (const group of groups) seen(judging, "groups", group);
  if (judging.reasons.length > 0 || name === undefined || !isComplete) {
    return { verdict: "quarantined", name, reason: judging.reasons.join("; ") };
  }
  return { verdict: "included", name, attributes, groups, kept: judging.kept };
}

const none: readonly never[] = [];

/** Why attributes that have one value together cannot be as the rules give them. */
function objectionToValues(key: string, names: readonly string[], given: PrincipalValues): string | undefined {
  const set = names.filter((name) => given[name] !== undefined);
  const values = set.flatMap((name) => given[name] ?? []).map(String);
  const different = [...new Map(values.map((each) => [each.toLowerCase(), each])).values()];
  if (different.length <= 1) return undefined;
  const shown = different.slice(0, 3).map(quote).join(", ");
  return `${set.map((name) => `${key}.${name}`).join(" and ")}: ${different.length} values (${shown}${different.length > 3 ? ", …" : ""}), but the target holds one; ${oneValue}`;
}

/** How rules give one value. */
export const oneValue = "use first(…) of a list, coalesce(…) of several attributes, or one rule alone";

/** What an attribute becomes; undefined where it is unset, or its rule fails. */
function valueOf(judging: Judging, attribute: Attribute, name: string | undefined): PrincipalValue | undefined {
  const { name: rule, type, required } = attribute;
  if (required === true && judging.rules.absence[rule] === undefined) return evaluate(judging, rule, asName);
  const read: (value: unknown) => PrincipalValue | null = required === true ? asOptionalName : readers[type];
  const value = orAbsence(judging, rule, evaluate(judging, rule, read), required === true ? name : undefined);
  return value === "" || (typeof value === "object" && value.length === 0) ? undefined : value;
}

/** What a rule gives; undefined where there is none, or it fails: then the reason is noted. */
function evaluate<Result>(
  { entry: { attributes }, key, rules, known, reasons }: Judging,
  rule: string,
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
function seen({ key, reasons }: Judging, rule: string, name: string | undefined): string | undefined {
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
  rule: string,
  value: PrincipalValue | null | undefined,
  unset?: string,
): PrincipalValue | undefined {
  if (value !== null && value !== undefined) return value;
  const absence = judging.rules.absence[rule];
  if (absence === "keep") (judging.kept ??= []).push(rule);
  return typeof absence === "object" ? absence.default : unset;
}

function asBoolean(value: unknown): boolean {
  if (typeof value === "boolean") return value;
  throw unexpected(value, accepted.boolean);
}

function asName(value: unknown): string {
  const text = asText(value);
  if (text === undefined) throw unexpected(value, accepted.name);
  const objection = objectionToName(text) ?? objectionToSight(text);
  if (objection !== undefined) throw new Error(`${quote(text)} ${objection}`);
  return text;
}

/** What nobody can read, although the target would take it; undefined: it can be read. */
function objectionToSight(text: string): string | undefined {
  if (text.trim() === "") return "is only white space";
  if (text.includes("\u{FFFD}"))
    return "has U+FFFD where a conversion of character sets has lost a character; export the source in its own encoding or UTF-8";
  return undefined;
}

function asOptionalName(value: unknown): string | null {
  return value === null ? null : asName(value);
}

/** Null is missing; an empty text is not. */
function asOptionalText(value: unknown): string | null {
  if (value === null) return null;
  const text = asText(value);
  if (text === undefined) throw unexpected(value, accepted.text);
  return text;
}

function asOptionalBoolean(value: unknown): boolean | null {
  if (value === null || typeof value === "boolean") return value;
  throw unexpected(value, accepted.optionalBoolean);
}

/** Null is missing. Empty texts do not count. */
function asTexts(value: unknown): readonly string[] | null {
  if (value === null) return null;
  return (Array.isArray(value) ? value : [value]).flatMap((each: unknown) => {
    const text = each === null ? "" : asText(each);
    if (text === undefined) throw unexpected(each, accepted.texts);
    return text === "" ? [] : text;
  });
}

/** How a rule's value is read, by the type of its attribute. */
const readers = { text: asOptionalText, boolean: asOptionalBoolean, texts: asTexts } as const;

/** Nulls and empty texts are no groups. */
function asGroups(value: unknown): string[] {
  return (Array.isArray(value) ? value : [value]).flatMap((each: unknown) => {
    if (each === null || each === "") return [];
    if (asText(each) === undefined) throw unexpected(each, accepted.texts);
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

function unexpected(value: unknown, { wanted }: Pick<Accepted, "wanted">): Error {
  const hint = Array.isArray(value) ? "; first(…) takes the first of them" : "";
  return new Error(`gives ${describeValue(value)}, but ${wanted} is needed${hint}`);
}

/** The attributes that name a group in most sources. */
export const usualNames = ["cn", "displayName", "name"];

export function sourceNameOf(group: Entry, rules: KindJudge | undefined): string | undefined {
  const { attributes } = group;
  if (rules !== undefined) {
    try {
      return known(asName(rules.expressions["name"]?.evaluate(attributes)));
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
  rules: readonly (readonly [Attribute, Expression])[],
  value: string,
): RuleGroup | { readonly reason: string } {
  const attributes: Record<string, PrincipalValue> = {};
  for (const [{ name, type, required }, expression] of rules) {
    try {
      const given = (required === true ? asOptionalName : readers[type])(expression.evaluate({ value }));
      if (given !== null && given !== "") attributes[name] = given;
    } catch (error) {
      return { reason: `groupsFromRules.${name}: ${reasonOf(error)}` };
    }
  }
  return { attributes };
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
