import { hostname } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { messageOf, UnavailableError } from "#errors.ts";
import type { Postgres, Transaction } from "#postgres/database.ts";
import type { Schema } from "#postgres/migrations.ts";

/**
 * One of the processes that share their state in PostgreSQL. It has a lease: a row of `rollcall.nodes` that it renews by the
 * database's clock. Whoever finds a row whose time has passed removes it, and with it everything that the node has claimed;
 * from then on nothing that this node writes is accepted.
 */
export interface Node {
  /** `host:pid`: what messages and records call this process. */
  readonly name: string;
  /** The number of its lease. A process that has lost one gets another with `join`. */
  id(): bigint;
  /** Aborted when the lease is lost. After `join` another signal. */
  lost(): AbortSignal;
  /** @throws {UnavailableError} when the lease may have ended, by this machine's own monotonic clock */
  check(): void;
  /**
   * A transaction that is committed only while the lease lasts: removing this node waits for it.
   * @throws {UnavailableError} when the lease is lost, or PostgreSQL does not answer
   */
  fenced<Result>(work: (transaction: Transaction) => Promise<Result>): Promise<Result>;
  /** Claims a name for this node, unless another one has it. The claim ends with `release` or with the lease. */
  claim(name: string): Promise<boolean>;
  release(name: string): Promise<void>;
  /** Does something while this node has a claim, and waits for it as long as that takes. */
  whileClaimed<Result>(name: string, work: () => Promise<Result>, signal?: AbortSignal): Promise<Result>;
  /** Epoch milliseconds by the database's clock: those of several machines may differ. */
  now(): number;
  /** Takes a new lease, after one was lost. @throws {UnavailableError} when PostgreSQL does not answer */
  join(): Promise<void>;
  /** Gives the lease back. */
  close(): Promise<void>;
}

export const nodesSchema: Schema = {
  part: "nodes",
  migrations: [
    `CREATE TABLE IF NOT EXISTS rollcall.nodes (
       id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, expires timestamptz NOT NULL);
     CREATE TABLE IF NOT EXISTS rollcall.claims (
       name text PRIMARY KEY, node bigint NOT NULL REFERENCES rollcall.nodes ON DELETE CASCADE);
     CREATE INDEX IF NOT EXISTS claims_node ON rollcall.claims (node)`,
  ],
};

/** The pauses before a claim that another node has is asked for again, each twice as long; in milliseconds. */
const pauses = { first: 50, longest: 1000 } as const;

/** @param lease how long it lasts without being renewed, in milliseconds */
export async function openNode(postgres: Postgres, lease: number): Promise<Node> {
  const name = `${hostname()}:${process.pid}`;
  let id = 0n;
  let lost = new AbortController();
  /** As `performance.now()`, which goes on while the process is stopped. Earlier than the database's. */
  let ends = 0;
  /** The database's clock minus `performance.now()`. */
  let clock = 0;
  let renewing: NodeJS.Timeout | undefined;

  const extend = (asked: number, now: number): void => {
    ends = asked + lease * 0.9;
    clock = now - (asked + performance.now()) / 2;
  };
  /** @param of a lease: of an earlier one nothing more is lost */
  const lose = (why: string, of = id): UnavailableError => {
    const error = new UnavailableError(
      `this process (${name}) has lost its lease in the database ${postgres.place}: ${why}. Others continue with what it was doing`,
    );
    if (of === id) lost.abort(error);
    return error;
  };
  const check = (): void => {
    if (!lost.signal.aborted && performance.now() > ends) lose("it could not be renewed in time");
    lost.signal.throwIfAborted();
  };
  const isHeld = (): boolean => {
    try {
      check();
      return true;
    } catch {
      return false;
    }
  };
  const renew = async (): Promise<void> => {
    const [asked, own] = [performance.now(), id];
    const [row] = await postgres.rows<{ now: number }>(
      `UPDATE rollcall.nodes SET expires = clock_timestamp() + $2 * interval '1 millisecond' WHERE id = $1
       RETURNING (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now`,
      [own, lease],
    );
    if (row === undefined) lose("its time had passed", own);
    else if (own === id && isHeld()) extend(asked, row.now);
  };
  const keepRenewing = async (): Promise<void> => {
    const { signal } = lost;
    while (!signal.aborted) {
      await delay(lease / 5, undefined, { ref: false, signal }).catch(() => undefined);
      // It is tried again until the time has passed.
      if (isHeld()) await Promise.race([renew().catch(() => undefined), delay(lease / 5, undefined, { ref: false })]);
    }
  };
  const join = async (): Promise<void> => {
    const asked = performance.now();
    const [row] = await postgres.rows<{ id: bigint; now: number }>(
      `INSERT INTO rollcall.nodes (name, expires) VALUES ($1, clock_timestamp() + $2 * interval '1 millisecond')
       RETURNING id, (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now`,
      [name, lease],
    );
    if (row === undefined) return;
    id = row.id;
    lost = new AbortController();
    extend(asked, row.now);
    clearInterval(renewing);
    void keepRenewing();
    // Says so at the right time, when nobody asks.
    renewing = setInterval(isHeld, lease / 5);
    renewing.unref();
  };
  const fenced: Node["fenced"] = (work) => {
    check();
    const own = id;
    return postgres.transaction(
      async (transaction) => {
        const [row] = await transaction.rows(
          "SELECT FROM rollcall.nodes WHERE id = $1 AND expires > clock_timestamp() FOR KEY SHARE",
          [own],
        );
        if (row === undefined) throw lose("its time had passed", own);
        const result = await work(transaction);
        check();
        return result;
      },
      // One whose process is stopped would keep its node from being removed.
      { settings: { idle_in_transaction_session_timeout: String(lease) } },
    );
  };
  const claim = async (wanted: string): Promise<boolean> => {
    check();
    await removeEnded(postgres);
    const rows = await fenced((transaction) =>
      transaction.rows(
        `INSERT INTO rollcall.claims (name, node) VALUES ($1, $2)
         ON CONFLICT (name) DO UPDATE SET name = excluded.name WHERE claims.node = excluded.node RETURNING name`,
        [wanted, id],
      ),
    );
    return rows.length > 0;
  };
  const release = async (claimed: string): Promise<void> => {
    await postgres.rows("DELETE FROM rollcall.claims WHERE name = $1 AND node = $2", [claimed, id]);
  };
  await join();
  return {
    name,
    id: () => id,
    lost: () => lost.signal,
    check,
    fenced,
    claim,
    release,
    whileClaimed: async (wanted, work, signal) => {
      for (let pause: number = pauses.first; !(await claim(wanted)); pause = Math.min(2 * pause, pauses.longest))
        await delay(pause, undefined, { signal });
      const own = id;
      try {
        return await work();
      } finally {
        // It ends with the lease anyway.
        if (own === id) await release(wanted).catch(() => undefined);
      }
    },
    now: () => clock + performance.now(),
    join,
    close: async () => {
      clearInterval(renewing);
      lost.abort(new UnavailableError("the process is stopping"));
      await postgres.rows("DELETE FROM rollcall.nodes WHERE id = $1", [id]).catch((error: unknown) => {
        // It ends by itself.
        void messageOf(error);
      });
    },
  };
}

/** Removes the nodes whose lease has ended, with their claims. One that is just writing is left until that has ended. */
export async function removeEnded(postgres: Pick<Postgres, "rows">): Promise<void> {
  await postgres.rows(
    `DELETE FROM rollcall.nodes WHERE id IN (
       SELECT id FROM rollcall.nodes WHERE expires <= clock_timestamp() ORDER BY id FOR UPDATE SKIP LOCKED)`,
  );
}
