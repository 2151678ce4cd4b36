import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { serviceAttributes } from "#principals/attributes.ts";
import { describeForeign, membersWithout } from "#plan/carried.ts";
import { createPlan } from "#plan/diff.ts";
import { measure } from "#plan/limits.ts";
import { depart } from "#plan/departures.ts";
import { readPrincipals, writePrincipals } from "#plan/lists.ts";
import { combine, freeze } from "#plan/protect.ts";
import type { Kind } from "#principals/principal.ts";
import { tablesOf } from "#plan/tables.ts";
import { cases } from "../../support/random.ts";
import { useConnection } from "../../support/duckdb.ts";

const tables = tablesOf(serviceAttributes);

const connection = useConnection();
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-carried-"));
});
afterAll(() => rm(folder, { recursive: true }));

async function read(text: string): Promise<void> {
  const file = join(folder, "list.json");
  await writeFile(file, text);
  await readPrincipals(connection(), file, "actual");
}

/** What is sent back when nothing is to change. */
async function sentBack(text: string): Promise<string> {
  await read(text);
  await connection().run("CREATE OR REPLACE TABLE desired AS FROM actual");
  const file = join(folder, "desired.json");
  await writePrincipals(connection(), file);
  return readFile(file, "utf8");
}

const user = '"name":"ada","displayName":"Ada","principalTypeEnum":"LOCAL_USER","groupNames":[]';

test.each([
  ['"visibility":"DEFAULT"', '"visibility":"DEFAULT"'],
  ['"z":1e400,"a":12345678901234567890,"z":2,"b":-0', '"z":1e400,"a":12345678901234567890,"z":2,"b":-0'],
  [
    '"half":0.50,"tenth":1E-1,"pi":3.14159265358979323846264',
    '"half":0.50,"tenth":1E-1,"pi":3.14159265358979323846264',
  ],
  [
    '"nested": {"name": [1.0, {"mail": null, "name": 2, "name": 3}]}',
    '"nested": {"name": [1.0, {"mail": null, "name": 2, "name": 3}]}',
  ],
  ['"list":[],"none":null,"yes":true,"text":"},{\\"x\\u00e9"', '"list":[],"none":null,"yes":true,"text":"},{\\"xé"'],
  ['"displayname":"another key","\\u006eote":"1.5"', '"displayname":"another key","\\u006eote":"1.5"'],
  // What the service keeps by itself, and what must not be sent back.
  ['"created":1,"modified":2,"password":"x"', ""],
])("fields that the interface does not have go back as they came: %s", async (fields, back) => {
  const end = back === "" ? "" : `,${back}`;
  expect(await sentBack(`[{${fields},${user}}]`)).toBe(`[{${user}${end}}]`);
  expect(await sentBack(`[{${user},${fields}}]`)).toBe(`[{${user}${end}}]`);
});

test("the mail of a group is a field that the interface does not have", async () => {
  const group = '"name":"g","displayName":"G","principalTypeEnum":"LOCAL_GROUP","groupNames":[]';
  expect(await sentBack(`[{"mail":"g@example.com",${group}}]`)).toBe(`[{${group},"mail":"g@example.com"}]`);
});

test("principals of other types go back as they came, behind the others", async () => {
  const foreign = '{ "x": 1.10, "name": "bob",\t"principalTypeEnum": "LDAP_USER", "name": 5, "groupNames": 7 }';
  expect(await sentBack(`[${foreign.replace(",", ",\n")},{${user}}]`)).toBe(
    `[{${user}},\n${foreign.replace(",", ", ")}]`,
  );
});

test.each([
  ['[{"displayName":"x","principalTypeEnum":"LDAP_USER"}]', "a principal in the list has no name"],
  ['[{"name":"x","displayName":"x"}]', "the principal x in the list has no type: it is neither a user nor a group"],
  ['[{"name":"x","principalTypeEnum":5}]', "the principal x in the list has no type: it is neither a user nor a group"],
  ["[null]", "a principal in the list has no name"],
])("what is no principal at all is refused: %s", async (text, message) => {
  await expect(read(text)).rejects.toThrow(message);
});

