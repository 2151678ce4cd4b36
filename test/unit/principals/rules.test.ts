import { describe, expect, test } from "vitest";
import { InputError } from "#errors.ts";
import { checkRules, compileRules } from "#principals/compile.ts";
import type { Verdict } from "#principals/judge.ts";
import type { AttributeValue } from "#principals/entry.ts";
import type { Absence, KindRules } from "#principals/rules.ts";

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
function evaluate(expression: string, attributes: Record<string, AttributeValue> = {}): unknown {
  const verdict = judge({ mail: expression }, attributes);
  if (verdict.verdict === "excluded") throw new Error("no include rule was given");
  return verdict.verdict === "included" ? verdict.attributes["mail"] : verdict.reason;
}

describe("an entry's attributes", () => {
  test("a missing one is null, and compares as null", () => {
    expect(evaluate("entry.mail")).toBeUndefined();
    expect(judge({ include: "entry.type == null" }).verdict).toBe("included");
    expect(judge({ include: 'entry.type != "contractor"' }).verdict).toBe("included");
    expect(judge({ include: 'entry.type == "contractor"' }).verdict).toBe("excluded");
  });

  test("what cannot be read is quarantined by the rules that read it, and by no other", () => {
    const active: AttributeValue = { unreadable: 'is "maybe", which is neither true nor false' };
    for (const include of [
      "entry.active",
      "!entry.active",
      "entry.active == true",
      "entry.active != false",
      "has(entry.active)",
      "coalesce(entry.active, true)",
      'lower(entry.active) == "true"',
    ])
      expect(judge({ include }, { active })).toMatchObject({
        verdict: "quarantined",
        name: "ann",
        reason: expect.stringContaining('users.include: entry.active is "maybe", which is neither true nor false'),
      });
    expect(evaluate("entry.active", { active })).toContain('users.mail: entry.active is "maybe"');
    expect(judge({ include: 'entry.uid == "ann"' }, { active }).verdict).toBe("included");
    expect(judge({ include: 'entry.uid == "bob" && entry.active' }, { active }).verdict).toBe("excluded");
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

  test("a flag that is not set is not true", () => {
    expect(judge({ include: "!entry.locked" }).verdict).toBe("included");
    expect(judge({ include: "!entry.locked" }, { locked: false }).verdict).toBe("included");
    expect(judge({ include: "!entry.locked" }, { locked: true }).verdict).toBe("excluded");
    expect(judge({ include: "!entry.locked" }, { locked: "true" })).toMatchObject({
      verdict: "quarantined",
      reason: 'users.include: cannot apply ! to text; write `entry.locked != "true"`',
    });
    // It is read, all the same: a source where nobody has it is told of.
    expect(
      compileRules({ users: { include: "!entry.locked", name: '"a"', displayName: '"a"' } }).required().users,
    ).toEqual(["locked"]);
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

test("what comes after the first value of coalesce, and a branch that is not taken, is not evaluated", () => {
  expect(evaluate("coalesce(entry.mail, lower(entry.mails))", { mail: "a@b", mails: ["c", "d"] })).toBe("a@b");
  expect(evaluate("coalesce(entry.mail, lower(entry.mails))", { mails: ["c", "d"] })).toMatch(/lower\(\) needs a text/);
  expect(evaluate("has(entry.mail) ? entry.mail : lower(entry.mails)", { mail: "a@b", mails: ["c"] })).toBe("a@b");
  expect(evaluate('coalesce(entry.a, entry.b, entry.c, entry.d, entry.e, "f")')).toBe("f");
  expect(evaluate("coalesce(entry.a, entry.b)")).toBeUndefined();
});

const dn = String.raw`cn=Lovelace\, Ada+uid=ada, OU=R\C3\A9seau ,ou=people,dc=example`;

test.each([
  ['ascii("Zoë Łódź ß")', "Zoe Lodz ss"],
  ['ascii("Юлия 日本")', "Yuliya RiBen"],
  ['extract("ada@example.com", "@(.*)$")', "example.com"],
  ['extract("room 17b", "[0-9]+")', "17"],
  ['extract("none", "[0-9]+")', undefined],
  ['matches(entry.nick, "a") ? "yes" : "no"', "no"],
  ['matches("ada@example.com", "(?i)@EXAMPLE\\\\.com$") ? "yes" : "no"', "yes"],
  ['("a" + "b") . matches("^ab$") && "matches".matches("c") ? "yes" : "no"', "yes"],
  ["rdn(entry.dn)", "Lovelace, Ada"],
  ['dnValue(entry.dn, "UID")', "ada"],
  ['dnValue(entry.dn, "ou")', "Réseau"],
  ['join(dnValues(entry.dn, "ou"), "/")', "Réseau/people"],
  ['dnValue(entry.dn, "l")', undefined],
  ["dnParent(dnParent(entry.dn))", "ou=people,dc=example"],
  ['dnParent("dc=example")', undefined],
  [String.raw`rdn("cn=\"a, \\\"b\\\"\"; o=x")`, 'a, "b"'],
  ["rdn(r'cn=\\ a b\\20 ,o=x')", " a b "],
  ["rdn('cn=')", undefined],
])("%s is %s", (expression, expected) => {
  expect(evaluate(expression, { dn })).toBe(expected);
});

describe("dates", () => {
  const now = new Date("2024-06-15T12:00:00Z");
  const isTrue = (expression: string, attributes: Record<string, AttributeValue> = {}): boolean => {
    const rules = { users: { include: expression, name: '"a"', displayName: '"a"' } };
    const verdict = compileRules(rules, now).judge({
      kind: "user",
      id: "1",
      origin: "people.csv:2",
      attributes,
      keys: [],
      memberOf: [],
      members: [],
    });
    if (verdict.verdict === "quarantined") throw new Error(verdict.reason);
    return verdict.verdict === "included";
  };

  test.each([
    ["2024-01-31", "2024-01-31T00:00:00Z"],
    ["2024-01-31 13:00", "2024-01-31T13:00:00.000Z"],
    ["2024-01-31T13:00:00.25+01:00", "20240131120000.25Z"],
    ["20240131", "2024-01-31"],
    ["2024013112Z", "2024-01-31T12:00:00Z"],
    ["202401311200.5+0200", "2024-01-31T10:00:30Z"],
    ["133511724000000000", "2024-01-31T11:00:00Z"],
    ["20231231235960Z", "2024-01-01T00:00:00Z"],
  ])("%s is %s", (one, other) => {
    expect(isTrue("date(entry.one) == date(entry.other)", { one, other })).toBe(true);
  });

  test("now is the moment that the rules were compiled for; what is missing is neither before nor after", () => {
    expect(isTrue('now() == date("2024-06-15T12:00:00Z")')).toBe(true);
    expect(isTrue("isBefore(entry.leaves, now())", { leaves: "2024-06-15" })).toBe(true);
    expect(isTrue("isAfter(entry.leaves, now())", { leaves: "2024-06-16" })).toBe(true);
    expect(isTrue('isBefore(entry.leaves, now() - duration("24h"))', { leaves: "2024-06-15" })).toBe(false);
    expect(isTrue("isBefore(entry.leaves, now()) || isAfter(entry.leaves, now())")).toBe(false);
    expect(isTrue("isBefore(entry.leaves, now()) || isAfter(entry.leaves, now())", { leaves: "" })).toBe(false);
  });

  test("an account that never expires does so after now; a 0 could also be a login that never was", () => {
    for (const leaves of ["0", "9223372036854775807", ""]) {
      expect(isTrue("date(entry.leaves) == null", { leaves })).toBe(true);
      expect(isTrue("isBefore(entry.leaves, now())", { leaves })).toBe(false);
      expect(isTrue("date(entry.leaves) == null || isAfter(entry.leaves, now())", { leaves })).toBe(true);
      expect(isTrue("isAfter(entry.leaves, now()) && date(entry.leaves) != null", { leaves })).toBe(false);
    }
    expect(isTrue("isAfter(entry.leaves, now())", { leaves: "9223372036854775807" })).toBe(true);
    expect(isTrue("isBefore(now(), entry.leaves)", { leaves: "9223372036854775807" })).toBe(true);
    for (const rule of ["isAfter(entry.leaves, now())", "isBefore(now(), entry.leaves)"])
      expect(() => isTrue(rule, { leaves: "0" })).toThrow(
        /cannot tell whether "0" is .* write `date\(x\) == null \|\| …`/,
      );
  });

  test.each([
    "31.12.2024",
    "2024-02-30",
    "20241301",
    "2024-01-31T25:00",
    "2024-01-31T12:00:00+99:00",
    "1706659200000000",
    "20240131120000123",
    "soon",
  ])("%s is none", (leaves) => {
    expect(() => isTrue("isBefore(entry.leaves, now())", { leaves })).toThrow(/needs a date like .*, not "/);
  });

  test.each([
    ["%d.%m.%Y", "31.01.2024", "2024-01-31"],
    ["%d.%m.%Y", " 1.2.2024 ", "2024-02-01"],
    ["%d/%m/%Y", "11/12/2024", "2024-12-11"],
    ["%m/%d/%Y", "11/12/2024", "2024-11-12"],
    ["%d.%m.%y", "31.12.68", "2068-12-31"],
    ["%d.%m.%y", "31.12.69", "1969-12-31"],
    ["%Y%m%d", "20240131", "2024-01-31"],
    ["%d%b%Y %I%p", "1Jan2024 3PM", "2024-01-01T15:00:00Z"],
    ["%e %B %Y", "31 January 2024", "2024-01-31"],
    ["%a, %d %b %Y", "Wed, 31 Jan 2024", "2024-01-31"],
    ["%m/%d/%Y %I:%M %p", "1/31/2024 12:05 AM", "2024-01-31 00:05"],
    ["%m/%d/%Y %I:%M %p", "1/31/2024 3:05 pm", "2024-01-31 15:05"],
    ["%d.%m.%Y %H:%M:%S", "31.01.2024 15:04:05", "2024-01-31T15:04:05Z"],
    ["%FT%T.%f%z", "2024-01-31T15:04:05.25+0100", "2024-01-31T14:04:05.25Z"],
    ["%d%% %m (%Y)", "31% 01 (2024)", "2024-01-31"],
  ])("in the format %s, %s is %s", (format, one, other) => {
    expect(isTrue(`date(entry.one, "${format}") == date(entry.other)`, { one, other })).toBe(true);
  });

  test.each([
    ["%d.%m.%Y", "12/31/2024", 'date() needs a date like 31.01.2024 (%d.%m.%Y), not "12/31/2024"'],
    ["%d%m%Y", "1112024", expect.stringContaining('not "1112024"')],
    ["%Y%m%d", "2024111", expect.stringContaining('not "2024111"')],
    ["%d.%m.%Y %H:%M %z", "31.12.2024 10:00 +24:00", expect.stringContaining('+24:00"')],
    ["%d.%m.%Y", "31.02.2024", expect.stringContaining('not "31.02.2024"')],
    ["%d.%m.%Y", "31.12.24", expect.stringContaining('not "31.12.24"')],
    ["%d.%m.%Y", "31.12.2024 10:00", expect.stringContaining('not "31.12.2024 10:00"')],
    ["%d.%m.%Y", "2024-12-31", expect.stringContaining('not "2024-12-31"')],
    ["%m/%d/%Y", "31/12/2024", expect.stringContaining('not "31/12/2024"')],
    ["%d %b %Y", "31 Dez 2024", 'date() needs a date like 31 Jan 2024 (%d %b %Y), not "31 Dez 2024"'],
    ["%d.%m.%Y %I %p", "31.12.2024 13 PM", expect.stringContaining("needs a date like 31.01.2024 03 PM")],
  ])("in the format %s, %s is none", (format, one, message) => {
    let found = "";
    try {
      isTrue(`date(entry.one, "${format}") == null`, { one });
    } catch (error) {
      found = (error as Error).message.replace(/^users\.include: /, "");
    }
    expect(found).toEqual(message);
  });

  test("seconds and milliseconds since 1970 and Excel's days are no date, but a function reads them, which the message names", () => {
    expect(() => isTrue("isAfter(entry.x, now())", { x: "1718452800" })).toThrow("write `timestamp(int(x))` if");
    expect(() => isTrue("isAfter(entry.x, now())", { x: "1718452800000" })).toThrow("write `timestamp(int(x) / 1000)`");
    expect(() => isTrue("isAfter(entry.x, now())", { x: "45322" })).toThrow("`timestamp((int(x) - 25569) * 86400)` if");
    expect(isTrue("timestamp((int(entry.x) - 25569) * 86400) == date('2024-01-31')", { x: "45322" })).toBe(true);
    expect(isTrue("timestamp(int(entry.x)) == now()", { x: "1718452800" })).toBe(true);
    expect(isTrue("timestamp(int(entry.x) / 1000) == now()", { x: "1718452800000" })).toBe(true);
  });

  test("what is missing is null in any format; a date is one already", () => {
    expect(isTrue('date(entry.one, "%d.%m.%Y") == null')).toBe(true);
    expect(isTrue('date(entry.one, "%d.%m.%Y") == null', { one: " " })).toBe(true);
    expect(isTrue('date(date(entry.one), "%d.%m.%Y") == date(entry.one)', { one: "2024-01-31" })).toBe(true);
    expect(isTrue('isAfter(date(entry.one, "%d.%m.%Y"), now())', { one: "16.06.2024" })).toBe(true);
  });

  test.each([
    ["31.12.2020", 'write `date(x, "%d.%m.%Y")`'],
    ["31/12/2020", 'write `date(x, "%d/%m/%Y")`'],
    ["12/31/2020", 'write `date(x, "%m/%d/%Y")`'],
    ["11/12/2020", 'write `date(x, "%d/%m/%Y")` or `date(x, "%m/%d/%Y")`'],
    ["2020/12/31", 'write `date(x, "%Y/%m/%d")`'],
    ["31.12.20", 'write `date(x, "%d.%m.%y")`'],
    ["soon", 'write its format as in `date(x, "%d.%m.%Y")`'],
  ])("how %s is read is said", (leaves, advice) => {
    expect(() => isTrue("isAfter(entry.leaves, now())", { leaves })).toThrow(`not "${leaves}"; ${advice}`);
    expect(() => isTrue("date(entry.leaves) == null", { leaves })).toThrow(advice);
  });

  test.each([
    ["%d.%q.%Y", /has %q; use %Y/],
    ["%d.%m", /has no year \(%Y\)/],
    ["%Y", /has no month \(%m\) and no day \(%d\)/],
    ["%d.%d.%m.%Y", /the same part twice/],
    ["%d.%m.%Y %", /a % without a letter/],
    ["%d.%m.%Y %H %p", /has no hour to its %p/],
    ["%d.%m.%Y %I", /has no %p to its hour/],
    ["dd.mm.yyyy", /has no year/],
  ])("%s is no format", (format, message) => {
    const rules = { users: { include: `date(entry.x, "${format}") == null`, name: '"a"', displayName: '"a"' } };
    expect(checkRules(rules)).toEqual([
      { path: ["users", "include"], message: expect.stringMatching(message), offset: 14 },
    ]);
  });

  test("a format stands in the rule", () => {
    const rules = { users: { include: "date(entry.x, entry.y) == null", name: '"a"', displayName: '"a"' } };
    expect(checkRules(rules)[0]?.message).toBe('the format of a date is written here, as a text in quotes: "%d.%m.%Y"');
  });

  test("the last day of work is over when it is, in UTC", () => {
    const works = (leaves: string): boolean =>
      isTrue('!isBefore(date(entry.leaves, "%d.%m.%Y"), now() - duration("24h"))', { leaves });
    // It is noon of 15 June.
    expect(works("16.06.2024")).toBe(true);
    expect(works("15.06.2024")).toBe(true);
    expect(works("14.06.2024")).toBe(false);
    expect(isTrue('!isBefore(entry.leaves, now() - duration("24h"))')).toBe(true);
  });

  test("whether rules ask for the time is known", () => {
    const asks = (include: string) => compileRules({ users: { include, name: '"a"', displayName: '"a"' } }).asksTime;
    expect(asks("isBefore(entry.leaves, now())")).toBe(true);
    expect(asks("isBefore(entry.leaves, entry.now)")).toBe(false);
  });
});

test("a regular expression takes no longer than its text is long, whatever it is", () => {
  const text = `${"a".repeat(50_000)}b`;
  expect(evaluate('matches(entry.text, "(a+)+$") ? "yes" : "no"', { text })).toBe("no");
  expect(evaluate('entry.text.matches("(a|a)*c") ? "yes" : "no"', { text })).toBe("no");
});

describe("include and exclude", () => {
  test("exclude leaves out of what include takes", () => {
    const rules = { include: 'entry.type == "person"', exclude: "entry.test" };
    expect(judge(rules, { type: "person", test: false }).verdict).toBe("included");
    expect(judge(rules, { type: "person", test: true }).verdict).toBe("excluded");
    expect(judge(rules, { type: "robot" }).verdict).toBe("excluded");
    expect(judge(rules, { type: "person" })).toMatchObject({
      verdict: "quarantined",
      reason: "users.exclude: gives null, but true or false is needed; entry.test is not set",
    });
  });
});

describe("an attribute that is missing", () => {
  const mail = (absent: Absence, attributes: Record<string, AttributeValue> = {}) =>
    judge({ mail: { value: "entry.mail", absent } }, attributes);

  test("is kept, cleared or has a default; an empty one is a value, and clears", () => {
    expect(mail("keep")).toEqual({
      verdict: "included",
      name: "ann",
      attributes: { displayName: "Ann" },
      groups: [],
      kept: ["mail"],
    });
    expect(mail("clear")).toEqual({ verdict: "included", name: "ann", attributes: { displayName: "Ann" }, groups: [] });
    expect(mail({ default: "none@example.com" })).toMatchObject({ attributes: { mail: "none@example.com" } });
    for (const absent of ["keep", "clear", { default: "none@example.com" }] as const) {
      expect(mail(absent, { mail: "" })).toEqual({
        verdict: "included",
        name: "ann",
        attributes: { displayName: "Ann" },
        groups: [],
      });
      expect(mail(absent, { mail: "ann@example.com" })).toMatchObject({ attributes: { mail: "ann@example.com" } });
    }
  });

  test("which is not the same as a rule that fails", () => {
    expect(judge({ mail: { value: "entry.uid - 1", absent: "keep" } }).verdict).toBe("quarantined");
  });

  test("without an expression it is always missing", () => {
    expect(judge({ mail: { absent: "keep" } })).toMatchObject({ kept: ["mail"] });
  });

  test("a display name that is kept is the name of who is created", () => {
    expect(judge({ displayName: { value: "entry.nick", absent: "keep" } })).toMatchObject({
      attributes: { displayName: "ann" },
      kept: ["displayName"],
    });
    expect(judge({ displayName: { value: "entry.nick", absent: { default: "Nobody" } } })).toMatchObject({
      attributes: { displayName: "Nobody" },
    });
    expect(judge({ displayName: { value: '""', absent: "keep" } }).verdict).toBe("quarantined");
  });
});

test("rename gives groups other names, also where a rule puts somebody into one", () => {
  const rules = compileRules({
    users: { name: "entry.uid", displayName: "entry.uid", groups: "values(entry.teams)" },
    groups: {
      name: "entry.cn",
      displayName: "entry.cn",
      rename: { "Domain Users": "staff", "caf\u0065\u0301": "lounge" },
    },
  });
  const entry = { id: "1", origin: "o", keys: [], memberOf: [], members: [] };
  expect(rules.judge({ ...entry, kind: "group", attributes: { cn: "Domain Users" } })).toMatchObject({
    name: "staff",
    attributes: { displayName: "Domain Users" },
  });
  expect(rules.judge({ ...entry, kind: "group", attributes: { cn: "caf\u00e9" } })).toMatchObject({ name: "lounge" });
  expect(
    rules.judge({ ...entry, kind: "user", attributes: { uid: "Domain Users", teams: ["Domain Users", "ops"] } }),
  ).toMatchObject({ name: "Domain Users", groups: ["staff", "ops"] });
});

test("the attributes that rules read are known by kind, unless one may read any", () => {
  const attributes = (include: string) =>
    compileRules({
      users: { include, name: "entry.uid", displayName: 'coalesce(entry["common name"], entry.uid)' },
      groups: { name: "entry.cn", displayName: { value: "entry.cn", absent: "keep" } },
    }).attributes();
  expect(attributes("has(entry.mail)")).toEqual({ users: ["mail", "uid", "common name"], groups: ["cn"] });
  expect(attributes('entry[entry.x + ""] == "a"')).toBeUndefined();
  expect(attributes("[entry].size() == 1")).toBeUndefined();
});

test.each(["lower", "upper", "trim", "first", "ascii", "rdn", "dnParent", "date"])(
  "%s takes null and gives null",
  (name) => {
    expect(evaluate(`${name}(entry.missing)`)).toBeUndefined();
  },
);

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
      reason: "users.displayName: cannot apply + to null and text; entry.givenName is not set",
    });
    expect(judge({ include: "entry.Personalnummer > 10010" }, { Personalnummer: "4711" })).toMatchObject({
      reason: "users.include: `entry.Personalnummer` is text; write `int(entry.Personalnummer) > 10010`",
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

test.each([
  ["M\u{FFFD}ller", "has U+FFFD where a conversion of character sets has lost a character"],
  [" \u00a0", "white space"],
])("a name or display name that nobody can read is quarantined: %j", (text, reason) => {
  for (const rule of ["name", "displayName"] as const)
    expect(judge({ [rule]: "entry.text" }, { text })).toMatchObject({
      verdict: "quarantined",
      reason: expect.stringContaining(reason),
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

  test("nothing is trimmed: a name with white space at its ends is in doubt", () => {
    expect(judge({}, { uid: " ann " })).toMatchObject({ verdict: "quarantined", name: undefined });
  });
});

test("B.6 an empty description or mail is none", () => {
  const verdict = judge({ description: "entry.note", mail: '""' }, { note: "" });
  expect(verdict).toEqual({ verdict: "included", name: "ann", attributes: { displayName: "Ann" }, groups: [] });
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
    ["mail", "  nope(entry.x)", "unknown function `nope`", 2],
    ["mail", 'has(entry.x) ? "a" : nope()', "unknown function `nope`", 21],
    ["include", 'entry.a = "b"', "unexpected character =; to compare write ==", 8],
    ["include", 'entry.a == "b" and true', expect.stringContaining("and is written &&"), 15],
    ["groups", 'entry.a == "b" ? "c" : null', expect.stringContaining("write dyn(null)"), 0],
    ["mail", 'extract(entry.x, "a(b")', expect.stringContaining("missing closing ): `a(b`"), 17],
    ["include", "entry.x.matches(entry.y)", "a regular expression is written here, as a text in quotes", 16],
    ["include", "now() > 1", "cannot apply > to a date and a whole number", 0],
    ["include", "lowr(entry.x) == 'a'", "unknown function `lowr`; did you mean `lower`?", 0],
    ["name", '"a" + entry.E-Mail', 'for the attribute E-Mail write `entry["E-Mail"]`', 14],
    ["name", "lower(entry.Straße)", 'for the attribute Straße write `entry["Straße"]`', 16],
    ["name", 'entry.x.replace("a", "b")', '`replace` is a function; write `replace(entry.x, "a", "b")`', 0],
    ["name", "lower(trim(entry.x).lower())", "`lower` is a function; write `lower(trim(entry.x))`", 6],
    ["name", "entry.x.toLowerCase()", "unknown function `toLowerCase`; write `lower(entry.x)`", 0],
    ["name", "entry.x.lowr()", "unknown function `lowr`; write `lower(entry.x)`", 0],
    ["include", 'startsWith(entry.x, "a")', '`startsWith` is a method; write `entry.x.startsWith("a")`', 0],
    ["include", "coalesce(entry.x, nope())", "unknown function `nope`", 18],
    ["include", "lower(entry.x, 1)", "cannot call lower(dyn, int)", 0],
    ["include", "string(entry.x) > 10", "`string(entry.x)` is text; write `int(string(entry.x)) > 10`", 0],
    ["displayName", '"a" + true', "cannot apply + to text and true or false", 0],
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
