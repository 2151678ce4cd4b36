import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { assemble } from "#principals/assembly.ts";
import { checkRules, compileRules } from "#principals/compile.ts";
import type { Entry, SourceRecord } from "#principals/entry.ts";
import type { Rules } from "#principals/rules.ts";
import { useConnection } from "../../support/duckdb.ts";
import { cases } from "../../support/random.ts";
import { group, user } from "./assembling.ts";

const connection = useConnection();

const named = (unique: string): Rules["users"] => ({
  include: 'entry.status != "left"',
  name: { value: "entry.name", unique },
  displayName: "entry.name",
});
const numbered: Rules = {
  users: named("name + string(n)"),
  groups: { name: { value: "entry.name", unique: 'name + "-" + string(n)' }, displayName: "entry.name" },
};

interface World {
  readonly sources: Readonly<Record<string, readonly SourceRecord[]>>;
  /** What the ledger has: `user ada hr 1`. */
  readonly owned?: readonly string[];
  /** What is in the target besides: `user ada`. */
  readonly present?: readonly string[];
  readonly rules?: Rules;
  readonly ignoresCase?: boolean;
}

/** What becomes of each record: `hr 1` → its name; undefined for those that are quarantined. */
async function namesOf({
  sources,
  owned = [],
  present = [],
  rules = numbered,
  ignoresCase = false,
}: World): Promise<Record<string, string>> {
  const values = (rows: readonly string[], width: number): string =>
    rows.length === 0
      ? `SELECT ${Array.from({ length: width }, () => "''").join(", ")} WHERE false`
      : `VALUES ${rows
          .map(
            (row) =>
              `(${row
                .split(" ")
                .map((each) => `'${each}'`)
                .join(", ")})`,
          )
          .join(", ")}`;
  const all = [...owned.map((row) => row.split(" ").slice(0, 2).join(" ")), ...present];
  await assemble(
    connection(),
    Object.entries(sources).map(([name, records]) => ({ name, records: inOne(records) })),
    compileRules(rules),
    {
      signal: new AbortController().signal,
      ignoresCase,
      known: {
        owned: `SELECT * FROM (${values(owned, 4)}) t(kind, name, source, source_id)`,
        present: `SELECT * FROM (${values(all, 2)}) t(kind, name)`,
      },
    },
  );
  const rows = await connection().rows<{ source: string; id: string; name: string }>(
    "SELECT source, source_id AS id, name FROM assembled ORDER BY ALL",
  );
  return Object.fromEntries(rows.map(({ source, id, name }) => [`${source} ${id}`, name]));
}

async function* inOne(records: readonly SourceRecord[]): AsyncIterable<readonly SourceRecord[]> {
  yield records;
}

const reasons = (): Promise<readonly { readonly name: string; readonly reason: string }[]> =>
  connection().rows("SELECT name, reason FROM quarantined ORDER BY ALL");

const called = (id: string, name: string, rest: Partial<Entry> = {}): Entry =>
  user(id, { ...rest, attributes: { name, ...rest.attributes } });