test("an export has users and groups only", async () => {
  const file = join(folder, "exported.json");
  await writeFile(file, `[{${user}},{"name":"lea","principalTypeEnum":"LDAP_USER"}]`);
  await readPrincipals(connection(), file, "principals");
  expect(await connection().rows("SELECT kind, name FROM principals")).toEqual([{ kind: "user", name: "ada" }]);
});

test("random fields go back with the very text of their values", async () => {
  const number = fc.constantFrom("0", "-0", "-0.0", "1e400", "1E5", "0.10", "12345678901234567890", "-7");
  const string = fc.string({ unit: "binary" }).map((text) => JSON.stringify(text.toWellFormed()));
  const { value } = fc.letrec<{ value: string }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      number,
      string,
      fc.constantFrom("true", "null", "[]", "{}"),
      fc.array(tie("value"), { maxLength: 3 }).map((items) => `[${items.join(" , ")}]`),
      fc
        .array(fc.tuple(string, tie("value")), { maxLength: 3 })
        .map((all) => `{${all.map((one) => one.join(" : ")).join()}}`),
    ),
  }));
  const fields = fc.array(
    fc.tuple(
      string.filter((key) => !user.includes(key)),
      value,
    ),
    { maxLength: 5 },
  );
  await fc.assert(
    fc.asyncProperty(fields, async (all) => {
      const members = all.map(([key, text]) => `${key}:${text}`);
      expect(membersWithout(`{ ${[...members, user].join(" , ")} }`, Object.keys(JSON.parse(`{${user}}`)))).toBe(
        members.join(","),
      );
      const back = await sentBack(`[{${[...members, user].join()}}]`);
      // Where nothing needs its own text, DuckDB writes it: without white space, and with its own escapes.
      const plain = (text: string): unknown =>
        text.replaceAll(/"(?:[^"\\]|\\.)*"|\s+/gs, (part) =>
          part.startsWith('"') ? JSON.stringify(JSON.parse(part)) : "",
        );
      expect(plain(back)).toBe(plain(`[{${[user, ...members].join()}}]`));
    }),
    { numRuns: cases(25) },
  );
});

