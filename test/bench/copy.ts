import { tmpdir } from "node:os";
import { literal, openDatabase } from "#duckdb/database.ts";
import type { Timing } from "./client.ts";
import { columns } from "./rows.ts";

/** A process of its own: DuckDB's COPY of a file into a new table of a new database file. */
export interface CopyRequest {
  readonly database: string;
  readonly file: string;
  /** DuckDB's memory limit in bytes. */
  readonly memory: number;
  /** Whether DuckDB finds the format out by itself, as it does unless it is told; else it is told. */
  readonly detect: boolean;
}

export interface CopyTiming extends Timing {
  /** The time of all processors together, in milliseconds. */
  readonly cpu: number;
}

const request = JSON.parse(process.argv[2] ?? "") as CopyRequest;
const database = await openDatabase({ path: request.database, memory: request.memory, spill: tmpdir() });
const connection = await database.connect();
await connection.run(`CREATE TABLE rows (${columns})`);
const options = `(FORMAT csv, HEADER false, DELIMITER ',', QUOTE '"', ESCAPE '"', NULLSTR '(null)', AUTO_DETECT false)`;
const started = performance.now();
const before = process.cpuUsage();
await connection.run(`COPY rows FROM ${literal(request.file)} ${request.detect ? "" : options}`);
const milliseconds = performance.now() - started;
const { user, system } = process.cpuUsage(before);
connection.close();
database.close();
console.log(JSON.stringify({ milliseconds, cpu: (user + system) / 1000 } satisfies CopyTiming));
