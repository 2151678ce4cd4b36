import { hostname } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { UnavailableError } from "#errors.ts";
import type { Postgres, Transaction } from "#postgres/database.ts";
import { keepRenewing, Leases } from "#postgres/leases.ts";
import type { Schema } from "#postgres/migrations.ts";

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

/** The pauses before a claim that another node has is asked for again, each twice as long; in milliseconds. */
const pauses = { first: 50, longest: 1000 } as const;

const leaseTable = { table: "rollcall.nodes", ends: "expires" } as const;

/**
 * @param lease how long it lasts without being renewed, in milliseconds
 * @param renewals the same database, for renewing alone: all other connections may be busy for longer than the lease
 * @throws {UnavailableError} when PostgreSQL does not answer
 */
export async function openNode(postgres: Postgres, lease: number, renewals = postgres): Promise<Node> {
  const node = new Node(postgres, lease, renewals);
  await node.join();
  return node;
}

/**
 * One of the processes that share their state in PostgreSQL. It has a lease: a row of `rollcall.nodes` that it renews by the
 * database's clock. Whoever finds a row whose time has passed removes it, and with it everything that the node has claimed;
 * from then on nothing that this node writes is accepted.
 */
export class Node {
  /** `host:pid`: what messages and records call this process. */
  readonly name = `${hostname()}:${process.pid}`;
  readonly #postgres: Postgres;
  readonly #renewals: Postgres;
  readonly #leases: Leases;
  readonly #lease: number;
  #id = 0n;
  #lost = new AbortController();
  /** As `performance.now()`, which goes on while the process is stopped. Earlier than the database's. */
  #ends = 0;
  /** From when on others whose lease has ended are removed, as `performance.now()`. */
  #mayRemove = 0;
  /** The database's clock minus `performance.now()`. */
  #clock = 0;
  #watching: NodeJS.Timeout | undefined;
  /** The turns of claims that could not be given back: for everybody else this node would have them as long as it lives. */
  readonly #unreleased = new Set<string>();

  constructor(postgres: Postgres, lease: number, renewals: Postgres) {
    this.#postgres = postgres;
    this.#renewals = renewals;
    this.#lease = lease;
    this.#leases = new Leases(postgres, leaseTable, lease);
  }

  /** The number of its lease. A process that has lost one gets another with `join`. */
  id(): bigint {
    return this.#id;
  }

