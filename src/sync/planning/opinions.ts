import type { Connection } from "#duckdb/database.ts";
import { readSyncAnswer } from "#plan/lists.ts";

/**
 * Compares the plan (table `changes`) with what the service answered to the same list (a file that holds the object of
 * specification 2.8). The two are computed apart and must name the same principals.
 * @returns what differs, one line each, the first twenty; empty when they agree
 */
export async function compareOpinions(
  connection: Connection,
  answer: string,
  said: "would" | "did",
): Promise<string[]> {
  await readSyncAnswer(connection, answer, "opinion");
  const rows = await connection.rows<{ who: "plan" | "service"; action: string; kind: string; name: string }>(`
    SELECT 'plan' AS who, * FROM (SELECT action, kind, name FROM changes EXCEPT SELECT action, kind, name FROM opinion)
    UNION ALL
    SELECT 'service' AS who, * FROM (SELECT action, kind, name FROM opinion EXCEPT SELECT action, kind, name FROM changes)
    ORDER BY kind, name, who LIMIT 20`);
  const [does, doesNot] = said === "would" ? ["would", "would not"] : ["did", "did not"];
  return rows.map(({ who, action, kind, name }) =>
    who === "plan"
      ? `the plan is to ${action} the ${kind} ${name}; the service ${doesNot}`
      : `the service ${does} ${action} the ${kind} ${name}; that is not planned`,
  );
}
