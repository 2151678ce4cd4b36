import { EvaluationError, TypeError as CelTypeError } from "@marcbachmann/cel-js";
import type { ASTNode, Environment } from "@marcbachmann/cel-js";
import { namedBy, tableIn } from "./ast.ts";
import type { CelType, Checker, Macro } from "./ast.ts";
import { LookupRow } from "./lookup.ts";

/*
 * `==`, `!=` and `in`. CEL's own are false for values of different kinds, so that somebody who gets a second value of an
 * attribute would leave the scope without a word. Here they fail, and null, which is a missing attribute, equals nothing
 * but null.
 */

export type Operator = "==" | "!=" | "in";

/** Values that are compared have the same one: `text`, `number`, `bool`, `date`, `list`, `map`, or the name of a type. */
type Kind = string;

export interface Side {
  readonly kind: Kind;
  /** Absent: no record has been read. */
  readonly value?: unknown;
}

type Place = "within" | "no list";

/** Two values that cannot be compared: the cause of an error of the library. */
export class Mismatch {
  readonly operator: Operator;
  readonly left: Side;
  /** For `in`, a value of the list, or a key of the map. */
  readonly right: Side;
  /** `within`: they stand in lists or maps; `no list`: `in` is followed by something else. */
  readonly where: Place | undefined;

  constructor(operator: Operator, left: Side, right: Side, where?: Place) {
    this.operator = operator;
    this.left = left;
    this.right = right;
    this.where = where;
  }
}

/** Types of ours that have no values to compare. */
const incomparable = new Set(["Entry", "Row", "Counted"]);

const primitiveKinds: Readonly<Record<string, Kind>> = {
  string: "text",
  bigint: "number",
  number: "number",
  boolean: "bool",
};

function kindOf(value: unknown): Kind {
  return primitiveKinds[typeof value] ?? kindOfObject(value);
}

function kindOfObject(value: unknown): Kind {
  if (value === null || value === undefined) return "null";
  if (Array.isArray(value) || value instanceof Set) return "list";
  if (value instanceof Uint8Array) return "bytes";
  if (value instanceof Date) return "date";
  const name = value.constructor.name;
  if (name === "UnsignedInt") return "number";
  if (name === "Object" || name === "Map") return "map";
  return name === "EntryRecord" ? "Entry" : name === "LookupRow" ? "Row" : name;
}

/** A pair of values of different kinds. */
interface Different {
  readonly left: unknown;
  readonly right: unknown;
  readonly where?: Place;
}

type Answer = boolean | Different;

function isSame(left: unknown, right: unknown): Answer {
  if (isNull(left) || isNull(right)) return isNull(left) && isNull(right);
  if (typeof left === typeof right && typeof left !== "object") return left === right;
  const kind = kindOf(left);
  if (kind !== kindOf(right) || incomparable.has(kind)) return { left, right };
  switch (kind) {
    case "number":
      // An integer and a number with a fraction have types of their own in JavaScript.
      // oxlint-disable-next-line eqeqeq
      return plainNumber(left) == plainNumber(right);
    case "list":
      return areSame([...(left as Iterable<unknown>)], [...(right as Iterable<unknown>)]);
    case "map":
      return areSameMaps(entriesOf(left), entriesOf(right));
    case "date":
      return (left as Date).getTime() === (right as Date).getTime();
    default:
      return left instanceof Uint8Array && right instanceof Uint8Array
        ? Buffer.compare(left, right) === 0
        : left === right || (kind === "Duration" && String(left) === String(right));
  }
}

/** All pairs are compared, so that it does not depend on the order whether it fails. */
function areSame(left: readonly unknown[], right: readonly unknown[]): Answer {
  const answers = left.slice(0, right.length).map((value, index) => isSame(value, right[index]));
  const different = answers.find((answer) => typeof answer === "object");
  if (different !== undefined) return { ...different, where: "within" };
  return left.length === right.length && answers.every((answer) => answer === true);
}