describe("a name that several records have", () => {
  test("is the first one's, by source and id, and the next ones get numbers", async () => {
    const hr = [called("c", "adam"), called("a", "adam"), called("b", "eve")];
    const vpn = [called("0", "adam")];
    const names = { "hr a": "adam", "hr b": "eve", "hr c": "adam2", "vpn 0": "adam3" };
    expect(await namesOf({ sources: { hr, vpn } })).toEqual(names);
    expect(await namesOf({ sources: { hr: hr.toReversed(), vpn } })).toEqual(names);
  });

  test("stays theirs who own it, whoever comes, and in whatever order", async () => {
    const hr = [called("a", "adam"), called("b", "adam"), called("c", "adam")];
    const owned = ["user adam hr c", "user adam3 hr a"];
    expect(await namesOf({ sources: { hr }, owned })).toEqual({ "hr a": "adam3", "hr b": "adam2", "hr c": "adam" });
  });

  test("is nobody else's while it is owned: not of who has left, not of who is called otherwise now", async () => {
    const hr = [called("b", "adam"), called("c", "adam"), called("d", "eve")];
    const owned = ["user adam hr gone", "user adam2 hr d"];
    expect(await namesOf({ sources: { hr }, owned })).toEqual({ "hr b": "adam3", "hr c": "adam4", "hr d": "eve" });
  });

  test("is again that of who comes back", async () => {
    const owned = ["user adam hr a", "user adam2 hr b"];
    expect(await namesOf({ sources: { hr: [called("b", "adam")] }, owned })).toEqual({ "hr b": "adam2" });
    expect(await namesOf({ sources: { hr: [called("b", "adam")] } })).toEqual({ "hr b": "adam" });
  });

  test("a number that the target has already is not given, and one name alone is taken over as ever", async () => {
    const sources = { hr: [called("a", "adam"), called("b", "adam"), called("c", "eve")] };
    const owned = ["user adam hr a"];
    expect(await namesOf({ sources, owned, present: ["user adam2", "user eve", "group adam3"] })).toEqual({
      "hr a": "adam",
      "hr b": "adam3",
      "hr c": "eve",
    });
  });

  test("that somebody in the target has: whose it is, is unknown", async () => {
    const sources = { hr: [called("a", "adam"), called("b", "adam"), called("c", "eve")] };
    expect(await namesOf({ sources, present: ["user adam"] })).toEqual({ "hr c": "eve" });
    const reason =
      'the name "adam" is shared by several new records and a user in the target: it is unknown which of them is the user';
    for (const each of await reasons())
      expect(each).toMatchObject({ name: "adam", reason: expect.stringContaining(reason) });
  });

  test("names that end in digits, and numbers that lead to one name", async () => {
    const hr = ["adam", "adam", "adam2", "adam2", "adam", "adam22"].map((name, index) => called(`${index}`, name));
    const names = await namesOf({ sources: { hr } });
    expect(names).toEqual({
      "hr 0": "adam",
      "hr 1": "adam3",
      "hr 2": "adam2",
      "hr 3": "adam23",
      "hr 4": "adam4",
      "hr 5": "adam22",
    });
    const owned = Object.entries(names).map(([record, name]) => `user ${name} ${record}`);
    expect(await namesOf({ sources: { hr: hr.toReversed() }, owned })).toEqual(names);
  });

  test("in other letters is the same where the target takes it for the same", async () => {
    const hr = [called("a", "adam"), called("b", "Adam"), called("c", "ADAM"), called("d", "Eve"), called("e", "eve")];
    const world: World = { sources: { hr }, owned: ["user ADAM2 hr b"], present: ["user aDAM3"], ignoresCase: true };
    expect(await namesOf(world)).toEqual({
      "hr a": "adam",
      "hr b": "ADAM2",
      "hr c": "ADAM4",
      "hr d": "Eve",
      "hr e": "eve2",
    });
    expect(await namesOf({ sources: { hr }, present: ["user EVE"], ignoresCase: true })).toEqual({
      "hr a": "adam",
      "hr b": "Adam3",
      "hr c": "ADAM2",
    });
    expect(await namesOf({ sources: { hr: [called("a", "Adam")] }, owned: ["user adam hr a"] })).toEqual({
      "hr a": "Adam",
    });
  });

  test("a record that a rule fails on keeps its name to itself", async () => {
    const hr = [called("a", "adam", { attributes: { mail: "x" } }), called("b", "adam")];
    const users = {
      ...named("name + string(n)"),
      description: 'entry.mail == "x" ? date("y") > now() ? "a" : "b" : "c"',
    };
    expect(await namesOf({ sources: { hr }, rules: { users } })).toEqual({ "hr b": "adam2" });
  });

  test("memberships, joined records and groups of the configuration follow", async () => {
    const hr = [
      group("g1", { attributes: { name: "staff" } }),
      group("g2", { attributes: { name: "staff" } }),
      group("g3", { attributes: { name: "all" } }),
      called("a", "adam", { memberOf: ["g1", "g2"] }),
    ];
    const staticGroups = [{ name: "all", displayName: "All", groups: [] }];
    expect(await namesOf({ sources: { hr }, rules: { ...numbered, staticGroups } })).toMatchObject({
      "hr g1": "staff",
      "hr g2": "staff-2",
      "hr g3": "all-2",
      "(configuration) all": "all",
    });
    const [row] = await connection().rows<{ groups: string[] }>(
      "SELECT group_names AS groups FROM assembled WHERE name = 'adam'",
    );
    expect(row?.groups).toEqual(["staff", "staff-2"]);
    const join = { users: "entry.mail" };
    const mail = (id: string): Entry => called(id, "adam", { attributes: { mail: "a@b" } });
    const sources = { hr: [mail("a"), called("b", "adam")], vpn: [mail("x")] };
    const owned = ["user adam2 vpn x", "user adam2 hr gone"];
    expect(await namesOf({ sources, owned, rules: { ...numbered, join } })).toEqual({
      "hr a": "adam2",
      "hr b": "adam",
    });
  });

  test("letters instead of numbers, and names that run out", async () => {
    const letters = named('name + "." + ["-", "-", "b", "c", "d"][n]');
    const hr = ["1", "2", "3", "4", "5"].map((id) => called(id, "adam"));
    const names = await namesOf({ sources: { hr }, rules: { users: letters } });
    expect(names).toEqual({ "hr 1": "adam", "hr 2": "adam.b", "hr 3": "adam.c", "hr 4": "adam.d" });
    expect(await reasons()).toEqual([
      { name: "adam (user:5)", reason: expect.stringContaining("users.name.unique: No such key: index out of bounds") },
    ]);
    const owned = ["user adam.c hr 5"];
    expect(await namesOf({ sources: { hr: hr.slice(3) }, owned, rules: { users: letters } })).toEqual({
      "hr 4": "adam",
      "hr 5": "adam.c",
    });
    const few = named("name + string(n % 2)");
    expect(await namesOf({ sources: { hr: hr.slice(0, 3) }, rules: { users: few } })).toEqual({
      "hr 1": "adam",
      "hr 2": "adam0",
      "hr 3": "adam1",
    });
    expect(Object.keys(await namesOf({ sources: { hr }, rules: { users: few } }))).toHaveLength(3);
    expect((await reasons())[0]?.reason).toContain("users.name.unique: all names up to number 10000 are taken");
  });
});

