import type { Logger } from "pino";
import { messageOf } from "#errors.ts";
import type { Records } from "#service/records.ts";

/** The addresses each name has logged in from: they stay open to it while others guess, there or elsewhere (0.8). */
export interface KnownAddresses {
  /** A login at another process counts here half a second later. Never throws. */
  has(name: string, address: string): boolean | Promise<boolean>;
  /** Never throws: a login does not fail because of it. */
  add(name: string, address: string): Promise<void>;
}

/** How many pairs of a name and an address are stored. The oldest are forgotten. */
const knownCapacity = 50_000;

/** How long what other processes have added may be missing here, in milliseconds. */
const currentFor = 500;

/** How far back from the newest to look again, in milliseconds: what was added first may be committed last. */
const overlap = 60_000n;

/** Opens the table of known addresses, so that they survive a restart. */
export async function openKnownAddresses(records: Records, log: Logger): Promise<KnownAddresses> {
  const table = records.table("known_addresses");
  await records.create(`
    CREATE TABLE IF NOT EXISTS known_addresses (name VARCHAR NOT NULL, address VARCHAR NOT NULL, since BIGINT NOT NULL)`);
  const known = new Set<string>();
  let newest = 0n;
  let read = -Infinity;

  async function readSince(since: bigint): Promise<void> {
    read = performance.now();
    const rows = await records.rows<{ name: string; address: string; since: bigint }>(
      `SELECT name, address, since FROM ${table} WHERE since >= $1 ORDER BY since DESC LIMIT ${knownCapacity}`,
      [since],
    );
    newest = rows[0]?.since ?? newest;
    for (const { name, address } of rows.reverse()) known.add(keyOf(name, address));
    forget();
  }

  /** Half of them at once, so that this is rare. @returns whether there were too many */
  function forget(): boolean {
    if (known.size <= knownCapacity) return false;
    for (const oldest of [...known].slice(0, knownCapacity / 2)) known.delete(oldest);
    return true;
  }

  await readSince(0n);
  let reading: Promise<void> | undefined;

  /** Reads what other processes have added, at most every so often, however many ask. */
  function refresh(): Promise<void> {
    if (reading !== undefined) return reading;
    if (performance.now() - read < currentFor) return Promise.resolve();
    reading = readSince(newest - overlap)
      .catch((error: unknown) => {
        log.warn({ err: error }, `the addresses of logins could not be read: ${messageOf(error)}`);
      })
      .finally(() => {
        reading = undefined;
      });
    return reading;
  }

  return {
    has: (name, address) => {
      const key = keyOf(name, address);
      if (known.has(key) || !records.areShared) return known.has(key);
      return refresh().then(() => known.has(key));
    },
    add: async (name, address) => {
      const key = keyOf(name, address);
      if (known.has(key)) return;
      known.add(key);
      try {
        await records.run(
          `INSERT INTO ${table} SELECT $1::VARCHAR, $2::VARCHAR, $3::BIGINT
           WHERE NOT EXISTS (SELECT 1 FROM ${table} WHERE name = $1 AND address = $2)`,
          [name, address, BigInt(records.now())],
        );
        if (!forget()) return;
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
