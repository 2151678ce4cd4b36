import { setTimeout as delay } from "node:timers/promises";
import { Client, Pool } from "pg";
import type { ClientBase, ClientConfig, Connection, PoolClient } from "pg";
import { isAway, isCrowded, isGoing, meaningOf, StandbyError } from "./errors.ts";

/** A connection to the primary. */
export interface Reached {
  readonly client: PoolClient;
  /** Where it leads. */
  readonly config: ClientConfig;
}

export interface PrimaryOptions {
  /** One for each host, in the order in which they are tried. */
  readonly configs: readonly ClientConfig[];
  readonly poolSize: number;
  /** What messages call it. */
  readonly place: string;
  readonly waiting: Waiting;
}

/** How long to wait for a server, in milliseconds. */
export interface Waiting {
  /** Whether the server is waited for even before it was there. Default: no, so that a wrong URL is told at once. */
  readonly isExpected?: boolean | undefined;
  /** How long a server is waited for that was there. With Patroni's usual settings a failover takes less than the default of 30 s. */
  readonly patience?: number | undefined;
  /**
   * A server that disappears with its machine closes no connection. When somebody has waited for an answer this long, another
   * connection is tried as often; when two fail in a row, all are given up. Default: 5 s.
   */
  readonly watchInterval?: number | undefined;
}

/** Between two attempts, in milliseconds. */
const pause = 200;

/** How long to wait for a connection, in milliseconds: for the server, and for others to give one back. */
export const connectTimeout = 15_000;

/** So many connections in a row that fail tell that a server is lost. */
const failuresOfLost = 2;

interface Host {
  readonly config: ClientConfig;
  readonly pool: Pool;
  /** All open connections. */
  readonly clients: Set<ClientBase>;
  /** Clients in use, and since when. */
  readonly inUse: Map<ClientBase, number>;
  failures: number;
}

/** The server that writes, whichever of the hosts it is. */
export class Primary {
  readonly #hosts: readonly Host[];
  readonly #place: string;
  readonly #patience: number;
  readonly #watchInterval: number;
  readonly #timer: NodeJS.Timeout;
  readonly #checked = new WeakSet<ClientBase>();
  #current = 0;
  /** When it was missed first, on the clock of `performance`; undefined: it is there. */
  #missed: number | undefined;
  #wasThere: boolean;

  constructor({ configs, poolSize, place, waiting }: PrimaryOptions) {
    this.#hosts = configs.map((config) => openHost(config, poolSize));
    this.#place = place;
    this.#wasThere = waiting.isExpected ?? false;
    this.#patience = waiting.patience ?? 30_000;
    this.#watchInterval = waiting.watchInterval ?? 5_000;
    this.#timer = setInterval(() => {
      for (const host of this.#hosts) void this.#watch(host);
    }, this.#watchInterval);
    this.#timer.unref();
  }

