import { describe, expect, test } from "vitest";
import { InputError } from "#errors.ts";
import { checkRules, compileRules } from "#principals/compile.ts";
import type { Verdict } from "#principals/compile.ts";
import type { AttributeValue } from "#principals/entry.ts";
import type { KindRules } from "#principals/rules.ts";

/** What becomes of a user with the attributes; `uid` and `cn` are what the name and the display name are by default. */
function judge(rules: Partial<KindRules>, attributes: Record<string, AttributeValue> = {}): Verdict {
  const compiled = compileRules({ users: { name: "entry.uid", displayName: "entry.cn", ...rules } });
  return compiled.judge({
    kind: "user",
    id: "1",
    origin: "people.csv:2",
    attributes: { uid: "ann", cn: "Ann", ...attributes },
    keys: [],
    memberOf: [],
    members: [],
  });
}

/** What the rule `mail` gives for the attributes: a text, undefined for none, or the reason why it is unknown. */
function evaluate(expression: string, attributes: Record<string, AttributeValue> = {}): string | undefined {
  const verdict = judge({ mail: expression }, attributes);
  if (verdict.verdict === "excluded") throw new Error("no include rule was given");
  return verdict.verdict === "included" ? verdict.mail : verdict.reason;
}

describe("an entry's attributes", () => {
  test("a missing one is null, and compares as null", () => {
    expect(evaluate("entry.mail")).toBeUndefined();
    expect(judge({ include: "entry.type == null" }).verdict).toBe("included");
    expect(judge({ include: 'entry.type != "contractor"' }).verdict).toBe("included");
    expect(judge({ include: 'entry.type == "contractor"' }).verdict).toBe("excluded");
  });

  test("what every JavaScript object has is no attribute", () => {
    expect(evaluate("entry.constructor")).toBeUndefined();
    expect(evaluate('entry["__proto__"]')).toBeUndefined();
    expect(evaluate("entry.size")).toBeUndefined();
  });

  test("names that are no identifiers stand in brackets", () => {
    expect(evaluate('entry["employee number"]', { "employee number": "17" })).toBe("17");
    expect(evaluate('has(entry["employee number"]) ? "yes" : "no"', { "employee number": "17" })).toBe("yes");
  });

  test("has tells what is there from what is not", () => {
    expect(evaluate('has(entry.sn) ? "yes" : "no"', { sn: "" })).toBe("yes");
    expect(evaluate('has(entry.sn) ? "yes" : "no"')).toBe("no");
    expect(
      evaluate('values(entry.tags).exists(t, has(entry.sn) && t == "has(x)") ? "yes" : "no"', {
        sn: "Lee",
        tags: ["has(x)"],
      }),
    ).toBe("yes");
  });

  test("numbers and booleans are CEL's own", () => {
    expect(judge({ include: "entry.level >= 3 && entry.active" }, { level: 3, active: true }).verdict).toBe("included");
    expect(evaluate("entry.level", { level: 3 })).toBe("3");
    expect(evaluate('"level-" + entry.level', { level: 3 })).toBe("level-3");
    expect(evaluate('lower(entry.level) + "!"', { level: 3 })).toBe("3!");
    expect(evaluate("entry.share", { share: 0.5 })).toMatch(/gives 0.5, but a text/);
  });

  test("look the same, are the same: values, names of attributes and the expression itself", () => {
    expect(evaluate('entry["n\u00e9"]', { "ne\u0301": "e\u0301" })).toBe("\u00e9");
    expect(judge({ include: 'entry.city == "Orle\u0301ans"' }, { city: "Orl\u00e9ans" }).verdict).toBe("included");
  });
});

test.each([
  ['lower("ÄB")', "äb"],
  ['upper("äb")', "ÄB"],
  ['trim("  a b ")', "a b"],
  ['replace("a.b.c", ".", "$&")', "a$&b$&c"],
  ['truncate("😀😀😀", 2)', "😀😀"],
  ['first(split("a,b", ","))', "a"],
  ['join(split("a,b", ","), "+")', "a+b"],
  ['first(["x", "y"])', "x"],
  ['first("x")', "x"],
  ['join([entry.givenName, entry.sn], " ")', "Lee"],
  ['coalesce(entry.nick, entry.sn, "nobody")', "Lee"],
  ["string(values(entry.sn).size())", "1"],
  ["string(values(entry.nick).size())", "0"],
])("%s is %s", (expression, expected) => {
  expect(evaluate(expression, { sn: "Lee" })).toBe(expected);
});

