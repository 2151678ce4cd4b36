import { EvaluationError } from "@marcbachmann/cel-js";
import type { ASTNode, Environment } from "@marcbachmann/cel-js";
import { isNode, nextToken } from "./ast.ts";
import type { Macro } from "./ast.ts";
import { spend, spendValue, stepsOf } from "./budget.ts";

/*
 * CEL has no loops but its macros, and a value grows without bounds only where a name stands for it more than once. So
 * each turn of a macro and each use of a name are counted: both are wrapped in a macro of ours, `Spend`. The functions
 * that make more than they get, and the values of the record, count for themselves.
 */

/** The library's macros that evaluate what follows their variable for each value. */
const loops: ReadonlySet<string> = new Set(["all", "exists", "exists_one", "filter", "map"]);

/** What takes longer than other operations, in steps. */
const costs = { error: 100, logical: 10, timeInZone: 1000 };

/** The longest text of a duration: the library's time to read one grows with the cube of its length. */
const longestDuration = 100;

/** A text in which what has to be counted is wrapped. */
export type Metered = ReturnType<typeof insert>;

interface Insertion {
  readonly at: number;
  readonly what: string;
}

/** Makes the macros known that `meter` wraps in. */
export function registerMeter(environment: Environment): void {
  environment
    .registerFunction("Spend(ast): dyn", macro(countValue))
    .registerFunction("Spend(ast, ast): dyn", macro(countTurn))
    .registerFunction("Brief(ast): dyn", macro(refuseLong));
}

/** A macro that gives what its last argument gives. */
function macro(evaluate: Macro["evaluate"]): (call: Pick<Macro, "args">) => Macro {
  return ({ args }) => ({
    args,
    async: false,
    typeCheck: (checker, macro, context) => checker.check(last(macro), context),
    evaluate,
  });
}

function last({ args }: Pick<Macro, "args">): ASTNode {
  const node = args.at(-1);
  if (node === undefined) throw new TypeError("a macro has arguments");
  return node;
}

const countValue: Macro["evaluate"] = (evaluator, macro, context) => {
  const value = evaluator.run(last(macro), context);
  spendValue(value);
  return value;
};

const countTurn: Macro["evaluate"] = (evaluator, macro, context) => {
  spend(Number(macro.args[0]?.args));
  try {
    return evaluator.run(last(macro), context);
  } catch (error) {
    spend(costs.error);
    throw error;
  }
};

const refuseLong: Macro["evaluate"] = (evaluator, macro, context) => {
  const value = evaluator.run(last(macro), context);
  if (typeof value === "string" && value.length > longestDuration)
    throw new EvaluationError("duration() needs a text like 36h or 1h30m");
  return value;
};

/**
 * Wraps what has to be counted.
 * @param nodes of the expression, each before those within it
 * @param variables texts and lists that the expression can name
 * @returns undefined where nothing has to be, as in most expressions
 */
export function meter(text: string, nodes: readonly ASTNode[], variables: readonly string[]): Metered | undefined {
  const declarations = new Set(nodes.flatMap((node) => declarationIn(node) ?? []));
  const bodies = new Set(nodes.flatMap(bodiesOf));
  const mayGrow = declarations.size > 0 || nodes.some(({ op }) => op === "+");
  const names = new Set<unknown>(mayGrow ? [...variables, ...[...declarations].map(({ args }) => args)] : []);
  const insertions = nodes.flatMap((node): Insertion[] => {
    if (node.op === "id" && names.has(node.args) && !declarations.has(node))
      return wrapped("Spend(", node.start, node.end);
    if (node.op === "call" && node.args[0] === "duration")
      return wrapped("Brief(", text.indexOf("(", node.start) + 1, node.end - 1);
    return bodiesOf(node).flatMap((body, index, all) => {
      const isLast = index === all.length - 1;
      const comma = nextToken(text, (all[index - 1] ?? declarationIn(node) ?? body).end);
      return wrapped(`Spend(${costOf(body, bodies)},`, comma + 1, isLast ? node.end - 1 : nextToken(text, body.end));
    });
  });
  return insertions.length === 0 ? undefined : insert(text, insertions);
}

/** The most lists in a sum: each `+` copies all that come before it. */
const mostSums = 30;
const givesText = new Set(["ascii", "extract", "join", "lower", "replace", "string", "trim", "truncate", "upper"]);

/** What is wrong with the sums of an expression; undefined: nothing. */
export function objectionToSums(ast: ASTNode): string | undefined {
  const depth = (value: unknown): number => {
    if (Array.isArray(value)) return value.reduce<number>((most, each) => Math.max(most, depth(each)), 0);
    if (!isNode(value)) return 0;
    return depth(value.args) + (value.op === "+" && !isText(value) ? 1 : 0);
  };
  return depth(ast) > mostSums ? `more than ${mostSums} values in one sum; of texts, use join([…], "")` : undefined;
}

function isText(node: ASTNode): boolean {
  if (node.op === "+") return node.args.some(isText);
  return (node.op === "value" && typeof node.args === "string") || (node.op === "call" && givesText.has(node.args[0]));
}

function wrapped(opening: string, start: number, end: number): Insertion[] {
  return [
    { at: start, what: opening },
    { at: end, what: ")" },
  ];
}

/** The node that names the variable of a macro. */
function declarationIn(node: ASTNode): ASTNode | undefined {
  if (node.op !== "rcall") return undefined;
  const [name, receiver, args] = node.args;
  const declares =
    (loops.has(name) && args.length > 1) ||
    (name === "bind" && args.length === 3 && receiver.op === "id" && receiver.args === "cel");
  return declares && args[0]?.op === "id" ? args[0] : undefined;
}

/** What a macro evaluates for each value. */
function bodiesOf(node: ASTNode): ASTNode[] {
  if (node.op !== "rcall" || !loops.has(node.args[0]) || declarationIn(node) === undefined) return [];
  return node.args[2].slice(1);
}

/** The steps of one turn, without those of the turns of macros in it. */
function costOf(body: ASTNode, bodies: ReadonlySet<ASTNode>): number {
  const visit = (value: unknown): number => {
    if (Array.isArray(value)) return value.reduce<number>((sum, each) => sum + visit(each), 0);
    return isNode(value) && !bodies.has(value) ? costOfNode(value) + visit(value.args) : 0;
  };
  return costOfNode(body) + visit(body.args);
}

function costOfNode(node: ASTNode): number {
  if (node.op === "value" && typeof node.args === "string") return stepsOf(node.args.length);
  if (node.op === "||" || node.op === "&&") return costs.logical;
  const isInZone = node.op === "rcall" && node.args[0].startsWith("get") && node.args[2].length === 1;
  return isInZone ? costs.timeInZone : 1;
}

function insert(text: string, insertions: readonly Insertion[]) {
  const sorted = insertions.toSorted((one, other) => one.at - other.at);
  let result = "";
  let done = 0;
  const ends: { readonly end: number; readonly length: number }[] = [];
  for (const { at, what } of sorted) {
    result += text.slice(done, at) + what;
    done = at;
    ends.push({ end: result.length, length: what.length });
  }
  return {
    text: result + text.slice(done),
    /** The place in the original text of one in this text. */
    back: (place: number): number =>
      ends.reduce((found, { end, length }) => (end <= place ? found - length : found), place),
  };
}
