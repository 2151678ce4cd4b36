import { describe, expect, test } from "vitest";
import { Budget, RunBudgetError, spend } from "#principals/budget.ts";
import { compileRules } from "#principals/compile.ts";
import { compileExpectations, isMet } from "#principals/expectations.ts";
import { compileExpression } from "#principals/expression.ts";
import type { Verdict } from "#principals/judge.ts";
import type { AttributeValue } from "#principals/entry.ts";
import type { KindRules } from "#principals/rules.ts";

const letters = Array.from("abcdefghij");
const digits = "[0,1,2,3,4,5,6,7,8,9]";
const tooMany =
  "takes more than 500,000 steps; nest map, filter, all and exists less deeply, or make shorter texts and lists";

/** Macros in one another, each over ten values. */
function nested(depth: number, macro = "map", inner = "1"): string {
  return letters.slice(0, depth).reduce((text, letter) => `${digits}.${macro}(${letter}, ${text})`, inner);
}

function times(count: number, before: string, middle: string, after: string): string {
  return before.repeat(count) + middle + after.repeat(count);
}

describe("a rule that would take hours or all memory", () => {
  test.each([
    ["macros in one another", `${nested(9)}.size() > 0`],
    ["macros that stop at the first", nested(10, "all", "true")],
    ["macros that filter", nested(10, "exists_one", "false")],
    ["a macro over texts of the record", "values(entry.many).all(x, values(entry.many).all(y, x + y != 'z'))"],
    [
      "errors, which macros go on after",
      "values(entry.many).exists(x, values(entry.many).exists(y, int(x + 'x') > 0))",
    ],
    ["what an || would hide", `${nested(9)}.size() > 0 || true`],
    ["what a && would hide", `!(${nested(9)}.size() > 0 && false)`],
    ["texts that replace doubles", `${times(40, "replace(", "entry.text", ', "a", "aa")')} == null`],
    ["texts that + doubles", `${times(0, "", "[entry.text]", "")}${".map(v, v + v)".repeat(40)}.size() == 1`],
    ["lists that + doubles", `[[1]]${".map(v, v + v)".repeat(40)}.size() == 1`],
    ["lists that share their values", `[[1]]${".map(v, [v, v])".repeat(40)} == [[1]]${".map(v, [v, v])".repeat(40)}`],
    ["cel.bind", `${bound(10)} > 0`],
    ["join and split", `entry.text${".split('').join('ab')".repeat(40)}.size() > 0`],
    ["functions for join and split", `${times(40, "join(split(", "entry.text", ', ""), "ab")')} == null`],
    ["bytes", `bytes(${times(40, "bytes(", "entry.text", ").hex()")}).size() > 0`],
    ["Base64", `bytes(${times(80, "bytes(", "entry.text", ").base64()")}).size() > 0`],
    ["a large regular expression over a long text", `entry.long.matches("(a?){500}(a+)+b$")`],
    ["dates in other zones", nested(5, "all", 'now().getHours("Europe/Berlin") < 24')],
  ])("takes too many steps: %s", (_, include) => {
    expect(verdictOf({ include }, { text: "a".repeat(100), long: "a".repeat(100_000), many: digitsTo(900) })).toEqual(
      quarantined(`users.include: ${tooMany}`),
    );
  });

  test("a duration is not read from a long text", () => {
    const include = 'duration(entry.leaves) > duration("1h")';
    expect(verdictOf({ include }, { leaves: "1".repeat(50_000) })).toEqual(
      quarantined("users.include: duration() needs a text like 36h or 1h30m"),
    );
    expect(verdictOf({ include }, { leaves: "90m" })).toMatchObject({ verdict: "included" });
  });

  test("wherever rules are", () => {
    const heavy = `${nested(9)}.size() > 0 ? "x" : "y"`;
    const names = { name: "entry.uid", displayName: "entry.uid" };
    const entry = user({ uid: "ann" });
    expect(compileRules({ users: names, join: { users: heavy } }).joinKey(entry)).toEqual({
      reason: `join.users: ${tooMany}`,
    });
    const { groupOfRule } = compileRules({ users: names, groupsFromRules: { displayName: heavy } });
    expect(groupOfRule?.("staff")).toEqual({ reason: `groupsFromRules.displayName: ${tooMany}` });
    expect(compileRules({ users: { ...names, mail: heavy } }).trace(entry)).toContainEqual(
      expect.objectContaining({ rule: "users.mail", error: tooMany }),
    );
  });

  test("an expectation", () => {
    const values = { name: "ann", members: digitsTo(1000), nestedMembers: [], groups: [], nestedGroups: [] };
    const met = (expectText: string): boolean | string => {
      const [expectation] = compileExpectations([
        { name: "e", over: "groups", expect: expectText, otherwise: "hold", most: 0 },
      ]);
      if (expectation === undefined) throw new Error("there is one");
      return isMet(expectation, {}, values);
    };
    expect(met("members.all(a, members.exists(b, a + b == 'x') || true)")).toBe(tooMany);
    expect(met(`size(${Array(31).fill("members").join(" + ")}) == 31000`)).toBe(true);
    expect(met(`[1].map(v, size(${Array(31).fill("members").join(" + ")})).size() > 0`)).toBe(true);
    expect(() => met(`size(${Array(500).fill("members").join(" + ")}) > 0`)).toThrow("more than 30 values in one sum");
    expect(met('members.exists(m, m == "999")')).toBe(true);
  });
});