test.each(["lower", "upper", "trim", "first"])("%s takes null and gives null", (name) => {
  expect(evaluate(`${name}(entry.missing)`)).toBeUndefined();
});

test.each([
  'replace(entry.missing, "a", "b")',
  "truncate(entry.missing, 3)",
  'first(split(entry.missing, ","))',
  'join(entry.missing, ",")',
])("%s is null", (expression) => {
  expect(evaluate(expression)).toBeUndefined();
});

describe("a rule that fails quarantines the entry", () => {
  test("and says which attribute is not there", () => {
    expect(judge({ displayName: 'entry.givenName + " " + entry.sn' }, { sn: "Lee" })).toEqual({
      verdict: "quarantined",
      name: "ann",
      reason: "users.displayName: null + string is not possible; entry.givenName is not set",
    });
    expect(evaluate('entry.title.contains("x") ? "a" : "b"')).toMatch(/null\.contains.*; entry\.title is not set/);
  });

  test("a name that is null is unknown, not empty", () => {
    expect(judge({ name: "entry.login" })).toEqual({
      verdict: "quarantined",
      reason: "users.name: gives null, but a text is needed; entry.login is not set",
    });
  });

  test("every rule that fails is told", () => {
    const verdict = judge({ include: "1 / 0 == 1", displayName: "entry.nick" });
    expect(verdict).toMatchObject({ verdict: "quarantined", name: "ann" });
    expect(verdict).toHaveProperty(
      "reason",
      expect.stringMatching(/users\.include: division by zero; users\.displayName: gives null/),
    );
  });

  test("several values are not one", () => {
    expect(judge({ name: "entry.uid" }, { uid: ["a"] })).toMatchObject({ verdict: "quarantined" });
    expect(evaluate("lower(entry.mail)", { mail: ["a", "b"] })).toMatch(/not several values; use first/);
  });

  test("an include rule that gives no boolean excludes nobody", () => {
    expect(judge({ include: "entry.active" })).toMatchObject({ verdict: "quarantined", name: "ann" });
    expect(judge({ include: "entry.active" }, { active: "false" })).toMatchObject({ verdict: "quarantined" });
  });
});

describe("B.5 what the service would refuse the whole list for is quarantined here", () => {
  test.each([
    ["an empty name", "", "is empty"],
    ["256 characters", "é".repeat(256), "longer than 255"],
    ["a control character", "a\tb", "control characters"],
    ["a C1 control character", "a\u0085b", "control characters"],
    ["half a character", "a\ud800", "not valid Unicode"],
  ])("%s", (_, text, reason) => {
    for (const rule of ["name", "displayName"] as const) {
      expect(judge({ [rule]: "entry.text" }, { text })).toMatchObject({
        verdict: "quarantined",
        reason: expect.stringContaining(reason),
      });
    }
  });

  test("255 characters are allowed, counted as code points after normalisation", () => {
    for (const text of ["😀".repeat(255), "e\u0301".repeat(255)]) {
      expect(judge({ name: "entry.text" }, { text })).toMatchObject({
        verdict: "included",
        name: text.normalize("NFC"),
      });
    }
  });

  test("nothing is trimmed", () => {
    expect(judge({}, { uid: " ann " })).toMatchObject({ name: " ann " });
  });
});

test("B.6 an empty description or mail is none", () => {
  const verdict = judge({ description: "entry.note", mail: '""' }, { note: "" });
  expect(verdict).toEqual({ verdict: "included", name: "ann", displayName: "Ann", groups: [] });
});

