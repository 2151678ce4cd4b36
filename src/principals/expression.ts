import { Environment, EvaluationError, ParseError, TypeError as CelTypeError } from "@marcbachmann/cel-js";
import type { ASTNode, TypeCheckResult } from "@marcbachmann/cel-js";
import { messageOf } from "#errors.ts";
import { describeValue, didYouMean, nearest, nfc, quote } from "#text.ts";
import type { Entry, SourceGroups } from "./entry.ts";
import { asText, objectionToPattern, registerFunctions } from "./functions.ts";
import { lookupKey, LookupRow } from "./lookup.ts";
import type { LookupTables } from "./lookup.ts";
import type { Naming } from "./names.ts";
import { objectionToName } from "./principal.ts";

type Attributes = Entry["attributes"];

/** A CEL expression over `entry`, compiled. */
export interface Expression {
  /** As written. */
  readonly source: string;
  /** CEL's name of the result's type; `dyn` when that is not known beforehand. */
  readonly type: string;
  /**
   * @param groups what `memberOf(entry)` and `nestedMemberOf(entry)` give; absent: that is not known
   * @param values of the other variables of its vocabulary
   * @returns CEL's value: a string, bigint, number, boolean, list or null
   * @throws {Error} whose message says why there is no value for these attributes
   */
  evaluate(attributes: Attributes, groups?: SourceGroups, values?: Readonly<Record<string, unknown>>): unknown;
  /** Whether it uses a variable: not at all, for nothing but its size, or in any way. */
  uses(variable: string): "not" | "size" | "any";
  /** The names that it asks a list for, `"a" in groups`, where it does nothing else with it: all others need not be there. */
  asked(variable: string): readonly string[] | undefined;
  /** The attributes that the expression names and that are not set, for a message: `entry.sn is not set`. */
  unset(attributes: Attributes): string;
  /** The attributes that were read so far and never set, except those in `has` or `coalesce`. */
  neverSet(): string[];
  /** The attributes that it can read; undefined when it uses `entry` in a way that may read any. */
  readonly attributes: readonly string[] | undefined;
  /** Of the attributes that it names those that are not in `has` or `coalesce`: it is not meant to be without them. */
  readonly required: readonly string[];
  /** The files that it looks values up in. */
  readonly tables: readonly string[];
  /** Whether it uses the time: then the same attributes may give another value later. */
  readonly asksTime: boolean;
  /** Which of the two functions it calls that give the entry's groups. */
  readonly asksGroups: readonly GroupFunction[];
}

/** `memberOf(entry)` gives the groups that an entry is directly in, `nestedMemberOf(entry)` also those around these. */
export type GroupFunction = "memberOf" | "nestedMemberOf";
const groupFunctions: Readonly<Record<GroupFunction, "direct" | "nested">> = {
  memberOf: "direct",
  nestedMemberOf: "nested",
};

/** The longest expression, in bytes. */
const longest = 16 * 1024;

/** What is wrong with an expression, and where: `offset` counts UTF-16 units from its start. */
export interface Fault {
  readonly message: string;
  readonly offset?: number | undefined;
}

/**
 * `entry` as CEL sees it. The library tells types by their constructor, and reads the fields of a `Map` through `get`:
 * this is where a missing attribute becomes null.
 */
class EntryRecord extends Map<string, unknown> {
  attributes: Attributes = {};
  groups?: SourceGroups | undefined;
  /** By the name that was asked for: was it ever set? */
  readonly found = new Map<string, boolean>();

  override get(name: string): unknown {
    const value = attributeOf(this.attributes, name);
    if (this.found.get(name) !== true) this.found.set(name, value !== undefined);
    if (typeof value === "string") return nfc(value);
    if (typeof value === "number") return Number.isSafeInteger(value) ? BigInt(value) : value;
    if (Array.isArray(value)) return value.map((each) => nfc(String(each)));
    return value ?? null;
  }

  groupsBy(name: GroupFunction): readonly string[] {
    if (this.groups === undefined) throw new EvaluationError(`${name}(entry) is not known here`);
    const names = this.groups[groupFunctions[name]];
    if (names === undefined)
      throw new EvaluationError(
        `${name}(entry): a reference to a group may mean one of several, or a group has no name, so that nobody can say`,
      );
    return names;
  }
}

