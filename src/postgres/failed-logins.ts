import { randomInt } from "node:crypto";
import { createKeyedQueue, createQueue } from "#queue.ts";
import { clockTolerance } from "#times.ts";
import { usualCapacity } from "#throttle.ts";
import type { Asking, Counts, End, ThrottleOptions } from "#throttle.ts";
import type { Postgres } from "./database.ts";
import type { Schema } from "./migrations.ts";

/**
 * A row for each pair of a name and an address, each address and each name, by its digest. `pending` are the logins that
 * are being checked, `failures` the times of those that failed, both in epoch milliseconds. The table is unlogged: writing it waits for no disk, and after
 * a crash of the server, or on a standby that takes over, it is empty.
 */
export const throttleSchema: Schema = {
  part: "failed logins",
  migrations: [
    `CREATE UNLOGGED TABLE IF NOT EXISTS rollcall.failed_logins (
       key text COLLATE "C" PRIMARY KEY, most bigint NOT NULL, pending bigint[] NOT NULL, failures bigint[] NOT NULL,
       refused_until bigint NOT NULL, seen bigint NOT NULL
     ) WITH (fillfactor = 50)`,
  ],
};

/** How long a login may be under way, in milliseconds: what a process that died was checking counts no longer. */
const longestCheck = 120_000;

/** How long to wait for logins that other processes are checking, in milliseconds, before asking again. */
const pause = 100;

/** At most this many statements of one process at a time, so that a flood of logins leaves connections for everybody else. */
const width = 2;

/** How often what nobody needs any more is removed: after this share of the capacity, or after so many milliseconds. */
const pruning = { share: 0.05, interval: 60_000 };

/** After a failover the table is empty: nothing is counted twice. */
const again = { isRepeatable: true };

/** Distinguishes the logins of one millisecond, in the low bits of their numbers. */
const serialBits = 20n;

interface Row {
  readonly key: string;
  readonly refused_until: bigint;
  readonly admitted: boolean;
}

/**
 * Counts failed logins in a table that all processes share. A login takes two statements; one that is refused
 * takes none once this process knows of the refusal, which nothing ends before its time.
 */
export class CountsInPostgres implements Counts {
  readonly #options: Pick<ThrottleOptions, "window" | "lockout" | "now">;
  readonly #capacity: number;
  readonly #postgres: Pick<Postgres, "rows">;
  readonly #sql: ReturnType<typeof statementsOf>;
  readonly #statements = createQueue(width);
  readonly #turns = createKeyedQueue();
  /** Until when keys are refused, as far as this process knows. */
  readonly #refusals = new Map<string, number>();
  readonly #waiting = new Set<() => void>();
  #begun = 0;
  #pruned = -Infinity;

  /** @param options its clock is that of the database */
  constructor(
    options: Pick<ThrottleOptions, "window" | "lockout" | "now" | "capacity">,
    postgres: Pick<Postgres, "rows">,
  ) {
    this.#options = options;
    this.#capacity = options.capacity ?? usualCapacity;
    this.#postgres = postgres;
    this.#sql = statementsOf("rollcall.failed_logins", options.lockout + clockTolerance);
  }

  refusedUntil(key: string, now: number): number {
    const until = this.#refusals.get(key) ?? -Infinity;
    const counts = until > now && until <= now + this.#options.lockout + clockTolerance;
    if (!counts) this.#refusals.delete(key);
    return counts ? until : -Infinity;
  }

