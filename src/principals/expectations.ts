import { InputError, messageOf } from "#errors.ts";
import { describeValue } from "#text.ts";
import type { Attributes } from "./attributes.ts";
import { RunBudgetError } from "./budget.ts";
import type { RuleProblem } from "./compile.ts";
import type { AttributeValue } from "./entry.ts";
import { compileExpression } from "./expression.ts";
import type { CompileOptions, Expression } from "./expression.ts";
import type { LookupTables } from "./lookup.ts";

/** What must be true of the users and groups that a run leaves in the target. */
export interface Expectation {
  /** Unique in its sync. */
  readonly name: string;
  /** What `expect` is evaluated for, one by one. Absent: once, for their numbers. */
  readonly over?: "users" | "groups" | undefined;
  /** A CEL expression that gives true or false. */
  readonly expect: string;
  /** What a plan that breaks it does: it is held, as by a limit; it needs approval; it says so. */
  readonly otherwise: "hold" | "approve" | "warn";
  /** So many users or groups may break it. */
  readonly most: number;
}

/** An expectation, ready for every principal. */
export interface CompiledExpectation extends Expectation {
  readonly expression: Expression;
  /** Whether it reads what the sources say, beside what the target has. */
  readonly readsSource: boolean;
}

/** Finds everything that is wrong with the expressions before anything is read. `path` begins with the place in the list. */
export function checkExpectations(
  expectations: readonly Pick<Expectation, "over" | "expect">[],
  tables?: LookupTables,
  onlyTexts?: boolean,
  declared?: Attributes,
): (RuleProblem & { readonly index: number })[] {
  return expectations.flatMap((expectation, index) => {
    const result = compileOne(expectation, { now: new Date(), tables, onlyTexts, declared });
    return "evaluate" in result ? [] : [{ index, path: ["expect"], ...result }];
  });
}

/**
 * Compiles the expectations of a sync.
 * @param now what `now()` returns
 * @param tables what `lookup` reads, see `tablesOfExpectations`
 * @param place where one is written, for the error that ends a run
 * @throws {InputError} with what `checkExpectations` finds
 */
export function compileExpectations(
  expectations: readonly Expectation[],
  now = new Date(),
  tables?: LookupTables,
  place = (index: number) => `the expectation ${expectations[index]?.name}`,
  declared?: Attributes,
): CompiledExpectation[] {
  return expectations.map((expectation, index) => {
    const expression = compileOne(expectation, { now, tables, declared, place: () => place(index) });
    if (!("evaluate" in expression))
      throw new InputError(`the expectation ${expectation.name} is not valid: ${expression.message}`);
    const readsSource = expression.uses("entry") !== "not" || expression.uses("inSource") !== "not";
    return { ...expectation, expression, readsSource };
  });
}

/** The files that expectations look values up in. */
export function tablesOfExpectations(expectations: readonly Pick<Expectation, "over" | "expect">[]): string[] {
  return expectations.flatMap((expectation) => {
    // Most have none, and need not be compiled to know it.
    const result = expectation.expect.includes("lookup") ? compileOne(expectation, { now: new Date() }) : undefined;
    return result !== undefined && "evaluate" in result ? result.tables : [];
  });
}

/** What expectations read of entries: those over users, and those over groups. */
export function readersOf(
  expectations: readonly CompiledExpectation[],
): Readonly<Record<"users" | "groups", readonly Expression[]>> {
  const over = (kind: "users" | "groups"): Expression[] =>
    expectations.flatMap(({ over, expression }) => (over === kind ? [expression] : []));
  return { users: over("users"), groups: over("groups") };
}

function compileOne({ over, expect }: Pick<Expectation, "over" | "expect">, options: CompileOptions) {
  const result = compileExpression(expect, { ...options, over: over ?? "counts" });
  if ("evaluate" in result && !["bool", "dyn"].includes(result.type))
    return { message: `gives ${result.type}, but true or false is needed` };
  return result;
}

/**
 * Whether an expectation is met.
 * @returns true or false; a text that says why it cannot be told
 * @throws {RunBudgetError}
 */
export function isMet(
  { expression }: CompiledExpectation,
  attributes: Readonly<Record<string, AttributeValue>>,
  values: Readonly<Record<string, unknown>>,
): boolean | string {
  try {
    const value = expression.evaluate(attributes, undefined, values);
    return typeof value === "boolean" ? value : `gives ${describeValue(value)}, but true or false is needed`;
  } catch (error) {
    if (error instanceof RunBudgetError) throw error;
    return messageOf(error);
  }
}