/** The value of an attribute. Names of attributes are the same when they look the same. */
export function attributeOf(attributes: Attributes, name: string): Attributes[string] | undefined {
  if (Object.hasOwn(attributes, name)) return attributes[name];
  if (/^[\0-\x7F]*$/.test(name)) return undefined;
  const spelling = Object.keys(attributes).find((key) => nfc(key) === nfc(name));
  return spelling === undefined ? undefined : attributes[spelling];
}

/** What `lookup` reads while an expression is evaluated. */
let lookupTables: LookupTables | undefined;

function lookUp(file: string, value: unknown): LookupRow {
  const table = lookupTables?.get(file);
  if (table === undefined || table instanceof Error) throw new EvaluationError(`the table ${quote(file)} was not read`);
  const key = asText("lookup", value);
  return new LookupRow(table.columns, key === null ? undefined : table.rows.get(lookupKey(key)));
}

/** All users, or all groups: they can be counted, and nothing else. */
export class Counted {
  readonly size: number;

  constructor(size: number) {
    this.size = size;
  }
}

const ofPrincipals = {
  name: "string",
  displayName: "string",
  description: "dyn",
  groups: "list<string>",
  nestedGroups: "list<string>",
  inSource: "bool",
  entry: "Entry",
};

/** What expressions can name, by what they are about: an entry, a single text, a user or a group of the target, how many there are, or a name that is taken. */
const vocabularies = {
  entry: { entry: "Entry" },
  value: { entry: "Entry", value: "string" },
  users: { ...ofPrincipals, mail: "dyn" },
  groups: { ...ofPrincipals, members: "list<string>", nestedMembers: "list<string>" },
  counts: { users: "Counted", groups: "Counted" },
  naming: { name: "string", n: "int" },
} as const satisfies Record<string, Readonly<Record<string, string>>>;
/** What an expression is about. */
export type Subject = keyof typeof vocabularies;

function createEnvironment(variables: Readonly<Record<string, string>>): Environment {
  const environment = new Environment({ homogeneousAggregateLiterals: false })
    .registerType("Entry", EntryRecord)
    .registerType("Counted", Counted)
    // What `now()` and `has` become, see `withOwnFunctions`.
    .registerVariable("Now", "google.protobuf.Timestamp")
    .registerType("Row", LookupRow)
    .registerFunction("Has(dyn): bool", (value) => value !== null && !(value instanceof LookupRow && value.isMissing), {
      async: false,
    })
    .registerFunction("lookup(string, dyn): Row", lookUp, { async: false })
    .registerOperator("Row == null", (row: LookupRow) => row.isMissing)
    .registerFunction("Counted.size(): int", ({ size }: Counted) => BigInt(size), { async: false })
    .registerFunction("size(Counted): int", ({ size }: Counted) => BigInt(size), { async: false })
    .registerOperator("string + int", (text: string, number: bigint) => `${text}${number}`)
    .registerOperator("int + string", (number: bigint, text: string) => `${number}${text}`);
  for (const name of Object.keys(groupFunctions) as GroupFunction[])
    environment.registerFunction(`${name}(Entry): list<string>`, (record: EntryRecord) => record.groupsBy(name), {
      async: false,
    });
  for (const [name, type] of Object.entries(variables)) environment.registerVariable(name, type);
  registerFunctions(environment);
  return environment;
}

/** Made when an expression is about that: each takes milliseconds, and few configurations need all. */
const environments = new Map<Subject, Environment>();

function environmentOf(subject: Subject): Environment {
  const made = environments.get(subject) ?? createEnvironment(vocabularies[subject]);
  environments.set(subject, made);
  return made;
}

/**
 * Compiles an expression, once for all entries; or says what is wrong with it.
 * @param now what `now()` gives
 * @param tables what `lookup` reads; absent: nothing, and the tables that are named are not checked
 * @param over `value`: the expression is over the attribute of this name alone, as `value`
 */
