import { targetConnectors } from "#connectors/index.ts";
import { attributesOf } from "#config/targets.ts";
import { compileRules } from "#principals/compile.ts";
import type { AttributeValue } from "#principals/entry.ts";
import type { Verdict } from "#principals/judge.ts";
import type { Rules } from "#principals/rules.ts";
import { describe, expect, test } from "vitest";
import type { Connector } from "#connector.ts";
import { InputError } from "#errors.ts";
import { z } from "zod";
import { builtIn, connector, load, problemsOf, valid, withSync } from "./support.ts";

test("a sync names existing sources, each once", async () => {
  expect(await problemsOf(valid.replace("[corp]", "[corp2, corp, corp, hr]"))).toEqual([
    'rollcall.yaml:9:12: syncs.staff.from[0]: no source is called corp2; did you mean "corp"?',
    "rollcall.yaml:9:25: syncs.staff.from[2]: named twice; remove one",
    "rollcall.yaml:9:31: syncs.staff.from[3]: no source is called hr; the sources are: corp",
  ]);
  expect(await problemsOf(valid.replace("[corp]", "[]"))).toEqual([
    "rollcall.yaml:9:11: syncs.staff.from: expected at least one source",
  ]);
  expect(await problemsOf(valid.replace("[corp]", "corp"))).toEqual([
    'rollcall.yaml:9:11: syncs.staff.from: expected a list of sources like [corp], not "corp"',
  ]);
});

test("a sync names an existing target", async () => {
  expect(await problemsOf(valid.replace("to: analytics", "to: analytcs"))).toEqual([
    'rollcall.yaml:10:9: syncs.staff.to: no target is called analytcs; did you mean "analytics"?',
  ]);
  expect(await problemsOf(valid.replace("  analytics: embedded\n", ""))).toEqual([
    "rollcall.yaml:9:9: syncs.staff.to: no target is called analytics; there are none",
  ]);
  expect(await problemsOf(valid.replace("to: analytics", "to: ${env:TO}"), { environment: { TO: "secret" } })).toEqual([
    "rollcall.yaml:10:9: syncs.staff.to: no target has the name from ${env:TO}; the targets are: analytics",
  ]);
});

test("names are not taken from what every object has", async () => {
  expect(await problemsOf(valid.replace("to: analytics", "to: constructor"))).toEqual([
    "rollcall.yaml:10:9: syncs.staff.to: no target is called constructor; the targets are: analytics",
  ]);
  for (const name of ["constructor", "__proto__"])
    expect(await problemsOf(valid.replace("[corp]", `[${name}]`))).toEqual([
      `rollcall.yaml:9:12: syncs.staff.from[0]: no source is called ${name}; the sources are: corp`,
    ]);
});

test("a sync that manages everything has its target to itself", async () => {
  const other = `  others:
    from: [corp]
    to: again
    users: { name: entry.uid, displayName: entry.cn }
`;
  const text = withSync("manage: everything").replace("targets:\n", "targets:\n  again: embedded\n");
  await load(text);
  expect(await problemsOf(text + other)).toEqual([
    "rollcall.yaml:15:13: syncs.staff.manage: would delete what the sync others writes to the same target; use manage: owned",
  ]);
  const remote = '{ url: "https://x", username: u, password: p }';
  await load((text + other).replace("again: embedded", `again: ${remote}`));
});

test("a connector is one of the built-in ones", async () => {
  expect(await problemsOf(valid.replace("connector: list", "connector: lsit"))).toEqual([
    'rollcall.yaml:6:16: sources.corp.connector: no connector is called lsit; did you mean "list"? (for a module of your own, write its path: ./NAME.ts)',
  ]);
  expect(await problemsOf(valid.replace("connector: list", "connecter: list"))).toEqual([
    "rollcall.yaml:5:3: sources.corp.connector: missing; expected the kind of source, or the path of a module like ./hr.ts",
  ]);
  expect(
    await problemsOf(valid.replace("connector: list", "connector: ${env:KIND}"), { environment: { KIND: "hidden" } }),
  ).toEqual([
    "rollcall.yaml:6:16: sources.corp.connector: no connector has the name from ${env:KIND}; expected one of: list (for a module of your own, write its path: ./NAME.ts)",
  ]);
});

