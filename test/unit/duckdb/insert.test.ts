import { tmpdir } from "node:os";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openDatabase } from "#duckdb/database.ts";
import type { Connection, Database } from "#duckdb/database.ts";
import { Rows } from "#duckdb/insert.ts";
import { cases } from "../../support/random.ts";

let database: Database;
let connection: Connection;

beforeAll(async () => {
  database = await openDatabase({ path: ":memory:", memory: 256 * 2 ** 20, spill: tmpdir() });
  connection = await database.connect();
});

afterAll(() => {
  connection.close();
  database.close();
});

type Row = readonly [number, string | null, string | null];
const columns = "n INTEGER, one VARCHAR, other VARCHAR";

async function inserted(all: readonly Row[]): Promise<unknown> {
  await connection.run(`CREATE OR REPLACE TEMP TABLE t (${columns})`);
  const rows = new Rows(connection.raw, { t: columns });
  try {
    for (const row of all) rows.append("t", ...row);
    await rows.flush();
  } finally {
    await rows.close();
  }
  const found = await connection.rows<{ n: number; one: string | null; other: string | null }>("FROM t ORDER BY n");
  return found.map(({ n, one, other }) => [n, one, other]);
}

test("every text arrives as it is, and none as none, whatever is beside it", async () => {
  const unit = fc.constantFrom("a", "ü", "🦉", "\u{D83E}", "\u{FEFF}", '"', "\\", ",", "\n", "\r");
  const special = fc.constantFrom("\0", "\u{1E}", "\u{1F}", "\u{1E}\u{1F}");
  const text = fc.oneof({ weight: 30, arbitrary: fc.string({ unit, maxLength: 4 }) }, special);
  const value = fc.option(text, { nil: null });
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(value, value), { minLength: 1, maxLength: 20 }), async (values) => {
      const rows = values.map(([one, other], n) => [n, one, other] as const);
      const wellFormed = rows.map(([n, ...texts]) => [n, ...texts.map((each) => each?.toWellFormed() ?? null)]);
      expect(await inserted(rows)).toEqual(wellFormed);
    }),
    { numRuns: cases(100) },
  );
});

test("rows of many inserts keep their columns beside each other", async () => {
  const rows = Array.from({ length: 10_000 }, (_, n): Row => [
    n,
    n % 3 === 0 ? null : `one ${n}`,
    n === 5_000 ? "\u{1F}" : "",
  ]);
  expect(await inserted(rows)).toEqual(rows);
});

test("rows with long texts need not fit into memory together", async () => {
  const small = await openDatabase({ path: ":memory:", memory: 96 * 2 ** 20, spill: tmpdir() });
  const only = await small.connect();
  try {
    await only.run(`CREATE TEMP TABLE t (${columns})`);
    const rows = new Rows(only.raw, { t: columns });
    for (let n = 0; n < 8_192; n++) {
      rows.append("t", n, n % 2 === 0 ? "short" : "ü".repeat(2 ** 14), null);
      await rows.room();
    }
    await rows.flush();
    await rows.close();
    const found = await only.rows("SELECT count(*)::INTEGER AS count, sum(length(one))::INTEGER AS length FROM t");
    expect(found).toEqual([{ count: 8_192, length: 4_096 * ("short".length + 2 ** 14) }]);
  } finally {
    only.close();
    small.close();
  }
});