export function compileExpression(
  source: string,
  now: Date,
  tables?: LookupTables,
  over: Subject = "entry",
): Expression | Fault {
  const environment = environmentOf(over);
  if (Buffer.byteLength(source) > longest)
    return { message: "a rule has at most 16 KiB; a list of names is better a group or an attribute of the source" };
  const text = nfc(source);
  try {
    const original = environment.parse(text).ast;
    const parsed = environment.parse(withOwnFunctions(text, original));
    const checked = parsed.check();
    if (!checked.valid) return fault(checked.error, { ast: parsed.ast, text, over });
    const nodes = [...nodesOf(parsed.ast)];
    const wrongPattern = nodes.map(patternFault).find((found) => found !== undefined);
    if (wrongPattern !== undefined) return wrongPattern;
    const wrongLookup = nodes.map((node) => lookupFault(node, tables)).find((found) => found !== undefined);
    if (wrongLookup !== undefined) return wrongLookup;
    const wrongEntry = nodes.map((node) => groupsFault(node, over)).find((found) => found !== undefined);
    if (wrongEntry !== undefined) return wrongEntry;
    const optional = new Set(nodes.filter(expectsNull).flatMap(namedIn));
    const record = new EntryRecord();
    const context: Record<string, unknown> = { entry: record, Now: now };
    const entryNode = over === "value" ? nodes.find(({ op, args }) => op === "id" && args === "entry") : undefined;
    if (entryNode !== undefined)
      return {
        message: "there is no entry here: a group is made for all who are in it; use value",
        offset: entryNode.start,
      };
    // Most rules are nothing but an attribute: that needs no evaluation.
    const attribute = namedBy(parsed.ast);
    return {
      source,
      type: checked.type ?? "dyn",
      uses: (variable) => use(nodes, variable),
      asked: (variable) => asked(nodes, variable),
      evaluate: (attributes, groups, values) => {
        record.attributes = attributes;
        lookupTables = tables;
        record.groups = groups;
        if (attribute !== undefined) return record.get(attribute);
        if (values !== undefined) Object.assign(context, values);
        try {
          return parsed(over === "value" ? { ...context, value: record.get("value") } : context);
        } catch (error) {
          throw new Error(explain(error, parsed.ast, attributes, text), { cause: error });
        }
      },
      unset: (attributes) => unset(parsed.ast, attributes),
      neverSet: () =>
        [...record.found.keys()].filter((name) => record.found.get(name) === false && !optional.has(name)),
      attributes: readsAny(nodes) ? undefined : [...new Set(namedIn(parsed.ast))],
      required: [...new Set(namedIn(parsed.ast))].filter((name) => !optional.has(name)),
      tables: nodes.flatMap((node) => tableIn(node)?.file ?? []),
      asksTime: nodes.some((node) => node.op === "id" && node.args === "Now"),
      asksGroups: [...new Set(nodes.flatMap((node) => groupsAskedBy(node) ?? []))],
    };
  } catch (error) {
    if (error instanceof ParseError) return fault(error, { text });
    // The library calls itself once for each operator of a long chain.
    if (error instanceof RangeError)
      return { message: 'too many operators in one expression; split it, or use a list: entry.x in ["a", "b"]' };
    throw error;
  }
}

/** Compiles the rule that gives another name for one that is taken; or says what is wrong with it. */
export function compileNaming(source: string): Naming | Fault {
  if (Buffer.byteLength(source) > longest) return { message: "a rule has at most 16 KiB" };
  const text = nfc(source);
  try {
    const parsed = environmentOf("naming").parse(text);
    const checked = parsed.check();
    if (!checked.valid) return fault(checked.error, { ast: parsed.ast, text, over: "naming" });
    const nodes = [...nodesOf(parsed.ast)];
    const wrong = nodes.map(patternFault).find((found) => found !== undefined);
    if (wrong !== undefined) return wrong;
    if (!nodes.some((node) => node.op === "id" && node.args === "n"))
      return { message: "says nothing of n, the number to tell names apart by: write something like name + string(n)" };
    if (!["string", "dyn"].includes(checked.type ?? "dyn"))
      return { message: `gives ${checked.type}, but a text is needed` };
    const evaluate = (name: string, n: number): string => {
      let given: unknown;
      try {
        given = parsed({ name, n: BigInt(n) });
      } catch (error) {
        throw new Error(explain(error, parsed.ast, {}, text), { cause: error });
      }
      if (typeof given !== "string") throw new Error(`gives ${describeValue(given)}, but a text is needed`);
      const objection = objectionToName(given);
      if (objection !== undefined) throw new Error(`${quote(given)} ${objection}`);
      return nfc(given);
    };
    return { showsNumber: showsNumber(evaluate), evaluate };
  } catch (error) {
    if (error instanceof ParseError) return fault(error, { text });
    throw error;
  }
}

