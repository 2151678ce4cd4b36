import { expect, test } from "vitest";
import { assemble } from "#principals/assembly.ts";
import { compileRules } from "#principals/compile.ts";
import type { Entry } from "#principals/entry.ts";
import { lookupKey } from "#principals/lookup.ts";
import type { Rules } from "#principals/rules.ts";
import { objectionToKey, trimmed, withoutUnseen } from "#text.ts";
import { useConnection } from "../../support/duckdb.ts";

const connection = useConnection();

test("keys and names have nothing that cannot be seen; what belongs to a script or an emoji may stay", () => {
  const fine = [
    "ada",
    "Ada Lovelace",
    "Zoë Ünal",
    "東京　支社",
    "葛\u{E0100}城",
    "Team ❤️",
    "👩‍💻 devs",
    "می‌خواهم",
    "क्‍ष",
    "a-b_c.d",
  ];
  for (const text of fine) expect([text, objectionToKey(text), trimmed(text)]).toEqual([text, undefined, text]);
  for (const [text, objection] of [
    ["ada ", "ends with white space"],
    [" ada", "begins with white space"],
    ["ada\t", "has an invisible character (U+0009)"],
    ["ada\u{200B}", "has an invisible character (U+200B)"],
    ["a\u{200D}da", "has an invisible character (U+200D)"],
    ["ada1\u{FE0F}", "has an invisible character (U+FE0F)"],
    ["\u{FEFF}ada", "has an invisible character (U+FEFF)"],
    ["ada\u{A0}king", "has an invisible character (U+00A0)"],
    ["ada\u{AD}king", "has an invisible character (U+00AD)"],
    ["ada\u{202E}", "has an invisible character (U+202E)"],
    ["ada\u{3164}", "has an invisible character (U+3164)"],
    ["ada\u{3000}", "ends with white space"],
  ] as const)
    expect([text, objectionToKey(text)]).toEqual([text, objection]);
  expect(trimmed("\u{FEFF} \u{A0}ada lovelace\u{200B}\t")).toBe("ada lovelace");
  expect(trimmed("\u{200B} ")).toBe("");
  expect(trimmed(" Team ❤️ ")).toBe("Team ❤️");
  expect(withoutUnseen(" a\u{200B}da\u{A0}king\u{AD} ")).toBe("ada king");
  expect(() => lookupKey("x\u{200B}")).toThrow('the key "x\\u{200b}" has an invisible character (U+200B)');
});

const user = (id: string, attributes: Entry["attributes"], memberOf: string[] = []): Entry => ({
  kind: "user",
  id,
  origin: `people.csv:${id}`,
  attributes,
  keys: [id],
  memberOf,
  members: [],
});
const group = (id: string, members: string[] = []): Entry => ({
  kind: "group",
  id,
  origin: `groups.csv:${id}`,
  attributes: { name: id },
  keys: [id],
  memberOf: [],
  members: members.map((key) => ({ kind: "user", key })),
});

async function assembled(rules: Partial<Rules>, ...sources: Entry[][]): Promise<{ made: string[]; doubts: string[] }> {
  const compiled = compileRules({
    users: { name: "entry.login", displayName: "entry.login", groups: "entry.team" },
    groups: { name: "entry.name", displayName: "entry.name" },
    staticGroups: [],
    defaultGroups: [],
    ...rules,
  });
  await assemble(
    connection(),
    sources.map((entries, place) => ({
      name: `s${place}`,
      records: (async function* all() {
        yield entries;
      })(),
    })),
    compiled,
    { signal: new AbortController().signal },
  );
  const made = await connection().rows<{ name: string; group_names: string[] }>(
    "SELECT name, group_names FROM assembled ORDER BY kind DESC, name",
  );
  const doubts = await connection().rows<{ reason: string }>("SELECT reason FROM quarantined ORDER BY reason");
  return {
    made: made.map(({ name, group_names: groups }) => [name, ...groups].join(" ")),
    doubts: doubts.map(({ reason }) => reason),
  };
}

test("nobody becomes a second person who looks the same, and the reason shows the character", async () => {
  const { made, doubts } = await assembled({}, [
    user("1", { login: "ada" }),
    user("2", { login: "ada " }),
    user("3", { login: "ada\u{200B}" }),
    user("4\u{AD}", { login: "bob" }),
    user("5", { login: "eve", team: "Sales\u{A0}" }),
  ]);
  expect(made).toEqual(["ada"]);
  const advice = "correct the source, or use trim(…) or replace(…) in the rule";
  expect(doubts).toEqual([
    'the id "4\\u{00ad}" has an invisible character (U+00AD); correct the source',
    `users.groups: "Sales\\u{00a0}" has an invisible character (U+00A0); ${advice}`,
    `users.name: "ada " ends with white space; ${advice}`,
    `users.name: "ada\\u{200b}" has an invisible character (U+200B); ${advice}`,
  ]);
  const mended = await assembled({ users: { name: "trim(entry.login)", displayName: "entry.login" } }, [
    user("3", { login: "\u{FEFF}ada\u{200B} " }),
  ]);
  expect(mended).toEqual({ made: ["ada"], doubts: [] });
  // The two ways to write é are one.
  const accents = await assembled({}, [user("1", { login: "ren\u{E9}" }), user("2", { login: "rene\u{301}" })]);
  expect(accents.made).toEqual([]);
  expect(accents.doubts[0]).toContain('the name "ren\u{E9}" is also used by');
});

test("a join key that cannot be seen joins nothing, and says so", async () => {
  const rules = { join: { users: "entry.mail" } };
  const { made, doubts } = await assembled(
    rules,
    [user("1", { login: "ada", mail: "ada@x.com" })],
    [user("9", { login: "ada2", mail: "ada@x.com\u{200B}" })],
  );
  expect(made).toEqual(["ada"]);
  expect(doubts).toEqual([expect.stringContaining('join.users: "ada@x.com\\u{200b}" has an invisible character')]);
});

test("a reference that differs from a key only in what cannot be seen is in doubt, not without effect", async () => {
  const { made, doubts } = await assembled({}, [
    user("1", { login: "ada" }, ["Sales\u{200B}"]),
    user("2", { login: "bob" }, ["Sales"]),
    user("3", { login: "eve" }, ["Nobody\u{200B}"]),
    group("Sales"),
    group("Ops", ["2 "]),
  ]);
  expect(made).toEqual(["bob Sales", "eve", "Sales"]);
  expect(doubts).toEqual([
    'the reference "2 " may mean the user "2": they differ in white space or invisible characters',
    'the reference "Sales\\u{200b}" may mean the group "Sales": they differ in white space or invisible characters',
  ]);
});
