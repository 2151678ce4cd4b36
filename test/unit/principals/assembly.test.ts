import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { IncompleteReadError } from "#errors.ts";
import { openDatabase } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { assemble } from "#principals/assembly.ts";
import { checkRules, compileRules } from "#principals/compile.ts";
import type { SourceRecord } from "#principals/entry.ts";
import { useConnection } from "../../support/duckdb.ts";
import { assembleAll, group, groupsOf, membership, plainRules, user } from "./assembling.ts";

const connection = useConnection();

const temporary = "SELECT table_name FROM duckdb_tables() WHERE temporary";

test("entries become principals, with where they come from", async () => {
  const { assembly, rows } = await assembleAll(connection(), {
    hr: [
      user("7", { origin: "people.csv:8", attributes: { name: "ann", cn: "Ann", mail: "ann@example.com" } }),
      user("8", { attributes: { name: "bob", status: "left" } }),
    ],
    ldap: [group("9", { attributes: { name: "staff", note: "Everybody" }, keys: ["cn=staff"] })],
  });
  expect(rows).toEqual([
    {
      kind: "group",
      name: "staff",
      display_name: "staff",
      description: "Everybody",
      mail: null,
      group_names: [],
      source: "ldap",
      source_id: "9",
      origin: "group:9",
    },
    {
      kind: "user",
      name: "ann",
      display_name: "Ann",
      description: null,
      mail: "ann@example.com",
      group_names: [],
      source: "hr",
      source_id: "7",
      origin: "people.csv:8",
    },
  ]);
  expect(assembly).toEqual({
    users: 1,
    groups: 1,
    excluded: 1,
    neverSet: ["users.groups: entry.extra", "groups.include: entry.status"],
    quarantined: { count: 0, reasons: [], more: 0 },
    unresolved: { count: 0, excluded: 0, reasons: [], more: 0, alike: false },
    unread: [],
    sources: [
      { name: "hr", users: 2, groups: 0 },
      { name: "ldap", users: 0, groups: 1 },
    ],
  });
  expect(await connection().rows(temporary)).toEqual([]);
});

