import type { Logger } from "pino";
import { messageOf } from "#errors.ts";
import type { Records } from "#service/records.ts";

/** How many pairs of a name and an address are stored. The oldest are forgotten. */
const knownCapacity = 50_000;

/** How long what other processes have added may be missing here, in milliseconds. */
const currentFor = 500;

/** How far back from the newest to look again, in milliseconds: what was added first may be committed last. */
const overlap = 60_000n;

/**
 * The addresses each name has logged in from: they stay open to it while others guess, there or elsewhere (0.8). They are
 * stored, so that they survive a restart.
 */
export class KnownAddresses {
  readonly #records: Records;
  readonly #log: Logger;
  readonly #table: string;
  /** The oldest first. */
  readonly #known = new Set<string>();
  #newest = 0n;
  /** When the table was read last. */
  #read = -Infinity;
  #reading: Promise<void> | undefined;

  static async open(records: Records, log: Logger): Promise<KnownAddresses> {
    const known = new KnownAddresses(records, log);
    await known.#readSince(0n);
    return known;
  }

  private constructor(records: Records, log: Logger) {
    this.#records = records;
    this.#log = log;
    this.#table = records.table("known_addresses");
  }

  /** A login at another process counts here half a second later. Never throws. */
  async has(name: string, address: string): Promise<boolean> {
    const key = keyOf(name, address);
    if (!this.#known.has(key) && this.#records.areShared) await this.#refresh();
    return this.#known.has(key);
  }

  /** Never throws: a login does not fail because of it. */
  async add(name: string, address: string): Promise<void> {
    const key = keyOf(name, address);
    if (this.#known.has(key)) return;
    this.#known.add(key);
    const table = this.#table;
    try {
      await this.#records.run(
        `INSERT INTO ${table} SELECT $1::VARCHAR, $2::VARCHAR, $3::BIGINT
         WHERE NOT EXISTS (SELECT 1 FROM ${table} WHERE name = $1 AND address = $2)`,
        [name, address, BigInt(this.#records.now())],
      );
      if (!this.#forget()) return;
      await this.#records.run(
        `DELETE FROM ${table}
         WHERE since < (SELECT since FROM ${table} ORDER BY since DESC LIMIT 1 OFFSET ${knownCapacity / 2})`,
      );
    } catch (error) {
      this.#log.warn({ err: error }, `the address of a login could not be written down: ${messageOf(error)}`);
    }
  }

  async #readSince(since: bigint): Promise<void> {
    this.#read = performance.now();
    const rows = await this.#records.rows<{ name: string; address: string; since: bigint }>(
      `SELECT name, address, since FROM ${this.#table} WHERE since >= $1 ORDER BY since DESC LIMIT ${knownCapacity}`,
      [since],
    );
    this.#newest = rows[0]?.since ?? this.#newest;
    for (const { name, address } of rows.reverse()) this.#known.add(keyOf(name, address));
    this.#forget();
  }

  /** Half of them at once, so that this is rare. @returns whether there were too many */
  #forget(): boolean {
    if (this.#known.size <= knownCapacity) return false;
    for (const oldest of [...this.#known].slice(0, knownCapacity / 2)) this.#known.delete(oldest);
    return true;
  }

  /** Reads what other processes have added, at most every so often, however many ask. */
  async #refresh(): Promise<void> {
    if (this.#reading === undefined && performance.now() - this.#read < currentFor) return;
    this.#reading ??= this.#readSince(this.#newest - overlap)
      .catch((error: unknown) => {
        this.#log.warn({ err: error }, `the addresses of logins could not be read: ${messageOf(error)}`);
      })
      .finally(() => {
        this.#reading = undefined;
      });
    await this.#reading;
  }
}

/** An address holds no space. */
function keyOf(name: string, address: string): string {
  return `${address} ${name}`;
}
