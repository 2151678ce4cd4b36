import type { ASTNode } from "@marcbachmann/cel-js";

/** The parts of the library's macros that ours use. */
export interface Macro {
  readonly args: readonly ASTNode[];
  readonly async: false;
  typeCheck(checker: Checker, macro: Macro, context: unknown): unknown;
  evaluate(evaluator: { run(node: ASTNode, context: unknown): unknown }, macro: Macro, context: unknown): unknown;
}

export interface Checker {
  check(node: ASTNode, context: unknown): CelType;
  getType(name: string): CelType;
}

/** A type as the library infers it. */
export interface CelType {
  readonly kind: string;
  readonly name: string;
  readonly keyType?: CelType | undefined;
  readonly valueType?: CelType | undefined;
}

/** A node and all below it, from left to right. */
export function* nodesOf(value: unknown): Generator<ASTNode> {
  if (Array.isArray(value)) {
    for (const each of value) yield* nodesOf(each);
  } else if (isNode(value)) {
    yield value;
    yield* nodesOf(value.args);
  }
}

export function isNode(value: unknown): value is ASTNode {
  return typeof value === "object" && value !== null && "op" in value && "args" in value;
}

/** Where the next word or sign begins: after spaces, comments and brackets that close. */
export function nextToken(text: string, from: number): number {
  const gap = /(?:[\s)]|\/\/[^\n]*)*/y;
  gap.lastIndex = from;
  gap.test(text);
  return gap.lastIndex;
}

/** The attribute that a node reads by its name, `entry.NAME`. */
export function namedBy(node: ASTNode): string | undefined {
  if (node.op !== "." && node.op !== "[]") return undefined;
  const [record, key] = node.args;
  if (record.op !== "id" || record.args !== "entry") return undefined;
  const name = typeof key === "string" ? key : key.op === "value" ? key.args : undefined;
  return typeof name === "string" ? name : undefined;
}

/** The attributes that an expression names. */
export function namedIn(ast: ASTNode): string[] {
  return [...nodesOf(ast)].flatMap((node) => namedBy(node) ?? []);
}

/** The call `lookup(FILE, …)` at a node. */
export function tableIn(node: ASTNode): { readonly file: string | undefined; readonly place: number } | undefined {
  if (node.op !== "call" || node.args[0] !== "lookup") return undefined;
  const [file] = node.args[1];
  if (file === undefined) return undefined;
  return { file: file.op === "value" && typeof file.args === "string" ? file.args : undefined, place: file.start };
}

/** A node as it is written. Parentheses around a part of it do not count as its own. */
export function written({ start, end }: ASTNode, text: string): string {
  const slice = text.slice(start, end).trim();
  let open = 0;
  let missing = 0;
  for (const [letter] of slice.replace(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g, "").matchAll(/[()]/g)) {
    if (letter === "(") open++;
    else if (open > 0) open--;
    else missing++;
  }
  return "(".repeat(missing) + slice + ")".repeat(open);
}

/** What calls and operators become that mean something else in rules than in CEL, see `own`. */
const ownNames: Readonly<Record<string, string>> = {
  "==": "Same",
  "!=": "Differs",
  in: "In",
  has: "Has",
  int: "Int",
  timestamp: "Timestamp",
};

/** Methods that make texts of any length, or, as JavaScript's regular expressions, take any time. */
const ownMethods: Readonly<Record<string, string>> = {
  base64: "Base64",
  hex: "Hex",
  join: "Join",
  matches: "Matches",
  split: "Split",
};

/** How tightly operators bind. */
const binding: Readonly<Record<string, number>> = {
  "?:": 1,
  "||": 2,
  "&&": 3,
  ...Object.fromEntries(["<", "<=", ">", ">="].map((operator) => [operator, 4])),
  "+": 5,
  "-": 5,
  "*": 6,
  "/": 6,
  "%": 6,
  "!_": 7,
  "-_": 7,
};
/** Names, calls and literals. */
const tightest = 8;

