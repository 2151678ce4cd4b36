import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { readPrincipals } from "#plan/lists.ts";
import { openMemory } from "../../support/duckdb.ts";

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
