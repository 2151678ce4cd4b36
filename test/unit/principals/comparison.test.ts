import { describe, expect, test } from "vitest";
import { checkRules, compileRules } from "#principals/compile.ts";
import type { AttributeValue } from "#principals/entry.ts";

/** What the rule `include` gives for the attributes; or why there is no answer. */
function include(expression: string, attributes: Record<string, AttributeValue> = {}): boolean | string {
  const verdict = compileRules({ users: { include: expression, name: '"a"', displayName: '"a"' } }).judge({
    kind: "user",
    id: "1",
    origin: "people.csv:2",
    attributes,
    keys: [],
    memberOf: [],
    members: [],
  });
  return verdict.verdict === "quarantined"
    ? verdict.reason.replace(/^users\.include: /, "")
    : verdict.verdict === "included";
}

/** What is wrong with the rule before any record is read. */
function faults(expression: string, onlyTexts = false): string[] {
  const rules = { users: { include: expression, name: '"a"', displayName: '"a"' } };
  return checkRules(rules, undefined, onlyTexts).map(({ message }) => message);
}

/** Two values of each kind that differ. */
const kinds = {
  text: ['"a"', '"1"'],
  number: ["1", "2.5"],
  bool: ["true", "false"],
  date: ["now()", 'timestamp("2020-01-01T00:00:00Z")'],
  duration: ['duration("1s")', 'duration("1h")'],
  list: ['["a"]', '["b"]'],
  map: ['{"a": "b"}', '{"a": "c"}'],
  bytes: ['b"a"', 'b"b"'],
  type: ["string", "int"],
  null: ["null"],
} as const satisfies Record<string, readonly string[]>;
const pairs = Object.entries(kinds).flatMap(([left, values]) =>
  Object.entries(kinds).map(([right, others]) => ({ left, right, values, others })),
);

describe.each(pairs)("$left and $right", ({ left, right, values, others }) => {
  const isKnown = left === right || left === "null" || right === "null";

  test("are compared, or the record is in doubt", () => {
    for (const one of values)
      for (const other of others) {
        const same = left === right && one === other;
        const answers = {
          "==": same,
          "!=": !same,
          in: same,
        };
        for (const [operator, answer] of Object.entries(answers)) {
          const compared = operator === "in" ? `[dyn(${other})]` : `dyn(${other})`;
          const found = include(`dyn(${one}) ${operator} ${compared}`);
          if (isKnown) expect(found, `${one} ${operator} ${other}`).toBe(answer);
          else expect(found, `${one} ${operator} ${other}`).toMatch(/write `|cannot apply/);
          // Within lists and maps, and with a name for one of them.
          for (const nested of [`[dyn(${one})] == [dyn(${other})]`, `{"k": dyn(${one})} == {"k": dyn(${other})}`])
            if (isKnown) expect(include(nested), nested).toBe(same);
            else expect(include(nested), nested).toMatch(/cannot compare/);
        }
      }
  });

  test("of different kinds are an error before anything is read, where that is known", () => {
    for (const operator of ["==", "!=", "in"]) {
      const [one, other] = [values[0], operator === "in" ? `[${others[0]}]` : others[0]];
      const found = faults(`${one} ${operator} ${other}`);
      if (isKnown) expect(found, `${one} ${operator} ${other}`).toEqual([]);
      else expect(found, `${one} ${operator} ${other}`).toEqual([expect.stringMatching(/write `|cannot apply/)]);
    }
  });
});

test.each([
  "1 == 1.0",
  "1.0 == 1",
  "1u == 1",
  "uint(1) == 1.0",
  "1 in [1.0, 2.0]",
  "2 in {2: 'b'}",
  "dyn(1) in [dyn(1u)]",
  "[1, 2.0] == [1.0, 2]",
  '{1: "a"} == {1: "a"}',
  "timestamp(0) == date('1970-01-01') && timestamp('2024-01-31T01:00:00.5+01:00') > date('2024-01-31')",
  "date('2024-01-31') == timestamp('2024-01-31T00:00:00Z')",
  "entry.x == null && null == entry.x && !(entry.x != null)",
  'entry.x != "a" && !(entry.x in ["a"])',
  "entry.x in [null]",
  'entry.level == 3 && entry.level in [3] && entry.share == 0.5 && entry.site == "Bern"',
  'entry.roles == ["a", "b"] && "a" in entry.roles && !("c" in entry.roles) && entry.roles != ["a"]',
  '"a" in ["a"] + ["b"]',
  '{1: "one", 2: "two"}[entry.level - 1] == "two"',
  '{true: "yes", false: "no"}[entry.active] == "yes"',
  '(entry.active == true || entry.site == "x") == true && !(entry.level == 2) == true',
  "10 - (5 - 2) == 7 && -5 + -(2 + 3) == -10 && 2 * (3 + 4) == 14 && 8 / (4 / 2) == 4",
  'type(entry.site) == string && "b" + "c" in ["bc"]',
  "[1, 2].filter(n, n != 1) == [2] && [[1], [2]].exists(l, l == [2])",
])("%s", (expression) => {
  expect(include(expression, { level: 3, share: 0.5, site: "Bern", roles: ["a", "b"], active: true })).toBe(true);
});