const options: readonly [options: string, ...problems: string[]][] = [
  ["atLest: 3", '7:5: sources.corp.atLest: unknown key; did you mean "atLeast"?'],
  ["atLeast: three", '7:14: sources.corp.atLeast: expected a whole number, not "three"'],
  ["gzip: 1", "7:11: sources.corp.gzip: expected true or false, not 1"],
  ["entries: x", '7:14: sources.corp.entries: expected a list, not "x"'],
  ["entries: [a, 5]", '7:18: sources.corp.entries[1]: expected text, not 5; put it in quotes: "5"'],
  ["entries: { a: b }", "7:14: sources.corp.entries: expected a list, not keys with values"],
  ["server: { host: '' , port: 1 }", '7:21: sources.corp.server.host: expected text that is not empty, not ""'],
  [
    "server: { hots: x, port: 70000 }",
    "7:5: sources.corp.server.host: missing; expected text",
    '7:15: sources.corp.server.hots: unknown key; did you mean "host"?',
    "7:30: sources.corp.server.port: expected a number, at most 65535, not 70000",
  ],
  ["mode: al", '7:11: sources.corp.mode: expected all or keys with values, not "al"; did you mean "all"?'],
  ["mode: { only: x, depth: y }", '7:29: sources.corp.mode.depth: expected a number, not "y"'],
  ["auth: { by: kye }", '7:17: sources.corp.auth.by: expected key or none, not "kye"; did you mean "key"?'],
  ["auth: { by: key }", "7:5: sources.corp.auth.key: missing; expected text"],
  ["either: []", "7:13: sources.corp.either: expected a number or text, not a list"],
  ["token: 5", "7:12: sources.corp.token: expected text; put it in quotes"],
];

test.each(options)("the connector's schema validates its options: %s", async (line, ...problems) => {
  const text = valid.replace("connector: list\n", `connector: list\n    ${line}\n`);
  expect(await problemsOf(text)).toEqual(problems.map((problem) => `rollcall.yaml:${problem}`));
});

test("unknown options are errors, also where a connector's schema lets them pass", async () => {
  const loose: Connector = { ...connector, options: z.object({ file: z.string() }) };
  expect(
    await problemsOf("sources:\n  corp: { connector: list, file: x, fiel: y }\n", { connectors: [builtIn(loose)] }),
  ).toEqual(['rollcall.yaml:2:37: sources.corp.fiel: unknown key; did you mean "file"?']);
});

test("a connector's own words are kept, at the place it names", async () => {
  const strict: Connector = {
    ...connector,
    options: z.strictObject({ file: z.string(), id: z.string() }).superRefine((_value, context) => {
      context.addIssue({ code: "custom", path: ["id"], message: "is no column of the file" });
      context.addIssue({ code: "custom", path: ["quote"], message: "is also the delimiter" });
    }),
  };
  const text = "sources:\n  corp:\n    connector: list\n    file: x\n    id: y\n";
  expect(await problemsOf(text, { connectors: [builtIn(strict)] })).toEqual([
    "rollcall.yaml:2:3: sources.corp.quote: is also the delimiter",
    "rollcall.yaml:5:9: sources.corp.id: is no column of the file",
  ]);
});

test("a path is a module of the user's own", async () => {
  const asked: [string, string][] = [];
  const own: Connector = { ...connector, name: "hr" };
  const text = valid.replace("connector: list", "connector: ./hr.ts\n    gzip: true");
  const { configuration, folder } = await load(text, {
    loadConnector: async (path, from) => {
      asked.push([path, from]);
      return own;
    },
  });
  expect(asked).toEqual([["./hr.ts", folder]]);
  expect(configuration.sources["corp"]).toMatchObject({ connector: own, options: { gzip: true } });
});

test("a module that does not load is a problem at its place, and does not tell where a variable points", async () => {
  const loadConnector = async (path: string): Promise<Connector> => {
    throw new InputError(`${path} does not exist`);
  };
  expect(await problemsOf(valid.replace("connector: list", "connector: ../hr.ts"), { loadConnector })).toEqual([
    "rollcall.yaml:6:16: sources.corp.connector: ../hr.ts does not exist",
  ]);
  const text = valid.replace("connector: list", "connector: ${env:HR}");
  expect(await problemsOf(text, { loadConnector, environment: { HR: "./hidden.ts" } })).toEqual([
    "rollcall.yaml:6:16: sources.corp.connector: the module from ${env:HR} cannot be loaded",
  ]);
});

test("sources may be optional; their names are checked wherever they stand", async () => {
  const { configuration } = await load(valid.replace("[corp]", "[{ source: corp, optional: true }]"));
  expect(configuration.syncs["staff"]).toMatchObject({ from: ["corp"], optional: ["corp"] });
  expect(
    await problemsOf(
      valid.replace("[corp]", "[corp, { source: corp }, { source: crop }, { source: corp, optonal: true }]"),
    ),
  ).toEqual([
    "rollcall.yaml:9:28: syncs.staff.from[1].source: named twice; remove one",
    'rollcall.yaml:9:46: syncs.staff.from[2].source: no source is called crop; did you mean "corp"?',
    "rollcall.yaml:9:64: syncs.staff.from[3].source: named twice; remove one",
    'rollcall.yaml:9:70: syncs.staff.from[3].optonal: unknown key; did you mean "optional"?',
  ]);
});