  /**
   * A connection, which the caller gives back with `release`. Tries each host once.
   * @throws what `meaningOf` says
   */
  async connect(): Promise<Reached> {
    let problem: unknown;
    for (const host of inTurn(this.#hosts, this.#current)) {
      try {
        const reached = await this.#connectTo(host);
        this.#current = this.#hosts.indexOf(host);
        return reached;
      } catch (error) {
        problem = meaningOf(error, this.#place);
        if (!isAway(problem)) break;
      }
    }
    throw problem;
  }

  /**
   * Runs `attempt` until the server answers: a server that was there is waited for, for half a minute from the moment on that it
   * was missed.
   * @param mayRepeat whether another attempt cannot do anything twice; called when one has failed because the server is away
   * @throws what `meaningOf` says; the signal's reason
   */
  async patiently<Result>(
    attempt: () => Promise<Result>,
    mayRepeat: (error: unknown) => boolean = () => true,
    signal?: AbortSignal,
  ): Promise<Result> {
    let failed: number | undefined;
    for (;;) {
      try {
        const result = await attempt();
        this.#missed = undefined;
        return result;
      } catch (error) {
        const meaning = meaningOf(error, this.#place);
        const now = performance.now();
        failed ??= now;
        if (isAway(meaning)) {
          this.#missed ??= now;
          // It is there, and going down, or not yet up.
          this.#wasThere ||= isGoing(meaning);
          // Others may find it there while this never works.
          const isOver = now - Math.min(this.#missed, failed) > this.#patience;
          if (!this.#wasThere || isOver || !mayRepeat(meaning)) throw meaning;
        } else if (!this.#wasThere || !isCrowded(meaning) || now - failed > this.#patience) {
          // Others give theirs back, or hold them in queries that still wait for a lost server.
          throw meaning;
        }
      }
      await delay(pause, undefined, { signal }).catch(() => signal?.throwIfAborted());
    }
  }

  /** Breaks every connection: statements under way fail, and the next ones open others. */
  disconnect(): void {
    for (const { clients } of this.#hosts) for (const each of clients) streamOf(each).destroy();
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#hosts.map(({ pool }) => pool.end()));
  }

  async #connectTo(host: Host): Promise<Reached> {
    const client = await host.pool.connect();
    host.inUse.set(client, performance.now());
    if (this.#checked.has(client)) return { client, config: host.config };
    try {
      // A server becomes a standby only by a restart, which ends its connections.
      const { rows } = await client.query<{ standby: boolean }>(
        Object.assign({ text: "SELECT pg_is_in_recovery() AS standby", values: [] }, { query_timeout: connectTimeout }),
      );
      if (rows[0]?.standby === true) throw new StandbyError();
      this.#checked.add(client);
      this.#wasThere = true;
      return { client, config: host.config };
    } catch (error) {
      client.release(true);
      throw error;
    }
  }

  async #watch(host: Host): Promise<void> {
    const isLost = await giveUpLost(host, this.#watchInterval);
    if (isLost && this.#hosts[this.#current] === host) this.#current = (this.#current + 1) % this.#hosts.length;
  }
}

/**
 * A step of a start, which is done again from its beginning while a server is away that was reached: nothing has been promised
 * yet, and each step finds out what an earlier attempt has written.
 * @param patience for how long, in milliseconds
 */
export async function startPatiently<Result>(step: () => Promise<Result>, patience = 30_000): Promise<Result> {
  let wasThere = false;
  for (let missed: number | undefined; ;) {
    try {
      return await step();
    } catch (error) {
      missed ??= performance.now();
      wasThere ||= isGoing(error);
      if (!wasThere || !isAway(error) || performance.now() - missed > patience) throw error;
    }
    await delay(pause);
  }
}

/** All of them, from one on. */
function inTurn<Item>(items: readonly Item[], first: number): Item[] {
  return [...items.slice(first), ...items.slice(0, first)];
}

function openHost(config: ClientConfig, poolSize: number): Host {
  const pool = new Pool({ ...config, connectionTimeoutMillis: connectTimeout, max: poolSize });
  const host: Host = { config, pool, clients: new Set(), inUse: new Map(), failures: 0 };
  // A connection was lost: who uses it is told by its statement, and the next one opens another.
  pool.on("error", () => undefined);
  pool.on("connect", (client) => {
    host.clients.add(client);
    client.on("error", () => undefined);
  });
  pool.on("release", (_error, client) => host.inUse.delete(client));
  pool.on("remove", (client) => host.clients.delete(client));
  return host;
}

/** Gives up the connections of a host that accepts no other. @returns whether it did */
async function giveUpLost(host: Host, interval: number): Promise<boolean> {
  const now = performance.now();
  if (![...host.inUse.values()].some((since) => now - since > interval)) {
    host.failures = 0;
    return false;
  }
  const client = new Client({ ...host.config, connectionTimeoutMillis: interval });
  client.on("error", () => undefined);
  try {
    await client.connect();
    host.failures = 0;
  } catch (error) {
    // A server that refuses is there.
    host.failures = isAway(meaningOf(error, "")) ? host.failures + 1 : 0;
  }
  void client.end().catch(() => undefined);
  if (host.failures < failuresOfLost) return false;
  host.failures = 0;
  for (const each of host.clients) streamOf(each).destroy();
  return true;
}

/** The socket. The driver has it, and its types do not. */
export function streamOf(client: ClientBase): Connection["stream"] {
  return (client as unknown as { readonly connection: Connection }).connection.stream;
}
