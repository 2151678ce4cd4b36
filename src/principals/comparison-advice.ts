import type { ASTNode } from "@marcbachmann/cel-js";
import { namedBy, written } from "./ast.ts";
import type { Mismatch } from "./comparison.ts";

/** One side of a comparison, with its place in the expression. */
interface Operand {
  readonly kind: string;
  /** Absent: no record has been read. */
  readonly value?: unknown;
  readonly node: ASTNode;
  readonly text: string;
}

const kindNames: Readonly<Record<string, string>> = {
  text: "text",
  number: "a number",
  bool: "true or false",
  date: "a date",
  list: "a list",
  map: "a map",
  null: "null",
  dyn: "a value",
  bytes: "bytes",
  Duration: "a duration",
  Type: "a type",
  Row: "a row of a table",
};

function nameOf(kind: string): string {
  return kindNames[kind] ?? kind;
}

/**
 * Why two values cannot be compared, and what to write instead.
 * @param node the comparison, in the expression `text`
 */
export function adviceFor(mismatch: Mismatch, node: ASTNode | undefined, text: string): string {
  const { operator, left, right, where } = mismatch;
  if (where === "within")
    return `cannot compare ${nameOf(left.kind)} with ${nameOf(right.kind)}, ${operator === "in" ? "and the list has both" : "which these lists or maps hold"}`;
  const said = `cannot apply ${operator} to ${nameOf(left.kind)} and ${nameOf(right.kind)}`;
  if (node?.op !== operator) return said;
  const [leftNode, rightNode] = node.args;
  const one: Operand = { ...left, node: leftNode, text: written(leftNode, text) };
  const other: Operand = { ...right, node: rightNode, text: written(rightNode, text) };
  const found = operator === "in" ? membership(one, other, where) : equality(operator, one, other);
  if (found === undefined) return said;
  const { of, instead } = found;
  const holds = operator === "in" && where === undefined && of === other;
  return `${holds ? `\`${of.text}\` has ${nameOf(of.kind)}` : ofKind(of)}; write \`${instead}\``;
}

/** What is said of a side, and what to write. */
interface Advice {
  readonly of: Operand;
  readonly instead: string;
}

function ofKind({ text, kind, value, node }: Operand): string {
  if (kind === "null") return `\`${text}\` is null`;
  if (kind === "list")
    return `\`${text}\` ${Array.isArray(value) && value.length > 1 ? "has several values" : "is a list"}`;
  if (kind === "text" && namedBy(node) === undefined && isLiteral(node)) return `${text} is text`;
  return `\`${text}\` is ${nameOf(kind)}`;
}

function equality(operator: "==" | "!=", left: Operand, right: Operand): Advice | undefined {
  const sides = [left, right] as const;
  const list = sides.find(({ kind }) => kind === "list");
  if (list !== undefined) {
    const single = list === left ? right : left;
    const asked = single.kind === "map" ? undefined : textOf(single);
    if (asked === undefined) return undefined;
    const found = `${asked} in ${valuesOf(list)}`;
    return { of: list, instead: operator === "==" ? found : `!(${found})` };
  }
  const text = sides.find(({ kind }) => kind === "text");
  if (text === undefined) return undefined;
  const other = text === left ? right : left;
  const [changed, is] = converted(text, other) ?? [];
  if (changed === undefined || is === undefined) return undefined;
  const instead = text === left ? [changed, is] : [is, changed];
  return { of: isLiteral(text.node) ? other : text, instead: instead.join(` ${operator} `) };
}

/** A text and a value of another kind, so that they can be compared: as what they are written then. */
function converted(text: Operand, other: Operand): readonly [text: string, other: string] | undefined {
  if (isLiteral(text.node)) {
    const literal = literalOf(text.node);
    if (other.kind === "number" && /^-?\d{1,15}$/.test(literal)) return [literal, other.text];
    if (other.kind === "bool" && /^(true|false)$/i.test(literal)) return [literal.toLowerCase(), other.text];
    if (other.kind === "date") return [`date(${text.text})`, other.text];
    return other.kind === "number" || other.kind === "bool" ? [text.text, `string(${other.text})`] : undefined;
  }
  if (other.kind === "date") return [`date(${text.text})`, other.text];
  if (other.kind === "bool") {
    if (!isLiteral(other.node)) return [`lower(${text.text})`, `string(${other.text})`];
    const isTrue = literalOf(other.node) === "true";
    // Without a record nobody knows how they are spelled.
    if (text.value === undefined) return [lowered(text), quoted(String(isTrue))];
    return [text.text, quoted(flagLike(text.value, isTrue))];
  }
  if (other.kind !== "number") return undefined;
  return isLiteral(other.node) ? [text.text, quoted(other.text)] : [`int(${text.text})`, other.text];
}