describe("groups that rules make", () => {
  const rules = { ...plainRules, groupsFromRules: { displayName: '"Site " + value' } };
  const made = async () =>
    connection().rows("SELECT name, display_name, description, origin FROM rule_group ORDER BY name");

  test("are those that no source and no configuration has, each once, with whom they were found for first", async () => {
    const staticGroups = [{ name: "fixed", displayName: "Fixed", groups: ["elsewhere"] }];
    const records = [
      user("u", { attributes: { extra: "delft" }, origin: "people.csv:2" }),
      user("v", { attributes: { extra: "delft" } }),
      user("w", { attributes: { extra: "g" } }),
      user("x", { attributes: { extra: "fixed" } }),
      // The same letters, written otherwise.
      user("y", { attributes: { extra: "\u00e9" } }),
      user("z", { attributes: { extra: "e\u0301" } }),
      group("g"),
    ];
    await assembleAll(connection(), { s: records }, { ...rules, staticGroups, defaultGroups: ["default"] });
    expect(await made()).toEqual([
      {
        name: "delft",
        display_name: "Site delft",
        description: null,
        origin: "the rule users.groups of u, people.csv:2, and of 1 more",
      },
      {
        name: "é",
        display_name: "Site é",
        description: null,
        origin: "the rule users.groups of y, user:y, and of 1 more",
      },
    ]);
    await assembleAll(connection(), { s: records }, plainRules);
    expect(await made()).toEqual([]);
  });

  test("do not come of records in doubt; one that a rule cannot describe is in doubt itself", async () => {
    const described = {
      ...rules,
      groupsFromRules: { displayName: 'value == "x" ? "" : dyn(null)', description: '"at " + value' },
    };
    const { assembly, rows } = await assembleAll(
      connection(),
      {
        s: [
          user("1", { attributes: { name: "same", extra: "doubtful" } }),
          user("2", { attributes: { name: "same", extra: "doubtful" } }),
          user("u", { attributes: { extra: "x" } }),
          user("v", { attributes: { extra: "delft" } }),
        ],
      },
      described,
    );
    expect(await made()).toMatchObject([{ name: "delft", display_name: "delft", description: "at delft" }]);
    expect(rows.map(({ name, group_names: groups }) => [name, groups])).toEqual([
      ["u", []],
      ["v", ["delft"]],
    ]);
    expect(assembly.quarantined.reasons.find(({ kind }) => kind === "group")).toMatchObject({
      reason: expect.stringMatching(/^groupsFromRules.displayName: /),
      examples: [{ name: "x", origin: "the rule users.groups of u, user:u" }],
    });
  });

  test("whose names differ in case alone are in doubt, with those of the sources, where the target takes them for one", async () => {
    const records = [
      user("u", { attributes: { extra: "Delft" } }),
      user("v", { attributes: { extra: "delft" } }),
      user("w", { attributes: { extra: "staff" } }),
      user("x", { attributes: { extra: "plain" } }),
      user("y"),
      user("Y"),
      group("Staff"),
    ];
    expect((await assembleAll(connection(), { s: records }, rules)).quarantined).toEqual([]);
    const result = await assembleAll(connection(), { s: records }, rules, true);
    expect(groupsOf(result)).toEqual({ "user u": [], "user v": [], "user w": [], "user x": ["plain"] });
    expect(await made()).toMatchObject([{ name: "plain" }]);
    expect(result.quarantined.map(({ name, reason }) => `${name}: ${reason}`)).toEqual([
      'y: the name "y" is also used by user:Y',
      'Y: the name "Y" is also used by user:y',
      'Staff: the name "Staff" differs from the group "staff" of the rules in case alone',
      'Delft: the name "Delft" is also used by "delft"',
      'delft: the name "delft" is also used by "Delft"',
      'staff: the name "staff" is also used by "Staff"',
    ]);
  });

  test("are described over `value` alone", () => {
    const problems = (displayName: string) =>
      checkRules({ ...plainRules, groupsFromRules: { displayName } }).map(({ path, message }) => [...path, message]);
    expect(problems("value")).toEqual([]);
    expect(problems("1 == 1")).toEqual([
      ["groupsFromRules", "displayName", "gives bool, but a text or null is needed"],
    ]);
    expect(problems("entry.site")).toEqual([
      ["groupsFromRules", "displayName", "there is no entry here: a group is made for all who are in it; use value"],
    ]);
    expect(checkRules({ ...plainRules, users: { ...plainRules.users, name: "value" } })).toMatchObject([
      { message: expect.stringMatching(/^Unknown variable: value/) },
    ]);
  });
});

describe("groups of the configuration", () => {
  const rules = {
    ...plainRules,
    staticGroups: [
      { name: "everyone", displayName: "Everyone", description: "All staff", groups: ["top"] },
      { name: "top", displayName: "Top", groups: [] },
    ],
    defaultGroups: ["everyone"],
  };

  test("exist whatever the sources say, and every user is in the default ones", async () => {
    const result = await assembleAll(
      connection(),
      { s: [user("u", { memberOf: ["g"], attributes: { extra: "everyone" } }), group("g"), user("v")] },
      rules,
    );
    expect(groupsOf(result)).toEqual({
      "group everyone": ["top"],
      "group g": [],
      "group top": [],
      "user u": ["everyone", "g"],
      "user v": ["everyone"],
    });
    expect(result.rows.find(({ name }) => name === "everyone")).toMatchObject({
      display_name: "Everyone",
      description: "All staff",
      source: "(configuration)",
      source_id: "everyone",
      origin: 'the configuration, staticGroups "everyone"',
    });
    expect(result.assembly).toMatchObject({ groups: 3, sources: [{ name: "s", users: 2, groups: 1 }] });
  });

  test("do not need rules for groups", async () => {
    const result = await assembleAll(
      connection(),
      { s: [user("u"), group("g")] },
      { ...rules, groups: undefined as never },
    );
    expect(groupsOf(result)).toEqual({ "group everyone": ["top"], "group top": [], "user u": ["everyone"] });
  });

  test("one that a source has too is neither's, and nobody is put into it", async () => {
    const result = await assembleAll(
      connection(),
      { s: [user("u"), group("g", { attributes: { name: "everyone" } })] },
      rules,
    );
    expect(groupsOf(result)).toEqual({ "group top": [], "user u": [] });
    expect(result.quarantined.map(({ origin, reason }) => `${origin}: ${reason}`)).toEqual([
      'group:g: the name "everyone" is also used by the configuration, staticGroups "everyone"',
      'the configuration, staticGroups "everyone": the name "everyone" is also used by group:g',
    ]);
  });
});

