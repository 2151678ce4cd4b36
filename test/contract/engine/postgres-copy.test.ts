import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { literal } from "#duckdb/database.ts";
import { postgres as options } from "#postgres/options.ts";
import type { Engine } from "#service/engine/engine.ts";
import { openPostgresEngine } from "#service/engine/postgres/postgres.ts";
import { startPostgres } from "../../support/postgres.ts";
import type { PostgresServer } from "../../support/postgres.ts";
import { cases } from "../../support/random.ts";
import { pageOf, stageOf } from "./stage.ts";

const never = new AbortController().signal;
let server: PostgresServer;
let folder: string;
let engine: Engine;
let loads = 0;

beforeAll(async () => {
  server = await startPostgres();
  folder = await mkdtemp(join(tmpdir(), "rollcall-copy-"));
  const url = await server.createDatabase();
  engine = await openPostgresEngine({ postgres: options.parse({ postgres: url }), folder, memory: 512 * 2 ** 20 });
  const columns = kinds.map(({ name, type }) => `${name} ${type}`).join(", ");
  await engine.define(
    `CREATE SCHEMA IF NOT EXISTS shop; CREATE TABLE IF NOT EXISTS shop.t (no BIGINT, ${columns})`,
    "t.sql",
  );
});
afterAll(async () => {
  await engine.close();
  await server.stop();
  await rm(folder, { recursive: true });
});

interface Kind {
  readonly name: string;
  /** In both engines. */
  readonly type: string;
  /** Values as literals of DuckDB. */
  readonly values: fc.Arbitrary<string>;
  /** A text of the value that both engines write alike, where a plain cast is none: DuckDB's expression, and PostgreSQL's. */
  readonly shown?: readonly [duckdb: string, postgres: string];
}

