import { ParseError } from "@marcbachmann/cel-js";
import { serviceAttributes } from "./attributes.ts";
import type { Attributes as Declared } from "./attributes.ts";
import type { ASTNode, Environment, ParseResult } from "@marcbachmann/cel-js";
import { describeValue, didYouMean, nfc, quote } from "#text.ts";
import { Budget, RunBudgetError, sizeOf } from "./budget.ts";
import { counterparts, namedBy, namedIn, nodesOf, own, tableIn } from "./ast.ts";
import { objectionToFormat } from "./dates.ts";
import { whereAttributesAreTexts } from "./comparison.ts";
import type { SourceGroups } from "./entry.ts";
import {
  EntryRecord,
  attributeOf,
  environmentOf,
  groupFunctions,
  readTablesFrom,
  vocabularyOf,
} from "./environment.ts";
import type { Attributes, GroupFunction, Subject, Vocabulary } from "./environment.ts";
import { explain, fault, textFault, unset } from "./expression-messages.ts";
import type { Fault, Origin } from "./expression-messages.ts";
import { objectionToPattern } from "./functions.ts";
import type { LookupTables } from "./lookup.ts";
import { meter, objectionToSums } from "./metering.ts";
import type { Naming } from "./names.ts";
import { objectionToName } from "./principal.ts";

export { attributeOf, Counted } from "./environment.ts";
export type { GroupFunction, Subject } from "./environment.ts";
export type { Fault } from "./expression-messages.ts";

/** The longest expression, in bytes. */
const longest = 16 * 1024;

/** What an expression is compiled for. */
export interface CompileOptions {
  /** What `now()` gives. */
  readonly now: Date;
  /** What `lookup` reads; absent: nothing, and the tables that are named are not checked. */
  readonly tables?: LookupTables | undefined;
  /** `value`: the expression is over the attribute of this name alone, as `value`. */
  readonly over?: Subject | undefined;
  /** What an expression over users or groups can name of them. Absent: what the service declares. */
  readonly declared?: Declared | undefined;
  /** Every attribute is one text, or missing: a comparison with anything else is a fault. */
  readonly onlyTexts?: boolean | undefined;
  /** Where it is written, for the error that ends a run. */
  readonly place?: (() => string) | undefined;
}

/** Compiles an expression, once for all entries; or says what is wrong with it. */
export function compileExpression(
  source: string,
  { now, tables, over = "entry", declared = serviceAttributes, onlyTexts = false, place }: CompileOptions,
): Expression | Fault {
  const vocabulary = vocabularyOf(over, declared);
  return compiled(source, vocabulary, ({ text, nodes, ast, parsed, origin }) => {
    const checked = whereAttributesAreTexts(onlyTexts, () => parsed.check());
    if (!checked.valid) return fault(checked.error, origin, over, vocabulary);
    const wrong = nodes
      .map(
        (node) =>
          patternFault(node) ??
          lookupFault(node, tables) ??
          groupsFault(node, over) ??
          (onlyTexts ? textFault(node, text) : undefined),
      )
      .find((found) => found !== undefined);
    if (wrong !== undefined) return wrong;
    const tooLong = objectionToSums(ast);
    if (tooLong !== undefined) return { message: tooLong };
    const entryNode = over === "value" ? nodes.find(({ op, args }) => op === "id" && args === "entry") : undefined;
    if (entryNode !== undefined)
      return {
        message: "there is no entry here: a group is made for all who are in it; use value",
        offset: entryNode.start,
      };
    const type = namedBy(ast) !== undefined && onlyTexts ? "string" : (checked.type ?? "dyn");
    const run = evaluatorOf(parsed, origin, { vocabulary, place });
    return new Expression({ source, type, ast, run, now, tables, over });
  });
}

/** Parses an expression, and makes something of it; or says what keeps it from being parsed. */
function compiled<Made>(
  source: string,
  vocabulary: Vocabulary,
  make: (expression: Parsed & { readonly text: string; readonly nodes: readonly ASTNode[] }) => Made | Fault,
): Made | Fault {
  if (Buffer.byteLength(source) > longest)
    return { message: "a rule has at most 16 KiB; a list of names is better a group or an attribute of the source" };
  const text = nfc(source);
  try {
    const parts = parse(environmentOf(vocabulary), text);
    return make({ ...parts, text, nodes: [...nodesOf(parts.ast)] });
  } catch (error) {
    if (error instanceof ParseError) return fault(error, { text });
    // The library calls itself once for each operator of a long chain.
    if (error instanceof RangeError)
      return { message: 'too many operators in one expression; split it, or use a list: entry.x in ["a", "b"]' };
    throw error;
  }
}