function areSameMaps(left: ReadonlyMap<unknown, unknown>, right: ReadonlyMap<unknown, unknown>): Answer {
  const shared = [...left.keys()].filter((key) => right.has(key));
  const values = areSame(
    shared.map((key) => left.get(key)),
    shared.map((key) => right.get(key)),
  );
  if (typeof values === "object") return values;
  if (shared.length === left.size && shared.length === right.size) return values;
  // Of keys that differ, those of different kinds may be meant as the same.
  const other = [...left.keys()].flatMap((key) => differentIn(key, [...right.keys()]) ?? []);
  return other[0] === undefined ? false : { ...other[0], where: "within" };
}

/** Whether one of the values is the same. They may be of several kinds: then one that is the same decides. */
function isIn(value: unknown, all: unknown): Answer {
  const kind = kindOf(all);
  if (kind !== "list" && kind !== "map") return { left: value, right: all, where: "no list" };
  const values = kind === "map" ? [...entriesOf(all).keys()] : [...(all as Iterable<unknown>)];
  let different: Different | undefined;
  for (const each of values) {
    const answer = isSame(value, each);
    if (answer === true) return true;
    if (answer !== false) different ??= answer;
  }
  return different ?? false;
}

function differentIn(value: unknown, values: readonly unknown[]): Different | undefined {
  const answers = values.map((each) => isSame(value, each));
  return answers.find((answer) => typeof answer === "object");
}

/** A row of a table that is not there is null as well. */
export function isNull(value: unknown): boolean {
  return value === null || (value instanceof LookupRow && value.isMissing);
}

function plainNumber(value: unknown): bigint | number {
  return typeof value === "number" ? value : BigInt(String(value));
}

function entriesOf(value: unknown): ReadonlyMap<unknown, unknown> {
  return value instanceof Map ? value : new Map(Object.entries(value as object));
}

/** What `{KEY: VALUE}` gives. The library's own maps have texts as keys, whatever was written. */
function keyed({ args }: Pick<Macro, "args">): Macro {
  const [map] = args;
  const entries = map?.op === "map" ? map.args : [];
  return {
    args,
    async: false,
    typeCheck: (checker, _, context) => map && checker.check(map, context),
    evaluate: (evaluator, _, context) => {
      const made = new Map<unknown, unknown>();
      for (const [keyNode, valueNode] of entries) {
        const key = evaluator.run(keyNode, context);
        if (!["text", "number", "bool"].includes(kindOf(key)))
          throw new EvaluationError({ message: "the keys of a map are texts, numbers, true or false", node: keyNode });
        made.set(key, evaluator.run(valueNode, context));
      }
      return made;
    },
  };
}

/** What is known about the expression that is being compiled: every attribute is one text, or missing. */
let attributesAreTexts = false;

/** Checks types while every attribute of an entry is known to be a text, or not. */
export function whereAttributesAreTexts<Result>(areTexts: boolean, check: () => Result): Result {
  attributesAreTexts = areTexts;
  try {
    return check();
  } finally {
    attributesAreTexts = false;
  }
}

/** What the functions give whose result may also be null. */
const resultKinds: Readonly<Record<string, Kind>> = {
  ...Object.fromEntries(
    ["lower", "upper", "trim", "replace", "truncate", "ascii", "extract", "join", "rdn", "dnValue", "dnParent"].map(
      (name) => [name, "text"],
    ),
  ),
  split: "list",
  dnValues: "list",
  date: "date",
};

const typeKinds: Readonly<Record<string, Kind>> = {
  string: "text",
  int: "number",
  uint: "number",
  double: "number",
  "google.protobuf.Timestamp": "date",
  "google.protobuf.Duration": "Duration",
  type: "Type",
};

function kindOfType({ kind, name }: CelType): Kind | undefined {
  if (kind === "dyn" || kind === "param" || kind === "optional") return undefined;
  if (kind === "list" || kind === "map") return kind;
  return typeKinds[name] ?? name;
}

/** The kind that every value of a node has that is not null; undefined when that is not known before a record is read. */
function knownKind(node: ASTNode, type: CelType): Kind | undefined {
  const known = kindOfType(type);
  if (known !== undefined) return known;
  if (node.op === "call") return resultKinds[node.args[0]];
  const isField = node.op === "." || node.op === "[]";
  if (isField && namedBy(node) !== undefined) return attributesAreTexts ? "text" : undefined;
  return isField && tableIn(node.args[0]) !== undefined ? "text" : undefined;
}

