import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Entry, ReadContext } from "#connector.ts";
import csv from "#connectors/csv/index.ts";
import { IncompleteReadError, InputError } from "#errors.ts";
import { compileRules } from "#principals/compile.ts";

// A column that rules read, and that a file no longer has, reads as null, and clears.

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-csv-columns-"));
});

afterEach(() => rm(folder, { recursive: true }));

const write = (name: string, text: string) => writeFile(join(folder, name), text);
const users = { file: "users.csv", id: "id" };

async function read(options: object, context: Partial<ReadContext> = {}): Promise<readonly Entry[]> {
  const source = csv.open(csv.options.parse(options), { name: "corp", folder });
  const signal = new AbortController().signal;
  const records = await Array.fromAsync(source.read({ signal, warn: () => {}, ...context }));
  return records.flat().filter((record) => record.kind !== "membership");
}

/** The context of a sync with these rules and this source alone. */
function contextOf(rules: Partial<Record<"displayName" | "mail" | "include", string>>): Partial<ReadContext> {
  const compiled = compileRules({ users: { name: "entry.id", displayName: "entry.id", ...rules } });
  return { attributes: compiled.attributes(), required: compiled.required() };
}

async function failure(options: object, context: Partial<ReadContext>): Promise<string> {
  const error: unknown = await read(options, context).catch((error: unknown) => error);
  expect(error instanceof InputError || error instanceof IncompleteReadError).toBe(true);
  return (error as Error).message;
}

describe("a column that a rule needs", () => {
  test("fails the read when the header lacks it, and suggests what it may be called now", async () => {
    await write("users.csv", "id,address\n1,ada@example.com\n");
    const context = contextOf({ mail: "lower(entry.mail)" });
    expect(await failure({ users }, context)).toBe(
      "users.csv:1: no column gives entry.mail, which a rule reads; there are id, address; " +
        "if the file may be without it, list it under optionalColumns",
    );
    await write("users.csv", "id,E-Mail address\n1,ada@example.com\n");
    expect(await failure({ users }, context)).toContain('did you mean "E-Mail address"?; if');
    await write("users.csv", "id,mail2\n1,ada@example.com\n");
    expect(await failure({ users }, context)).toContain('did you mean "mail2"?; if');
    await write("users.csv", "id,Mail\n1,ada@example.com\n");
    expect(await failure({ users }, context)).toContain(
      'it is written "Mail" there: write it so, or set ignoreCase; if',
    );
    expect(await read({ users: { ...users, optionalColumns: ["mail"] } }, context)).toHaveLength(1);
  });

  test("may be mapped, and must be", async () => {
    await write("users.csv", "id,e-mail\n1,ada@example.com\n");
    const context = contextOf({ mail: "entry.mail" });
    expect(await read({ users: { ...users, columns: { id: "id", mail: "e-mail" } } }, context)).toHaveLength(1);
    expect(await failure({ users: { ...users, columns: { id: "id", adress: "e-mail" } } }, context)).toContain(
      "no column gives entry.mail, which a rule reads",
    );
  });

  test("must be in every file", async () => {
    await write("users-1.csv", "id,mail\n1,ada@example.com\n");
    await write("users-2.csv", "id\n2\n");
    const options = { users: { file: "users-*.csv", id: "id" }, headers: "byName" };
    expect(await failure(options, contextOf({ mail: "entry.mail" }))).toContain(
      "users-2.csv:1: no column gives entry.mail",
    );
  });

  test("is not one that the rule reads with has or coalesce", async () => {
    await write("users.csv", "id\n1\n");
    for (const mail of ["coalesce(entry.mail, entry.id)", "has(entry.mail) ? lower(entry.mail) : dyn(null)"])
      expect(await read({ users }, contextOf({ mail }))).toHaveLength(1);
    expect(await failure({ users }, contextOf({ include: 'entry.status != "left"' }))).toContain("entry.status");
    // How a rule asks for an empty cell.
    expect(await failure({ users }, contextOf({ include: "entry.left == null" }))).toContain("entry.left");
  });

  test("is found in any case where that is allowed", async () => {
    await write("users.csv", "ID,E-Mail\n1,ada@example.com\n");
    const context = contextOf({ mail: 'entry["e-mail"]', displayName: "entry.Id" });
    const [entry] = await read({ users, ignoreCase: true }, context);
    expect(entry?.attributes).toEqual({ id: "1", Id: "1", "e-mail": "ada@example.com" });
  });
});