/** What an expression is made of. */
interface Parts extends Pick<CompileOptions, "now" | "tables"> {
  readonly source: string;
  readonly type: string;
  readonly ast: ASTNode;
  readonly run: ReturnType<typeof evaluatorOf>;
  readonly over: Subject;
}

/** A CEL expression over `entry`, compiled. */
export class Expression {
  /** As written. */
  readonly source: string;
  /** CEL's name of the result's type; `dyn` when that is not known beforehand. */
  readonly type: string;
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
  readonly #parts: Parts;
  readonly #nodes: readonly ASTNode[];
  /** Most rules are nothing but an attribute: that needs no evaluation. */
  readonly #attribute: string | undefined;
  readonly #optional: ReadonlySet<string>;
  readonly #record = new EntryRecord();
  readonly #context: Record<string, unknown>;

  constructor(parts: Parts) {
    const nodes = [...nodesOf(parts.ast)];
    const named = [...new Set(namedIn(parts.ast))];
    this.source = parts.source;
    this.type = parts.type;
    this.#parts = parts;
    this.#nodes = nodes;
    this.#attribute = namedBy(parts.ast);
    this.#optional = new Set(nodes.filter(expectsNull).flatMap(namedIn));
    this.#context = { entry: this.#record, Now: parts.now };
    this.attributes = readsAny(nodes) ? undefined : named;
    this.required = named.filter((name) => !this.#optional.has(name));
    this.tables = nodes.flatMap((node) => tableIn(node)?.file ?? []);
    this.asksTime = nodes.some((node) => node.op === "call" && node.args[0] === "now");
    this.asksGroups = [...new Set(nodes.flatMap((node) => groupsAskedBy(node) ?? []))];
  }

  /**
   * @param groups what `memberOf(entry)` and `nestedMemberOf(entry)` give; absent: that is not known
   * @param values of the other variables of its vocabulary
   * @returns CEL's value: a string, bigint, number, boolean, list or null
   * @throws {Error} whose message says why there is no value for these attributes
   */
  evaluate(attributes: Attributes, groups?: SourceGroups, values?: Readonly<Record<string, unknown>>): unknown {
    const record = this.#record;
    record.attributes = attributes;
    readTablesFrom(this.#parts.tables);
    record.groups = groups;
    if (this.#attribute !== undefined) return record.read(this.#attribute);
    if (values !== undefined) Object.assign(this.#context, values);
    if (this.#parts.over === "value") this.#context["value"] = record.read("value");
    const size = sizeOfRecord(attributes, this.attributes) + sizeOfRecord(values) + sizeOfRecord(groups);
    return this.#parts.run(this.#context, size, attributes);
  }

  /** Whether it uses a variable: not at all, for nothing but its size, or in any way. */
  uses(variable: string): "not" | "size" | "any" {
    return use(this.#nodes, variable);
  }

  /** The names that it asks a list for, `"a" in groups`, where it does nothing else with it: all others need not be there. */
  asked(variable: string): readonly string[] | undefined {
    return asked(this.#nodes, variable);
  }

  /** How many values it gives at most, where they are written out in a list; otherwise 1. */
  get written(): number {
    const { ast } = this.#parts;
    return ast.op === "list" ? ast.args.length : 1;
  }

  /** The attributes that the expression names and that are not set, for a message: `entry.sn is not set`. */
  unset(attributes: Attributes): string {
    return unset(this.#parts.ast, attributes);
  }

  /** The attributes that were read so far and never set, except those in `has` or `coalesce`. */
  neverSet(): string[] {
    const { found } = this.#record;
    return [...found.keys()].filter((name) => found.get(name) === false && !this.#optional.has(name));
  }
}

/** An expression as written, and with our own functions, which is what is evaluated. */
interface Parsed {
  readonly ast: ASTNode;
  readonly parsed: ParseResult;
  readonly origin: Origin;
}

function parse(environment: Environment, text: string): Parsed {
  const { ast } = environment.parse(text);
  const parsed = environment.parse(own(ast, text));
  return { ast, parsed, origin: { text, ast, nodeAt: counterparts(ast, parsed.ast) } };
}

/** What evaluates an expression that is known to be valid, within its budget. */
function evaluatorOf(
  parsed: ParseResult,
  origin: Origin,
  {
    vocabulary,
    place = () => "a rule",
  }: { readonly vocabulary: Vocabulary; readonly place?: (() => string) | undefined },
): (context: Readonly<Record<string, unknown>>, size: number, attributes: Attributes) => unknown {
  const variables = Object.entries(vocabulary).flatMap(([name, type]) => (grows.test(type) ? [name] : []));
  const metered = meter(parsed.ast.input, [...nodesOf(parsed.ast)], variables);
  const program = metered === undefined ? parsed : environmentOf(vocabulary).parse(metered.text);
  const { valid, error: cause } = program.check();
  if (!valid) throw new TypeError("what counts an expression's steps has changed it", { cause });
  const budget = new Budget(place);
  const nodeAt: Origin["nodeAt"] = (range) =>
    origin.nodeAt?.(
      range === undefined || metered === undefined
        ? range
        : { start: metered.back(range.start), end: metered.back(range.end) },
    );
  return (context, size, attributes) => {
    try {
      return budget.evaluate(size, () => program(context));
    } catch (error) {
      if (error instanceof RunBudgetError) throw error;
      throw new Error(explain(error, { ...origin, nodeAt }, attributes), { cause: error });
    }
  };
}

/** Types of which a value may be large. */
const grows = /^(?:string|dyn|list)/;

/** @param names absent: all */
function sizeOfRecord(values?: object, names?: readonly string[]): number {
  if (values === undefined) return 0;
  let size = 0;
  for (const name of names ?? Object.keys(values)) size += sizeOf(attributeOf(values as Attributes, name));
  return size;
}

/** Compiles the rule that gives another name for one that is taken; or says what is wrong with it. */
export function compileNaming(source: string, place?: () => string): Naming | Fault {
  const vocabulary = vocabularyOf("naming", serviceAttributes);
  return compiled(source, vocabulary, ({ nodes, parsed, origin }) => {
    const checked = parsed.check();
    if (!checked.valid) return fault(checked.error, origin, "naming");
    const wrong = nodes.map(patternFault).find((found) => found !== undefined);
    if (wrong !== undefined) return wrong;
    if (!nodes.some((node) => node.op === "id" && node.args === "n"))
      return { message: "says nothing of n, the number to tell names apart by: write something like name + string(n)" };
    if (!["string", "dyn"].includes(checked.type ?? "dyn"))
      return { message: `gives ${checked.type}, but a text is needed` };
    const run = evaluatorOf(parsed, origin, { vocabulary, place });
    const evaluate = (name: string, n: number): string => {
      const given = run({ name, n: BigInt(n) }, sizeOf(name), {});
      if (typeof given !== "string") throw new Error(`gives ${describeValue(given)}, but a text is needed`);
      const objection = objectionToName(given);
      if (objection !== undefined) throw new Error(`${quote(given)} ${objection}`);
      return nfc(given);
    };
    return { showsNumber: showsNumber(evaluate), evaluate };
  });
}

function showsNumber(evaluate: Naming["evaluate"]): boolean {
  try {
    return [2, 7309].every((n) => evaluate("x", n).includes(String(n)));
  } catch {
    return false;
  }
}

/** A regular expression, or the format of a date, stands in the rule as it is, so that it is checked before anything is read. */
function patternFault(node: ASTNode): Fault | undefined {
  if (node.op !== "call" && node.op !== "rcall") return undefined;
  const [name] = node.args;
  const isDate = name === "date";
  if (!isDate && name !== "extract" && name !== "matches") return undefined;
  const pattern = node.op === "rcall" ? node.args[2][0] : node.args[1][1];
  if (pattern === undefined) return undefined;
  const called = isDate ? 'the format of a date is written here, as a text in quotes: "%d.%m.%Y"' : undefined;
  if (pattern.op !== "value" || typeof pattern.args !== "string")
    return {
      message: called ?? "a regular expression is written here, as a text in quotes",
      offset: pattern.start,
    };
  const message = (isDate ? objectionToFormat : objectionToPattern)(pattern.args);
  return message === undefined ? undefined : { message, offset: pattern.start };
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
  return node.op === "call" && ["has", "coalesce"].includes(node.args[0]);
}

/** Whether `entry` is used in any other way than for one attribute by name. */
function readsAny(nodes: readonly ASTNode[]): boolean {
  const records = nodes.filter(({ op, args }) => op === "id" && args === "entry").length;
  return records > nodes.filter((node) => namedBy(node) !== undefined || groupsAskedBy(node) !== undefined).length;
}