function comparison(operator: Operator) {
  return ({ args, ast }: Pick<Macro, "args"> & { readonly ast: ASTNode }): Macro => {
    const [left, right] = args as [ASTNode, ASTNode];
    const message = `no such overload: ${operator}`;
    return {
      args,
      async: false,
      typeCheck: (checker, _, context) => {
        const found = operator === "in" ? membershipFault(left, right, checker, context) : undefined;
        const fault = operator === "in" ? found : comparisonFault(operator, left, right, checker, context);
        if (fault !== undefined) throw new CelTypeError({ code: "no_such_overload", message, node: ast, cause: fault });
        return checker.getType("bool");
      },
      evaluate: (evaluator, _, context) => {
        const one = evaluator.run(left, context);
        const other = evaluator.run(right, context);
        const answer = operator === "in" ? isIn(one, other) : isSame(one, other);
        if (typeof answer === "boolean") return answer === (operator !== "!=");
        const [was, is] = [answer.left, answer.right].map((value) => ({ kind: kindOf(value), value })) as [Side, Side];
        const cause = new Mismatch(operator, was, is, answer.where);
        throw new EvaluationError({ code: "no_such_overload", message, node: ast, cause });
      },
    };
  };
}

function comparisonFault(
  operator: Operator,
  left: ASTNode,
  right: ASTNode,
  checker: Checker,
  context: unknown,
): Mismatch | undefined {
  const types = [checker.check(left, context), checker.check(right, context)] as const;
  const [one, other] = [knownKind(left, types[0]), knownKind(right, types[1])];
  if (one === undefined || other === undefined || one === "null" || other === "null") return undefined;
  if (one !== other || incomparable.has(one)) return new Mismatch(operator, { kind: one }, { kind: other });
  const nested = one === "list" || one === "map" ? kindsWithin(types[0], types[1]) : undefined;
  return nested && new Mismatch(operator, { kind: nested[0] }, { kind: nested[1] }, "within");
}

/** The kinds of what two lists or maps hold, where they are known and differ. */
function kindsWithin(left: CelType, right: CelType): readonly [Kind, Kind] | undefined {
  for (const part of ["keyType", "valueType"] as const) {
    const [one, other] = [left[part], right[part]];
    if (one === undefined || other === undefined) continue;
    const [kind, otherKind] = [kindOfType(one), kindOfType(other)];
    if (kind === undefined || otherKind === undefined || kind === "null" || otherKind === "null") continue;
    if (kind !== otherKind) return [kind, otherKind];
    const deeper = kindsWithin(one, other);
    if (deeper !== undefined) return deeper;
  }
  return undefined;
}

function membershipFault(left: ASTNode, right: ASTNode, checker: Checker, context: unknown): Mismatch | undefined {
  const kind = knownKind(left, checker.check(left, context));
  const type = checker.check(right, context);
  const listKind = knownKind(right, type);
  if (listKind === undefined) return undefined;
  if (listKind !== "list" && listKind !== "map")
    return new Mismatch("in", { kind: kind ?? "dyn" }, { kind: listKind }, "no list");
  const elements = right.op === "list" ? right.args : [];
  const kinds =
    elements.length > 0
      ? elements.flatMap((element) => knownKind(element, checker.check(element, context)) ?? [])
      : [(listKind === "map" ? type.keyType : type.valueType) ?? type].flatMap((each) => kindOfType(each) ?? []);
  const known = kinds.filter((each) => each !== "null");
  // Without a kind of its own, the value cannot be compared with all of a list that has several.
  const own = kind === undefined || kind === "null" ? known[0] : kind;
  const other = kind === "null" ? undefined : known.find((each) => each !== own);
  if (other === undefined || own === undefined) return undefined;
  return new Mismatch("in", { kind: own }, { kind: other }, kind === undefined ? "within" : undefined);
}

/** Makes them known to the environment, under the names that `own` writes. */
export function registerComparisons(environment: Environment): void {
  environment
    .registerFunction("Same(ast, ast): bool", comparison("=="))
    .registerFunction("Differs(ast, ast): bool", comparison("!="))
    .registerFunction("In(ast, ast): bool", comparison("in"))
    .registerFunction("Keyed(ast): dyn", keyed);
}