function showsNumber(evaluate: Naming["evaluate"]): boolean {
  try {
    return [2, 7309].every((n) => evaluate("x", n).includes(String(n)));
  } catch {
    return false;
  }
}

/**
 * Calls that become others of as many letters, so that positions stay. CEL's `has` is a macro that takes null, which is
 * what a missing attribute is here, for a value; and it refuses `has(entry["employee number"])`. Its `matches` takes
 * JavaScript's regular expressions, which can take forever. `now()` is a value that is given.
 */
function withOwnFunctions(text: string, ast: ASTNode): string {
  const replaced = (from: number, to: number, word: string): void => {
    result = `${result.slice(0, from)}${word.padEnd(to - from)}${result.slice(to)}`;
  };
  let result = text;
  for (const node of nodesOf(ast)) {
    if (node.op === "call" && node.args[0] === "has" && node.args[1].length === 1)
      replaced(node.start, node.start + 3, "Has");
    if (node.op === "call" && node.args[0] === "now" && node.args[1].length === 0)
      replaced(node.start, node.end, "Now");
    if (node.op === "rcall" && node.args[0] === "matches") {
      const start = text.indexOf("matches", node.args[1].end);
      replaced(start, start + 7, "Matches");
    }
  }
  return result;
}

/** A regular expression stands in the rule as it is, so that it is checked before anything is read. */
function patternFault(node: ASTNode): Fault | undefined {
  const name = node.op === "call" || node.op === "rcall" ? node.args[0] : "";
  if (!["extract", "matches", "Matches"].includes(name)) return undefined;
  const pattern = node.op === "rcall" ? node.args[2][0] : node.op === "call" ? node.args[1][1] : undefined;
  if (pattern === undefined) return undefined;
  if (pattern.op !== "value" || typeof pattern.args !== "string")
    return { message: "a regular expression is written here, as a text in quotes", offset: pattern.start };
  const message = objectionToPattern(pattern.args);
  return message === undefined ? undefined : { message, offset: pattern.start };
}

/** The call `lookup(FILE, …)` at a node. */
function tableIn(node: ASTNode): { readonly file: string | undefined; readonly place: number } | undefined {
  if (node.op !== "call" || node.args[0] !== "lookup") return undefined;
  const [file] = node.args[1];
  if (file === undefined) return undefined;
  return { file: file.op === "value" && typeof file.args === "string" ? file.args : undefined, place: file.start };
}

/** A table and its columns stand in the rule as they are, so that they are checked before anything is read. */
function lookupFault(node: ASTNode, tables: LookupTables | undefined): Fault | undefined {
  const called = tableIn(node);
  if (called !== undefined && called.file === undefined)
    return {
      message: 'the file of a table is written here, as a text in quotes: lookup("sites.csv", entry.site)',
      offset: called.place,
    };
  const table = called?.file === undefined ? undefined : tables?.get(called.file);
  if (table instanceof Error) return { message: table.message, offset: called?.place };
  if (node.op !== "." && node.op !== "[]") return undefined;
  const [row, key] = node.args;
  const of = tables?.get(tableIn(row)?.file ?? "");
  const column = typeof key === "string" ? key : key.op === "value" ? key.args : undefined;
  if (of === undefined || of instanceof Error || typeof column !== "string" || of.columns.includes(column))
    return undefined;
  return {
    message: `${tableIn(row)?.file} has no column ${quote(column)}; ${didYouMean(column, of.columns)}`,
    offset: row.end,
  };
}

/** The function for groups that a node calls. */
function groupsAskedBy(node: ASTNode): GroupFunction | undefined {
  if (node.op !== "call") return undefined;
  const [name] = node.args;
  return Object.hasOwn(groupFunctions, name) ? (name as GroupFunction) : undefined;
}

