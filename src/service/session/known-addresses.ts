import type { Logger } from "pino";
import type { Database } from "#duckdb/database.ts";
import { messageOf } from "#errors.ts";

/** The addresses each name has logged in from: they stay open to it while others guess, there or elsewhere (0.8). */
export interface KnownAddresses {
  has(name: string, address: string): boolean;
  /** Never throws: a login does not fail because of it. */
  add(name: string, address: string): Promise<void>;
  close(): void;
}

/** How many pairs of a name and an address are stored. The oldest are forgotten. */
const knownCapacity = 50_000;

/** Opens the table of known addresses in the service's database, so that they survive a restart. */
export async function openKnownAddresses(database: Database, log: Logger): Promise<KnownAddresses> {
  const connection = await database.connect();
  await connection.run(`
    CREATE TABLE IF NOT EXISTS known_addresses (name VARCHAR NOT NULL, address VARCHAR NOT NULL, since BIGINT NOT NULL)`);
  const rows = await connection.rows<{ name: string; address: string }>(
    "SELECT name, address FROM known_addresses ORDER BY since DESC LIMIT ?",
    [knownCapacity],
  );
  const known = new Set(rows.reverse().map(({ name, address }) => keyOf(name, address)));

  return {
    has: (name, address) => known.has(keyOf(name, address)),
    add: async (name, address) => {
      const key = keyOf(name, address);
      if (known.has(key)) return;
      known.add(key);
      try {
        await connection.run("INSERT INTO known_addresses VALUES (?, ?, ?)", [name, address, BigInt(Date.now())]);
        if (known.size <= knownCapacity) return;
        // Half of them at once, so that this is rare.
        for (const oldest of [...known].slice(0, knownCapacity / 2)) known.delete(oldest);
        await connection.run(
          "DELETE FROM known_addresses WHERE since < (SELECT since FROM known_addresses ORDER BY since DESC LIMIT 1 OFFSET ?)",
          [knownCapacity / 2],
        );
      } catch (error) {
        log.warn({ err: error }, `the address of a login could not be written down: ${messageOf(error)}`);
      }
    },
    close: () => {
      connection.close();
    },
  };
}

/** An address holds no space. */
function keyOf(name: string, address: string): string {
  return `${address} ${name}`;
}