/** All digits that a DECIMAL may have. */
const decimal = (width: number, scale: number): fc.Arbitrary<string> => {
  const most = 10n ** BigInt(width);
  const unscaled = fc.oneof(
    fc.bigInt({ min: 1n - most, max: most - 1n }),
    fc.nat(width - 1).map((power) => 10n ** BigInt(power)),
    fc.bigInt({ min: -20_000n, max: 20_000n }).filter((value) => value < most && -value < most),
  );
  return unscaled.map((value) => {
    const digits = String(value < 0n ? -value : value).padStart(scale + 1, "0");
    const text = scale === 0 ? digits : `${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
    return `'${value < 0n ? "-" : ""}${text}'`;
  });
};

const text = (unit: "binary" | "grapheme", maxLength: number): fc.Arbitrary<string> =>
  // PostgreSQL has no texts with NUL.
  fc.string({ unit, maxLength }).map((value) => literal(value.replaceAll("\0", "")));

/** DuckDB has texts of up to 12 bytes in the vector; pieces are of 256 KiB. */
const texts = fc.oneof(
  { weight: 5, arbitrary: text("binary", 16) },
  { weight: 3, arbitrary: text("grapheme", 80) },
  { weight: 1, arbitrary: fc.constantFrom("''", "'\\'", "'\\N'", "'a\\nb'", "'\r\n\t\"'", "'NULL'", "'\uFEFF'") },
  { weight: 1, arbitrary: fc.integer({ min: 10, max: 300_000 }).map((length) => `repeat('ä', ${length})`) },
);

const whole = (bits: bigint): fc.Arbitrary<string> =>
  fc.bigInt({ min: -(2n ** (bits - 1n)), max: 2n ** (bits - 1n) - 1n }).map(String);
const day = { from: -2_440_588, to: 2_900_000 };
const microsecond = 86_400_000_000;

/** Neither writes fractions as the other does, so these are made whole. */
const numberOf = (name: string, factor: number): [string, string] => [
  `CASE WHEN isnan(${name}) THEN 'NaN' WHEN isinf(${name}) THEN sign(${name})::INTEGER::VARCHAR ELSE (${name} * ${factor})::BIGINT::VARCHAR END`,
  `CASE WHEN ${name} = 'NaN' THEN 'NaN' WHEN abs(${name}) = 'Infinity' THEN sign(${name})::int::text ELSE (${name} * ${factor})::bigint::text END`,
];

const kinds: readonly Kind[] = [
  { name: "v", type: "VARCHAR", values: texts },
  { name: "w", type: "VARCHAR", values: texts },
  { name: "b", type: "BIGINT", values: whole(64n) },
  { name: "i", type: "INTEGER", values: whole(32n) },
  { name: "s", type: "SMALLINT", values: whole(16n) },
  {
    name: "d",
    type: "DOUBLE PRECISION",
    values: fc.oneof(
      fc.integer().map((value) => String(value / 4096)),
      fc.constantFrom("'NaN'", "'inf'", "'-inf'", "'-0'", "0"),
    ),
    shown: numberOf("d", 4096),
  },
  {
    name: "f",
    type: "REAL",
    values: fc.oneof(
      fc.integer({ min: -(2 ** 23), max: 2 ** 23 }).map((value) => String(value / 8)),
      fc.constantFrom("'NaN'", "'inf'", "'-inf'"),
    ),
    shown: numberOf("f", 8),
  },
  ...(
    [
      [4, 1],
      [9, 8],
      [12, 4],
      [15, 0],
      [18, 7],
      [38, 0],
      [38, 21],
      [38, 37],
    ] as const
  ).map(([width, scale]) => ({
    name: `n${width}_${scale}`,
    type: `DECIMAL(${width}, ${scale})`,
    values: decimal(width, scale),
  })),
  { name: "o", type: "BOOLEAN", values: fc.boolean().map(String) },
  {
    name: "day",
    type: "DATE",
    // From the first day that PostgreSQL has.
    values: fc.integer({ min: day.from, max: day.to }).map((days) => `(DATE '1970-01-01' + (${days})::INTEGER)`),
    shown: ["(day - DATE '1970-01-01')::VARCHAR", "(day - DATE '1970-01-01')::text"],
  },
  {
    name: "t",
    type: "TIME",
    values: fc.integer({ min: 0, max: microsecond - 1 }).map((value) => `TIME '00:00:00' + to_microseconds(${value})`),
    shown: ["(epoch_us(t))::VARCHAR", "(extract(epoch FROM t) * 1000000)::bigint::text"],
  },
  {
    name: "ts",
    type: "TIMESTAMP",
    values: fc
      .tuple(fc.integer({ min: day.from, max: day.to }), fc.integer({ min: 0, max: microsecond - 1 }))
      .map(([days, rest]) => `make_timestamp(${BigInt(days) * BigInt(microsecond) + BigInt(rest)})`),
    shown: ["(epoch_us(ts))::VARCHAR", "(extract(epoch FROM ts) * 1000000)::bigint::text"],
  },
  { name: "u", type: "UUID", values: fc.uuid().map((id) => `'${id}'`) },
];

const row = fc.tuple(...kinds.map(({ values }) => fc.option(values, { nil: "NULL", freq: 5 })));

/** Texts of all values of a row. */
function shown(engine: 0 | 1): string {
  return kinds
    .map(({ name, type, shown }) => {
      const cast = `${name}::${engine === 0 ? "VARCHAR" : "text"}`;
      return `${shown?.[engine] ?? (type === "VARCHAR" ? name : cast)} AS ${name}`;
    })
    .join(", ");
}

test(
  "every value of every type arrives in PostgreSQL as DuckDB has it, whatever is beside it",
  { timeout: 600_000 },
  () =>
    fc.assert(
      // Several chunks of 2,048 rows, and texts long and short in all orders.
      fc.asyncProperty(
        fc.array(row, { minLength: 1, maxLength: 12 }),
        fc.integer({ min: 1, max: 700 }),
        async (rows, times) => {
          const values = rows.map(
            (fields) => `(${fields.map((field, i) => `CAST(${field} AS ${kinds[i]?.type})`).join(", ")})`,
          );
          const names = kinds.map(({ name }) => name);
          const isLong = rows.some((fields) => fields.some((field) => field.startsWith("repeat")));
          const repeated = `SELECT row_number() OVER () AS no, ${names.join(", ")} FROM range(${isLong ? 3 : times}), (VALUES ${values.join(", ")}) AS q(${names.join(", ")})`;
          const stage = await stageOf(engine, repeated);
          try {
            const table = await engine.find({ database: "shop", schema: "core_default_schema", table: "t" });
            loads += 1;
            await engine.write(stage, table!, { empty: true, load: String(loads) }, never);
            const sent = await stage.connection.rows(`SELECT ${shown(0)} FROM accepted ORDER BY no`);
            const sql = `SELECT ${shown(1)} FROM t ORDER BY no`;
            const arrived = await pageOf(engine, { database: "shop", sql, limit: 10_000, timeout: 60_000 }, never);
            expect(arrived.rows).toEqual(sent.map((fields) => Object.values(fields)));
          } finally {
            await stage.close();
          }
        },
      ),
      { numRuns: cases(10) },
    ),
);
