import type { Logger } from "pino";
import { messageOf } from "#errors.ts";
import type { Records } from "#service/records.ts";

/** The addresses each name has logged in from: they stay open to it while others guess, there or elsewhere (0.8). */
export interface KnownAddresses {
  has(name: string, address: string): boolean;
  /** Never throws: a login does not fail because of it. */
  add(name: string, address: string): Promise<void>;
}

/** How many pairs of a name and an address are stored. The oldest are forgotten. */
const knownCapacity = 50_000;

/** Opens the table of known addresses, so that they survive a restart. */
export async function openKnownAddresses(records: Records, log: Logger): Promise<KnownAddresses> {
  const table = records.table("known_addresses");
  await records.create(`
    CREATE TABLE IF NOT EXISTS known_addresses (name VARCHAR NOT NULL, address VARCHAR NOT NULL, since BIGINT NOT NULL)`);
  const rows = await records.rows<{ name: string; address: string }>(
    `SELECT name, address FROM ${table} ORDER BY since DESC LIMIT ${knownCapacity}`,
  );
  const known = new Set(rows.reverse().map(({ name, address }) => keyOf(name, address)));

  return {
    has: (name, address) => known.has(keyOf(name, address)),
    add: async (name, address) => {
      const key = keyOf(name, address);
      if (known.has(key)) return;
      known.add(key);
      try {
        await records.run(`INSERT INTO ${table} VALUES ($1, $2, $3)`, [name, address, BigInt(records.now())]);
        if (known.size <= knownCapacity) return;
        // Half of them at once, so that this is rare.
        for (const oldest of [...known].slice(0, knownCapacity / 2)) known.delete(oldest);
        await records.run(
          `DELETE FROM ${table}
           WHERE since < (SELECT since FROM ${table} ORDER BY since DESC LIMIT 1 OFFSET ${knownCapacity / 2})`,
        );
      } catch (error) {
        log.warn({ err: error }, `the address of a login could not be written down: ${messageOf(error)}`);
      }
    },
  };
}

/** An address holds no space. */
function keyOf(name: string, address: string): string {
  return `${address} ${name}`;
}