test("what is kept of the target is written down with the principal", async () => {
  await assembleAll(
    connection(),
    { s: [user("u", { attributes: { mail: "u@example.com" } }), user("v")] },
    {
      users: {
        name: "entry.name",
        displayName: { value: "entry.cn", absent: "keep" },
        description: { absent: "clear" },
        mail: { value: "entry.mail", absent: "keep" },
      },
    },
  );
  expect(await connection().rows("SELECT name, display_name, mail, kept FROM assembled ORDER BY name")).toEqual([
    { name: "u", display_name: "u", mail: "u@example.com", kept: 1 },
    { name: "v", display_name: "v", mail: null, kept: 5 },
  ]);
});

test("no records at all are no principals", async () => {
  const { assembly, rows } = await assembleAll(connection(), { hr: [] });
  expect(rows).toEqual([]);
  expect(assembly).toMatchObject({ users: 0, groups: 0, sources: [{ name: "hr", users: 0, groups: 0 }] });
});

describe("memberships", () => {
  test("are united, whoever tells of them: the member, the group, or a pair", async () => {
    const result = await assembleAll(connection(), {
      s: [
        membership("g", { key: "u3" }),
        user("u1", { memberOf: ["g"] }),
        group("g", { members: [{ key: "u2" }, { kind: "user", key: "u1" }], memberOf: ["top"] }),
        user("u2", { memberOf: ["h", "g", "g"] }),
        user("u3"),
        group("h"),
        group("top", { members: [{ kind: "group", key: "h" }] }),
      ],
    });
    expect(groupsOf(result)).toEqual({
      "group g": ["top"],
      "group h": ["top"],
      "group top": [],
      "user u1": ["g"],
      "user u2": ["g", "h"],
      "user u3": ["g"],
    });
  });

  test("B.6 may form cycles, a group in itself included", async () => {
    const result = await assembleAll(connection(), {
      s: [group("a", { memberOf: ["b"] }), group("b", { memberOf: ["a", "b"] })],
    });
    expect(groupsOf(result)).toEqual({ "group a": ["b"], "group b": ["a", "b"] });
  });

  test("B.6 are sorted by code point, each once, those of the rule among them", async () => {
    const names = ["\uFF5E", "\u{1F600}", "Z", "a", "é"];
    const result = await assembleAll(connection(), {
      s: [
        ...names.map((name) => group(name)),
        user("u", { memberOf: names, attributes: { extra: ["a", "added", "e\u0301"] } }),
      ],
    });
    expect(groupsOf(result)["user u"]).toEqual(["Z", "a", "added", "é", "\uFF5E", "\u{1F600}"]);
  });

  test("keys of users and of groups are apart; a reference without kind means a user, or else a group", async () => {
    const result = await assembleAll(connection(), {
      s: [
        user("u", { keys: ["1"] }),
        group("g", { keys: ["1"] }),
        group("only", { keys: ["2"] }),
        group("a", { members: [{ key: "1" }, { key: "2" }] }),
        group("b", { members: [{ kind: "group", key: "1" }] }),
        group("c", { members: [{ kind: "user", key: "2" }] }),
      ],
    });
    expect(groupsOf(result)).toMatchObject({ "user u": ["a"], "group g": ["b"], "group only": ["a"] });
    expect(result.assembly.unresolved).toMatchObject({
      count: 1,
      reasons: [{ reason: 'the user "2" does not exist', origin: "group:c" }],
    });
  });

  test("refer to entries of their own source only", async () => {
    const result = await assembleAll(connection(), {
      one: [user("u", { keys: ["7"] }), group("g1", { members: [{ key: "8" }] })],
      two: [user("v", { keys: ["8"] }), group("g2", { members: [{ key: "8" }] })],
    });
    expect(groupsOf(result)).toMatchObject({ "user u": [], "user v": ["g2"] });
    expect(result.assembly.unresolved.count).toBe(1);
  });

  test("keys are the same when they look the same", async () => {
    const result = await assembleAll(connection(), {
      s: [group("g", { keys: ["cn=e\u0301", "cn=\u00e9"] }), user("u", { memberOf: ["cn=\u00e9"] })],
    });
    expect(groupsOf(result)["user u"]).toEqual(["g"]);
  });

  test("take any text for a key", async () => {
    const keys = ['"', "\\", "\0", "\u{1F600}", "\ud800", "\uFEFF", "", "null"];
    const result = await assembleAll(connection(), {
      s: [
        ...keys.map((key, i) => group(`g${i}`, { keys: [key], members: [{ kind: "user", key }] })),
        ...keys.map((key, i) => user(`u${i}`, { keys: [key], memberOf: [keys[(i + 1) % keys.length]!] })),
      ],
    });
    expect(result.assembly.unresolved).toEqual({ count: 0, excluded: 0, reasons: [], more: 0, alike: false });
    const groups = keys.map((_, i) => [`g${i}`, `g${(i + 1) % keys.length}`].sort());
    expect(keys.map((_, i) => groupsOf(result)[`user u${i}`])).toEqual(groups);
  });

  test("of one group may be many", async () => {
    const keys = Array.from({ length: 2500 }, (_, i) => `u${i}`);
    const result = await assembleAll(connection(), {
      s: [group("g", { members: keys.map((key) => ({ key })) }), ...keys.map((key) => user(key))],
    });
    expect(result.rows.filter(({ group_names }) => group_names[0] === "g")).toHaveLength(2500);
  });

  test("that lead to nobody, or out of scope, are counted and shown", async () => {
    const result = await assembleAll(connection(), {
      s: [
        user("gone", { attributes: { status: "left" }, memberOf: ["nowhere"] }),
        group("old", { attributes: { status: "left" }, members: [{ key: "nobody" }] }),
        group("g", { members: [{ key: "gone" }, { key: "nobody" }] }),
        user("u", { memberOf: ["old"] }),
        membership("void", { key: "u" }, "pairs.csv:2"),
        membership("g", { kind: "group", key: "void" }, "pairs.csv:3"),
      ],
    });
    expect(groupsOf(result)).toEqual({ "group g": [], "user u": [] });
    expect(result.assembly.unresolved).toEqual({
      count: 5,
      excluded: 2,
      reasons: [
        { reason: 'the group "void" does not exist', count: 2, origin: "pairs.csv:2" },
        { reason: 'the user or group "nobody" does not exist', count: 1, origin: "group:g" },
      ],
      more: 0,
      alike: true,
    });
  });

  test("that lead to nobody are counted by what they lead to, the most frequent first, with the first line", async () => {
    const lost = Array.from({ length: 30 }, (_, i) => membership(`only-${i}`, { key: "u" }, `pairs.csv:${i + 200}`));
    const gemini = [105, 21, 99].map((line) => membership("Gemini", { key: "u" }, `pairs.csv:${line}`));
    const { assembly } = await assembleAll(connection(), { s: [user("u"), ...lost, ...gemini] });
    expect(assembly.unresolved).toMatchObject({ count: 33, excluded: 0, more: 21, alike: true });
    expect(assembly.unresolved.reasons).toHaveLength(10);
    expect(assembly.unresolved.reasons.slice(0, 2)).toEqual([
      { reason: 'the group "Gemini" does not exist', count: 3, origin: "pairs.csv:21" },
      { reason: 'the group "only-0" does not exist', count: 1, origin: "pairs.csv:200" },
    ]);
  });

  test("do not count where no groups are made; the rule's groups do", async () => {
    const result = await assembleAll(
      connection(),
      {
        s: [
          group("g"),
          user("u", { memberOf: ["g", "h"], attributes: { extra: ["x"] } }),
          membership("g", { key: "u" }),
        ],
      },
      { users: plainRules.users },
    );
    expect(groupsOf(result)).toEqual({ "user u": ["x"] });
    expect(result.assembly).toMatchObject({ excluded: 1, unresolved: { count: 0 } });
  });

  test("of many entries are all there", async () => {
    const count = 2500;
    const records = Array.from({ length: count }, (_, i) => user(`u${i}`, { memberOf: [`g${i % 7}`, "g0"] }));
    const groups = Array.from({ length: 7 }, (_, i) => group(`g${i}`));
    const result = await assembleAll(connection(), { s: [...records, ...groups] });
    expect(result.assembly.users).toBe(count);
    for (let i = 0; i < count; i += 1) {
      expect(groupsOf({ ...result, rows: [result.rows[7 + i]!] })).toEqual({
        [`user ${result.rows[7 + i]!.name}`]: [...new Set(["g0", `g${Number(result.rows[7 + i]!.name.slice(1)) % 7}`])],
      });
    }
  });
});