describe("what a target has as another type", () => {
  const of = (type: string, name: string, groupNames: readonly string[] = []): object => ({
    name,
    displayName: name,
    principalTypeEnum: type,
    groupNames,
  });

  async function plan(
    target: readonly object[],
    sources: readonly { kind: Kind; name: string; groups?: readonly string[]; id?: string }[],
    owned: readonly (readonly [Kind, string, string])[] = [],
    administrators: readonly string[] = [],
  ) {
    await read(JSON.stringify(target));
    await connection().run(`
      CREATE OR REPLACE TABLE assembled (${tables.assembled}); CREATE OR REPLACE TABLE contributor (${tables.contributor});
      CREATE OR REPLACE TABLE quarantined (${tables.quarantined});
      CREATE OR REPLACE TEMP TABLE ledger (${tables.ledger}); CREATE OR REPLACE TEMP TABLE leaving_since (${tables.leaving_since})`);
    for (const { kind, name, groups = [], id = name } of sources)
      await connection().run(
        `INSERT INTO assembled VALUES (?, ?, ?, NULL, NULL, from_json(?::JSON, '["VARCHAR"]'), 'hr', ?, 'people.csv:2', 0)`,
        [kind, name, name, JSON.stringify(groups), id],
      );
    for (const row of owned) await connection().run("INSERT INTO ledger VALUES (?, ?, 'hr', ?)", row);
    await freeze(connection(), { manage: "everything", makesGroups: true, users: [], groups: ["kept"] });
    const rules = { after: 0, renames: "apply", reusedNames: "apply", administrators } as const;
    const departures = await depart(connection(), rules, 0);
    await combine(connection(), serviceAttributes);
    const rows = await connection().rows<{ who: string }>(
      "SELECT kind || ' ' || name || ': ' || array_to_string(group_names, ' ') AS who FROM desired ORDER BY who",
    );
    return { desired: rows.map(({ who }) => who), departures, foreign: await describeForeign(connection()) };
  }

  test("is not created a second time; what may be either takes the name of both", async () => {
    const { desired, foreign } = await plan(
      [of("LDAP_USER", "ada"), of("SAML_GROUP", "bob"), of("ROLE", "eve")],
      [
        { kind: "user", name: "ada" },
        { kind: "user", name: "bob" },
        { kind: "group", name: "eve" },
      ],
    );
    expect(desired).toEqual(["user bob: "]);
    expect(foreign).toEqual({
      types: ["LDAP_USER", "ROLE", "SAML_GROUP"].map((type) => ({ type, count: 1 })),
      taken: {
        count: 2,
        examples: [
          { kind: "user", name: "ada", type: "LDAP_USER" },
          { kind: "group", name: "eve", type: "ROLE" },
        ],
      },
    });
  });

  test("does not keep the users and groups of the same name from being managed", async () => {
    const { desired } = await plan(
      [of("LDAP_USER", "ada"), of("LOCAL_USER", "ada", ["staff"]), of("LOCAL_GROUP", "staff"), of("X_GROUP", "staff")],
      [
        { kind: "user", name: "ada" },
        { kind: "group", name: "staff" },
      ],
    );
    expect(desired).toEqual(["group staff: ", "user ada: "]);
  });

  test("keeps its members, and may get more from rules", async () => {
    const { desired } = await plan(
      [of("LDAP_GROUP", "ops"), of("LDAP_GROUP", "dev"), of("LOCAL_USER", "ada", ["ops"])],
      [{ kind: "user", name: "ada", groups: ["dev"] }],
    );
    expect(desired).toEqual(["user ada: dev ops"]);
  });

  test("keeps its groups from being deleted or renamed, and its own groups from losing their last member", async () => {
    const { desired, departures } = await plan(
      [
        of("LOCAL_GROUP", "gone"),
        of("LOCAL_GROUP", "old"),
        of("LOCAL_GROUP", "free"),
        of("LOCAL_GROUP", "kept"),
        of("LOCAL_USER", "zoe", ["kept"]),
        of("LDAP_USER", "lea", ["gone", "old", "kept"]),
      ],
      [{ kind: "group", name: "new", id: "1" }],
      [["group", "old", "1"]],
    );
    expect(desired).toEqual(["group gone: ", "group kept: ", "group old: "]);
    expect(departures.kept.examples.map(({ name, because }) => [name, because])).toEqual([
      ["gone", "foreign member"],
      ["old", "foreign member"],
    ]);
    expect(departures.renames.examples).toMatchObject([{ from: "old", to: "new", held: true }]);
  });

  test("holds a rename to its name", async () => {
    const { desired, departures } = await plan(
      [of("LOCAL_USER", "bob"), of("LDAP_USER", "rob")],
      [{ kind: "user", name: "rob", id: "1" }],
      [["user", "bob", "1"]],
    );
    expect(desired).toEqual(["user bob: "]);
    expect(departures.renames.examples).toMatchObject([{ from: "bob", to: "rob", held: true }]);
  });

  test("is still in a group that has lost all others", async () => {
    await plan(
      [of("LOCAL_GROUP", "staff"), of("LOCAL_USER", "ada", ["staff"]), of("LDAP_USER", "lea", ["staff"])],
      [
        { kind: "group", name: "staff" },
        { kind: "user", name: "ada" },
      ],
    );
    await connection().run(
      `CREATE OR REPLACE TEMP TABLE lost_recently (${tables.lost_recently}); CREATE OR REPLACE TEMP TABLE renamed (${tables.renamed})`,
    );
    await createPlan(connection(), serviceAttributes);
    const { amounts } = await measure(connection(), serviceAttributes, { sources: {}, floor: 10, action: "hold" });
    expect(amounts.find((each) => each.measure === "emptied")?.amount).toBe(0);
  });

  test("passes on the administration privilege", async () => {
    const { desired } = await plan(
      [of("LOCAL_GROUP", "root"), of("LDAP_GROUP", "ops", ["root"]), of("LOCAL_USER", "ada", ["ops"])],
      [{ kind: "group", name: "root" }],
      [],
      ["root"],
    );
    expect(desired).toEqual(["group root: ", "user ada: ops"]);
  });
});
