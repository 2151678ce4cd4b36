import { EvaluationError, TypeError as CelTypeError } from "@marcbachmann/cel-js";
import type { ASTNode, TypeCheckResult } from "@marcbachmann/cel-js";
import { messageOf } from "#errors.ts";
import { nearest } from "#text.ts";
import { serviceAttributes } from "./attributes.ts";
import { isNode, namedBy, namedIn, written } from "./ast.ts";
import type { counterparts } from "./ast.ts";
import { adviceFor, flagLike } from "./comparison-advice.ts";
import { Mismatch } from "./comparison.ts";
import { attributeOf, environmentOf, vocabularyOf } from "./environment.ts";
import type { Attributes, Subject, Vocabulary } from "./environment.ts";
import { sizeOfValues } from "./functions.ts";

/** What is wrong with an expression, and where: `offset` counts UTF-16 units from its start. */
export interface Fault {
  readonly message: string;
  readonly offset?: number | undefined;
}

const hints: Readonly<Record<string, string>> = { incompatible_ternary_branches: "for no value write dyn(null)" };

function hintOf(code: string, over: Subject, vocabulary: Vocabulary): string | undefined {
  if (code !== "unknown_variable")
    return over === "counts" ? "users.size() and groups.size() count; for each of them write over: users" : hints[code];
  if (over === "entry") return "an attribute is read as entry.NAME";
  if (over === "value") return "there is only value";
  if (over === "naming") return "there are name, what the rule gives, and the number n";
  const names = Object.keys(vocabulary).join(", ");
  if (over === "counts") return `there are ${names}; for each of them write over: users`;
  return `there are ${names}; an attribute of the source is read as entry.NAME`;
}

/** An expression as written. */
export interface Origin {
  readonly text: string;
  /** Absent: it cannot be parsed. */
  readonly ast?: ASTNode;
  /** Its node for a place in what is evaluated. Absent: errors have places in `text` itself. */
  readonly nodeAt?: ReturnType<typeof counterparts>;
}

/** What the library says is wrong with an expression. */
export function fault(
  error: TypeCheckResult["error"],
  { text, nodeAt }: Origin,
  over: Subject = "entry",
  vocabulary: Vocabulary = {},
): Fault {
  if (error === undefined) return { message: "the expression is not valid" };
  const { code, range } = error;
  const node = nodeAt?.(range);
  const offset = nodeAt === undefined ? range?.start : node?.start;
  const hint = error.cause instanceof Mismatch && over !== "counts" ? undefined : hintOf(code, over, vocabulary);
  const message = attributeMeant(text, offset) ?? `${said(error, node, text)}${hint === undefined ? "" : `; ${hint}`}`;
  return offset === undefined ? { message } : { message, offset };
}

/** What is wrong with an operator on an attribute that is known to be a text. */
export function textFault(node: ASTNode, text: string): Fault | undefined {
  const flags: readonly ASTNode[] =
    node.op === "&&" || node.op === "||" ? node.args : node.op === "?:" ? [node.args[0]] : [];
  const flag = flags.find(isAttribute);
  if (flag !== undefined)
    return {
      message: `\`${written(flag, text)}\` is text; write \`lower(${written(flag, text)}) == "true"\``,
      offset: flag.start,
    };
  if (node.op === "!_" && isAttribute(node.args))
    return {
      message: `cannot apply ! to text; write \`lower(${written(node.args, text)}) != "true"\``,
      offset: node.start,
    };
  if (node.op !== "<" && node.op !== "<=" && node.op !== ">" && node.op !== ">=") return undefined;
  const types = node.args.map((each) => (isAttribute(each) ? "string" : literalType(each)));
  if (!node.args.some(isAttribute) || types.includes(undefined) || types[0] === types[1]) return undefined;
  return { message: wrongOperation(`${types[0]} ${node.op} ${types[1]}`, node, text), offset: node.start };
}

function isAttribute(node: ASTNode): boolean {
  return namedBy(node) !== undefined;
}

function literalType(node: ASTNode): string | undefined {
  if (node.op === "-_") return literalType(node.args);
  if (node.op !== "value") return undefined;
  return { bigint: "int", number: "double", string: "string", boolean: "bool" }[typeof node.args as string];
}

const dotted = /\bentry\.([\p{L}\p{N}_]+(?:-[\p{L}\p{N}_]+)*)/gu;

/** What to write for an attribute whose name is no identifier, if the offset is in such a name: `entry.E-Mail`. */
function attributeMeant(text: string, offset = 0): string | undefined {
  for (const { 0: found, 1: name = "", index } of text.matchAll(dotted))
    if (offset > index && offset <= index + found.length && !/^[A-Za-z_]\w*$/.test(name))
      return `for the attribute ${name} write \`entry[${JSON.stringify(name)}]\``;
  return undefined;
}

/** Why an expression has no value for these attributes. */
export function explain(error: unknown, { text, ast, nodeAt }: Origin, attributes: Attributes): string {
  if (!(error instanceof EvaluationError || error instanceof CelTypeError)) return messageOf(error);
  const node = nodeAt?.(error.node);
  const cause = (node !== undefined && unset(node, attributes)) || (ast !== undefined && unset(ast, attributes)) || "";
  return `${said(error, node, text, attributes)}${cause}`;
}

