import type { Records, RecordValue } from "#service/records.ts";
import type { StatusCode } from "#wire/loads.ts";
import type { CycleRecord } from "./cycle.ts";

export interface EndedLoad {
  /** The name of the database as the client wrote it, in lower case: names of databases are case-insensitive. */
  readonly database: string;
  /** `EXPIRED`: it was not committed in time. */
  readonly code: StatusCode | "EXPIRED";
  readonly rowsWritten: number;
  readonly ignoredRows: number;
  /** Of the chunks. */
  readonly bytes: number;
  /** From its start to its end, the uploads included. */
  readonly seconds: number;
}

/**
 * The cycles that have ended, while they are remembered (A.24): in a table, so that neither the memory of
 * the service nor the number of its files grows with them.
 */
export class EndedCycles {
  readonly #stored: Records;
  readonly #table: string;

  constructor(stored: Records) {
    this.#stored = stored;
    this.#table = stored.table("ended_loads");
  }

  async add(record: CycleRecord): Promise<void> {
    const { id, owner, outcome, started } = record;
    const ended = BigInt(Math.round(outcome?.ended ?? started));
    // It is added again when nobody knows whether it was.
    await this.#stored.run(
      `INSERT INTO ${this.#table} SELECT $1::VARCHAR, $2::VARCHAR, $3::BIGINT, $4::VARCHAR
       WHERE NOT EXISTS (SELECT 1 FROM ${this.#table} WHERE id = $1::VARCHAR)`,
      [id, owner, ended, JSON.stringify(record)],
    );
  }

  async find(id: string): Promise<CycleRecord | undefined> {
    const [record] = await this.#records("id = $1", id);
    return record;
  }

  /** Cycles that an account started and that ended after then, in epoch milliseconds. */
  of(owner: string, after: number): Promise<CycleRecord[]> {
    return this.#records("owner = $1 AND ended > $2", owner, BigInt(Math.round(after)));
  }

  /** The last ones to end that an account started, or anybody, and that ended after then, in epoch milliseconds. */
  newest(owner: string | undefined, after: number, limit: number): Promise<CycleRecord[]> {
    const of = owner === undefined ? "" : "owner = $3 AND ";
    const values = [BigInt(Math.round(after)), BigInt(limit), ...(owner === undefined ? [] : [owner])];
    return this.#records(`${of}ended > $1 ORDER BY ended DESC LIMIT $2`, ...values);
  }

  /** The ids of all. */
  async ids(): Promise<ReadonlySet<string>> {
    const rows = await this.#stored.rows<{ id: string }>(`SELECT id FROM ${this.#table}`);
    return new Set(rows.map(({ id }) => id));
  }

  /**
   * Forgets those that ended before then, in epoch milliseconds.
   * @param node where several nodes share the records: the one that asks. It leaves those of others to them, as long as there are these others
   * @returns their ids
   */
  async forget(before: number, node: string | undefined): Promise<readonly string[]> {
    const values = [BigInt(Math.round(before)), ...(node === undefined ? [] : [BigInt(node)])];
    const nodes = this.#stored.table("service_nodes");
    const theirs = node === undefined ? "" : `AND (node IS NULL OR node = $2 OR node NOT IN (SELECT id FROM ${nodes}))`;
    const condition = `FROM ${this.#table} WHERE ended <= $1 ${theirs}`;
    const rows = await this.#stored.rows<{ id: string }>(`SELECT id ${condition}`, values);
    if (rows.length > 0) await this.#stored.run(`DELETE ${condition}`, values);
    return rows.map(({ id }) => id);
  }

  async #records(condition: string, ...values: readonly RecordValue[]): Promise<CycleRecord[]> {
    const query = `SELECT record FROM ${this.#table} WHERE ${condition}`;
    const rows = await this.#stored.rows<{ record: string }>(query, values);
    return rows.map(({ record }) => JSON.parse(record) as CycleRecord);
  }
}