  async begin({ pair, all, deciding, now }: Asking): Promise<End | undefined> {
    const keys = all.map(({ key }) => key);
    const most = all.map((each) => BigInt(each.most));
    const id = numberOf(now) + BigInt(randomInt(2 ** Number(serialBits)));
    const judged = deciding.map(({ key }) => key);
    const rows = await this.#statements(async () => {
      this.#begun += 1;
      await this.#prune(now);
      return this.#postgres.rows<Row>(this.#sql.begin, [keys, most, id, ...this.#times(now), judged], again);
    });
    this.#remember(rows);
    const withdraw = (reset = ""): Promise<unknown> =>
      this.#statements(() => this.#postgres.rows(this.#sql.withdraw, [keys, id, reset], again)).finally(() => {
        this.#wake();
      });
    const full = rows.find(({ key, admitted }) => !admitted && judged.includes(key));
    if (full === undefined)
      return async (outcome) => {
        if (outcome === "succeeded") await withdraw(pair.key);
        else if (outcome === "failed") await this.#fail(keys, most, id);
        else await withdraw().catch(() => undefined);
      };
    await withdraw();
    // As many are being checked as may still fail. Those who wait for the same ask one after the other.
    if (this.refusedUntil(full.key, now) <= now) await this.#turns(full.key, () => this.#changed());
    return undefined;
  }

  async #fail(keys: readonly string[], most: readonly bigint[], id: bigint): Promise<void> {
    const now = this.#options.now();
    const values = [keys, most, id, ...this.#times(now), BigInt(now + this.#options.lockout)];
    try {
      this.#remember(await this.#statements(() => this.#postgres.rows<Row>(this.#sql.fail, values, again)));
    } finally {
      this.#wake();
    }
  }

  /** The time, and since when logins under way and failures count. */
  #times(now: number): bigint[] {
    return [BigInt(now), numberOf(now - longestCheck), BigInt(now - this.#options.window)];
  }

  #remember(rows: readonly Row[]): void {
    const now = this.#options.now();
    for (const { key, refused_until: until } of rows) {
      if (until <= now) continue;
      this.#refusals.delete(key);
      this.#refusals.set(key, Number(until));
      const [oldest] = this.#refusals.keys();
      if (this.#refusals.size > 3 * this.#capacity && oldest !== undefined) this.#refusals.delete(oldest);
    }
  }

  /** Removes what is too old to count, and the least recently seen of what is too much. */
  async #prune(now: number): Promise<void> {
    if (this.#begun < this.#capacity * pruning.share && now - this.#pruned < pruning.interval) return;
    this.#begun = 0;
    this.#pruned = now;
    const { window, lockout } = this.#options;
    await this.#postgres.rows(this.#sql.removeOld, [BigInt(now - Math.max(window, lockout, longestCheck))], again);
    await this.#postgres.rows(this.#sql.removeSurplus, [BigInt(3 * this.#capacity)], again);
  }

  /** Until a login of this process has ended, or it is time to ask again. */
  #changed(): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, pause);
      this.#waiting.add(wake);
    });
  }

  #wake(): void {
    for (const wake of this.#waiting) wake();
  }
}

/** @param longest how far in the future a refusal may end, in milliseconds */
function statementsOf(table: string, longest: number) {
  // Every statement locks its rows in the order of their keys, so that no two wait for each other.
  const inOrder = `SELECT key, most FROM unnest($1::text[], $2::bigint[]) AS asked (key, most) ORDER BY key COLLATE "C"`;
  const underWay = `ARRAY(SELECT at FROM unnest(c.pending) AS at WHERE at > $5 AND at <= ($4 + ${clockTolerance}) << ${serialBits})`;
  const recent = `ARRAY(SELECT at FROM unnest(c.failures) AS at WHERE at > $6 AND at <= $4 + ${clockTolerance})`;
  const refusedUntil = `CASE WHEN c.refused_until <= $4 + ${longest} THEN c.refused_until ELSE 0 END`;
  const hasRoom = `${refusedUntil} <= $4 AND cardinality(${underWay}) + cardinality(${recent}) < excluded.most`;
  const begin = `
    INSERT INTO ${table} AS c (key, most, pending, failures, refused_until, seen)
    SELECT key, most, ARRAY[$3::bigint], '{}', 0, $4::bigint FROM (${inOrder}) AS asked
    ON CONFLICT (key) DO UPDATE SET
      most = excluded.most,
      pending = ${underWay} || CASE WHEN (${hasRoom}) OR c.key <> ALL ($7::text[]) THEN excluded.pending ELSE '{}' END,
      failures = ${recent},
      refused_until = ${refusedUntil},
      seen = $4
    RETURNING key, refused_until, $3 = ANY (pending) AS admitted`;
  const isTooMany = `cardinality(${recent}) + 1 >= excluded.most`;
  const fail = `
    INSERT INTO ${table} AS c (key, most, pending, failures, refused_until, seen)
    SELECT key, most, '{}', ARRAY[$4::bigint], 0, $4 FROM (${inOrder}) AS asked
    ON CONFLICT (key) DO UPDATE SET
      pending = array_remove(${underWay}, $3::bigint),
      failures = CASE WHEN ${isTooMany} THEN '{}' ELSE ${recent} || excluded.failures END,
      refused_until = CASE WHEN ${isTooMany} THEN $7 ELSE ${refusedUntil} END,
      seen = $4
    RETURNING key, refused_until, false AS admitted`;
  const withdraw = `
    WITH locked AS MATERIALIZED (SELECT key FROM ${table} WHERE key = ANY ($1::text[]) ORDER BY key FOR UPDATE)
    UPDATE ${table} AS c SET
      pending = array_remove(pending, $2::bigint), failures = CASE WHEN c.key = $3 THEN '{}' ELSE failures END
    FROM locked WHERE c.key = locked.key`;
  const remove = (which: string): string =>
    `DELETE FROM ${table} WHERE key IN (SELECT key FROM ${table} ${which} FOR UPDATE SKIP LOCKED)`;
  return {
    begin,
    fail,
    withdraw,
    removeOld: remove("WHERE seen <= $1"),
    removeSurplus: remove("ORDER BY seen DESC OFFSET $1"),
  };
}

/** Numbers of logins are in the order of their times. */
function numberOf(time: number): bigint {
  return BigInt(time) << serialBits;
}