test.each<[expression: string, value: AttributeValue, advice: string]>([
  ['entry.x == "staff"', ["staff", "board"], '`entry.x` has several values; write `"staff" in values(entry.x)`'],
  ['entry.x != "staff"', ["staff", "board"], '`entry.x` has several values; write `!("staff" in values(entry.x))`'],
  ['"staff" == entry.x', ["staff"], '`entry.x` is a list; write `"staff" in values(entry.x)`'],
  ["entry.x == 1", ["1", "2"], '`entry.x` has several values; write `"1" in values(entry.x)`'],
  ['entry.x in ["a"]', ["a", "b"], '`entry.x` has several values; write `values(entry.x).exists(v, v in ["a"])`'],
  ["entry.x == true", "TRUE", '`entry.x` is text; write `entry.x == "TRUE"`'],
  ["entry.x == true", "FALSE", '`entry.x` is text; write `entry.x == "TRUE"`'],
  ["entry.x != false", "false", '`entry.x` is text; write `entry.x != "false"`'],
  ["entry.x == true", "No", '`entry.x` is text; write `entry.x == "Yes"`'],
  ["entry.x != false", "1", '`entry.x` is text; write `entry.x != "0"`'],
  ["!entry.x", "FALSE", 'cannot apply ! to text; write `entry.x != "TRUE"`'],
  ["entry.x == 1", "1", '`entry.x` is text; write `entry.x == "1"`'],
  ["-1 == entry.x", "1", '`entry.x` is text; write `"-1" == entry.x`'],
  ["entry.x == size(entry.x)", "1", "`entry.x` is text; write `int(entry.x) == size(entry.x)`"],
  ['entry.x == "1"', 1, "`entry.x` is a number; write `entry.x == 1`"],
  ['entry.x == "one"', 1, '`entry.x` is a number; write `string(entry.x) == "one"`'],
  ['entry.x == "true"', true, "`entry.x` is true or false; write `entry.x == true`"],
  ["entry.x in [1, 2]", "1", '`entry.x` is text; write `entry.x in ["1", "2"]`'],
  ['entry.x in {1: "a"}', "1", '`entry.x` is text; write `int(entry.x) in {1: "a"}`'],
  ["entry.x in [true]", "TRUE", '`entry.x` is text; write `entry.x in ["TRUE"]`'],
  ['entry.x in ["1"]', 1, '`entry.x` is a number; write `string(entry.x) in ["1"]`'],
  ["1 in entry.x", ["1"], '`entry.x` has text; write `"1" in values(entry.x)`'],
  ['"a" in entry.x', "a", '`entry.x` is text; write `"a" in values(entry.x)`'],
  ["entry.x == now()", "2024-01-31", "`entry.x` is text; write `date(entry.x) == now()`"],
  ["values(entry.x).exists(v, v == 1)", ["1"], '`v` is text; write `v == "1"`'],
  [
    '[["a"] == ["a"], (entry.x) == ("a")].all(b, b)',
    ["a", "b"],
    '`entry.x` has several values; write `"a" in values(entry.x)`',
  ],
  ["values(entry.x) == [1]", ["1"], "cannot compare text with a number, which these lists or maps hold"],
  ["size(entry.x) > 1", ["a", "b"], "`entry.x` has several values; write `size(values(entry.x))` for their number"],
  ["entry.x.size() > 1", ["a", "b"], "`entry.x` has several values; write `size(values(entry.x))` for their number"],
  ['entry.x.exists(v, v == "a")', "a", "`entry.x` is text, not a list; write `values(entry.x)`"],
  ['entry.x.map(v, v) == ["a"]', "a", "`entry.x` is text, not a list; write `values(entry.x)`"],
  ["entry.x ? true : false", "TRUE", "a condition is true or false, not text"],
  ["entry.x && true", "TRUE", "&& and || need true or false, not text"],
  ['entry.x.contains("a")', ["a"], "cannot call list.contains(string)"],
  ["entry[entry.x] == null", ["a"], 'the name of an attribute is a text: entry["…"]'],
  ["int(entry.x) == 0", "", 'int() needs a whole number, not ""'],
  ["uint(entry.x) == 0", "", 'uint() needs a number, not ""'],
  ["double(entry.x) == 16.0", "0x10", 'double() needs a number, not "0x10"'],
  [
    "timestamp(entry.x) < now()",
    "12/11/2024 10:00:00 AM",
    'timestamp() needs a date like 2024-01-31T12:00:00Z, not "12/11/2024 10:00:00 AM"',
  ],
  ["string(entry.x) == 'a'", ["a"], "cannot call string(list<string>)"],
  ["entry.x[5] == 'a'", ["a"], "No such key: index out of bounds, index 5 >= size 1"],
  ['{1: "a"}[entry.x] == "a"', "1", "No such key: 1"],
  ["dyn(entry).exists(k, true)", "1", "entry is no list; name the attribute: entry.NAME"],
])("%s for %j says what to write", (expression, x, advice) => {
  expect(include(expression, { x })).toBe(advice);
});