test("the rule groups gives a text, a list or null; nulls and empty texts are no groups", () => {
  const groups = (expression: string, attributes: Record<string, AttributeValue> = {}): unknown =>
    judge({ groups: expression }, attributes);
  expect(groups('"staff"')).toMatchObject({ groups: ["staff"] });
  expect(groups('["staff", entry.team, ""]')).toMatchObject({ groups: ["staff"] });
  expect(groups('entry.city == "Bern" ? ["bern"] : []')).toMatchObject({ groups: [] });
  expect(groups('values(entry.team).map(t, "team-" + t)', { team: "red" })).toMatchObject({ groups: ["team-red"] });
  expect(groups("entry.team")).toMatchObject({ groups: [] });
  expect(groups("entry.team", { team: ["red", "a\u0000"] })).toMatchObject({ verdict: "quarantined" });
});

test("without rules for groups, groups are excluded", () => {
  const rules = compileRules({ users: { name: "entry.uid", displayName: "entry.uid" } });
  expect(rules.makesGroups).toBe(false);
  expect(
    rules.judge({ kind: "group", id: "g", origin: "g", attributes: {}, keys: [], memberOf: [], members: [] }),
  ).toEqual({ verdict: "excluded" });
});

describe("checkRules", () => {
  const problemsOf = (rule: keyof KindRules, expression: string): unknown =>
    checkRules({ users: { name: "entry.uid", displayName: "entry.cn", [rule]: expression } });

  test.each([
    ["name", "entry.uid +", "unexpected end of the expression", 11],
    ["name", "lower(entry.uid", "a ) is expected here", 15],
    ["name", "lower(uid)", "Unknown variable: uid; an attribute is read as entry.NAME", 6],
    ["mail", "  nope(entry.x)", "there is no function nope(dyn)", 2],
    ["mail", 'has(entry.x) ? "a" : nope()', "there is no function nope()", 21],
    ["include", 'entry.a = "b"', "unexpected character =; to compare write ==", 8],
    ["include", 'entry.a == "b" and true', expect.stringContaining("and is written &&"), 15],
    ["groups", 'entry.a == "b" ? "c" : null', expect.stringContaining("write dyn(null)"), 0],
    ["displayName", '"a" + true', "string + bool is not possible", 0],
  ] as const)("%s: %s", (rule, expression, message, offset) => {
    expect(problemsOf(rule, expression)).toEqual([{ path: ["users", rule], message, offset }]);
  });

  test.each([
    ["include", '"x"', "gives string, but true or false is needed"],
    ["name", "true", "gives bool, but a text is needed"],
    ["name", '["a"]', "gives list<string>, but a text is needed"],
    ["mail", "entry", "gives Entry, but a text or null is needed"],
    ["groups", "[true]", "gives list<bool>, but a text, a list of texts or null is needed"],
  ] as const)("types are checked where they are known, %s: %s", (rule, expression, message) => {
    expect(problemsOf(rule, expression)).toEqual([{ path: ["users", rule], message }]);
  });

  test("finds every problem, and a group's mail is one", () => {
    const problems = checkRules({
      users: { name: "(", displayName: ")" },
      groups: { name: '"g"', displayName: '"g"', mail: '"m"' },
    });
    expect(problems.map(({ path }) => path.join("."))).toEqual(["users.name", "users.displayName", "groups.mail"]);
  });

  test("compileRules throws what it finds", () => {
    expect(() => compileRules({ users: { name: "uid", displayName: "entry.cn" } })).toThrow(InputError);
  });
});

test("attributes that no entry has are known, but for those that a rule asks `has` of", () => {
  const rules = compileRules({
    users: {
      include: 'entry.staus != "left"',
      name: "entry.login",
      displayName: "has(entry.nick) ? entry.nick : entry.login",
      mail: "entry.mail",
    },
  });
  const judge = (attributes: Record<string, string>) =>
    rules.judge({ kind: "user", id: "1", origin: "people.csv:2", attributes, keys: [], memberOf: [], members: [] });
  judge({ login: "ada" });
  expect(rules.neverSet()).toEqual(["users.include: entry.staus", "users.mail: entry.mail"]);
  judge({ login: "grace", mail: "grace@example.com" });
  expect(rules.neverSet()).toEqual(["users.include: entry.staus"]);
});
