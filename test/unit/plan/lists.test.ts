import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { readPrincipals } from "#plan/lists.ts";
import { openMemory } from "../../support/duckdb.ts";
import { cases } from "../../support/random.ts";

test("B.9 the groups of a principal are a set ordered by code point, whatever order a service returns", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-lists-"));
  const { connection, close } = await openMemory();
  try {
    const file = join(folder, "list.json");
    const names = fc.array(fc.option(fc.constantFrom("", "A", "a", "b", "\uFFFD", "\u{1F600}"), { freq: 5 }), {
      maxLength: 5,
    });
    const lists = fc.sample(fc.option(names, { freq: 20 }), { numRuns: 2_000 });
    const list = lists.map((groupNames, index) => ({
      name: String(index),
      displayName: "Somebody",
      principalTypeEnum: "LOCAL_USER",
      groupNames,
    }));
    await writeFile(file, JSON.stringify(list));
    await readPrincipals(connection, file, "actual");
    const rows = await connection.rows<{ group_names: string[] }>(
      "SELECT group_names FROM actual ORDER BY name::INTEGER",
    );
    const byCodePoint = (one: string, other: string): number => Buffer.compare(Buffer.from(one), Buffer.from(other));
    expect(rows.map((row) => row.group_names)).toEqual(
      lists.map((groups) => [...new Set((groups ?? []).filter((name) => name !== null))].sort(byCodePoint)),
    );
  } finally {
    close();
    await rm(folder, { recursive: true });
  }
});

test("B.9 principals are read alike, whether all are as the service lists them or one of them has more", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-lists-"));
  const { connection, close } = await openMemory();
  try {
    const text = fc.string({ unit: "binary", maxLength: 5 }).map((value) => value.toWellFormed());
    const given = fc.oneof(text, fc.constant(null));
    const principals = fc.array(
      fc.record(
        {
          displayName: given,
          description: given,
          mail: given,
          groupNames: fc.oneof(fc.array(text, { maxLength: 3 }), fc.constant(null)),
          visibility: text,
          created: fc.oneof(fc.integer(), given),
          password: given,
        },
        { requiredKeys: [] },
      ),
      { minLength: 1, maxLength: 4 },
    );
    const read = async (list: readonly object[]) => {
      const file = join(folder, "list.json");
      await writeFile(file, JSON.stringify(list));
      await readPrincipals(connection, file, "actual");
      const rows = await connection.rows<{ fields: string | null }>(
        "FROM actual LEFT JOIN actual_extra USING (kind, name) ORDER BY name",
      );
      // How a character is escaped makes no other value.
      return rows.map(({ fields, ...rest }) => [rest, JSON.parse(`{${fields ?? ""}}`)]);
    };
    await fc.assert(
      fc.asyncProperty(principals, async (all) => {
        const list = all.map((one, index) => ({ name: `u${index}`, principalTypeEnum: "LOCAL_USER", ...one }));
        expect(await read(list)).toEqual(await read([...list, { name: "x", principalTypeEnum: "LDAP_USER" }]));
      }),
      { numRuns: cases(25) },
    );
  } finally {
    close();
    await rm(folder, { recursive: true });
  }
});

test("a list is read wherever white space stands before its commas, however large it is", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-lists-"));
  const { connection, close } = await openMemory();
  try {
    const file = join(folder, "list.json");
    const listed = (index: number): string =>
      JSON.stringify({ name: `u${index}`, principalTypeEnum: "LOCAL_USER", displayName: "Somebody" });
    // Every read ends in white space, of whatever size it is.
    const elements = Array.from({ length: 70 }, (_, index) => listed(index)).join(`${" ".repeat(512 * 1024)},`);
    await writeFile(file, `[${elements}]`);
    await readPrincipals(connection, file, "actual");
    const [row] = await connection.rows<{ n: bigint }>("SELECT count(DISTINCT name) AS n FROM actual");
    expect(row?.n).toBe(70n);
    await writeFile(file, `[${elements}, tru]`);
    await expect(readPrincipals(connection, file, "actual")).rejects.toThrow("not valid JSON at principals[70]");
  } finally {
    close();
    await rm(folder, { recursive: true });
  }
});