describe("what is large by itself is no fault", () => {
  test.each([
    ['entry.many.exists(m, m == "199999")', true],
    ["size(values(entry.many)) == 200000", true],
    ['"199999" in entry.many', true],
    ['entry.many.filter(m, m.startsWith("1")).map(m, m + "x").size() == 111111', true],
    ['entry.long.contains("b")', false],
    ['matches(entry.long, "b$")', false],
  ])("%s", (include, expected) => {
    const verdict = verdictOf({ include }, { many: digitsTo(200_000), long: "a".repeat(500_000) });
    expect(verdict.verdict).toBe(expected ? "included" : "excluded");
  });
});

describe("what counts the steps does not show", () => {
  const evaluate = (expression: string, attributes = {}): unknown => {
    const compiled = compileExpression(expression, { now: new Date(0) });
    if (!("evaluate" in compiled)) throw new Error(compiled.message);
    return compiled.evaluate(attributes);
  };
  const list = ["b", "a"];

  test.each([
    ["entry.list.map(v, (v) + ((v)))", ["bb", "aa"]],
    ["(entry.list).map(v , v == 'a' // , )\n , ( v ) // )\n ).join(',')", "a"],
    ["entry.list // matches( , \n .exists(v, v . matches('a'))", true],
    ["entry.list.filter(v, entry.list.all(w, v <= w))", ["a"]],
    ["[1, 2].map(v, [3].map(v, v)[0] + v)", [4n, 5n]],
    ["cel.bind(x, entry.list + entry.list, x.size())", 4n],
    ["entry.text.split(',', 2)", ["1", "2,3"]],
    ["entry.text.split(',', 0)", []],
    ["entry.text.split(',', -1)", ["1", "2", "3"]],
    ["entry.text.split(',').join()", "123"],
    ["entry.text.split(',').map(v, int(v))", [1n, 2n, 3n]],
    ["b'a'.hex() + b'ab'.base64()", "61YWI="],
    ["truncate(entry.smiles, 2)", "😀😀"],
  ])("%s", (expression, expected) => {
    expect(evaluate(expression, { list, text: "1,2,3", smiles: "😀😀😀" })).toEqual(expected);
  });

  test("an error names what is written", () => {
    expect(() => evaluate("entry.list.map(v, v > 1)", { list })).toThrow("`v` is text; write `int(v) > 1`");
    expect(() => evaluate("entry.list.map(v, entry.n + v.size())", { list })).toThrow("entry.n is not set");
    expect(() => evaluate("entry.n.split(',')", { n: 1 })).toThrow("cannot call int.split(string)");
  });
});

test("a run has a budget too; failures count more, and the place is told", () => {
  const budget = new Budget(() => "rollcall.yaml:12: syncs.staff.users.name", 20_000_000);
  const one = (): unknown => budget.evaluate(0, () => spend(600_000));
  for (let count = 0; count < 4; count++) expect(one).toThrow(tooMany);
  expect(one).toThrow(RunBudgetError);
  expect(one).toThrow(/^rollcall\.yaml:12: syncs\.staff\.users\.name: takes more than 20,000,000 steps in one run; /);
});

function user(attributes: Record<string, AttributeValue>) {
  return { kind: "user", id: "1", origin: "", attributes, keys: [], memberOf: [], members: [] } as const;
}

function verdictOf(rules: Partial<KindRules>, attributes: Record<string, AttributeValue>): Verdict {
  const compiled = compileRules({ users: { name: "entry.uid", displayName: "entry.uid", ...rules } });
  return compiled.judge(user({ uid: "ann", ...attributes }));
}

function quarantined(reason: string): Verdict {
  return { verdict: "quarantined", name: "ann", reason };
}

/** Names, each for fifteen times the one before. */
function bound(depth: number): string {
  const all = letters.slice(0, depth);
  return all.reduceRight(
    (inner, letter, index) => {
      const before = Array(15).fill(all[index - 1] ?? "entry.text");
      return `cel.bind(${letter}, ${before.join(" + ")}, ${inner})`;
    },
    `${all.at(-1)}.size()`,
  );
}

function digitsTo(count: number): string[] {
  return Array.from({ length: count }, (_, index) => String(index));
}