test.each([
  ["two entries", ["uid=ada", "uid=bob"], 'the user with the id "7" came twice (uid=ada; uid=bob), so others'],
  ["one entry, read twice", ["uid=ada", "uid=ada"], 'the user with the id "7" came twice, so others'],
])("an id that comes twice where it cannot names the places of %s", async (_, origins, message) => {
  const records = async function* (): AsyncGenerator<SourceRecord[]> {
    yield await Promise.resolve(origins.map((origin) => user("7", { origin, attributes: { name: origin } })));
  };
  const assembled = assemble(
    connection(),
    [{ name: "s", uniqueIds: true, records: records() }],
    compileRules(plainRules),
    { signal: new AbortController().signal },
  );
  await expect(assembled).rejects.toThrow(`source s: ${message} may not have come at all`);
});

describe("quarantine", () => {
  test("takes an entry whose rule fails, with what is known of it", async () => {
    const { assembly, rows, quarantined } = await assembleAll(connection(), {
      s: [
        user("1", { attributes: { name: "ann", cn: "" } }),
        user("2", { attributes: { name: "" } }),
        group("3", { attributes: { name: "staff" } }),
      ],
    });
    expect(rows).toHaveLength(1);
    expect(quarantined).toEqual([
      {
        kind: "user",
        name: "ann",
        source: "s",
        source_id: "1",
        origin: "user:1",
        reason: 'users.displayName: "" is empty',
      },
      {
        kind: "user",
        name: null,
        source: "s",
        source_id: "2",
        origin: "user:2",
        reason: 'users.name: "" is empty; users.displayName: "" is empty',
      },
    ]);
    expect(assembly.quarantined).toEqual({
      count: 2,
      reasons: [
        {
          reason: 'users.displayName: "" is empty',
          kind: "user",
          count: 1,
          examples: [{ name: "ann", sourceId: "1", origin: "user:1" }],
        },
        {
          reason: 'users.name: "" is empty; users.displayName: "" is empty',
          kind: "user",
          count: 1,
          examples: [{ sourceId: "2", origin: "user:2" }],
        },
      ],
      more: 0,
    });
  });

  test("takes all that share a name, and names their origins; users and groups do not share", async () => {
    const { assembly, rows, quarantined } = await assembleAll(connection(), {
      one: [
        user("1", { attributes: { name: "zo\u00eb" } }),
        user("2", { attributes: { name: "Zo\u00eb" } }),
        group("3", { attributes: { name: "zo\u00eb" } }),
      ],
      two: [user("4", { attributes: { name: "zoe\u0308" } })],
    });
    expect(rows.map(({ kind, source_id }) => `${kind} ${source_id}`)).toEqual(["group 3", "user 2"]);
    expect(quarantined.map(({ origin, name, reason }) => [origin, name, reason])).toEqual([
      ["user:1", "zoë", 'the name "zoë" is also used by user:4'],
      ["user:4", "zoë", 'the name "zoë" is also used by user:1'],
    ]);
    expect(assembly).toMatchObject({ users: 1, groups: 1, quarantined: { count: 2 } });
  });

  test("takes all that share an id within a source, though the names differ", async () => {
    const { rows, quarantined } = await assembleAll(connection(), {
      one: [
        user("1", { origin: "a:2", attributes: { name: "ann" } }),
        user("1", { origin: "a:9", attributes: { name: "bob" }, keys: ["b"] }),
        group("1", { attributes: { name: "g" } }),
      ],
      two: [user("1", { attributes: { name: "cy" } })],
    });
    expect(rows.map(({ name }) => name)).toEqual(["g", "cy"]);
    expect(quarantined.map(({ name, reason }) => [name, reason])).toEqual([
      ["ann", 'the id "1" is also used by a:9'],
      ["bob", 'the id "1" is also used by a:2'],
    ]);
  });

  test("takes a good entry whose name a failing one has, too", async () => {
    const { rows, quarantined } = await assembleAll(connection(), {
      s: [user("1", { attributes: { name: "ann", cn: "" } }), user("2", { attributes: { name: "ann" } })],
    });
    expect(rows).toEqual([]);
    expect(quarantined.map(({ reason }) => reason)).toEqual([
      'the name "ann" is also used by user:2; users.displayName: "" is empty',
      'the name "ann" is also used by user:1',
    ]);
  });

  test("leaves alone what only an excluded entry shares with", async () => {
    const result = await assembleAll(connection(), {
      s: [
        user("1", { attributes: { name: "ann" } }),
        user("1", { attributes: { name: "ann", status: "left" } }),
        group("g", { members: [{ key: "1" }] }),
      ],
    });
    expect(groupsOf(result)).toEqual({ "group g": [], "user ann": ["g"] });
    expect(result.assembly).toMatchObject({ excluded: 1, quarantined: { count: 0 }, unresolved: { count: 0 } });
  });

  test("names the first of many that share, and how many more there are", async () => {
    const shared = Array.from({ length: 30 }, (_, i) => user(`u${i}`, { attributes: { name: "ann" } }));
    const { assembly, quarantined } = await assembleAll(connection(), { s: shared });
    expect(quarantined).toHaveLength(30);
    expect(quarantined[0]!.reason).toBe('the name "ann" is also used by user:u1, user:u2, user:u3 and 26 more');
    expect(quarantined[29]!.reason).toBe('the name "ann" is also used by user:u0, user:u1, user:u2 and 26 more');
    expect(assembly.quarantined).toMatchObject({
      count: 30,
      reasons: [{ reason: 'the name "ann" is shared by several records', count: 30, examples: { length: 3 } }],
    });
  });

  test("is counted by reason, the most frequent first, whatever the values are", async () => {
    const { assembly } = await assembleAll(connection(), {
      s: [
        user("0", { attributes: { name: "kim" } }),
        user("1", { attributes: { name: "kim" } }),
        ...Array.from({ length: 5 }, (_, i) => user(`${i + 2}`, { attributes: { name: `u${i}`, cn: `\ud800 ${i}` } })),
      ],
    });
    expect(assembly.quarantined).toMatchObject({
      count: 7,
      reasons: [
        {
          reason: expect.stringMatching(/^users\.displayName: "…" is not valid/),
          count: 5,
          examples: [{ name: "u0" }, { name: "u1" }, {}],
        },
        { reason: 'the name "kim" is shared by several records', count: 2 },
      ],
      more: 0,
    });
  });

  test("is counted by reason, whose advice stays as it is", async () => {
    const leaves = ["31.12.2020", "30.06.2020", "3`1.12.2020"];
    const { assembly } = await assembleAll(
      connection(),
      { s: leaves.map((value, i) => user(`${i}`, { attributes: { name: `u${i}`, leaves: value } })) },
      { ...plainRules, users: { ...plainRules.users, include: "isAfter(entry.leaves, now())" } },
    );
    expect(assembly.quarantined.reasons).toMatchObject([
      { reason: expect.stringMatching(/not "…"; write `date\(x, "%d\.%m\.%Y"\)`$/), count: 2 },
      { reason: expect.stringContaining('not "3`1.12.2020"; write its format'), count: 1 },
    ]);
  });

  test("says of a reference in other letters what it may mean", async () => {
    const { assembly } = await assembleAll(connection(), {
      s: [
        user("u1", { memberOf: ["maths", "none"] }),
        user("u2", { keys: ["Ada"] }),
        group("Maths", { members: [{ kind: "user", key: "ADA" }] }),
      ],
      other: [group("None")],
    });
    expect(assembly.unresolved.reasons.map(({ reason }) => reason).toSorted()).toEqual([
      'the group "maths" does not exist, but "Maths" does: upper and lower case must match',
      'the group "none" does not exist',
      'the user "ADA" does not exist, but "Ada" does: upper and lower case must match',
    ]);
  });

  test("takes those of whom a reference may mean either: unknown is not absent", async () => {
    const result = await assembleAll(connection(), {
      s: [
        user("u1", { keys: ["u1", "shared@example.com"] }),
        user("u2", { keys: ["u2", "shared@example.com"] }),
        user("u3", { keys: ["u3", "other@example.com"] }),
        user("u4", { keys: ["u4", "other@example.com"] }),
        group("g", { members: [{ key: "shared@example.com" }, { key: "u3" }] }),
      ],
    });
    expect(groupsOf(result)).toEqual({ "group g": [], "user u3": ["g"], "user u4": [] });
    expect(result.quarantined.map(({ name, reason }) => [name, reason])).toEqual([
      ["u1", 'a reference to the user "shared@example.com" may also mean user:u2'],
      ["u2", 'a reference to the user "shared@example.com" may also mean user:u1'],
    ]);
    expect(result.assembly.unresolved).toMatchObject({
      count: 1,
      reasons: [{ reason: 'the user "shared@example.com" may be one of several', origin: "group:g" }],
    });
  });

  test("takes those of whom one has the id of the other as a key", async () => {
    const result = await assembleAll(connection(), {
      s: [
        user("u1", { keys: ["u1"] }),
        user("u2", { keys: ["u1", "two@example.com"] }),
        user("u3", { keys: ["u4"] }),
        user("u4", { keys: ["u4"] }),
        user("u5", { keys: ["five@example.com"] }),
        group("g", { members: [{ key: "u1" }, { key: "two@example.com" }, { key: "u4" }, { key: "u5" }] }),
      ],
    });
    expect(groupsOf(result)).toEqual({ "group g": [], "user u5": [] });
    expect(result.quarantined.map(({ name, reason }) => [name, reason])).toEqual([
      ["u1", 'a reference to the user "u1" may also mean user:u2'],
      ["u2", 'a reference to the user "u1" may also mean user:u1'],
      ["u3", 'a reference to the user "u4" may also mean user:u4'],
      ["u4", 'a reference to the user "u4" may also mean user:u3'],
    ]);
    expect(result.assembly.unresolved.reasons.map(({ reason }) => reason)).toEqual([
      'the user "u1" may be one of several',
      'the user "u4" may be one of several',
      'the user or group "u5" does not exist',
    ]);
  });

  test("memberships in a quarantined group are left out, by reference and by rule, and are not unresolved", async () => {
    const result = await assembleAll(connection(), {
      s: [
        group("g", { attributes: { cn: "" }, members: [{ key: "u" }, { key: "nobody" }] }),
        group("h", { memberOf: ["g"] }),
        user("u", { memberOf: ["g", "h"], attributes: { extra: ["g", "x"] } }),
        user("v", { attributes: { cn: "" }, memberOf: ["h", "nowhere"] }),
      ],
    });
    expect(groupsOf(result)).toEqual({ "group h": [], "user u": ["h", "x"] });
    expect(result.assembly).toMatchObject({ unresolved: { count: 0 }, quarantined: { count: 2 } });
  });
});

