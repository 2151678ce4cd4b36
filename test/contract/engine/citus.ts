/*
 * What Citus does not do on distributed tables, as its documentation says ("SQL Support and Workarounds", "Data
 * Modification"), as patterns of statements. A table is distributed by one of the columns of its key, or by any column where it
 * has none.
 */

const restrictions: readonly (readonly [pattern: RegExp, rule: string])[] = [
  [/\bFOR (?:NO KEY )?(?:UPDATE|SHARE)\b/i, "locks rows of several shards"],
  [/\bTABLESAMPLE\b/i, "takes samples of several shards"],
  [/\b(?:GROUPING SETS|CUBE|ROLLUP)\b/i, "groups by sets over several shards"],
  [/\bWITH RECURSIVE\b/i, "is recursive over several shards"],
  [/\bWITH\b[^;]*\b(?:INSERT|UPDATE|DELETE)\b/i, "modifies in a CTE"],
  [/^\s*MERGE\b/i, "merges a local table into a distributed one"],
  [/^\s*(?:UPDATE|DELETE)\b[^;]*\(\s*SELECT\b/i, "modifies by a subquery over several shards"],
  [/^\s*(?:UPDATE|DELETE)\b[^;]*\b(?:USING|FROM)\b[^;]*\brollcall_load\b/i, "modifies by a join with a local table"],
  [/^\s*(?:UPDATE|DELETE)\b[^;]*\bWHERE\b/i, "modifies row by row"],
  [/^\s*INSERT\b[^;]*\bVALUES\b/i, "inserts row by row"],
  [/\bWHERE CURRENT OF\b/i, "modifies through a cursor"],
  [/^\s*LOCK\b/i, "locks a table on the coordinator alone"],
  [/^\s*TRUNCATE\b/i, "locks out everybody who reads"],
  [/\b(?:random|now|clock_timestamp|nextval)\s*\(/i, "uses a function that is not immutable"],
  [/^\s*CREATE (?:UNIQUE )?INDEX\b|^\s*ALTER TABLE\b|^\s*CREATE TRIGGER\b/i, "changes a distributed table"],
  [/\bREFERENCES\b/i, "has a foreign key across shards"],
];

/** @param distributed the keys of distributed tables, by their names as SQL has them */
export function refusedByCitus(
  statements: readonly string[],
  distributed: ReadonlyMap<string, readonly string[]>,
): string[] {
  return statements.flatMap((statement) => {
    const tables = [...distributed.keys()].filter((name) => statement.includes(name));
    if (tables.length === 0) return [];
    const found = restrictions.flatMap(([pattern, rule]) => (pattern.test(statement) ? [rule] : []));
    const key = distributed.get(tables[0] ?? "") ?? [];
    const conflict = /ON CONFLICT(?: \((?<target>[^)]*)\))? DO (?:NOTHING|UPDATE SET (?<set>.*))/is.exec(
      statement,
    )?.groups;
    if (conflict !== undefined) {
      const target = conflict["target"] ?? "";
      // Whichever column of the key the table is distributed by.
      if (!key.every((name) => target.includes(name)))
        found.push("has a conflict target without the distribution column");
      if (key.some((name) => new RegExp(`(?:^|, )${name} =`).test(conflict["set"] ?? "")))
        found.push("changes the distribution column");
    }
    return found.map((rule) => `${statement.replaceAll(/\s+/g, " ").slice(0, 200)}: ${rule}`);
  });
}

/** The statements of PostgreSQL's log with `log_statement = all`, without those that a person wrote. */
export function statementsOf(log: string): string[] {
  const entries = log.split(/^§/m).map((entry) => entry.replaceAll("\n\t", "\n").trim());
  return entries.flatMap((entry) => {
    const statement = /^LOG: {2}(?:statement|execute [^:]*): (?<sql>[^]*)$/.exec(entry)?.groups?.["sql"];
    // Queries of pinboards, and what an administrator runs, are theirs.
    if (statement === undefined || /^(?:CREATE TEMPORARY VIEW rollcall_query|DECLARE rollcall_rows)/.test(statement))
      return [];
    return statement.startsWith("BEGIN READ") ? [] : [statement];
  });
}
