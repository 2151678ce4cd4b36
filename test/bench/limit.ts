import { tmpdir } from "node:os";
import { literal, openDatabase } from "#duckdb/database.ts";
import { principalTypes } from "#wire/administration.ts";
import type { Timing } from "./client.ts";

/**
 * A process of its own: what DuckDB alone needs for the same bytes, with the memory and the threads that the service
 * gives it. Prints how long the statement took and what it counted.
 */
export interface LimitRequest {
  /** `load`: reads the list into the table. `write`: writes the table as JSON. `join`: reads the list and compares. */
  readonly work: "load" | "write" | "join";
  /** The database file that holds the table. */
  readonly database: string;
  /** The file that holds the list; of `write`, that it is written to. */
  readonly list: string;
  /** DuckDB's memory limit in bytes. */
  readonly memory: number;
}

/** How many principals differ, by `ADD`, `UPDATE` and `DELETE` of users and groups, as the service's answer names them. */
export type Differences = Record<string, number>;

export interface LimitTiming extends Timing {
  /** The time of all processors together, in milliseconds. */
  readonly cpu: number;
  readonly differences: Differences;
}

const columns = `{name: 'VARCHAR', displayName: 'VARCHAR', description: 'VARCHAR', mail: 'VARCHAR',
  principalTypeEnum: 'VARCHAR', groupNames: 'VARCHAR[]'}`;

const request = JSON.parse(process.argv[2] ?? "") as LimitRequest;
const list = literal(request.list);
const statements = {
  load: `CREATE TABLE principal AS SELECT * FROM read_json(${list}, format = 'array', columns = ${columns})`,
  write: `COPY principal TO ${list} (FORMAT json, ARRAY true)`,
  join: `
    SELECT if(coalesce(d.principalTypeEnum, a.principalTypeEnum) = '${principalTypes.user}', 'users', 'groups')
      || CASE WHEN a.name IS NULL THEN 'Added' WHEN d.name IS NULL THEN 'Deleted' ELSE 'Updated' END AS what,
      count(*)::INTEGER AS count
    FROM principal a
    FULL JOIN read_json(${list}, format = 'array', columns = ${columns}) d USING (principalTypeEnum, name)
    WHERE a.name IS NULL OR d.name IS NULL OR a.displayName IS DISTINCT FROM d.displayName
      OR a.description IS DISTINCT FROM d.description OR a.mail IS DISTINCT FROM d.mail
      OR a.groupNames IS DISTINCT FROM d.groupNames
    GROUP BY what`,
};

const database = await openDatabase({ path: request.database, memory: request.memory, spill: tmpdir() });
const connection = await database.connect();
const started = performance.now();
const before = process.cpuUsage();
const rows = await connection.rows<{ what?: string; count?: number }>(statements[request.work]);
const milliseconds = performance.now() - started;
const { user, system } = process.cpuUsage(before);
connection.close();
database.close();
const differences: Differences = {};
for (const { what, count } of rows) if (what !== undefined && count !== undefined) differences[what] = count;
console.log(JSON.stringify({ milliseconds, cpu: (user + system) / 1000, differences } satisfies LimitTiming));