test.each([
  [
    'name + "2"',
    undefined,
    "says nothing of n, the number to tell names apart by: write something like name + string(n)",
  ],
  ["entry.name + string(n)", 0, "Unknown variable: entry; there are name, what the rule gives, and the number n"],
  ["name + strnig(n)", 7, "unknown function `strnig`; did you mean `string`?"],
  ["n", undefined, "gives int, but a text is needed"],
  ["name + (n", 9, "a ) is expected here"],
])("unique: %s", (unique, offset, message) => {
  const problem = { path: ["users", "name", "unique"], message };
  expect(checkRules({ users: named(unique) })).toEqual([offset === undefined ? problem : { ...problem, offset }]);
});

test("whoever comes and goes: names are distinct, stable, and not given to others while they are owned", async () => {
  const bases = ["adam", "Adam", "adam2", "ADAM2", "adam22", "eve", "eve3"];
  const people = fc.uniqueArray(fc.record({ id: fc.integer({ min: 0, max: 11 }), base: fc.constantFrom(...bases) }), {
    selector: ({ id }) => id,
    maxLength: 10,
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(people, { minLength: 2, maxLength: 3 }),
      fc.subarray(["adam3", "EVE2", "adam23"]),
      fc.boolean(),
      async (days, strangers, ignoresCase) => {
        const same = (name: string): string => (ignoresCase ? name.toLowerCase() : name);
        /** By record: its name, and what it was called when it got that. */
        let owned = new Map<string, { readonly name: string; readonly base: string }>();
        for (const day of days) {
          const names = await namesOf({
            sources: { hr: day.map(({ id, base }) => called(String(id), base)) },
            owned: [...owned].map(([record, { name }]) => `user ${name} ${record}`),
            present: strangers.map((name) => `user ${name}`),
            ignoresCase,
          });
          expect(Object.keys(names)).toHaveLength(day.length);
          expect(new Set(Object.values(names).map(same)).size).toBe(day.length);
          const now = new Map(owned);
          for (const { id, base } of day) {
            const record = `hr ${id}`;
            const name = names[record] ?? "";
            expect(same(name).startsWith(same(base))).toBe(true);
            const before = owned.get(record);
            if (before !== undefined && same(before.base) === same(base)) expect(name).toBe(before.name);
            for (const [other, { name: taken }] of owned)
              if (other !== record) expect(same(name)).not.toBe(same(taken));
            expect(strangers.map(same)).not.toContain(same(name));
            now.set(record, { name, base });
          }
          owned = now;
        }
      },
    ),
    { numRuns: cases(8) },
  );
});