describe("what the last good read had", () => {
  const many = (mail: string) => `id,mail\n${Array.from({ length: 12 }, (_, id) => `${id},${mail}\n`).join("")}`;
  const rules = { mail: "coalesce(entry.mail, entry.id)" };

  async function counted(): Promise<Record<string, number>> {
    const counts: Record<string, number> = {};
    await write("users.csv", many("x@example.com"));
    await read({ users }, { ...contextOf(rules), count: (name, amount) => void (counts[name] = amount) });
    return counts;
  }

  test("counts the values of the columns that rules read", async () => {
    expect(await counted()).toEqual({ "users with id": 12, "users with mail": 12 });
  });

  test("fails the read when a column is gone, though the rule has coalesce, or another source may have it", async () => {
    const lastCounts = await counted();
    await write("users.csv", "id,e-mail\n1,ada@example.com\n");
    const context = { ...contextOf(rules), required: undefined, lastCounts };
    expect(await failure({ users }, context)).toMatch(
      /^users\.csv:1: no column gives entry\.mail, which a rule reads, and 12 users had a value there at the last good read; did you mean "e-mail"\?;/,
    );
    expect(await read({ users: { ...users, optionalColumns: ["mail"] } }, context)).toHaveLength(1);
  });

  test("fails the read when a column is empty all at once", async () => {
    const lastCounts = await counted();
    await write("users.csv", many(""));
    const context = { ...contextOf(rules), lastCounts };
    expect(await failure({ users }, context)).toBe(
      "the column of entry.mail is empty for all users, and 12 had a value there at the last good read; " +
        "if the file may be without it, list it under optionalColumns",
    );
    expect(await read({ users: { ...users, optionalColumns: ["mail"] } }, context)).toHaveLength(12);
    expect(await read({ users }, { ...context, lastCounts: { "users with mail": 9 } })).toHaveLength(12);
  });
});

test("a column of memberships that is empty all at once fails the read", async () => {
  await write("users.csv", "id,departments\n1,\n2,\n");
  const options = { ...users, memberOf: { column: "departments" } };
  const lastCounts = { "memberships of users": 10 };
  expect(await failure({ users: options }, { lastCounts })).toBe(
    "the users have no memberships (departments), and 10 at the last good read; if the file may be without it, list it under optionalColumns",
  );
  expect(await read({ users: { ...options, optionalColumns: ["departments"] } }, { lastCounts })).toHaveLength(2);
});

describe("a last row without a line end", () => {
  const warned = async (options: object): Promise<readonly string[]> => {
    const warnings: string[] = [];
    await read(options, { warn: (message) => void warnings.push(message) });
    return warnings;
  };

  test("is warned of, where nothing proves that the file is whole", async () => {
    await write("users.csv", "id,name\n1,Ada\n2,B");
    expect(await warned({ users })).toEqual([
      "users.csv:3: the last row has no line end, unlike all others: the file may be cut off within it; " +
        "a trailer or a checksum proves it complete; setting minRows silences this warning",
    ]);
    expect(await warned({ users: { ...users, minRows: 2 } })).toEqual([]);
    await write("users.csv", "id,name\n1,Ada\nEND,1");
    expect(await warned({ users, trailer: "^END,(\\d+)$" })).toEqual([]);
    await write("users.csv", "id,name\r\n1,Ada\r\n");
    expect(await warned({ users })).toEqual([]);
  });
});
