import type { Database, Parameter } from "#duckdb/database.ts";
import type { CycleRecord } from "./cycle.ts";

/**
 * The cycles that have ended, while they are remembered (A.24): in the service's database, so that neither the memory of
 * the service nor the number of its files grows with them.
 */
export interface EndedCycles {
  add(record: CycleRecord): Promise<void>;
  find(id: string): Promise<CycleRecord | undefined>;
  /** Those that an account started and that ended after then, in epoch milliseconds. */
  of(owner: string, after: number): Promise<CycleRecord[]>;
  /** The last ones to end that an account started, or anybody, and that ended after then, in epoch milliseconds. */
  newest(owner: string | undefined, after: number, limit: number): Promise<CycleRecord[]>;
  /** The ids of all. */
  ids(): Promise<ReadonlySet<string>>;
  /** Forgets those that ended before then, in epoch milliseconds. @returns their ids */
  forget(before: number): Promise<readonly string[]>;
  close(): void;
}

export async function openEndedCycles(database: Database): Promise<EndedCycles> {
  const connection = await database.connect();
  await connection.run(`
    CREATE TABLE IF NOT EXISTS ended_loads (
      id VARCHAR NOT NULL, owner VARCHAR NOT NULL, ended BIGINT NOT NULL, record VARCHAR NOT NULL)`);
  const records = async (condition: string, ...values: readonly Parameter[]): Promise<CycleRecord[]> => {
    const query = `SELECT record FROM ended_loads WHERE ${condition}`;
    const rows = await connection.rows<{ record: string }>(query, values);
    return rows.map(({ record }) => JSON.parse(record) as CycleRecord);
  };
  return {
    add: async (record) => {
      const { id, owner, outcome, started } = record;
      const ended = BigInt(Math.round(outcome?.ended ?? started));
      await connection.run("INSERT INTO ended_loads VALUES (?, ?, ?, ?)", [id, owner, ended, JSON.stringify(record)]);
    },
    find: async (id) => {
      const [record] = await records("id = ?", id);
      return record;
    },
    of: (owner, after) => records("owner = ? AND ended > ?", owner, BigInt(Math.round(after))),
    newest: (owner, after, limit) =>
      records(
        "($1::VARCHAR IS NULL OR owner = $1) AND ended > $2 ORDER BY ended DESC LIMIT $3",
        owner ?? null,
        BigInt(Math.round(after)),
        limit,
      ),
    ids: async () => {
      const rows = await connection.rows<{ id: string }>("SELECT id FROM ended_loads");
      return new Set(rows.map(({ id }) => id));
    },
    forget: async (before) => {
      const limit = BigInt(Math.round(before));
      const rows = await connection.rows<{ id: string }>("SELECT id FROM ended_loads WHERE ended <= ?", [limit]);
      if (rows.length > 0) await connection.run("DELETE FROM ended_loads WHERE ended <= ?", [limit]);
      return rows.map(({ id }) => id);
    },
    close: () => {
      connection.close();
    },
  };
}
