import { hostname } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { UnavailableError } from "#errors.ts";
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
  /** Claims a name for this node as long as it has its lease, unless another one has it. */
  claim(name: string): Promise<boolean>;
  /** Does something while this node has a claim, and waits for it as long as that takes. */
  whileClaimed<Result>(name: string, work: () => Promise<Result>, signal?: AbortSignal): Promise<Result>;
  /** Epoch milliseconds by the database's clock: those of several machines may differ. */
  now(): number;
  /**
   * Takes a new lease, after one was lost and everything that was done with it has ended.
   * @throws {UnavailableError} when PostgreSQL does not answer
   */
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
       name text PRIMARY KEY, node bigint NOT NULL REFERENCES rollcall.nodes ON DELETE CASCADE, turn uuid NOT NULL);
     CREATE INDEX IF NOT EXISTS claims_node ON rollcall.claims (node)`,
  ],
};

/** The claim of the process that begins the runs of schedules and tells people of them. */
export const leadership = "leader";

/** Doing it twice leaves what doing it once does. */
const again = { isRepeatable: true } as const;

/** The pauses before a claim that another node has is asked for again, each twice as long; in milliseconds. */
const pauses = { first: 50, longest: 1000 } as const;

/**
 * @param lease how long it lasts without being renewed, in milliseconds
 * @param renewals the same database, for renewing alone: all other connections may be busy for longer than the lease
 */
export async function openNode(postgres: Postgres, lease: number, renewals = postgres): Promise<Node> {
  const name = `${hostname()}:${process.pid}`;
  let id = 0n;
  let lost = new AbortController();
  /** As `performance.now()`, which goes on while the process is stopped. Earlier than the database's. */
  let ends = 0;
  /** The database's clock minus `performance.now()`. */
  let clock = 0;
  let renewing: NodeJS.Timeout | undefined;
  /** The turns of claims that could not be given back: for everybody else this node would have them as long as it lives. */
  const unreleased = new Set<string>();

  const extend = (asked: number, now: number): void => {
    ends = asked + lease * 0.9;
    clock = now - (asked + performance.now()) / 2;
  };
  /** @param which the lease; one that was lost before has been replaced */
  const lose = (why: string, which = id): UnavailableError => {
    const error = new UnavailableError(
      `this process (${name}) has lost its lease in the database ${postgres.place}: ${why}. Others continue with what it was doing`,
    );
    if (which !== id) return error;
    lost.abort(error);
    unreleased.clear();
    // What waits for an answer is in vain. Where nothing comes through any more, it would wait for minutes.
    for (const each of new Set([postgres, renewals])) each.disconnect();
    return error;
  };
  const check = (): void => {
    if (!lost.signal.aborted && performance.now() > ends) lose("it could not be renewed in time");
    lost.signal.throwIfAborted();
  };
  const isHeld = (which = id): boolean => {
    try {
      check();
      return which === id;
    } catch {
      return false;
    }
  };
  const renew = async (): Promise<void> => {
    const [asked, own] = [performance.now(), id];
    const [row] = await renewals.rows<{ now: number }>(
      `UPDATE rollcall.nodes SET expires = clock_timestamp() + $2 * interval '1 millisecond' WHERE id = $1
       RETURNING (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now`,
      [own, lease],
    );
    if (row === undefined) lose("its time had passed", own);
    else if (isHeld(own)) extend(asked, row.now);
    for (const turn of unreleased) await release(turn);
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
    // It may have been renewed just before it counted as lost here: nobody else has to wait for its end.
    await postgres.rows("DELETE FROM rollcall.nodes WHERE id = $1", [id], again);
    const asked = performance.now();
    // A row of an attempt whose answer was lost claims nothing, and ends with its time.
    const [row] = await postgres.rows<{ id: bigint; now: number }>(
      `INSERT INTO rollcall.nodes (name, expires) VALUES ($1, clock_timestamp() + $2 * interval '1 millisecond')
       RETURNING id, (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now`,
      [name, lease],
      again,
    );
    if (row === undefined) throw new Error("PostgreSQL has returned no row");
    id = row.id;
    lost = new AbortController();
    extend(asked, row.now);
    clearInterval(renewing);
    void keepRenewing();
    // Says so at the right time, when nobody asks.
    renewing = setInterval(() => isHeld(), lease / 5);
    renewing.unref();
  };
  const fenced: Node["fenced"] = async (work) => {
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
        if (own !== id) throw lose("it has another one now", own);
        return result;
      },
      // One whose process is stopped would keep its node from being removed.
      { settings: { idle_in_transaction_session_timeout: String(lease) } },
    );
  };
  /** @returns the turn, by which it is given back: one that comes late gives back no later turn; undefined if another has it */
  const claim = async (wanted: string): Promise<string | undefined> => {
    check();
    await removeEnded(postgres);
    const rows = await fenced((transaction) =>
      transaction.rows<{ turn: string }>(
        `INSERT INTO rollcall.claims (name, node, turn) VALUES ($1, $2, gen_random_uuid())
         ON CONFLICT (name) DO UPDATE SET turn = excluded.turn WHERE claims.node = excluded.node RETURNING turn`,
        [wanted, id],
      ),
    );
    return rows[0]?.turn;
  };
  const release = async (turn: string): Promise<void> => {
    unreleased.add(turn);
    await renewals.rows("DELETE FROM rollcall.claims WHERE turn = $1", [turn]);
    unreleased.delete(turn);
  };
  await join();
  return {
    name,
    id: () => id,
    lost: () => lost.signal,
    check,
    fenced,
    claim: async (wanted) => (await claim(wanted)) !== undefined,
    whileClaimed: async (wanted, work, signal) => {
      let turn = await claim(wanted);
      for (let pause: number = pauses.first; turn === undefined; pause = Math.min(2 * pause, pauses.longest)) {
        await delay(pause, undefined, { signal });
        turn = await claim(wanted);
      }
      const own = id;
      try {
        return await work();
      } finally {
        // It is tried again with the next renewal, and ends with the lease.
        if (own === id) await release(turn).catch(() => undefined);
      }
    },
    now: () => clock + performance.now(),
    join,
    close: async () => {
      clearInterval(renewing);
      lost.abort(new UnavailableError("the process is stopping"));
      // If the database cannot be reached, it ends by itself.
      await postgres.rows("DELETE FROM rollcall.nodes WHERE id = $1", [id]).catch(() => undefined);
    },
  };
}

/** A process that has its lease. */
export interface NodeStatus {
  readonly name: string;
  /** What it has claimed: `leader`, `target https://…`. */
  readonly claims: readonly string[];
}

/** The processes that have their lease, those of before first. */
export function liveNodes(postgres: Pick<Postgres, "rows">): Promise<NodeStatus[]> {
  return postgres.rows<NodeStatus>(
    `SELECT name, ARRAY(SELECT c.name FROM rollcall.claims c WHERE c.node = n.id ORDER BY 1) AS claims
     FROM rollcall.nodes n WHERE expires > clock_timestamp() ORDER BY id`,
  );
}

/** Removes the nodes whose lease has ended, with their claims. One that is just writing is left until that has ended. */
async function removeEnded(postgres: Pick<Postgres, "rows">): Promise<void> {
  await postgres.rows(
    `DELETE FROM rollcall.nodes WHERE id IN (
       SELECT id FROM rollcall.nodes WHERE expires <= clock_timestamp() ORDER BY id FOR UPDATE SKIP LOCKED)`,
    [],
    again,
  );
}
