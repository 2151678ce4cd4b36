import { InputError, messageOf } from "#errors.ts";
import { describeValue, nfc, objectionToKey, quote, visible } from "#text.ts";
import { objectionToName } from "./principal.ts";
import type { Kind } from "./principal.ts";
import type { AttributeValue, Entry, SourceGroups } from "./entry.ts";
import { RunBudgetError } from "./budget.ts";
import { attributeOf, compileExpression, compileNaming } from "./expression.ts";
import type { CompileOptions, Expression, GroupFunction } from "./expression.ts";
import { keptAttributes } from "./kept-attributes.ts";
import type { KeptAttributes } from "./kept-attributes.ts";
import type { LookupTables } from "./lookup.ts";
import type { Naming } from "./names.ts";
import { groupAttributes, scopeListsOf } from "./scope.ts";
import type { GroupQuestions, ScopeList } from "./scope.ts";
import type {
  Absence,
  AttributeRule,
  KeepableAttribute,
  KindRules,
  RuleGroups,
  Rules,
  StaticGroup,
  UniqueName,
} from "./rules.ts";

/** The rules of a sync, ready for every entry. */
export interface CompiledRules {
  /** False: the sources' groups do not become groups, and memberships in them do not count. */
  readonly makesGroups: boolean;
  readonly staticGroups: readonly StaticGroup[];
  readonly defaultGroups: readonly string[];
  /** What a group is like that rules name and no source has; absent: the rules make no groups of their own. */
  readonly groupOfRule?: ((name: string) => RuleGroup | { readonly reason: string }) | undefined;
  /** What gives names that are taken another one, by kind. */
  readonly namings: Readonly<Partial<Record<Kind, Naming>>>;
  /** Whether a rule uses the time: then the same entries may give another result later. */
  readonly asksTime: boolean;
  /** Whether entries of several sources may be joined, by kind. */
  readonly joins: { readonly user: boolean; readonly group: boolean };
  /** Whether entries are judged after all have been read. */
  readonly judgesLate: boolean;
  /** What has to be known about the groups that entries are in; absent: nothing. */
  readonly groupQuestions?: GroupQuestions | undefined;
  /** The join key of an entry; undefined when it can be judged by itself, before others are read. */
  joinKey(entry: Entry): JoinKey | undefined;
  /**
   * What becomes of one entry. A rule that fails is a reason for quarantine.
   * @throws {RunBudgetError}
   * @param groups those that it is in; absent: a rule that asks for them fails
   */
  judge(entry: Entry, groups?: SourceGroups): Verdict;
  /**
   * What a group is called in its source: what the rule `name` gives, before `rename`. Where there is none, or the rules
   * leave the group out: its `cn`, `displayName` or `name`, or else its id. Undefined when the rule fails.
   */
  sourceName(group: Entry): string | undefined;
  /** The attributes that the rules `name`, `mail` and `join` read: what people know an entry by. */
  identifying(entry: Entry): AttributeValue[];
  /** What each rule for its kind reads of an entry, and returns. */
  trace(entry: Entry, groups?: SourceGroups): RuleTrace[];
  /** Attributes that no entry judged so far has; a line for each rule that reads one: `users.mail: entry.mial`. */
  neverSet(): string[];
  /**
   * What each rule reads, by kind and rule, `join` and lists of groups included; undefined when it may read any attribute.
   * What the functions for groups and these lists give is named as in `record`.
   */
  reads(): Readonly<Record<"users" | "groups", ReadonlyMap<string, readonly string[] | undefined>>>;
  /** What is kept of each entry, so that causes can be found. */
  readonly kept: KeptAttributes;
  /** The attributes that the rules read, by kind; undefined when a rule may read any. */
  attributes(): { readonly users: readonly string[]; readonly groups: readonly string[] } | undefined;
  /** Of the attributes that the rules name, those that a rule reads without `has` or `coalesce`, by kind. */
  required(): { readonly users: readonly string[]; readonly groups: readonly string[] };
}

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

