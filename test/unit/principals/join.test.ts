import { describe, expect, test } from "vitest";
import { InputError, UnavailableError } from "#errors.ts";
import { assemble } from "#principals/assembly.ts";
import { compileRules } from "#principals/compile.ts";
import type { SourceRecord } from "#principals/entry.ts";
import type { Rules } from "#principals/rules.ts";
import { useConnection } from "../../support/duckdb.ts";
import { assembleAll, group, groupsOf, membership, plainRules, user } from "./assembling.ts";

const connection = useConnection();

/** People are one when their mail is; groups when their code is. */
const rules: Rules = {
  join: { users: "lower(entry.mail)", groups: "entry.code" },
  users: { ...plainRules.users, name: "entry.login" },
  groups: { ...plainRules.groups!, name: "entry.name" },
};

const person = (id: string, attributes: Record<string, string>, rest: object = {}) =>
  user(id, { attributes, origin: `${id}.`, ...rest });

describe("entries of several sources with one join key are one", () => {
  test("the first source wins attribute by attribute, the others fill in, memberships are united", async () => {
    const result = await assembleAll(
      connection(),
      {
        hr: [
          person("7", { mail: "Ada@example.com", cn: "Ada Lovelace" }, { memberOf: ["g"] }),
          group("g", { attributes: { code: "G", name: "engines" } }),
        ],
        ldap: [
          person("u-1", { mail: "ada@example.com", cn: "A. L.", login: "ada" }, { memberOf: ["h"] }),
          group("h"),
          group("k", { attributes: { code: "G", note: "Those who build", name: "ignored" } }),
          membership("k", { key: "u-2" }),
          person("u-2", { login: "bob" }),
        ],
      },
      rules,
    );
    expect(groupsOf(result)).toEqual({
      "group engines": [],
      "group h": [],
      "user ada": ["engines", "h"],
      "user bob": ["engines"],
    });
    expect(result.rows.find(({ name }) => name === "ada")).toMatchObject({
      display_name: "Ada Lovelace",
      mail: "Ada@example.com",
      source: "hr",
      source_id: "7",
      origin: "7. and u-1.",
    });
    expect(result.rows.find(({ name }) => name === "engines")).toMatchObject({ description: "Those who build" });
    expect(await connection().rows("FROM contributor ORDER BY kind, name")).toEqual([
      { kind: "group", name: "engines", source: "ldap", source_id: "k" },
      { kind: "user", name: "ada", source: "ldap", source_id: "u-1" },
    ]);
    expect(await connection().rows("SELECT table_name FROM duckdb_tables() WHERE temporary")).toEqual([]);
  });

  test("rules see the whole of it: who has left by one source is not there by the other", async () => {
    const result = await assembleAll(
      connection(),
      {
        hr: [person("7", { mail: "ada@example.com", status: "left" })],
        ldap: [person("u-1", { mail: "ada@example.com", login: "ada" }), group("g", { members: [{ key: "u-1" }] })],
      },
      rules,
    );
    expect(groupsOf(result)).toEqual({ "group g": [] });
    expect(result.assembly).toMatchObject({ excluded: 1, unresolved: { count: 1, excluded: 1, reasons: [] } });
  });

  test("an entry without a key is by itself", async () => {
    const result = await assembleAll(
      connection(),
      { hr: [person("7", { login: "ada" })], ldap: [person("8", { login: "bob", mail: "" })] },
      rules,
    );
    expect(result.rows.map(({ name }) => name)).toEqual(["ada", "bob"]);
  });

  test("kinds without an expression are not joined", async () => {
    const result = await assembleAll(
      connection(),
      { hr: [group("g", { attributes: { code: "G" } })], ldap: [group("h", { attributes: { code: "G" } })] },
      { ...rules, join: { users: "entry.mail" } },
    );
    expect(result.rows.map(({ name }) => name)).toEqual(["g", "h"]);
  });
});