function membership(left: Operand, right: Operand, where: Mismatch["where"]): Advice | undefined {
  if (where === "no list") {
    const asked = textOf(left);
    if (asked === undefined || !["text", "number", "bool", "null"].includes(right.kind)) return undefined;
    return {
      of: right,
      instead: `${right.kind === "text" || right.kind === "null" ? asked : left.text} in values(${right.text})`,
    };
  }
  if (left.kind === "list") return { of: left, instead: `${valuesOf(left)}.exists(v, v in ${right.text})` };
  if (left.kind === "text") {
    const of = left;
    if (right.kind === "number")
      return {
        of,
        instead: literals(right.node, (each) => quoted(each), left) ?? `int(${left.text}) in ${right.text}`,
      };
    if (right.kind === "bool") {
      const spelled = (word: string): string =>
        quoted(left.value === undefined ? word : flagLike(left.value, word === "true"));
      const instead = literals(right.node, spelled, left.value === undefined ? { ...left, text: lowered(left) } : left);
      return instead === undefined ? undefined : { of, instead };
    }
    return undefined;
  }
  if (right.kind !== "text" || (left.kind !== "number" && left.kind !== "bool")) return undefined;
  const list = namedBy(right.node) === undefined ? right.text : `values(${right.text})`;
  return { of: isLiteral(left.node) ? right : left, instead: `${textOf(left) ?? left.text} in ${list}` };
}

/** `in` a list of literals, each written in another way; undefined where the list holds anything else. */
function literals(list: ASTNode, write: (literal: string) => string, left: Operand): string | undefined {
  if (list.op !== "list" || !list.args.every(isLiteral)) return undefined;
  return `${left.text} in [${list.args.map((each) => write(literalOf(each))).join(", ")}]`;
}

/** What a flag is called that is a text: `TRUE` where another record has `FALSE`. */
export function flagLike(value: unknown, isTrue: boolean): string {
  const text = String(value);
  const pairs = [
    ["true", "false"],
    ["1", "0"],
    ["yes", "no"],
    ["y", "n"],
    ["t", "f"],
    ["on", "off"],
    ["ja", "nein"],
  ];
  const pair = pairs.find((words) => words.includes(text.toLowerCase()));
  const word = pair?.[isTrue ? 0 : 1] ?? String(isTrue);
  if (pair === undefined || text === text.toLowerCase()) return word;
  return text === text.toUpperCase() ? word.toUpperCase() : word.slice(0, 1).toUpperCase() + word.slice(1);
}

/** The value as the text that a list may hold; undefined for what no list holds. */
function textOf({ kind, node, text }: Operand): string | undefined {
  if (kind === "text") return text;
  if (kind === "number" || kind === "bool") return isLiteral(node) ? quoted(literalOf(node)) : `string(${text})`;
  return kind === "dyn" ? text : undefined;
}

function valuesOf({ node, text }: Operand): string {
  const isList = node.op === "list" || (node.op === "call" && ["values", "split", "dnValues"].includes(node.args[0]));
  return isList ? text : `values(${text})`;
}

function lowered({ node, text }: Operand): string {
  return node.op === "call" && node.args[0] === "lower" ? text : `lower(${text})`;
}

function isLiteral(node: ASTNode): boolean {
  return node.op === "value" || (node.op === "-_" && node.args.op === "value");
}

function literalOf(node: ASTNode): string {
  if (node.op === "-_") return `-${literalOf(node.args)}`;
  return node.op === "value" ? String(node.args) : "";
}

function quoted(text: string): string {
  return JSON.stringify(text);
}
