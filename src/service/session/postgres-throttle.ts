import { randomInt } from "node:crypto";
import { digest, limits, usualCapacity } from "#http/throttle.ts";
import type { Throttle, ThrottleOptions } from "#http/throttle.ts";
import type { Schema } from "#postgres/migrations.ts";
import { createKeyedQueue, createQueue } from "#queue.ts";
import type { Records } from "#service/records.ts";

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

export interface PostgresThrottleOptions extends Omit<ThrottleOptions, "now"> {
  /** In PostgreSQL: its clock counts. */
  readonly records: Records;
}

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

interface Count {
  readonly key: string;
  readonly refused_until: bigint;
  readonly admitted: boolean;
}

/**
 * Counts failed logins as `createThrottle` does, in a table that all processes of a service share. A login takes two
 * statements; one that is refused takes none once this process knows of the refusal, which nothing ends before its time.
 */
export function createPostgresThrottle(options: PostgresThrottleOptions): Throttle {
  const { records, window, lockout, isKnown, capacity = usualCapacity } = options;
  const table = records.table("failed_logins");
  const statements = createQueue(width);
  const turns = createKeyedQueue();
  const refusals = createRefusals(capacity);
  const waiting = new Set<() => void>();
  let begun = 0;
  let pruned = -Infinity;

  // Every statement locks its rows in the order of their keys, so that no two wait for each other.
  const inOrder = `SELECT key, most FROM unnest($1::text[], $2::bigint[]) AS asked (key, most) ORDER BY key COLLATE "C"`;
  const underWay = `ARRAY(SELECT at FROM unnest(c.pending) AS at WHERE at > $5)`;
  const recent = `ARRAY(SELECT at FROM unnest(c.failures) AS at WHERE at > $6)`;
  const hasRoom = `c.refused_until <= $4 AND cardinality(${underWay}) + cardinality(${recent}) < excluded.most`;
  const beginning = `
    INSERT INTO ${table} AS c (key, most, pending, failures, refused_until, seen)
    SELECT key, most, ARRAY[$3::bigint], '{}', 0, $4::bigint FROM (${inOrder}) AS asked
    ON CONFLICT (key) DO UPDATE SET
      most = excluded.most,
      pending = ${underWay} || CASE WHEN (${hasRoom}) OR c.key <> ALL ($7::text[]) THEN excluded.pending ELSE '{}' END,
      failures = ${recent},
      seen = $4
    RETURNING key, refused_until, $3 = ANY (pending) AS admitted`;
  const isTooMany = `cardinality(${recent}) + 1 >= excluded.most`;
  const failing = `
    INSERT INTO ${table} AS c (key, most, pending, failures, refused_until, seen)
    SELECT key, most, '{}', ARRAY[$4::bigint], 0, $4 FROM (${inOrder}) AS asked
    ON CONFLICT (key) DO UPDATE SET
      pending = array_remove(${underWay}, $3::bigint),
      failures = CASE WHEN ${isTooMany} THEN '{}' ELSE ${recent} || excluded.failures END,
      refused_until = CASE WHEN ${isTooMany} THEN $7 ELSE c.refused_until END,
      seen = $4
    RETURNING key, refused_until, false AS admitted`;
  const withdrawing = `
    WITH locked AS MATERIALIZED (SELECT key FROM ${table} WHERE key = ANY ($1::text[]) ORDER BY key FOR UPDATE)
    UPDATE ${table} AS c SET
      pending = array_remove(pending, $2::bigint), failures = CASE WHEN c.key = $3 THEN '{}' ELSE failures END
    FROM locked WHERE c.key = locked.key`;

  const remember = (counts: readonly Count[]): void => {
    const now = records.now();
    for (const { key, refused_until: until } of counts) if (until > now) refusals.add(key, Number(until));
  };

  const remove = (which: string, value: bigint): Promise<void> =>
    records.run(`DELETE FROM ${table} WHERE key IN (SELECT key FROM ${table} ${which} FOR UPDATE SKIP LOCKED)`, [
      value,
    ]);

  /** Removes what is too old to count, and the least recently seen of what is too much. */
  async function prune(now: number): Promise<void> {
    if (begun < capacity * pruning.share && now - pruned < pruning.interval) return;
    begun = 0;
    pruned = now;
    const oldest = BigInt(now - Math.max(window, lockout, longestCheck));
    await remove("WHERE seen <= $1", oldest);
    await remove("ORDER BY seen DESC OFFSET $1", BigInt(3 * capacity));
  }

  /** Until a login of this process has ended, or it is time to ask again. */
  function changed(): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timer);
        waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, pause);
      waiting.add(wake);
    });
  }

  return {
    begin: async (name, address) => {
      const pair = `pair ${digest(`${digest(name)} ${address}`)}`;
      const keys = [pair, `address ${digest(address)}`, `name ${digest(name)}`];
      const most = [BigInt(options.attempts), BigInt(limits.address), BigInt(limits.name)];
      for (;;) {
        // Who has logged in from there before is not kept out by what strangers try, there or elsewhere.
        const deciding = (await isKnown(name, address)) ? [pair] : keys;
        const now = records.now();
        const wait = Math.max(...deciding.map((key) => refusals.until(key, now))) - now;
        if (wait > 0) return { retryAfter: Math.ceil(wait / 1000) };
        const id = numberOf(now) + BigInt(randomInt(2 ** Number(serialBits)));
        const times = (at: number): bigint[] => [BigInt(at), numberOf(at - longestCheck), BigInt(at - window)];
        const counts = await statements(async () => {
          begun += 1;
          await prune(now);
          return records.rows<Count>(beginning, [keys, most, id, ...times(now), deciding], again);
        });
        remember(counts);
        const withdraw = (reset = ""): Promise<void> =>
          statements(() => records.run(withdrawing, [keys, id, reset])).finally(wake);
        const full = counts.find(({ key, admitted }) => !admitted && deciding.includes(key));
        if (full === undefined)
          return {
            succeeded: () => withdraw(pair),
            failed: async () => {
              const at = records.now();
              const values = [keys, most, id, ...times(at), BigInt(at + lockout)];
              remember(await statements(() => records.rows<Count>(failing, values, again)).finally(wake));
            },
            undecided: () => withdraw().catch(() => undefined),
          };
        await withdraw();
        // As many are being checked as may still fail. Those who wait for the same ask one after the other.
        if (refusals.until(full.key, now) <= now) await turns(full.key, changed);
      }
    },
  };

  function wake(): void {
    for (const each of waiting) each();
  }
}

/** Numbers of logins are in the order of their times. */
function numberOf(time: number): bigint {
  return BigInt(time) << serialBits;
}

/** Until when keys are refused, as far as this process knows. */
function createRefusals(capacity: number): {
  add(key: string, until: number): void;
  until(key: string, now: number): number;
} {
  const refusals = new Map<string, number>();
  return {
    add: (key, until) => {
      refusals.delete(key);
      refusals.set(key, until);
      const [oldest] = refusals.keys();
      if (refusals.size > 3 * capacity && oldest !== undefined) refusals.delete(oldest);
    },
    until: (key, now) => {
      const until = refusals.get(key) ?? -Infinity;
      if (until <= now) refusals.delete(key);
      return until;
    },
  };
}
