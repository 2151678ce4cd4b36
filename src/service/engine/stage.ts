import { identifier } from "#duckdb/database.ts";
import type { Connection, Database } from "#duckdb/database.ts";
import { rowNumberOf } from "./engine.ts";
import type { Stage, Table } from "./engine.ts";

/** What the in-memory databases of stages are called. */
export const stagePrefix = "rollcall stage ";

/** Opens stages in a DuckDB instance: connections with an in-memory database of their own as the current one. */
export function createStages(instance: Database): () => Promise<Stage> {
  let stages = 0;
  return async () => {
    stages += 1;
    const name = identifier(`${stagePrefix}${stages}`);
    const connection = await instance.connect();
    await connection.run(`ATTACH ':memory:' AS ${name}`);
    await connection.run(`USE ${name}`);
    return {
      connection,
      close: async () => {
        connection.close();
        const other = await instance.connect();
        try {
          await other.run(`DETACH ${name}`);
        } finally {
          other.close();
        }
      },
    };
  };
}

/** A query for the rows to write: of several rows with the same key, the last. Searches for those only if there are any. */
export async function latest(connection: Connection, table: Table): Promise<string> {
  const columns = table.columns.map(({ name }) => identifier(name)).join(", ");
  const rows = `SELECT ${columns} FROM accepted`;
  if (table.primaryKey.length === 0) return rows;
  const key = table.primaryKey.map(identifier).join(", ");
  const [count] = await connection.rows<{ all: bigint; distinct: bigint }>(
    `SELECT (SELECT count(*) FROM accepted) AS "all",
       (SELECT count(*) FROM (SELECT DISTINCT ${key} FROM accepted)) AS "distinct"`,
  );
  if (count?.all === count?.distinct) return rows;
  const number = identifier(rowNumberOf(table.columns));
  return `${rows} SEMI JOIN (SELECT max(${number}) AS ${number} FROM accepted GROUP BY ${key}) USING (${number})`;
}