test("what entries are joined by is an expression, checked like the rules", async () => {
  const { configuration } = await load(withSync("join: { users: lower(entry.mail) }"));
  expect(configuration.syncs["staff"]?.rules.join).toEqual({ users: "lower(entry.mail)" });
  expect(await problemsOf(withSync("join: { users: lower(mail), groups: 'true', people: x }"))).toEqual([
    "rollcall.yaml:14:26: syncs.staff.join.users: Unknown variable: mail; an attribute is read as entry.NAME",
    "rollcall.yaml:14:41: syncs.staff.join.groups: gives bool, but a text or null is needed",
    "rollcall.yaml:14:49: syncs.staff.join.people: unknown key; expected one of: users, groups",
  ]);
});

test("how often a source is read in full stands beside its connector's options, and is none of them", async () => {
  const { configuration } = await load(valid.replace("list\n", "list\n    fullReadEvery: 24h\n    gzip: true\n"));
  expect(configuration.sources["corp"]).toMatchObject({ fullReadEvery: 86_400_000, options: { gzip: true } });
  expect(await problemsOf(valid.replace("list\n", "list\n    fullReadEvery: daily\n"))).toEqual([
    'rollcall.yaml:7:20: sources.corp.fullReadEvery: expected a duration like 90s, 15m, 3h, 7d, not "daily"',
  ]);
});

describe("a target that holds one value of a list", () => {
  const scim = (rules: string, profile = "aws"): string =>
    `${valid.replace("analytics: embedded", `analytics: { connector: scim, url: "https://app.example/scim", token: t0ken-of-the-application, profile: ${profile} }`)}${rules}`;
  const warnings = async (text: string): Promise<readonly string[]> =>
    (await load(text, { targetConnectors })).configuration.warnings.map((line) => line.replace(/^.*\//, ""));

  test("is named where rules write several", async () => {
    const two = "      emails: '[entry.mail, entry.alias]'\n      phoneNumbers: entry.phone\n";
    expect(await warnings(scim(two))).toEqual([
      "rollcall.yaml:14:15: syncs.staff.users.emails: may give 2 values, but the target holds one, and whoever has several is quarantined; use first(…) of a list, coalesce(…) of several attributes, or one rule alone",
    ]);
    expect(await warnings(scim("      emails: { value: '[entry.mail, entry.alias]', absent: keep }\n"))).toEqual([
      expect.stringMatching(/^rollcall\.yaml:14:\d+: syncs\.staff\.users\.emails\.value: may give 2 values/),
    ]);
    expect(await warnings(scim(two, "generic"))).toEqual([]);
    expect(await warnings(scim("      emails: '[coalesce(entry.mail, entry.alias)]'\n"))).toEqual([]);
  });

  test("quarantines the records that have several", async () => {
    const rules = "      mail: entry.mail\n      emails: values(entry.emails)\n      phoneNumbers: entry.phone\n";
    const { configuration } = await load(scim(rules), { targetConnectors });
    const declared = attributesOf(configuration.targets["analytics"]);
    const compiled = compileRules(
      configuration.syncs["staff"]?.rules as Rules,
      undefined,
      undefined,
      undefined,
      undefined,
      declared,
    );
    const judged = (attributes: Record<string, AttributeValue>): Verdict =>
      compiled.judge({
        kind: "user",
        id: "1",
        origin: "",
        attributes: { uid: "ada", ...attributes },
        keys: [],
        memberOf: [],
        members: [],
      });
    expect(judged({ mail: "ada@example.com", emails: ["Ada@example.com"], phone: "1" }).verdict).toBe("included");
    expect(judged({ emails: ["a@x", "b@x"] })).toMatchObject({
      verdict: "quarantined",
      reason: expect.stringMatching(/^users\.emails: 2 values \("a@x", "b@x"\), but the target holds one; use first/),
    });
    expect(judged({ mail: "a@x", emails: ["b@x"] })).toMatchObject({
      reason: expect.stringMatching(/^users\.mail and users\.emails: 2 values/),
    });
    expect(judged({ phone: ["1", "2", "3", "4"] })).toMatchObject({
      reason: expect.stringContaining('users.phoneNumbers: 4 values ("1", "2", "3", …)'),
    });
  });
});
