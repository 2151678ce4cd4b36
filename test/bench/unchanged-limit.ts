import { tmpdir } from "node:os";
import { literal, openDatabase } from "#duckdb/database.ts";
import type { Timing } from "./client.ts";

/**
 * A process of its own: what DuckDB alone needs to read the same files and the same list, and to find that nothing is
 * different; with `written`, also to write the list that it makes of the files.
 */
export interface UnchangedLimitRequest {
  readonly users: string;
  readonly groups: string;
  readonly memberships: string;
  /** What the service lists, as JSON. */
  readonly list: string;
  /** The file that the list made of the other files is written to, as JSON. Absent: it is not. */
  readonly written?: string | undefined;
  /** DuckDB's memory limit in bytes. */
  readonly memory: number;
}

export interface UnchangedLimitTiming extends Timing {
  readonly differences: number;
  /** The time of all processors together, in milliseconds. */
  readonly cpu: number;
  /** The peak of the resident memory, in bytes. */
  readonly peak: number;
}

const request = JSON.parse(process.argv[2] ?? "") as UnchangedLimitRequest;
const csv = (file: string): string => `read_csv(${literal(file)}, header = true, all_varchar = true)`;
const columns = `{name: 'VARCHAR', displayName: 'VARCHAR', mail: 'VARCHAR', principalTypeEnum: 'VARCHAR',
  groupNames: 'VARCHAR[]'}`;
const database = await openDatabase({ path: ":memory:", memory: request.memory, spill: tmpdir() });
const connection = await database.connect();
const started = performance.now();
const before = process.cpuUsage();
const made = `
  WITH memberships AS (
    SELECT person, list_sort(list(title)) AS groups
    FROM ${csv(request.memberships)} m JOIN ${csv(request.groups)} g ON g.unit = m.unit GROUP BY person)
  SELECT lower(login) AS name, display_name, mail, groups
  FROM ${csv(request.users)} LEFT JOIN memberships ON person = employee
  UNION ALL SELECT title, title, NULL, NULL FROM ${csv(request.groups)}`;
if (request.written !== undefined)
  await connection.run(
    `CREATE TEMP TABLE made AS ${made}; COPY made TO ${literal(request.written)} (FORMAT json, ARRAY true)`,
  );
const [row] = await connection.rows<{ differences: number }>(`
  WITH desired AS (${request.written === undefined ? made : "FROM made"}),
  actual AS (
    SELECT name, displayName, mail, list_sort(list_filter(groupNames, lambda each: each <> 'All')) AS groups
    FROM read_json(${literal(request.list)}, format = 'array', columns = ${columns})
    WHERE name NOT IN ('admin', 'Administrator', 'All'))
  SELECT count(*)::DOUBLE AS differences FROM desired d FULL JOIN actual a USING (name)
  WHERE d.display_name IS DISTINCT FROM a.displayName OR coalesce(d.mail, '') <> coalesce(a.mail, '')
    OR coalesce(d.groups, []) <> coalesce(a.groups, [])`);
const milliseconds = performance.now() - started;
const { user, system } = process.cpuUsage(before);
connection.close();
database.close();
const answer: UnchangedLimitTiming = {
  milliseconds,
  cpu: (user + system) / 1000,
  differences: row?.differences ?? -1,
  peak: process.resourceUsage().maxRSS * 1024,
};
console.log(JSON.stringify(answer));