  /** Aborted when the lease is lost. After `join` another signal. */
  lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** Epoch milliseconds by the database's clock: those of several machines may differ. */
  now(): number {
    return Math.floor(this.#clock + performance.now());
  }

  /** @throws {UnavailableError} when the lease may have ended, by this machine's own monotonic clock */
  check(): void {
    if (!this.#lost.signal.aborted && performance.now() > this.#ends) this.#lose("it could not be renewed in time");
    this.#lost.signal.throwIfAborted();
  }

  /**
   * A transaction that is committed only while the lease lasts: removing this node waits for it.
   * @throws {UnavailableError} when the lease is lost, or PostgreSQL does not answer
   */
  async fenced<Result>(work: (transaction: Transaction) => Promise<Result>): Promise<Result> {
    this.check();
    const own = this.#id;
    return this.#postgres.transaction(
      async (transaction) => {
        if (!(await this.#leases.lasts(transaction, own, "fenced"))) throw this.#lose("its time had passed", own);
        const result = await work(transaction);
        this.check();
        if (own !== this.#id) throw this.#lose("it has another one now", own);
        return result;
      },
      // One whose process is stopped would keep its node from being removed.
      { settings: { idle_in_transaction_session_timeout: String(this.#lease) } },
    );
  }

  /** Claims a name for this node as long as it has its lease, unless another one has it. */
  async claim(name: string): Promise<boolean> {
    return (await this.#claim(name)) !== undefined;
  }

  /** Does something while this node has a claim, and waits for it as long as that takes. */
  async whileClaimed<Result>(name: string, work: () => Promise<Result>, signal?: AbortSignal): Promise<Result> {
    let turn = await this.#claim(name);
    for (let pause: number = pauses.first; turn === undefined; pause = Math.min(2 * pause, pauses.longest)) {
      await delay(pause, undefined, { signal });
      turn = await this.#claim(name);
    }
    const own = this.#id;
    try {
      return await work();
    } finally {
      // It is tried again with the next renewal, and ends with the lease.
      if (own === this.#id) await this.#release(turn).catch(() => undefined);
    }
  }

  /**
   * Takes a new lease, after one was lost and everything that was done with it has ended.
   * @throws {UnavailableError} when PostgreSQL does not answer
   */
  async join(): Promise<void> {
    // It may have been renewed just before it counted as lost here: nobody else has to wait for its end.
    await this.#leases.leave(this.#id, { isRepeatable: true });
    const asked = performance.now();
    const { id, now } = await this.#leases.enter({ name: this.name });
    this.#id = id;
    this.#lost = new AbortController();
    this.#extend(asked, now);
    // Whether these processes are gone or the clock has only just jumped, their renewals tell.
    if ((await this.#leases.ended()).length > 0) this.#waitForOthers();
    clearInterval(this.#watching);
    const every = this.#lease / 5;
    void keepRenewing(() => this.#tryToRenew(), { every, atMost: every, signal: this.#lost.signal });
    // Says so at the right time, when nobody asks.
    this.#watching = setInterval(() => this.#isHeld(), every);
    this.#watching.unref();
  }

  /** Gives the lease back. */
  async close(): Promise<void> {
    clearInterval(this.#watching);
    this.#lost.abort(new UnavailableError("the process is stopping"));
    // If the database cannot be reached, it ends by itself.
    await this.#leases.leave(this.#id).catch(() => undefined);
  }

  #extend(asked: number, now: number): void {
    this.#ends = asked + this.#lease * 0.9;
    this.#clock = now - (asked + performance.now()) / 2;
  }

  /** @param which the lease; one that was lost before has been replaced */
  #lose(why: string, which = this.#id): UnavailableError {
    const error = new UnavailableError(
      `this process (${this.name}) has lost its lease in the database ${this.#postgres.place}: ${why}. Others continue with what it was doing`,
    );
    if (which !== this.#id) return error;
    this.#lost.abort(error);
    this.#waitForOthers();
    this.#unreleased.clear();
    // What waits for an answer is in vain. Where nothing comes through any more, it would wait for minutes.
    for (const each of new Set([this.#postgres, this.#renewals])) each.disconnect();
    return error;
  }

  /** Where the database's clock jumped, or it was away, all leases have ended at once: each process is given the time to renew its own. */
  #waitForOthers(): void {
    this.#mayRemove = performance.now() + this.#lease;
  }

  #isHeld(which = this.#id): boolean {
    try {
      this.check();
      return which === this.#id;
    } catch {
      return false;
    }
  }

  /** It is tried again until the time has passed. */
  async #tryToRenew(): Promise<void> {
    if (!this.#isHeld()) return;
    await this.#renew().catch(() => undefined);
  }

  async #renew(): Promise<void> {
    const [asked, own] = [performance.now(), this.#id];
    const renewed = await this.#leases.renew(own, this.#renewals);
    if (renewed?.had_ended === true) this.#waitForOthers();
    if (renewed === undefined) this.#lose("its time had passed", own);
    else if (this.#isHeld(own)) this.#extend(asked, renewed.now);
    for (const turn of this.#unreleased) await this.#release(turn);
  }

  /** @returns the turn, by which it is given back: one that comes late gives back no later turn; undefined if another has it */
  async #claim(name: string): Promise<string | undefined> {
    this.check();
    if (performance.now() >= this.#mayRemove) await this.#leases.removeEnded(this.#id);
    const rows = await this.fenced((transaction) =>
      transaction.rows<{ turn: string }>(
        `INSERT INTO rollcall.claims (name, node, turn) VALUES ($1, $2, gen_random_uuid())
         ON CONFLICT (name) DO UPDATE SET turn = excluded.turn WHERE claims.node = excluded.node RETURNING turn`,
        [name, this.#id],
      ),
    );
    return rows[0]?.turn;
  }

  async #release(turn: string): Promise<void> {
    this.#unreleased.add(turn);
    await this.#renewals.rows("DELETE FROM rollcall.claims WHERE turn = $1", [turn]);
    this.#unreleased.delete(turn);
  }
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