describe("a failure leaves nothing behind", () => {
  const tables = "SELECT table_name FROM duckdb_tables()";
  const rules = compileRules(plainRules);

  async function* endless(): AsyncIterable<readonly SourceRecord[]> {
    for (let i = 0; ; i += 1) yield [user(`u${i}`, { memberOf: ["g"] })];
  }

  test("when a source fails", async () => {
    await assembleAll(connection(), { s: [user("u")] });
    async function* failing(): AsyncIterable<readonly SourceRecord[]> {
      yield Array.from({ length: 5000 }, (_, i) => user(`u${i}`));
      await Promise.resolve();
      throw new IncompleteReadError("the directory went away");
    }
    const attempt = assemble(
      connection(),
      [
        { name: "good", records: failing() },
        { name: "unread", records: endless() },
      ],
      rules,
      { signal: new AbortController().signal },
    );
    await expect(attempt).rejects.toThrow(new IncompleteReadError("the directory went away"));
    expect(await connection().rows(tables)).toEqual([]);
  });

  test("when it is aborted while reading; the source is closed", async () => {
    const controller = new AbortController();
    let closed = false;
    async function* watched(): AsyncIterable<readonly SourceRecord[]> {
      try {
        yield* endless();
      } finally {
        closed = true;
      }
    }
    const attempt = assemble(connection(), [{ name: "s", records: watched() }], rules, {
      signal: controller.signal,
      progress: (records) => {
        if (records === 5000) controller.abort(new Error("stopped by a person"));
      },
    });
    await expect(attempt).rejects.toThrow("stopped by a person");
    expect(closed).toBe(true);
    expect(await connection().rows(tables)).toEqual([]);
    const { assembly } = await assembleAll(connection(), { s: [user("u")] });
    expect(assembly.users).toBe(1);
  });

  test("when it is aborted while it resolves", async () => {
    const controller = new AbortController();
    const stopping: Connection = {
      ...connection(),
      run: (sql) => {
        const running = connection().run(sql);
        if (sql.includes("TABLE link")) controller.abort(new Error("stopped by a person"));
        return running;
      },
    };
    const records = Array.from({ length: 20_000 }, (_, i) => user(`u${i}`, { memberOf: ["g", "h"] }));
    const source = (async function* () {
      yield await Promise.resolve(records);
    })();
    const attempt = assemble(stopping, [{ name: "s", records: source }], rules, {
      signal: controller.signal,
    });
    await expect(attempt).rejects.toThrow("stopped by a person");
    expect(await connection().rows(tables)).toEqual([]);
  });

  test("when it was aborted before", async () => {
    const attempt = assemble(connection(), [{ name: "s", records: endless() }], rules, {
      signal: AbortSignal.abort(new Error("never mind")),
    });
    await expect(attempt).rejects.toThrow("never mind");
    expect(await connection().rows(tables)).toEqual([]);
  });
});