function groupsFault(node: ASTNode, over: Subject): Fault | undefined {
  const name = groupsAskedBy(node);
  if (name === undefined || node.op !== "call") return undefined;
  if (over !== "entry")
    return {
      message: `${name}() is for rules; here, groups and nestedGroups are those of the target`,
      offset: node.start,
    };
  const [argument] = node.args[1];
  if (argument?.op === "id" && argument.args === "entry") return undefined;
  return { message: `write ${name}(entry): it gives the groups of the entry`, offset: argument?.start ?? node.start };
}

const hints: Readonly<Record<string, string>> = { incompatible_ternary_branches: "for no value write dyn(null)" };

function hintOf(code: string, over: Subject): string | undefined {
  if (code !== "unknown_variable")
    return over === "counts" ? "users.size() and groups.size() count; for each of them write over: users" : hints[code];
  if (over === "entry") return "an attribute is read as entry.NAME";
  if (over === "value") return "there is only value";
  if (over === "naming") return "there are name, what the rule gives, and the number n";
  const names = Object.keys(vocabularies[over]).join(", ");
  if (over === "counts") return `there are ${names}; for each of them write over: users`;
  return `there are ${names}; an attribute of the source is read as entry.NAME`;
}

function fault(
  error: TypeCheckResult["error"],
  {
    ast,
    text = "",
    over = "entry",
  }: {
    readonly ast?: ASTNode;
    readonly text?: string;
    readonly over?: Subject;
  } = {},
): Fault {
  if (error === undefined) return { message: "the expression is not valid" };
  const { code, range, summary } = error;
  const node = [...nodesOf(ast)].find(({ start, end }) => start === range?.start && end === range.end);
  const hint = hintOf(code, over);
  const message =
    attributeMeant(text, range?.start) ?? `${plain(summary, node, text)}${hint === undefined ? "" : `; ${hint}`}`;
  return range === undefined ? { message } : { message, offset: range.start };
}

const dotted = /\bentry\.([\p{L}\p{N}_]+(?:-[\p{L}\p{N}_]+)*)/gu;

/** What to write for an attribute whose name is no identifier, if the offset is in such a name: `entry.E-Mail`. */
function attributeMeant(text: string, offset = 0): string | undefined {
  for (const { 0: found, 1: name = "", index } of text.matchAll(dotted))
    if (offset > index && offset <= index + found.length && !/^[A-Za-z_]\w*$/.test(name))
      return `for the attribute ${name} write \`entry[${JSON.stringify(name)}]\``;
  return undefined;
}

function explain(error: unknown, ast: ASTNode, attributes: Attributes, text: string): string {
  if (!(error instanceof EvaluationError || error instanceof CelTypeError)) return messageOf(error);
  const cause = (error.node !== undefined && unset(error.node, attributes)) || unset(ast, attributes);
  return `${plain(error.summary, error.node, text)}${cause}`;
}

