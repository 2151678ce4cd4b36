import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { openDatabase } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";

/** A database in memory and a connection to it. */
export interface Memory {
  readonly connection: Connection;
  close(): void;
}

/** Opens a database that is small enough never to spill. */
export async function openMemory(): Promise<Memory> {
  const database = await openDatabase({ path: ":memory:", memory: 512 * 1024 * 1024, spill: join(tmpdir(), "unused") });
  const connection = await database.connect();
  return {
    connection,
    close: () => {
      connection.close();
      database.close();
    },
  };
}

/** A connection to a database in memory, for all tests of a file. */
export function useConnection(): () => Connection {
  let memory: Memory;
  beforeAll(async () => {
    memory = await openMemory();
    // For a handful of rows, several threads cost more than they save.
    await memory.connection.run("SET threads = 1");
  });
  afterAll(() => {
    memory.close();
  });
  return () => memory.connection;
}

/** Where one statement of several begins. */
const beginnings = /;\s*(?=(?:CREATE|INSERT|UPDATE|DELETE|DROP|SELECT|FROM|WITH)\b)/;

/** A step of a plan that DuckDB explains. */
interface Step {
  readonly name: string;
  readonly children: readonly Step[];
  readonly extra_info: Readonly<Record<string, unknown>>;
}

/** An outer join without a hash table. Inner ones are with a single row here. */
function isSlow({ name, extra_info: info, children }: Step): boolean {
  return (name === "BLOCKWISE_NL_JOIN" && info["Join Type"] !== "INNER") || children.some(isSlow);
}

/** The connection, which refuses statements with an outer join that compares every row with every other. */
export function refusingSlowJoins(connection: Connection): Connection {
  const explain = async (sql: string): Promise<void> => {
    if (!/\b(SELECT|FROM)\b/.test(sql)) return;
    const rows = await connection.rows<{ explain_value: string }>(`EXPLAIN (FORMAT json) ${sql}`);
    if (rows.some(({ explain_value: plan }) => (JSON.parse(plan) as Step[]).some(isSlow)))
      throw new Error(`a join without a hash table:\n${sql}`);
  };
  const runExplained = async (statements: readonly string[]): Promise<void> => {
    for (const statement of statements) {
      await explain(statement);
      await connection.run(statement);
    }
  };
  return {
    ...connection,
    run: (sql) => runExplained(sql.split(beginnings)),
    rows: async (sql) => {
      const statements = sql.split(beginnings);
      const last = statements.pop() ?? "";
      await runExplained(statements);
      await explain(last);
      return connection.rows(last);
    },
    batches: async function* (sql) {
      await explain(sql);
      yield* connection.batches(sql);
    },
  };
}