test("what is written instead is the right answer", () => {
  expect(include('"staff" in values(entry.x)', { x: ["staff", "board"] })).toBe(true);
  expect(include('"staff" in values(entry.x)', { x: "staff" })).toBe(true);
  expect(include('"staff" in values(entry.x)')).toBe(false);
  expect(include('values(entry.x).exists(v, v in ["a"])', { x: ["a", "b"] })).toBe(true);
  expect(include('lower(entry.x) == "true"', { x: "TRUE" })).toBe(true);
});

test("a part that fails does not matter where the other part decides, as in CEL", () => {
  const x = ["a", "b"];
  expect(include('entry.x == "a" || true', { x })).toBe(true);
  expect(include('true || entry.x == "a"', { x })).toBe(true);
  expect(include('entry.x == "a" && false', { x })).toBe(false);
  for (const open of ['entry.x == "a" || false', 'entry.x == "a" && true', 'false || entry.x == "a"'])
    expect(include(open, { x })).toMatch(/has several values/);
  expect(include('entry.x in [dyn(1), dyn("a")]', { x: "a" })).toBe(true);
  expect(include('entry.x in [dyn(1), dyn("a")]', { x: "b" })).toMatch(/is text/);
  expect(include("[dyn(1), dyn('a')].exists(v, v == 'a')")).toBe(true);
  expect(include("[dyn(1), dyn('b')].exists(v, v == 'a')")).toMatch(/is a number/);
  expect(include("[dyn('b'), dyn(1)].all(v, v == 'a')")).toBe(false);
  expect(include("[dyn('a'), dyn(1)].all(v, v == 'a')")).toMatch(/is a number/);
});

test("a row of a table that is not there is null", () => {
  const rules = { users: { include: 'lookup("t.csv", entry.x) == null', name: '"a"', displayName: '"a"' } };
  expect(checkRules(rules)).toEqual([]);
  expect(faults('lookup("t.csv", entry.x).floor == 1')).toEqual([expect.stringContaining('.floor == "1"`')]);
  expect(faults('lookup("t.csv", entry.x) == "a"')).toEqual(["cannot apply == to a row of a table and text"]);
});

describe("where every attribute is a text", () => {
  test.each([
    ["entry.x == 1", '`entry.x` is text; write `entry.x == "1"`'],
    ["entry.x == true", '`entry.x` is text; write `lower(entry.x) == "true"`'],
    ["entry.x != false", '`entry.x` is text; write `lower(entry.x) != "false"`'],
    ["entry.x in [1, 2]", '`entry.x` is text; write `entry.x in ["1", "2"]`'],
    ['entry.x == ["a"]', '`["a"]` is a list; write `entry.x in ["a"]`'],
    ['"a" in entry.x', '`entry.x` is text; write `"a" in values(entry.x)`'],
    ['has(entry.y) ? entry["x y"] == 1 : false', '`entry["x y"]` is text; write `entry["x y"] == "1"`'],
    ["!entry.x", 'cannot apply ! to text; write `lower(entry.x) != "true"`'],
    ["entry.x && true", '`entry.x` is text; write `lower(entry.x) == "true"`'],
    ["entry.x ? true : false", '`entry.x` is text; write `lower(entry.x) == "true"`'],
    ["entry.x > 3", "`entry.x` is text; write `int(entry.x) > 3`"],
    ["entry.x", "gives string, but true or false is needed"],
  ])("%s is an error", (expression, message) => {
    expect(faults(expression, true)).toEqual([message]);
    // Elsewhere it may be anything.
    expect(faults(expression)).toEqual([]);
  });

  test.each([
    'entry.x == "1"',
    "entry.x == entry.y",
    "entry.x == null",
    "has(entry.x) == true",
    'entry.x > "3"',
    "int(entry.x) == 3",
    'entry.x in [entry.y, "a", null]',
    'values(entry.x) == ["a"]',
  ])("%s is none", (expression) => {
    expect(faults(expression, true)).toEqual([]);
  });
});

test.each([
  ["entry.x == [1, 2] || lower(entry.x) == 1", '`lower(entry.x)` is text; write `lower(entry.x) == "1"`'],
  ['split(entry.x, ",") == "a"', '`split(entry.x, ",")` is a list; write `"a" in split(entry.x, ",")`'],
  ['date(entry.x) == "2024-01-31"', '`date(entry.x)` is a date; write `date(entry.x) == date("2024-01-31")`'],
  ['entry.x in [1, "1"]', "cannot compare a number with text, and the list has both"],
  ['memberOf(entry) == "staff"', '`memberOf(entry)` is a list; write `"staff" in values(memberOf(entry))`'],
])("%s is wrong whatever an attribute is", (expression, message) => {
  expect(faults(expression)).toEqual([message]);
});
