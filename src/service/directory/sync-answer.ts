import { syncArrays } from "#plan/lists.ts";

/** The answer of `user/sync` (specification 2.8) as a query of lines; the names sorted by code point (B.8). */
export function syncAnswer(changes: string): string {
  const values = syncArrays.map(([label, action, kind], index) => `(${index + 1}, '${label}', '${action}', '${kind}')`);
  return `
    WITH arrays(position, label, action, kind) AS (VALUES ${values.join(", ")}),
    named AS (SELECT position, name FROM ${changes} JOIN arrays USING (action, kind)),
    firsts AS (SELECT position, min(name) AS first FROM named GROUP BY position)
    SELECT line FROM (
      SELECT position, false AS is_name, '' AS name,
        CASE position WHEN 1 THEN '{' ELSE '],' END || '"' || label || '":[' AS line
      FROM arrays
      UNION ALL
      SELECT position, true, name, CASE WHEN name = first THEN '' ELSE ',' END || to_json(name)::VARCHAR
      FROM named JOIN firsts USING (position)
      UNION ALL
      SELECT ${syncArrays.length + 1}, false, '', ']}'
    ) ORDER BY position, is_name, name`;
}