/**
 * The expression with our own functions for what means something else in CEL:
 * - `==`, `!=` and `in` are false for values of different kinds; `{1: "a"}` has texts as keys;
 * - `has` is a macro that takes null, which is what a missing attribute is here, for a value; and it refuses
 *   `has(entry["employee number"])`;
 * - `matches` takes JavaScript's regular expressions, which can take forever;
 * - `size(entry.x)` counts characters, or else values, whichever the record has; `int("")` and `uint("")` are 0, `double("0x10")` is 16; `timestamp` takes
 *   `12/11/2024 10:00:00 AM` for a day in November, in the zone of the machine;
 * - `now()` is a value that is given.
 * Its nodes are those of the original in the same order, see `counterparts`.
 */
export function own(ast: ASTNode, text: string): string {
  if (ast.op === "value") return text.slice(ast.start, ast.end);
  if (ast.op === "id") return ast.args;
  const write = (node: ASTNode): string => own(node, text);
  /** In parentheses, unless it binds as tightly as this. */
  const within = (node: ASTNode, strength: number): string =>
    (binding[node.op] ?? tightest) < strength ? `(${write(node)})` : write(node);
  const all = (nodes: readonly ASTNode[]): string => nodes.map(write).join(", ");
  if (ast.op === "==" || ast.op === "!=" || ast.op === "in") return `${ownNames[ast.op]}(${all(ast.args)})`;
  if (ast.op === "." || ast.op === ".?") return `${within(ast.args[0], tightest)}${ast.op}${ast.args[1]}`;
  if (ast.op === "[]" || ast.op === "[?]")
    return `${within(ast.args[0], tightest)}${ast.op.slice(0, -1)}${write(ast.args[1])}]`;
  if (ast.op === "call") {
    const [name, args] = ast.args;
    if (name === "now" && args.length === 0) return "Now";
    const written = `${calledBy(name, args)}(${all(args)})`;
    return Object.hasOwn(checkedNumbers, name) && args.length === 1
      ? `${name}(${checkedNumbers[name]}(${all(args)}))`
      : written;
  }
  if (ast.op === "rcall") {
    const [name, receiver, args] = ast.args;
    if (name === "size" && args.length === 0 && namedBy(receiver) !== undefined) return `Size(${write(receiver)})`;
    return `${within(receiver, tightest)}.${Object.hasOwn(ownMethods, name) ? ownMethods[name] : name}(${all(args)})`;
  }
  if (ast.op === "list") return `[${all(ast.args)}]`;
  if (ast.op === "map") return `Keyed({${ast.args.map((entry) => entry.map(write).join(": ")).join(", ")}})`;
  if (ast.op === "?:") return `${within(ast.args[0], 2)} ? ${within(ast.args[1], 2)} : ${within(ast.args[2], 1)}`;
  if (ast.op === "!_" || ast.op === "-_")
    return `${ast.op.slice(0, 1)}${ast.args.op === "value" ? write(ast.args) : `(${write(ast.args)})`}`;
  const strength = binding[ast.op] ?? 0;
  return `${within(ast.args[0], strength)} ${ast.op} ${within(ast.args[1], strength + 1)}`;
}

/** What checks the texts that these take. */
const checkedNumbers: Readonly<Record<string, string>> = { uint: "Digits", double: "Decimal" };

function calledBy(name: string, args: readonly ASTNode[]): string {
  const [first] = args;
  if (first === undefined || args.length > 1) return name;
  if (name === "size") return namedBy(first) === undefined ? name : "Size";
  return Object.hasOwn(ownNames, name) ? (ownNames[name] ?? name) : name;
}

/** Finds the node of an expression as written for one of what `own` makes of it, by where that one is. */
export function counterparts(
  written: ASTNode,
  own: ASTNode,
): (range: { readonly start: number; readonly end: number } | undefined) => ASTNode | undefined {
  const found = new Map<string, ASTNode>();
  const originals = nodesOf(written);
  for (const node of nodesOf(own)) {
    if (node.op === "call" && node.args[0] === "Keyed") continue;
    const original = originals.next();
    if (original.done !== true) found.set(`${node.start}-${node.end}`, original.value);
  }
  return (range) => (range === undefined ? undefined : found.get(`${range.start}-${range.end}`));
}
