import { tmpdir } from "node:os";
import { literal, openDatabase } from "#duckdb/database.ts";

/** A table of eight columns as a service, DuckDB and PostgreSQL define it. */
export const columns = `id BIGINT NOT NULL, customer VARCHAR(80) NOT NULL, ordered TIMESTAMP, due DATE, paid BOOLEAN,
  quantity INTEGER, amount DOUBLE PRECISION, note VARCHAR(80)`;

/** How the rows are written, with the names of the interface. PostgreSQL and DuckDB need not be told. */
export const format = {
  null_value: "(null)",
  date_time: { converted_to_epoch: false, date_format: "%Y-%m-%d", date_time_format: "%Y-%m-%d %H:%M:%S" },
  boolean: { true_format: "true", false_format: "false" },
};

/**
 * Writes rows of about 110 bytes as CSV. Every customer has quotes and a comma, some notes are empty. The same number
 * gives the same bytes.
 */
export async function writeRows(file: string, count: number): Promise<void> {
  const database = await openDatabase({ path: ":memory:", memory: 1024 ** 3, spill: tmpdir() });
  const connection = await database.connect();
  await connection.run(`
    COPY (
      SELECT i AS id,
        'Customer "' || left(md5(i::VARCHAR), 12) || '", ' || ['Berlin', 'São Paulo', 'Zürich', 'New York'][1 + i % 4],
        TIMESTAMP '2020-01-01 00:00:00' + to_seconds((hash(i) % 157680000)::BIGINT),
        DATE '2015-01-01' + (hash(i + 1) % 3650)::INTEGER,
        hash(i + 2) % 2 = 0,
        (hash(i + 3) % 100000)::INTEGER,
        round((hash(i + 4) % 10000000) / 997.0, 4),
        CASE WHEN i % 7 = 0 THEN '' ELSE 'note ' || (hash(i + 5) % 1000000) END
      FROM range(${count}) AS r(i)
    ) TO ${literal(file)} (FORMAT csv, HEADER false, NULLSTR '(null)')`);
  connection.close();
  database.close();
}