/** The library's messages in the words of rules. */
const wording: readonly (readonly [RegExp, string])[] = [
  [/dyn<([^<>]*)>/g, "$1"],
  [/\bHas\(/g, "has("],
  [/\bMatches\(/g, "matches("],
  [/google\.protobuf\.Timestamp/g, "date"],
  [/google\.protobuf\.Duration/g, "duration"],
  [/^Unexpected token: EOF$/, "unexpected end of the expression"],
  [/^Expected RPAREN, got .*$/, "a ) is expected here"],
  [/^Expected RBRACKET, got .*$/, "a ] is expected here"],
  [/^Expected COLON, got .*$/, "a : is expected here"],
  [/^Unexpected character: =$/, "unexpected character =; to compare write =="],
  [/^Unexpected character: '.'$/s, "an operator is expected here; and is written &&, or is written ||"],
];

/** @param node where it is, in the expression `text` */
function plain(summary: string, node?: ASTNode, text = ""): string {
  const words = wording.reduce((message, [pattern, replacement]) => message.replace(pattern, replacement), summary);
  const call = /^found no matching overload for '(.*)'$/s.exec(words)?.[1];
  if (call !== undefined) return wrongCall(call, node, text);
  const operation = /^no such overload: (.*)$/s.exec(words)?.[1];
  return operation === undefined ? words : wrongOperation(operation, node, text);
}

/** Functions of CEL's optional values, which rules have no use for. */
const optionalFunctions = new Set(["bind", "hasValue", "none", "of", "or", "orValue", "value"]);

/** By name: whether it is called as a function, `f(x)`, as a method, `x.f()`, or both. */
function knownFunctions(): ReadonlyMap<string, { readonly isFunction: boolean; readonly isMethod: boolean }> {
  const functions = new Map([["now", { isFunction: true, isMethod: false }]]);
  for (const { name, receiverType } of environmentOf("entry").getDefinitions().functions) {
    if (!/^[a-z]/.test(name) || optionalFunctions.has(name)) continue;
    const known = functions.get(name) ?? { isFunction: false, isMethod: false };
    functions.set(name, {
      isFunction: known.isFunction || receiverType === null,
      isMethod: known.isMethod || receiverType !== null,
    });
  }
  return functions;
}

/** What other languages call them. */
const otherNames: Readonly<Record<string, string>> = {
  default: "coalesce",
  ifnull: "coalesce",
  length: "size",
  nvl: "coalesce",
  replaceall: "replace",
  strip: "trim",
  substr: "truncate",
  tolower: "lower",
  tolowercase: "lower",
  tostring: "string",
  toupper: "upper",
  touppercase: "upper",
};

/** @param call the function with the types of its arguments: `lowr(dyn)`, `null.contains(string)` */
function wrongCall(call: string, node: ASTNode | undefined, text: string): string {
  const name = /([A-Za-z_]\w*)\([^()]*\)$/.exec(call)?.[1] ?? call;
  const functions = knownFunctions();
  const known = functions.has(name);
  const meant = known ? name : (otherNames[name.toLowerCase()] ?? nearest(name, [...functions.keys()]));
  const said = known ? `cannot call ${call}` : `unknown function \`${name}\``;
  if (meant === undefined) return said;
  const instead = calledDifferently(meant, node, text);
  if (instead !== undefined)
    return `${known ? `\`${name}\` ${isMethodOnly(name) ? "is a method" : "is a function"}` : said}; write \`${instead}\``;
  return known ? said : `${said}; did you mean \`${meant}\`?`;
}

function isMethodOnly(name: string): boolean {
  return knownFunctions().get(name)?.isFunction === false;
}

/** The call in the form that the function has: `entry.a.lower()` as `lower(entry.a)`, `endsWith(entry.a, "b")` as a method. */
function calledDifferently(name: string, node: ASTNode | undefined, text: string): string | undefined {
  const { isFunction = false, isMethod = false } = knownFunctions().get(name) ?? {};
  const written = ({ start, end }: ASTNode): string => text.slice(start, end).trim();
  if (node?.op === "rcall" && isFunction && !isMethod) {
    const [, receiver, rest] = node.args;
    return `${name}(${[receiver, ...rest].map(written).join(", ")})`;
  }
  if (node?.op === "call" && isMethod && !isFunction) {
    const [receiver, ...rest] = node.args[1];
    return receiver === undefined ? undefined : `${written(receiver)}.${name}(${rest.map(written).join(", ")})`;
  }
  return undefined;
}

const typeNames: Readonly<Record<string, string>> = {
  string: "text",
  int: "a whole number",
  uint: "a whole number",
  double: "a number",
  bool: "true or false",
  date: "a date",
  duration: "a duration",
  dyn: "a value",
};

function typeName(type: string): string {
  return typeNames[type] ?? (type.startsWith("list") ? "a list" : type);
}

/** @param operation an operator with the types of its operands: `string > int`, `!string` */
function wrongOperation(operation: string, node: ASTNode | undefined, text: string): string {
  const [, left, operator = "", right] = /^(\S+) (\S+) (\S+)$/.exec(operation) ?? [];
  if (left === undefined || right === undefined)
    return operation.replace(
      /^([!-])(\S+)$/,
      (_, sign: string, type: string) =>
        `cannot apply ${sign} to ${typeName(type)}${insteadOfNot(sign, type, node, text)}`,
    );
  const compared = comparedWithNumber(left, right);
  const operands = node?.op === operator && Array.isArray(node.args) ? (node.args as unknown[]).filter(isNode) : [];
  const [first, second] = operands.map(({ start, end }) => text.slice(start, end).trim());
  if (compared === undefined || first === undefined || second === undefined)
    return `cannot apply ${operator} to ${typeName(left)} and ${typeName(right)}`;
  const written = left === "string" ? first : second;
  const converted = `${compared}(${written})`;
  const instead = left === "string" ? `${converted} ${operator} ${second}` : `${first} ${operator} ${converted}`;
  return `\`${written}\` is text; write \`${instead}\``;
}

/** Where a flag is a text, as in CSV: the comparison to write. */
function insteadOfNot(sign: string, type: string, node: ASTNode | undefined, text: string): string {
  if (sign !== "!" || type !== "string" || node?.op !== "!_" || namedBy(node.args) === undefined) return "";
  return `; write \`${text.slice(node.args.start, node.args.end).trim()} != "true"\``;
}

/** The function that makes a number of the text, where the other operand is a number. */
function comparedWithNumber(left: string, right: string): string | undefined {
  const other = left === "string" ? right : right === "string" ? left : undefined;
  return other === "int" || other === "double" ? other : undefined;
}

function isNode(value: unknown): value is ASTNode {
  return typeof value === "object" && value !== null && "op" in value && "args" in value;
}

function unset(ast: ASTNode, attributes: Attributes): string {
  const names = new Set(namedIn(ast).filter((name) => attributeOf(attributes, name) === undefined));
  return [...names].map((name) => `; entry.${name} is not set`).join("");
}

/** How an expression uses a variable. */
function use(nodes: readonly ASTNode[], variable: string): "not" | "size" | "any" {
  const isIt = (node: ASTNode | undefined): boolean => node?.op === "id" && node.args === variable;
  const all = nodes.filter(isIt).length;
  const sizes = nodes.filter(
    (node) =>
      (node.op === "rcall" && node.args[0] === "size" && isIt(node.args[1])) ||
      (node.op === "call" && node.args[0] === "size" && isIt(node.args[1][0])),
  ).length;
  return all === 0 ? "not" : all === sizes ? "size" : "any";
}

/** The texts that an expression asks a list for; undefined where it uses the list in any other way. */
function asked(nodes: readonly ASTNode[], variable: string): string[] | undefined {
  const isIt = ({ op, args }: ASTNode): boolean => op === "id" && args === variable;
  const texts = nodes.flatMap((node) => {
    if (node.op !== "in" || !isIt(node.args[1])) return [];
    const [text] = node.args;
    return text.op === "value" && typeof text.args === "string" ? [text.args] : [];
  });
  return texts.length === nodes.filter(isIt).length ? texts : undefined;
}

/** Whether the expression itself handles a missing attribute. */
function expectsNull(node: ASTNode): boolean {
  return node.op === "call" && ["Has", "coalesce"].includes(node.args[0]);
}

/** Whether `entry` is used in any other way than for one attribute by name. */
function readsAny(nodes: readonly ASTNode[]): boolean {
  const records = nodes.filter(({ op, args }) => op === "id" && args === "entry").length;
  return records > nodes.filter((node) => namedBy(node) !== undefined || groupsAskedBy(node) !== undefined).length;
}

/** The attributes that an expression names. */
function namedIn(ast: ASTNode): string[] {
  return [...nodesOf(ast)].flatMap((node) => namedBy(node) ?? []);
}

/** The attribute that a node reads by its name, `entry.NAME`. */
function namedBy(node: ASTNode): string | undefined {
  if (node.op !== "." && node.op !== "[]") return undefined;
  const [record, key] = node.args;
  if (record.op !== "id" || record.args !== "entry") return undefined;
  const name = typeof key === "string" ? key : key.op === "value" ? key.args : undefined;
  return typeof name === "string" ? name : undefined;
}

function* nodesOf(value: unknown): Generator<ASTNode> {
  if (Array.isArray(value)) {
    for (const each of value) yield* nodesOf(each);
  } else if (isNode(value)) {
    yield value;
    yield* nodesOf(value.args);
  }
}
