import { setTimeout as delay } from "node:timers/promises";
import { clockMilliseconds } from "./clock.ts";
import type { Parameter, Postgres, RowsOptions, Transaction } from "./database.ts";

/** A table of processes, each with a lease. */
export interface LeaseTable {
  readonly table: string;
  /** The column that says when a lease ends. */
  readonly ends: string;
  /** The column that says since when it has not ended, where there is grace: see `lasts`. */
  readonly steadySince?: string | undefined;
}

/** Doing it twice leaves what doing it once does: a row whose answer was lost ends with its time. */
const again = { isRepeatable: true } as const;

/**
 * The processes that share a database. Each has a row that it renews, by the database's clock: all others may count it as gone once
 * its time has passed.
 */
export class Leases {
  readonly #table: LeaseTable;
  readonly #postgres: Pick<Postgres, "rows">;
  /** When a lease ends that begins now. */
  readonly #until: string;
  readonly #lease: string;

  /** @param lease how long one lasts without being renewed, in milliseconds */
  constructor(postgres: Pick<Postgres, "rows">, table: LeaseTable, lease: number) {
    this.#postgres = postgres;
    this.#table = table;
    this.#lease = `${lease} * INTERVAL '1 millisecond'`;
    this.#until = `clock_timestamp() + ${this.#lease}`;
  }

  /** Begins a lease. `now`: epoch milliseconds by the database's clock. @param about further columns of the row */
  async enter(about: Readonly<Record<string, Parameter>>): Promise<{ id: bigint; now: number }> {
    const { table, ends, steadySince } = this.#table;
    const names = Object.keys(about);
    const [row] = await this.#postgres.rows<{ id: bigint; now: number }>(
      `INSERT INTO ${table} (${[...names, ends, steadySince].filter((name) => name !== undefined).join(", ")})
       VALUES (${[...names.map((_, i) => `$${i + 1}`), this.#until].join(", ")}${steadySince === undefined ? "" : ", clock_timestamp()"})
       RETURNING id, ${clockMilliseconds} AS now`,
      Object.values(about),
      again,
    );
    if (row === undefined) throw new Error("PostgreSQL has returned no row");
    return row;
  }

  /**
   * @returns the database's clock, and whether the lease had ended, as those of the others then have, too, where that clock jumps;
   *   undefined when others have removed it
   */
  async renew(
    id: bigint,
    through: Pick<Postgres, "rows">,
    options?: RowsOptions,
  ): Promise<{ readonly now: number; readonly had_ended: boolean } | undefined> {
    const { table, ends, steadySince } = this.#table;
    // Where it had ended, the others had perhaps no way to renew theirs either.
    const steady =
      steadySince === undefined
        ? ""
        : `, ${steadySince} = CASE WHEN ${ends} <= clock_timestamp() OR ${steadySince} > clock_timestamp()
             THEN clock_timestamp() ELSE ${steadySince} END`;
    const [row] = await through.rows<{ now: number; had_ended: boolean }>(
      // The subquery sees the row as it was.
      `UPDATE ${table} SET ${ends} = ${this.#until}${steady} WHERE id = $1
       RETURNING ${clockMilliseconds} AS now, (SELECT b.${ends} <= clock_timestamp() FROM ${table} b WHERE b.id = $1) AS had_ended`,
      [id],
      options,
    );
    return row;
  }

  /** Gives a lease back. @param unless what keeps its row, as SQL about `n`: then it ends with its time */
  async leave(
    id: bigint,
    { unless = "false", ...options }: RowsOptions & { readonly unless?: string } = {},
  ): Promise<void> {
    await this.#postgres.rows(`DELETE FROM ${this.#table.table} n WHERE id = $1 AND NOT (${unless})`, [id], options);
  }

  /**
   * Whether a lease lasts. `fenced`: nobody removes it then before the transaction has ended. `steady`: and has lasted for as long as a
   * lease, so that whoever could renew one has done so; where all processes were away, as in a power cut, each is given that time.
   */
  async lasts(through: Pick<Transaction, "rows">, id: bigint | string, how?: "fenced" | "steady"): Promise<boolean> {
    const { table, ends, steadySince = ends } = this.#table;
    const steady = how === "steady" ? `AND ${steadySince} <= clock_timestamp() - ${this.#lease}` : "";
    const lock = how === "fenced" ? "FOR KEY SHARE" : "";
    const query = `SELECT 1 AS one FROM ${table} WHERE id = $1 AND ${ends} > clock_timestamp() ${steady} ${lock}`;
    return (await through.rows(query, [id])).length > 0;
  }

  /** The leases that have ended and are there still. */
  async ended(): Promise<bigint[]> {
    const { table, ends } = this.#table;
    const rows = await this.#postgres.rows<{ id: bigint }>(
      `${this.#shortening} SELECT id FROM ${table} WHERE ${ends} <= clock_timestamp() ORDER BY id`,
      [],
      again,
    );
    return rows.map(({ id }) => id);
  }

  /**
   * Removes those that have ended. One whose process is just writing is left until that has ended.
   * @param by who removes them: none goes while its own has ended, too
   */
  async removeEnded(by: bigint): Promise<void> {
    const { table, ends } = this.#table;
    await this.#postgres.rows(
      `${this.#shortening} DELETE FROM ${table} WHERE id IN (
         SELECT id FROM ${table} WHERE ${ends} <= clock_timestamp() ORDER BY id FOR UPDATE SKIP LOCKED)
         AND EXISTS (SELECT FROM ${table} WHERE id = $1 AND ${ends} > clock_timestamp())`,
      [by],
      again,
    );
  }

  /**
   * SQL: after the clock was set back, a process that is gone would keep its lease for as long as that. One that lives renews
   * it soon, even where its lease is configured to be many times as long as that of this process.
   */
  get #shortening(): string {
    const { table, ends } = this.#table;
    const latest = `clock_timestamp() + greatest(10 * ${this.#lease}, INTERVAL '1 minute')`;
    return `WITH shortened AS (
      UPDATE ${table} SET ${ends} = ${latest} WHERE id IN (
        SELECT id FROM ${table} WHERE ${ends} > ${latest} ORDER BY id FOR UPDATE SKIP LOCKED))`;
  }
}

/**
 * Renews again and again, until the signal is aborted. One that fails is tried again at the next time.
 * @param every in milliseconds; @param atMost how long one is waited for before the next
 */
export async function keepRenewing(
  renew: () => Promise<void>,
  {
    every,
    atMost,
    signal,
  }: { readonly every: number; readonly atMost?: number | undefined; readonly signal: AbortSignal },
): Promise<void> {
  while (!signal.aborted) {
    await delay(every, undefined, { ref: false, signal }).catch(() => undefined);
    if (signal.aborted) return;
    const renewing = renew();
    await (atMost === undefined ? renewing : Promise.race([renewing, delay(atMost, undefined, { ref: false })]));
  }
}