/** What is wrong with a rule; `offset` counts UTF-16 units from the start of its expression. */
export interface RuleProblem {
  /** The keys that lead to the rule: `["users", "name"]`. */
  readonly path: readonly string[];
  readonly message: string;
  readonly offset?: number | undefined;
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
const accepted: Readonly<Record<RuleName, { types: readonly string[]; wanted: string }>> = {
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

interface Compiled {
  readonly problems: RuleProblem[];
  readonly users: KindJudge;
  readonly groups?: KindJudge | undefined;
  readonly groupsFromRules?: Partial<Record<keyof RuleGroups, Expression>> | undefined;
  readonly join: { readonly users?: Expression; readonly groups?: Expression };
}

const identifyingRules = new Set(["name", "mail", "join"]);
const ruleNames = Object.keys(accepted) as RuleName[];

/**
 * Finds everything that is wrong with the rules before any entry is read.
 * @param onlyTexts every attribute of an entry is one text, or missing
 */
export function checkRules(rules: Rules, tables?: LookupTables, onlyTexts?: boolean): RuleProblem[] {
  return compile(rules, { now: new Date(), tables, onlyTexts }).problems;
}

/** The files that rules look values up in. */
export function tablesOf(rules: Rules): string[] {
  // Most have none, and need not be compiled to know it.
  if (!JSON.stringify(rules).includes("lookup")) return [];
  const { users, groups, groupsFromRules, join } = compile(rules, { now: new Date() });
  const all = [users.expressions, groups?.expressions ?? {}, groupsFromRules ?? {}, join].flatMap((each) =>
    Object.values<Expression>(each),
  );
  return [...new Set(all.flatMap(({ tables }) => tables))];
}

/**
 * Compiles the rules.
 * @param now what `now()` returns: one moment for all entries of a run
 * @param tables what `lookup` reads, see `tablesOf`
 * @param others expressions that read entries, too, once they are principals: what they read is kept for them
 * @param place where a rule is written, by the keys that lead to it: for the error that ends a run
 * @throws {InputError} with what `checkRules` finds
 */
export function compileRules(
  rules: Rules,
  now = new Date(),
  tables?: LookupTables,
  others: Readonly<Record<"users" | "groups", readonly Expression[]>> = { users: [], groups: [] },
  place?: RulePlace,
): CompiledRules {
  const { problems, users, groups, groupsFromRules, join } = compile(rules, { now, tables }, place);
  if (problems.length > 0) {
    throw new InputError("the rules are not valid", {
      problems: problems.map(
        ({ path, message, offset }) =>
          `${path.join(".")}${offset === undefined ? "" : `, character ${offset + 1}`}: ${message}`,
      ),
    });
  }
  const expressions = {
    users: [...Object.entries(users.expressions), ...(join.users === undefined ? [] : [["join", join.users] as const])],
    groups: [
      ...Object.entries(groups?.expressions ?? {}),
      ...(join.groups === undefined ? [] : [["join", join.groups] as const]),
    ],
  };
  const ofRuleGroups = Object.entries(groupsFromRules ?? {});
  const all = [...expressions.users, ...expressions.groups, ...ofRuleGroups];
  const lists = scopeListsOf(rules);
  const asks = (name: GroupFunction): Kind[] =>
    (["user", "group"] as const).filter((kind) =>
      expressions[`${kind}s`].some(([, { asksGroups }]) => asksGroups.includes(name)),
    );
  const groupQuestions = { lists, direct: asks("memberOf"), nested: asks("nestedMemberOf") };
  const asksGroups = lists.length + groupQuestions.direct.length + groupQuestions.nested.length > 0;
  const needed = asksGroups && groups === undefined ? usualNames : [];
  const readers = {
    users: [...expressions.users.map(([, rule]) => rule), ...others.users],
    groups: [...expressions.groups.map(([, rule]) => rule), ...others.groups],
  };
  const read = { users: attributesOf(readers.users), groups: attributesOf(readers.groups) };
  const forScope = (of: "users" | "groups"): string[] | undefined =>
    attributesOf(expressions[of].filter(decidesScope).map(([, rule]) => rule));
  return {
    makesGroups: groups !== undefined,
    staticGroups: (rules.staticGroups ?? []).map(normalGroup),
    defaultGroups: (rules.defaultGroups ?? []).map(nfc),
    groupOfRule: groupsFromRules === undefined ? undefined : (name) => describeGroup(groupsFromRules, name),
    namings: {
      ...(users.naming === undefined ? {} : { user: users.naming }),
      ...(groups?.naming === undefined ? {} : { group: groups.naming }),
    },
    asksTime: all.some(([, { asksTime }]) => asksTime),
    joins: { user: join.users !== undefined, group: join.groups !== undefined },
    judgesLate: asksGroups || join.users !== undefined || join.groups !== undefined,
    groupQuestions: asksGroups ? groupQuestions : undefined,
    joinKey: ({ kind, attributes }) =>
      joinKeyOf(kind === "user" ? "users" : "groups", join, attributes) ?? (asksGroups ? {} : undefined),
    judge: (entry, known) => {
      if (entry.kind === "user") return judge(entry, "users", users, known);
      return groups === undefined ? { verdict: "excluded" } : judge(entry, "groups", groups, known);
    },
    sourceName: (entry) => sourceNameOf(entry, groups),
    identifying: ({ kind, attributes }) => {
      const rules = kind === "user" ? expressions.users : expressions.groups;
      const names = rules.flatMap(([rule, { attributes = [] }]) => (identifyingRules.has(rule) ? attributes : []));
      return names.flatMap((name) => attributeOf(attributes, name) ?? []);
    },
    trace: (entry, known) => {
      const kind = entry.kind === "user" ? "users" : "groups";
      return expressions[kind].map(([rule, expression]) => traceOf(`${kind}.${rule}`, expression, entry, known));
    },
    neverSet: () =>
      Object.entries(expressions).flatMap(([kind, rules]) =>
        rules.flatMap(([rule, expression]) => expression.neverSet().map((name) => `${kind}.${rule}: entry.${name}`)),
      ),
    reads: () => ({
      users: readsOf(
        expressions.users,
        lists.filter(({ kind }) => kind === "user"),
      ),
      groups: readsOf(
        expressions.groups,
        lists.filter(({ kind }) => kind === "group"),
      ),
    }),
    kept: keptAttributes(read, { users: forScope("users"), groups: forScope("groups") }),
    attributes: () => {
      const { users, groups } = read;
      if (users === undefined || groups === undefined) return undefined;
      return { users, groups: [...new Set([...groups, ...needed])] };
    },
    required: () => ({ users: requiredOf(readers.users), groups: requiredOf(readers.groups) }),
  };
}

/** Where a rule is written. */
export type RulePlace = (path: readonly string[]) => string;

function compile(rules: Rules, options: CompileOptions, place: RulePlace = (path) => path.join(".")): Compiled {
  const problems: RuleProblem[] = [];
  const renames = new Map(Object.entries(rules.groups?.rename ?? {}).map(([from, to]) => [nfc(from), nfc(to)]));
  const kind = (key: "users" | "groups", rules: KindRules): KindJudge => {
    const expressions: Partial<Record<RuleName, Expression>> = {};
    const absence: KindJudge["absence"] = {};
    for (const name of ruleNames) {
      const rule: AttributeRule | UniqueName | undefined = rules[name];
      if (rule === undefined) continue;
      const source = typeof rule === "string" ? rule : rule.value;
      const path = typeof rule === "string" ? [key, name] : [key, name, "value"];
      if (typeof rule === "object" && "absent" in rule && isKeepable(name)) {
        absence[name] = typeof rule.absent === "string" ? rule.absent : { default: nfc(rule.absent.default) };
      }
      if (source === undefined) continue;
      const result = compileExpression(source, { ...options, place: () => place(path) });
      const { types, wanted } = accepted[name];
      const fits = (type: string): boolean =>
        type === "dyn" || types.includes(type) || (type === "null" && isKeepable(name) && absence[name] !== undefined);
      if (!("evaluate" in result)) problems.push({ path, ...result });
      else if (key === "groups" && name === "mail") problems.push({ path, message: "a group has no mail" });
      else if (!fits(result.type)) problems.push({ path, message: `gives ${result.type}, but ${wanted} is needed` });
      else if (key === "groups" && name === "name" && result.asksGroups.length > 0)
        problems.push({
          path,
          message: `${result.asksGroups[0]}(entry) needs the names of groups, which this rule gives`,
        });
      else expressions[name] = result;
    }
    const unique = typeof rules.name === "object" ? rules.name.unique : undefined;
    const naming = unique === undefined ? undefined : compileNaming(unique, () => place([key, "name", "unique"]));
    if (naming !== undefined && "message" in naming) problems.push({ path: [key, "name", "unique"], ...naming });
    return {
      expressions,
      absence,
      groupName: (name) => renames.get(name) ?? name,
      naming: naming !== undefined && "evaluate" in naming ? naming : undefined,
    };
  };
  const users = kind("users", rules.users);
  const groups = rules.groups === undefined ? {} : { groups: kind("groups", rules.groups) };
  const join: { users?: Expression; groups?: Expression } = {};
  for (const key of ["users", "groups"] as const) {
    const source = rules.join?.[key];
    if (source === undefined) continue;
    const path = ["join", key];
    const result = compileExpression(source, { ...options, place: () => place(path) });
    if (!("evaluate" in result)) problems.push({ path, ...result });
    else if (!["dyn", ...accepted.mail.types].includes(result.type))
      problems.push({ path, message: `gives ${result.type}, but ${accepted.mail.wanted} is needed` });
    else if (result.asksGroups.length > 0)
      problems.push({ path, message: `${result.asksGroups[0]}(entry) is not known before entries are joined` });
    // Without rules for groups there are none to join.
    else if (key === "users" || rules.groups !== undefined) join[key] = result;
  }
  return {
    problems,
    users,
    ...groups,
    groupsFromRules: compileRuleGroups(rules, problems, options, place),
    join,
  };
}

/** Adds what is wrong with the rules over `value` to `problems`. */
function compileRuleGroups(
  { groupsFromRules }: Rules,
  problems: RuleProblem[],
  options: CompileOptions,
  place: RulePlace,
): Compiled["groupsFromRules"] {
  if (groupsFromRules === undefined) return undefined;
  const expressions: NonNullable<Compiled["groupsFromRules"]> = {};
  for (const name of ["displayName", "description"] as const) {
    const source = groupsFromRules[name];
    if (source === undefined) continue;
    const path = ["groupsFromRules", name];
    const result = compileExpression(source, { ...options, over: "value", place: () => place(path) });
    const { types, wanted } = accepted.description;
    if (!("evaluate" in result)) problems.push({ path, ...result });
    else if (result.type !== "dyn" && !types.includes(result.type))
      problems.push({ path, message: `gives ${result.type}, but ${wanted} is needed` });
    else expressions[name] = result;
  }
  return expressions;
}

function describeGroup(
  rules: NonNullable<Compiled["groupsFromRules"]>,
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

function traceOf(
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

function joinKeyOf(
  kind: "users" | "groups",
  { [kind]: expression }: Compiled["join"],
  attributes: Entry["attributes"],
): JoinKey | undefined {
  if (expression === undefined) return undefined;
  try {
    const key = asOptionalText(expression.evaluate(attributes));
    const objection = key ? objectionToKey(key) : undefined;
    if (objection !== undefined) throw new Error(hiddenIn(key ?? "", objection));
    return key ? { key } : {};
  } catch (error) {
    return { reason: `join.${kind}: ${reasonOf(error)}` };
  }
}

function requiredOf(rules: readonly Expression[]): readonly string[] {
  return [...new Set(rules.flatMap(({ required }) => required))];
}

/** The attributes that any of the rules reads; undefined when one may read any. */
function attributesOf(rules: readonly Expression[]): string[] | undefined {
  const found = new Set<string>();
  for (const { attributes } of rules) {
    if (attributes === undefined) return undefined;
    for (const name of attributes) found.add(name);
  }
  return [...found];
}

function isKeepable(name: RuleName): name is KeepableAttribute {
  return name === "displayName" || name === "description" || name === "mail";
}

function normalGroup({ name, displayName, description, groups }: StaticGroup): StaticGroup {
  return {
    name: nfc(name),
    displayName: nfc(displayName),
    description: description ? nfc(description) : undefined,
    groups: groups.map(nfc),
  };
}

function readsOf(
  rules: readonly (readonly [string, Expression])[],
  lists: readonly ScopeList[],
): Map<string, readonly string[] | undefined> {
  const read = rules.map(([rule, { attributes, asksGroups }]) => {
    const all = attributes === undefined ? undefined : [...attributes, ...asksGroups.map(groupAttributeOf)];
    return [rule, all] as const;
  });
  return new Map<string, readonly string[] | undefined>([
    ...read,
    ...lists.map(({ key }) => [key.split(".")[1] ?? "", [key]] as const),
  ]);
}

/** The attributes that name a group in most sources. */
const usualNames = ["cn", "displayName", "name"];

function sourceNameOf(group: Entry, rules: KindJudge | undefined): string | undefined {
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

function groupAttributeOf(name: GroupFunction): string {
  return groupAttributes[name === "memberOf" ? "direct" : "nested"];
}

/** Whether a rule decides who is in scope. */
function decidesScope([rule]: readonly [string, Expression]): boolean {
  return rule === "include" || rule === "exclude";
}

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
function judge(entry: Entry, key: "users" | "groups", rules: KindJudge, known?: SourceGroups): Verdict {
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