describe("groups that a server may have cut", () => {
  const people = Array.from({ length: 120 }, (_, index) =>
    user(String(index), { attributes: { name: `p${index}`, cn: `P ${index}` } }),
  );
  const listing = (id: string, size: number) =>
    group(id, {
      attributes: { name: id },
      members: people.slice(0, size).map(({ id: key }) => ({ kind: "user" as const, key })),
    });
  const found = async (...sizes: readonly number[]) => {
    const groups = sizes.map((size, index) => listing(`g${index}`, size));
    return (await assembleAll(connection(), { scim: [...people, ...groups] })).assembly.cutLists;
  };

  test("are the largest ones, where these have one round size", async () => {
    expect(await found(100, 30, 100, 100, 100)).toEqual([
      { source: "scim", size: 100, groups: 4, names: ["g0", "g2", "g3"] },
    ]);
    expect(await found(64, 64)).toMatchObject([{ size: 64, groups: 2 }]);
    expect(await found(100, 3)).toMatchObject([{ size: 100, groups: 1, names: ["g0"] }]);
  });

  test("are not there where one has more, or the size is none that a server would have", async () => {
    expect(await found(100, 100, 101)).toBeUndefined();
    expect(await found(73, 73)).toBeUndefined();
    expect(await found(20, 20)).toBeUndefined();
  });
});

test("a million members in lists of a thousand take little memory", async () => {
  const database = await openDatabase({
    path: ":memory:",
    memory: 128 * 2 ** 20,
    spill: join(tmpdir(), "rollcall-unit"),
  });
  const connection = await database.connect();
  const many = 1_500;
  async function* records(): AsyncGenerator<SourceRecord[]> {
    for (let n = 0; n < many; n++) {
      const key = (m: number): string => `uid=user${n * 7 + m},ou=people,dc=example,dc=com`;
      yield [group(`g${n}`, { members: Array.from({ length: 1_000 }, (_, m) => ({ key: key(m) })) })];
    }
  }
  try {
    const { signal } = new AbortController();
    const sources = [{ name: "people", records: records() }];
    const { groups, unresolved } = await assemble(connection, sources, compileRules(plainRules), { signal });
    expect([groups, unresolved.count]).toEqual([many, many * 1_000]);
  } finally {
    connection.close();
    database.close();
  }
});
