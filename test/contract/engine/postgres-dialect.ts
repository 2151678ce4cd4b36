import type { Dialect } from "./suite.ts";

/** PostgreSQL's own SQL in the suite of engines. */
export const postgresDialect: Dialect = {
  text: { isZeroFree: true },
  range: (n) => `generate_series(0, ${n - 1}) r(i)`,
  schema: (name) => `"shop.${name}"`,
  forever: "SELECT sum(a.i * b.i) FROM generate_series(1, 1000000) a(i), generate_series(1, 1000000) b(i)",
  refused: [
    [
      "\nCREATE TABLE IF NOT EXISTS shop.x (a INT, b MONEY, c INT[])",
      /t.sql:2: .*column b .*money.*column c .*integer\[\]/,
    ],
    ["CREATE TABLE IF NOT EXISTS shop.x (a NUMERIC)", /t.sql:1: .*column a .*numeric.*numeric\(p, s\)/],
    [
      "CREATE TABLE IF NOT EXISTS shop.x (a INT, b INT GENERATED ALWAYS AS (a + 1) STORED)",
      /t.sql:1: .*cannot be loaded/,
    ],
  ],
  unloadable: "CREATE TABLE IF NOT EXISTS other.x (a bytea)",
  counted: [["SELECT DISTINCT ON (i % 3) i FROM generate_series(0, 9) r(i) ORDER BY i % 3", 3]],
  forbidden: [
    ["made", "BEGIN", "one transaction"],
    ["made", "SELECT pg_read_file('/etc/passwd')", "permission denied"],
    [undefined, "CREATE TABLE lost (a INT)", "no schema"],
  ],
};
