import fc from "fast-check";
import { expect, test } from "vitest";
import { compileExpression } from "#principals/expression.ts";
import type { AttributeValue } from "#principals/entry.ts";
import { cases } from "../../support/random.ts";

const now = new Date();

function evaluate(source: string, attributes: Record<string, AttributeValue>): unknown {
  const compiled = compileExpression(source, { now });
  if (!("evaluate" in compiled)) throw new Error(compiled.message);
  try {
    return compiled.evaluate(attributes);
  } catch {
    return "fails";
  }
}

/** Few values, so that some are the same, or look the same as a value of another kind. */
const word = fc.constantFrom("1", "true", "a", "b", "0.5", "TRUE");
const value: fc.Arbitrary<AttributeValue | undefined> = fc.oneof(
  word,
  fc.constantFrom(0, 1, 0.5),
  fc.boolean(),
  fc.array(word, { minLength: 1, maxLength: 3 }),
  fc.constant(undefined),
);

const kindOf = (each: AttributeValue | undefined): string => (Array.isArray(each) ? "list" : typeof each);

function expected(one: AttributeValue | undefined, other: AttributeValue | undefined): boolean | "fails" {
  if (one === undefined || other === undefined) return one === other;
  if (kindOf(one) !== kindOf(other)) return "fails";
  return JSON.stringify(one) === JSON.stringify(other);
}

function attributesOf(values: Record<string, AttributeValue | undefined>): Record<string, AttributeValue> {
  return Object.fromEntries(Object.entries(values).flatMap(([key, each]) => (each === undefined ? [] : [[key, each]])));
}

test("values are compared rightly, or not at all", () => {
  fc.assert(
    fc.property(value, value, value, (a, b, c) => {
      const attributes = attributesOf({ a, b, c });
      const same = expected(a, b);
      expect(evaluate("entry.a == entry.b", attributes)).toBe(same);
      expect(evaluate("entry.b == entry.a", attributes)).toBe(same);
      expect(evaluate("entry.a != entry.b", attributes)).toBe(same === "fails" ? "fails" : !same);
      const answers = new Set([same, expected(a, c)]);
      const isIn = answers.has(true) || (answers.has("fails") ? "fails" : false);
      expect(evaluate("entry.a in [entry.b, entry.c]", attributes)).toBe(isIn);
      expect(evaluate("[entry.b, entry.c].exists(v, v == entry.a)", attributes)).toBe(isIn);
      const pair = [expected(a, b), expected(b, c)];
      const areSame = pair.includes("fails") ? "fails" : pair.every((each) => each === true);
      expect(evaluate("[entry.a, entry.b] == [entry.b, entry.c]", attributes)).toBe(areSame);
    }),
    { numRuns: cases(300) },
  );
});

/** An expression, and what it gives. */
interface Tree {
  readonly text: string;
  readonly value: number;
}

const calculate: Readonly<Record<string, (left: number, right: number) => number>> = {
  "+": (left, right) => left + right,
  "-": (left, right) => left - right,
  "*": (left, right) => left * right,
};
const compare: Readonly<Record<string, (left: number, right: number) => boolean>> = {
  "<": (left, right) => left < right,
  ">=": (left, right) => left >= right,
  "==": (left, right) => left === right,
  "!=": (left, right) => left !== right,
};

test("an expression means the same as before, whatever stands in parentheses", () => {
  const number = fc.integer({ min: 0, max: 9 }).map((value): Tree => ({ text: String(value), value }));
  const { tree } = fc.letrec<{ tree: Tree }>((tie) => ({
    tree: fc.oneof(
      { maxDepth: 4 },
      number,
      fc.tuple(tie("tree"), fc.constantFrom(...Object.keys(calculate)), tie("tree")).map(([left, operator, right]) => ({
        text: `(${left.text}) ${operator} (${right.text})`,
        value: calculate[operator]?.(left.value, right.value) ?? 0,
      })),
      tie("tree").map((each) => ({ text: `-(${each.text})`, value: -each.value })),
      fc.tuple(tie("tree"), fc.constantFrom(...Object.keys(compare)), tie("tree")).map(([left, operator, right]) => ({
        text: `((${left.text}) ${operator} (${right.text}) ? 1 : (${right.text}))`,
        value: compare[operator]?.(left.value, right.value) === true ? 1 : right.value,
      })),
    ),
  }));
  fc.assert(
    fc.property(tree, ({ text, value }) => {
      expect(evaluate(text, {})).toBe(BigInt(value));
    }),
    { numRuns: cases(300) },
  );
});