function said(
  { cause, code, summary }: { readonly cause?: unknown; readonly code: string; readonly summary: string },
  node: ASTNode | undefined,
  text: string,
  attributes: Attributes = {},
): string {
  if (cause instanceof Mismatch) return adviceFor(cause, node, text);
  if (code === sizeOfValues && node !== undefined) {
    const [counted] = node.op === "rcall" ? [node.args[1]] : node.op === "call" ? node.args[1] : [];
    const list = counted === undefined ? "x" : written(counted, text);
    return `\`${list}\` has several values; write \`size(values(${list}))\` for their number`;
  }
  const type = /(?:type|got) '([^']+)'/.exec(summary)?.[1] ?? "";
  if (code === "invalid_comprehension_range" && node !== undefined)
    return `\`${written(node, text)}\` is ${typeName(type)}, not a list; write \`values(${written(node, text)})\``;
  // The library names the wrong side of the two.
  if (code === "invalid_logical_operand") return `&& and || need true or false, not ${typeName(type)}`;
  if (code === "invalid_condition_type") return `a condition is true or false, not ${typeName(type)}`;
  return plain(summary, node, text, attributes);
}

/** The library's messages in the words of rules. */
const wording: readonly (readonly [RegExp, string])[] = [
  [/dyn<([^<>]*)>/g, "$1"],
  [/\bHas\(/g, "has("],
  [/\bBase64\(/g, "base64("],
  [/\bHex\(/g, "hex("],
  [/\bJoin\(/g, "join("],
  [/\bMatches\(/g, "matches("],
  [/\bSplit\(/g, "split("],
  [/\bInt\(/g, "int("],
  [/\b(uint|double)\((?:Digits|Decimal)\(/g, "$1("],
  [/\bSize\(/g, "size("],
  [/\bTimestamp\(/g, "timestamp("],
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
function plain(summary: string, node: ASTNode | undefined, text: string, attributes: Attributes): string {
  const words = wording.reduce((message, [pattern, replacement]) => message.replace(pattern, replacement), summary);
  const call = /^found no matching overload for '(.*)'$/s.exec(words)?.[1];
  if (call !== undefined) return wrongCall(call, node, text);
  const operation = /^no such overload: (.*)$/s.exec(words)?.[1];
  return operation === undefined ? words : wrongOperation(operation, node, text, attributes);
}

/** Functions of CEL's optional values, which rules have no use for. */
const optionalFunctions = new Set(["bind", "hasValue", "none", "of", "or", "orValue", "value"]);

/** By name: whether it is called as a function, `f(x)`, as a method, `x.f()`, or both. */
function knownFunctions(): ReadonlyMap<string, { readonly isFunction: boolean; readonly isMethod: boolean }> {
  const functions = new Map([["now", { isFunction: true, isMethod: false }]]);
  for (const { name, receiverType } of environmentOf(vocabularyOf("entry", serviceAttributes)).getDefinitions()
    .functions) {
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
  if (node?.op === "rcall" && isFunction && !isMethod) {
    const [, receiver, rest] = node.args;
    return `${name}(${[receiver, ...rest].map((each) => written(each, text)).join(", ")})`;
  }
  if (node?.op === "call" && isMethod && !isFunction) {
    const [receiver, ...rest] = node.args[1];
    return receiver === undefined
      ? undefined
      : `${written(receiver, text)}.${name}(${rest.map((each) => written(each, text)).join(", ")})`;
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
function wrongOperation(
  operation: string,
  node: ASTNode | undefined,
  text: string,
  attributes: Attributes = {},
): string {
  const [, left, operator = "", right] = /^(\S+) (\S+) (\S+)$/.exec(operation) ?? [];
  if (left === undefined || right === undefined)
    return operation.replace(
      /^([!-])(\S+)$/,
      (_, sign: string, type: string) =>
        `cannot apply ${sign} to ${typeName(type)}${insteadOfNot(sign, type, node, { text, attributes })}`,
    );
  const compared = comparedWithNumber(left, right);
  const operands = node?.op === operator && Array.isArray(node.args) ? (node.args as unknown[]).filter(isNode) : [];
  const [first, second] = operands.map((each) => written(each, text));
  if (compared === undefined || first === undefined || second === undefined)
    return `cannot apply ${operator} to ${typeName(left)} and ${typeName(right)}`;
  const wrong = left === "string" ? first : second;
  const converted = `${compared}(${wrong})`;
  const instead = left === "string" ? `${converted} ${operator} ${second}` : `${first} ${operator} ${converted}`;
  return `\`${wrong}\` is text; write \`${instead}\``;
}

/** Where a flag is a text: the comparison to write, with the word as the record has it. */
function insteadOfNot(
  sign: string,
  type: string,
  node: ASTNode | undefined,
  { text, attributes }: { readonly text: string; readonly attributes: Attributes },
): string {
  const name = node?.op === "!_" ? namedBy(node.args) : undefined;
  if (sign !== "!" || type !== "string" || node?.op !== "!_" || name === undefined) return "";
  return `; write \`${written(node.args, text)} != ${JSON.stringify(flagLike(attributeOf(attributes, name), true))}\``;
}

/** The function that makes a number of the text, where the other operand is a number. */
function comparedWithNumber(left: string, right: string): string | undefined {
  const other = left === "string" ? right : right === "string" ? left : undefined;
  return other === "int" || other === "double" ? other : undefined;
}

/** The attributes that it names and that are not set. */
export function unset(ast: ASTNode, attributes: Attributes): string {
  const names = new Set(namedIn(ast).filter((name) => attributeOf(attributes, name) === undefined));
  return [...names].map((name) => `; entry.${name} is not set`).join("");
}
