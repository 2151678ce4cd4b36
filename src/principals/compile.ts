import { InputError } from "#errors.ts";
import { nfc } from "#text.ts";
import { serviceAttributes } from "./attributes.ts";
import type { Attribute, Attributes } from "./attributes.ts";
import type { AttributeValue, Entry, SourceGroups } from "./entry.ts";
import { attributeOf, compileExpression, compileNaming } from "./expression.ts";
import type { CompileOptions, Expression, GroupFunction } from "./expression.ts";
import {
  describeGroup,
  groupAttributeOf,
  joinKeyOf,
  judge,
  oneValue,
  sourceNameOf,
  traceOf,
  usualNames,
} from "./judge.ts";
import type { JoinKey, KindJudge, RuleGroup, RuleTrace, Verdict } from "./judge.ts";
import { KeptAttributes } from "./kept-attributes.ts";
import type { LookupTables } from "./lookup.ts";
import type { Naming } from "./names.ts";
import type { Kind, PrincipalValue } from "./principal.ts";
import { accepted, acceptedBy, ruleOf, usualRules } from "./rules.ts";
import type { Absence, Accepted, KindRules, Rules, StaticGroup, UniqueName } from "./rules.ts";
import { scopeListsOf } from "./scope.ts";
import type { GroupQuestions, ScopeList } from "./scope.ts";

/** What is wrong with a rule; `offset` counts UTF-16 units from the start of its expression. */
export interface RuleProblem {
  /** The keys that lead to the rule: `["users", "name"]`. */
  readonly path: readonly string[];
  readonly message: string;
  readonly offset?: number | undefined;
}

interface Compiled {
  readonly problems: RuleProblem[];
  readonly users: KindJudge;
  readonly groups?: KindJudge | undefined;
  readonly groupsFromRules?: readonly (readonly [Attribute, Expression])[] | undefined;
  readonly join: { readonly users?: Expression; readonly groups?: Expression };
}

type ByKind<Value> = Readonly<Record<"users" | "groups", Value>>;

/** The rules of a sync, ready for every entry. */
export class CompiledRules {
  /** What they can give: the attributes that the target declares. */
  readonly declared: Attributes;
  /** False: the sources' groups do not become groups, and memberships in them do not count. */
  readonly makesGroups: boolean;
  readonly staticGroups: readonly StaticGroup[];
  readonly defaultGroups: readonly string[];
  /** What a group is like that rules name and no source has; absent: the rules make no groups of their own. */
  readonly groupOfRule: ((name: string) => RuleGroup | { readonly reason: string }) | undefined;
  /** What gives names that are taken another one, by kind. */
  readonly namings: Readonly<Partial<Record<Kind, Naming>>>;
  /** Whether a rule uses the time: then the same entries may give another result later. */
  readonly asksTime: boolean;
  /** Whether entries of several sources may be joined, by kind. */
  readonly joins: { readonly user: boolean; readonly group: boolean };
  /** Whether entries are judged after all have been read. */
  readonly judgesLate: boolean;
  /** What has to be known about the groups that entries are in; absent: nothing. */
  readonly groupQuestions: GroupQuestions | undefined;
  /** What is kept of each entry, so that causes can be found. */
  readonly kept: KeptAttributes;
  readonly #compiled: Compiled;
  readonly #rules: ByKind<readonly (readonly [string, Expression])[]>;
  readonly #lists: readonly ScopeList[];
  /** The rules, and the other expressions that read entries. */
  readonly #readers: ByKind<readonly Expression[]>;
  /** What these read. */
  readonly #read: ByKind<readonly string[] | undefined>;