describe("what is not known to be one is quarantined, and named with every origin", () => {
  const collisions = (sources: Record<string, SourceRecord[]>) => assembleAll(connection(), sources, rules);

  test("two records of one source with one key, and whoever they may be elsewhere", async () => {
    const { rows, quarantined } = await collisions({
      hr: [
        person("7", { mail: "x@example.com", login: "ada" }),
        person("8", { mail: "x@example.com", login: "bob" }),
        person("9", { mail: "y@example.com", login: "eve" }),
      ],
      ldap: [person("u-1", { mail: "x@example.com", login: "zoe" })],
    });
    expect(rows.map(({ name }) => name)).toEqual(["eve"]);
    expect(quarantined.map(({ name, source, reason }) => `${name} (${source}): ${reason}`)).toEqual([
      'ada (hr): the join key "x@example.com" is also used by 8., u-1.',
      'bob (hr): the join key "x@example.com" is also used by 7., u-1.',
      'zoe (ldap): the join key "x@example.com" is also used by 7., 8.',
    ]);
  });

  test("but not those that the rules exclude anyway: who was hired again has two records", async () => {
    const { rows, quarantined } = await collisions({
      hr: [
        person("7", { mail: "x@example.com", status: "left", cn: "Old" }),
        person("8", { mail: "x@example.com", status: "active", cn: "New" }),
        person("9", { mail: "y@example.com", status: "left" }),
        person("10", { mail: "y@example.com", status: "left" }),
      ],
      ldap: [
        person("u-1", { mail: "x@example.com", login: "ada" }),
        person("u-2", { mail: "y@example.com", login: "bob" }),
      ],
    });
    expect(rows.map(({ name, display_name }) => [name, display_name])).toEqual([["ada", "New"]]);
    expect(quarantined).toEqual([]);
  });

  test("two persons of different sources with one name and different keys", async () => {
    const { rows, quarantined } = await collisions({
      hr: [person("7", { mail: "a@example.com", login: "ada" })],
      ldap: [person("u-1", { mail: "b@example.com", login: "ada" })],
    });
    expect(rows).toEqual([]);
    expect(quarantined.map(({ reason }) => reason)).toEqual([
      'the name "ada" is also used by u-1.',
      'the name "ada" is also used by 7.',
    ]);
  });

  test("a record whose key cannot be told, and one whose id another record of its source has", async () => {
    const { rows, quarantined } = await collisions({
      hr: [person("7", { mail: "a@example.com", login: "ada" })],
      ldap: [
        user("u-1", { attributes: { mail: ["b@example.com", "c@example.com"], login: "bob" } }),
        person("u-2", { mail: "a@example.com" }),
        person("u-2", { mail: "d@example.com", login: "eve" }),
      ],
    });
    expect(rows).toEqual([]);
    expect(quarantined.map(({ name, reason }) => `${name}: ${reason}`)).toEqual([
      'ada: the id "u-2" is also used by u-2.',
      expect.stringMatching(/^bob: join\.users: lower\(\) needs a text, not several values/),
      'eve: the id "u-2" is also used by u-2.',
    ]);
  });
});

test("a large company is joined page by page", async () => {
  const count = 5001;
  const ids = Array.from({ length: count }, (_, index) => String(index));
  const result = await assembleAll(
    connection(),
    {
      hr: ids.map((id) => person(`hr-${id}`, { mail: `${id}@example.com`, cn: `N${id}` })),
      ldap: ids.toReversed().map((id) => person(`l-${id}`, { mail: `${id}@example.com`, login: `u${id}` })),
    },
    rules,
  );
  expect(result.assembly).toMatchObject({ users: count, quarantined: { count: 0 } });
  expect(result.rows.every(({ name, display_name }) => name.slice(1) === display_name.slice(1))).toBe(true);
});

describe("an optional source that fails", () => {
  const failing = async function* (records: readonly SourceRecord[], error: Error) {
    yield records;
    throw error;
  };
  const delivering = async function* (records: readonly SourceRecord[]) {
    yield records;
  };
  const run = (error: Error, ...rest: { name: string; optional?: boolean; records: AsyncIterable<SourceRecord[]> }[]) =>
    assemble(
      connection(),
      [
        {
          name: "vpn",
          optional: true,
          records: failing(
            [
              user("a", { memberOf: ["g"], attributes: { extra: "g" } }),
              group("g", { members: [{ key: "b" }] }),
              membership("g", { key: "x" }),
              user("left", { attributes: { status: "left" } }),
            ],
            error,
          ),
        },
        ...(rest as never[]),
      ],
      compileRules(plainRules),
      { signal: new AbortController().signal },
    );
  const hr = { name: "hr", records: delivering([user("b"), user("c")]) as never };

  test("leaves nothing of what it delivered, and says why", async () => {
    const error = new UnavailableError("vpn: no answer");
    const assembly = await run(error, { name: "hr", records: delivering([user("b"), group("h")]) as never });
    expect(assembly).toMatchObject({
      users: 1,
      groups: 1,
      excluded: 0,
      unread: [{ name: "vpn", error }],
      unresolved: { count: 0 },
      sources: [
        { name: "vpn", users: 0, groups: 0 },
        { name: "hr", users: 1, groups: 1 },
      ],
    });
    expect(await connection().rows("SELECT kind, name, group_names FROM assembled ORDER BY kind")).toEqual([
      { kind: "group", name: "h", group_names: [] },
      { kind: "user", name: "b", group_names: [] },
    ]);
  });

  test("fails the run all the same when it is the only one, or when the failure is a bug", async () => {
    await expect(run(new InputError("vpn: broken"))).rejects.toThrow("vpn: broken");
    await expect(run(new TypeError("a bug"), hr)).rejects.toThrow("source vpn: its connector has failed: a bug");
  });

  test("that delivers no lists has failed by its connector too", async () => {
    const records = delivering(user("b") as never) as never;
    await expect(run(new UnavailableError("vpn: no answer"), { name: "hr", records })).rejects.toThrow(
      "source hr: its connector has failed: it delivered something else than a list of records",
    );
  });
});