  constructor(rules: Rules, compiled: Compiled, others: ByKind<readonly Expression[]>, declared: Attributes) {
    const { users, groups, groupsFromRules, join } = compiled;
    this.declared = declared;
    this.#compiled = compiled;
    this.#rules = { users: withJoin(users, join.users), groups: withJoin(groups, join.groups) };
    this.#lists = scopeListsOf(rules);
    this.#readers = {
      users: [...this.#rules.users.map(([, rule]) => rule), ...others.users],
      groups: [...this.#rules.groups.map(([, rule]) => rule), ...others.groups],
    };
    this.#read = { users: attributesOf(this.#readers.users), groups: attributesOf(this.#readers.groups) };
    this.makesGroups = groups !== undefined;
    this.staticGroups = (rules.staticGroups ?? []).map(normalGroup);
    this.defaultGroups = (rules.defaultGroups ?? []).map(nfc);
    this.groupOfRule = groupsFromRules === undefined ? undefined : (name) => describeGroup(groupsFromRules, name);
    this.namings = {
      ...(users.naming === undefined ? {} : { user: users.naming }),
      ...(groups?.naming === undefined ? {} : { group: groups.naming }),
    };
    const all = [...this.#rules.users, ...this.#rules.groups, ...(groupsFromRules ?? [])];
    this.asksTime = all.some(([, { asksTime }]) => asksTime);
    this.joins = { user: join.users !== undefined, group: join.groups !== undefined };
    const questions = { lists: this.#lists, direct: this.#asking("memberOf"), nested: this.#asking("nestedMemberOf") };
    const asksGroups = questions.lists.length + questions.direct.length + questions.nested.length > 0;
    this.groupQuestions = asksGroups ? questions : undefined;
    this.judgesLate = asksGroups || this.joins.user || this.joins.group;
    this.kept = new KeptAttributes(this.#read, {
      users: attributesOf(this.#rules.users.filter(decidesScope).map(([, rule]) => rule)),
      groups: attributesOf(this.#rules.groups.filter(decidesScope).map(([, rule]) => rule)),
    });
  }

  /** The kinds of entries whose rules call a function for groups. */
  #asking(name: GroupFunction): Kind[] {
    return (["user", "group"] as const).filter((kind) =>
      this.#rules[`${kind}s`].some(([, { asksGroups }]) => asksGroups.includes(name)),
    );
  }

  /** The join key of an entry; undefined when it can be judged by itself, before others are read. */
  joinKey(entry: Entry): JoinKey | undefined {
    const kind = `${entry.kind}s` as const;
    const expression = this.#compiled.join[kind];
    if (expression !== undefined) return joinKeyOf(kind, expression, entry);
    return this.groupQuestions === undefined ? undefined : {};
  }

  /**
   * What becomes of one entry. A rule that fails is a reason for quarantine.
   * @throws {RunBudgetError}
   * @param known the groups that it is in; absent: a rule that asks for them fails
   */
  judge(entry: Entry, known?: SourceGroups): Verdict {
    const { users, groups } = this.#compiled;
    if (entry.kind === "user") return judge(entry, "users", users, known);
    return groups === undefined ? { verdict: "excluded" } : judge(entry, "groups", groups, known);
  }

  /**
   * What a group is called in its source: what the rule `name` gives, before `rename`. Where there is none, or the rules
   * leave the group out: its `cn`, `displayName` or `name`, or else its id. Undefined when the rule fails.
   */
  sourceName(group: Entry): string | undefined {
    return sourceNameOf(group, this.#compiled.groups);
  }

  /** What the rules `name`, `join` and those for identifying attributes read: what people know an entry by. */
  identifying({ kind, attributes }: Entry): AttributeValue[] {
    const known = this.declared.all.flatMap(({ name, identifies }) => (identifies === true ? [name] : []));
    const names = this.#rules[`${kind}s`].flatMap(([rule, { attributes = [] }]) =>
      ["name", "join", ...known].includes(rule) ? attributes : [],
    );
    return names.flatMap((name) => attributeOf(attributes, name) ?? []);
  }

  /** What each rule for its kind reads of an entry, and returns. */
  trace(entry: Entry, groups?: SourceGroups): RuleTrace[] {
    const kind = `${entry.kind}s` as const;
    return this.#rules[kind].map(([rule, expression]) => traceOf(`${kind}.${rule}`, expression, entry, groups));
  }

  /** Attributes that no entry judged so far has; a line for each rule that reads one: `users.mail: entry.mial`. */
  neverSet(): string[] {
    return Object.entries(this.#rules).flatMap(([kind, rules]) =>
      rules.flatMap(([rule, expression]) => expression.neverSet().map((name) => `${kind}.${rule}: entry.${name}`)),
    );
  }

  /**
   * What each rule reads, by kind and rule, `join` and lists of groups included; undefined when it may read any attribute.
   * What the functions for groups and these lists give is named as in `record`.
   */
  reads(): ByKind<ReadonlyMap<string, readonly string[] | undefined>> {
    const of = (kind: Kind) =>
      readsOf(
        this.#rules[`${kind}s`],
        this.#lists.filter((list) => list.kind === kind),
      );
    return { users: of("user"), groups: of("group") };
  }

  /** The attributes that the rules read, by kind; undefined when a rule may read any. */
  attributes(): ByKind<readonly string[]> | undefined {
    const { users, groups } = this.#read;
    if (users === undefined || groups === undefined) return undefined;
    // Groups that do not become any are still asked for by their names.
    const needed = this.groupQuestions === undefined || this.makesGroups ? [] : usualNames;
    return { users, groups: [...new Set([...groups, ...needed])] };
  }

  /** Of the attributes that the rules name, those that a rule reads without `has` or `coalesce`, by kind. */
  required(): ByKind<readonly string[]> {
    return { users: requiredOf(this.#readers.users), groups: requiredOf(this.#readers.groups) };
  }
}

function withJoin(rules: KindJudge | undefined, join: Expression | undefined): (readonly [string, Expression])[] {
  const own = Object.entries(rules?.expressions ?? {});
  return join === undefined ? own : [...own, ["join", join]];
}

/**
 * Finds everything that is wrong with the rules before any entry is read.
 * @param onlyTexts every attribute of an entry is one text, or missing
 */
export function checkRules(
  rules: Rules,
  tables?: LookupTables,
  onlyTexts?: boolean,
  attributes = serviceAttributes,
): RuleProblem[] {
  return compile(rules, attributes, { now: new Date(), tables, onlyTexts }).problems;
}

/** Rules that are valid, and give some records what the target does not take. */
export function adviceOnRules(rules: Rules, attributes: Attributes): RuleProblem[] {
  if (attributes.all.every(({ onlyValueOf }) => onlyValueOf === undefined)) return [];
  const { users, groups } = compile(rules, attributes, { now: new Date() });
  return (["users", "groups"] as const).flatMap((key) => {
    const judge = key === "users" ? users : groups;
    return (judge?.together ?? []).flat().flatMap((name): RuleProblem[] => {
      const most = judge?.expressions[name]?.written ?? 1;
      if (most <= 1) return [];
      const path = typeof rules[key]?.[name] === "object" ? [key, name, "value"] : [key, name];
      const message = `may give ${most} values, but the target holds one, and whoever has several is quarantined; ${oneValue}`;
      return [{ path, message }];
    });
  });
}

/** The files that rules look values up in. */
export function tablesOf(rules: Rules, attributes = serviceAttributes): string[] {
  // Most have none, and need not be compiled to know it.
  if (!JSON.stringify(rules).includes("lookup")) return [];
  const { users, groups, groupsFromRules, join } = compile(rules, attributes, { now: new Date() });
  const all = [
    ...[users.expressions, groups?.expressions ?? {}, join].flatMap((each) => Object.values<Expression>(each)),
    ...(groupsFromRules ?? []).map(([, expression]) => expression),
  ];
  return [...new Set(all.flatMap(({ tables }) => tables))];
}

/**
 * Compiles the rules.
 * @param now what `now()` returns: one moment for all entries of a run
 * @param tables what `lookup` reads, see `tablesOf`
 * @param others expressions that read entries, too, once they are principals: what they read is kept for them
 * @param place where a rule is written, by the keys that lead to it: for the error that ends a run
 * @param attributes what the target declares. Absent: what the service does
 * @throws {InputError} with what `checkRules` finds
 */
export function compileRules(
  rules: Rules,
  now = new Date(),
  tables?: LookupTables,
  others: ByKind<readonly Expression[]> = { users: [], groups: [] },
  place?: RulePlace,
  attributes = serviceAttributes,
): CompiledRules {
  const given = attributes.givenBy(namesIn(rules));
  const compiled = compile(rules, given, { now, tables }, place);
  const { problems } = compiled;
  if (problems.length > 0) {
    throw new InputError("the rules are not valid", {
      problems: problems.map(
        ({ path, message, offset }) =>
          `${path.join(".")}${offset === undefined ? "" : `, character ${offset + 1}`}: ${message}`,
      ),
    });
  }
  return new CompiledRules(rules, compiled, others, given);
}

/** The attributes that rules give, and the configuration's own groups have. */
function namesIn({ users, groups, staticGroups = [], groupsFromRules }: Rules): Record<Kind, Set<string>> {
  const ofGroups = [groups ?? {}, groupsFromRules ?? {}, ...staticGroups];
  return { user: new Set(Object.keys(users)), group: new Set(ofGroups.flatMap((each) => Object.keys(each))) };
}

/** Where a rule is written. */
export type RulePlace = (path: readonly string[]) => string;

function compile(
  rules: Rules,
  attributes: Attributes,
  options: CompileOptions,
  place: RulePlace = (path) => path.join("."),
): Compiled {
  const problems: RuleProblem[] = [];
  const compiling = { attributes, options, problems, place };
  const renames = new Map(Object.entries(rules.groups?.rename ?? {}).map(([from, to]) => [nfc(from), nfc(to)]));
  const kind = (key: "users" | "groups", rules: KindRules): KindJudge => compileKind(key, rules, renames, compiling);
  const users = kind("users", rules.users);
  const groups = rules.groups === undefined ? {} : { groups: kind("groups", rules.groups) };
  const join: { users?: Expression; groups?: Expression } = {};
  for (const key of ["users", "groups"] as const) {
    const source = rules.join?.[key];
    if (source === undefined) continue;
    const path = ["join", key];
    const result = compileExpression(source, { ...options, place: () => place(path) });
    if (!("evaluate" in result)) problems.push({ path, ...result });
    else if (!["dyn", ...accepted.text.types].includes(result.type))
      problems.push({ path, message: `gives ${result.type}, but ${accepted.text.wanted} is needed` });
    else if (result.asksGroups.length > 0)
      problems.push({ path, message: `${result.asksGroups[0]}(entry) is not known before entries are joined` });
    // Without rules for groups there are none to join.
    else if (key === "users" || rules.groups !== undefined) join[key] = result;
  }
  return {
    problems,
    users,
    ...groups,
    groupsFromRules: compileRuleGroups(rules, compiling),
    join,
  };
}

interface Compiling {
  readonly attributes: Attributes;
  readonly options: CompileOptions;
  /** What is wrong is added here. */
  readonly problems: RuleProblem[];
  readonly place: RulePlace;
}

function compileKind(
  key: "users" | "groups",
  rules: KindRules,
  renames: ReadonlyMap<string, string>,
  { attributes, options, problems, place }: Compiling,
): KindJudge {
  const expressions: Record<string, Expression> = {};
  const absence: Record<string, Absence> = {};
  const kind = key === "users" ? "user" : "group";
  const own = attributes.of(kind);
  const add = (rule: string, source: string, { path, types, wanted }: Accepted & Pick<RuleProblem, "path">): void => {
    const result = compileExpression(source, { ...options, place: () => place(path) });
    const fits = (type: string): boolean =>
      type === "dyn" || types.includes(type) || (type === "null" && absence[rule] !== undefined);
    if (!("evaluate" in result)) problems.push({ path, ...result });
    else if (!fits(result.type)) problems.push({ path, message: `gives ${result.type}, but ${wanted} is needed` });
    else if (key === "groups" && rule === "name" && result.asksGroups.length > 0)
      problems.push({
        path,
        message: `${result.asksGroups[0]}(entry) needs the names of groups, which this rule gives`,
      });
    else expressions[rule] = result;
  };
  for (const rule of ["include", "exclude", "name"] as const) {
    const given: string | UniqueName | undefined = rules[rule];
    if (typeof given === "string") add(rule, given, { path: [key, rule], ...usualRules[rule] });
    else if (given !== undefined) add(rule, given.value, { path: [key, rule, "value"], ...usualRules[rule] });
  }
  for (const attribute of own) {
    const rule = ruleOf(rules, attribute);
    if (typeof rule === "object") absence[attribute.name] = normalAbsence(rule.absent);
    const [source, path] = typeof rule === "object" ? [rule.value, ["value"]] : [rule, []];
    if (source !== undefined)
      add(attribute.name, source, { path: [key, attribute.name, ...path], ...acceptedBy(attribute) });
  }
  if (rules.groups !== undefined) add("groups", rules.groups, { path: [key, "groups"], ...usualRules.groups });
  for (const other of attributes.all)
    if (!own.includes(other) && rules[other.name] !== undefined)
      problems.push({ path: [key, other.name], message: `a ${kind} has no ${other.name}` });
  const unique = typeof rules.name === "object" ? rules.name.unique : undefined;
  const naming = unique === undefined ? undefined : compileNaming(unique, () => place([key, "name", "unique"]));
  if (naming !== undefined && "message" in naming) problems.push({ path: [key, "name", "unique"], ...naming });
  return {
    expressions,
    absence,
    attributes: own,
    together: [...togetherIn(own).values()],
    groupName: (name) => renames.get(name) ?? name,
    naming: naming !== undefined && "evaluate" in naming ? naming : undefined,
  };
}

/** The names of attributes that have one value together, by the list that it is of. */
function togetherIn(attributes: readonly Attribute[]): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>();
  for (const { name, onlyValueOf } of attributes)
    if (onlyValueOf !== undefined) found.set(onlyValueOf, [...(found.get(onlyValueOf) ?? []), name]);
  return found;
}

function normalAbsence(absent: Absence): Absence {
  return typeof absent === "string" ? absent : { default: normalValue(absent.default) };
}

function normalValue(value: PrincipalValue): PrincipalValue {
  return typeof value === "string" ? nfc(value) : typeof value === "boolean" ? value : value.map(nfc);
}

/** Compiles the rules over `value`. */
function compileRuleGroups(
  { groupsFromRules }: Rules,
  { attributes, options, problems, place }: Compiling,
): Compiled["groupsFromRules"] {
  if (groupsFromRules === undefined) return undefined;
  return attributes.of("group").flatMap((attribute) => {
    const source = groupsFromRules[attribute.name];
    if (source === undefined) return [];
    const path = ["groupsFromRules", attribute.name];
    const result = compileExpression(source, { ...options, over: "value", place: () => place(path) });
    const { types, wanted } = attribute.required === true ? accepted.text : acceptedBy(attribute);
    if ("evaluate" in result && (result.type === "dyn" || types.includes(result.type)))
      return [[attribute, result] as const];
    problems.push({
      path,
      ...("evaluate" in result ? { message: `gives ${result.type}, but ${wanted} is needed` } : result),
    });
    return [];
  });
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

function normalGroup({ name, groups, ...attributes }: StaticGroup): StaticGroup {
  const values = Object.entries(attributes).flatMap(([attribute, value]) =>
    value === undefined || value === "" ? [] : [[attribute, normalValue(value)] as const],
  );
  return { ...Object.fromEntries(values), name: nfc(name), groups: groups.map(nfc) };
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

/** Whether a rule decides who is in scope. */
function decidesScope([rule]: readonly [string, Expression]): boolean {
  return rule === "include" || rule === "exclude";
}
