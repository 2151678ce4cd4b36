import type { Logger } from "pino";
import { messageOf, UnavailableError } from "#errors.ts";
import { readClock } from "#postgres/clock.ts";
import type { Postgres, Transaction } from "#postgres/database.ts";
import { keepRenewing, Leases } from "#postgres/leases.ts";
import type { Schema } from "#postgres/migrations.ts";
import type { CycleRecord, Node, Outcome, WrittenLoad } from "./cycle.ts";

/** A cycle that has not ended, as the database knows it. */
export interface PlacedCycle {
  readonly record: CycleRecord;
  /** The node that has its chunks. */
  readonly node: Node;
  /** The node's lease has ended. */
  readonly isOver: boolean;
}

export interface NodesOptions {
  readonly postgres: Postgres;
  /** How long a node may be away, in milliseconds. */
  readonly lease: number;
  readonly log: Logger;
}

export const nodesSchema: Schema = {
  part: "cycles",
  migrations: [
    `CREATE TABLE IF NOT EXISTS rollcall.service_nodes (
       id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, address text, certificate text,
       steady_since timestamptz NOT NULL, ends_at timestamptz NOT NULL);
     CREATE TABLE IF NOT EXISTS rollcall.cycles (
       id text PRIMARY KEY, node bigint NOT NULL, owner text NOT NULL, record text NOT NULL, written text);
     CREATE INDEX IF NOT EXISTS cycles_node ON rollcall.cycles (node);
     CREATE INDEX IF NOT EXISTS cycles_owner ON rollcall.cycles (owner);
     ALTER TABLE rollcall.ended_loads ADD COLUMN IF NOT EXISTS node bigint`,
  ],
};

/** Each statement and transaction here finds out what an earlier attempt has done. */
const again = { isRepeatable: true } as const;

/** A lease is renewed so many times before it would end. */
const renewals = 4;

const leaseTable = { table: "rollcall.service_nodes", ends: "ends_at", steadySince: "steady_since" } as const;

const placed = `
  SELECT c.record, c.node::text AS node, n.address, n.certificate, coalesce(n.ends_at <= clock_timestamp(), true) AS over
  FROM rollcall.cycles c LEFT JOIN rollcall.service_nodes n ON n.id = c.node`;

interface PlacedRow {
  readonly record: string;
  readonly node: string;
  readonly address: string | null;
  readonly certificate: string | null;
  readonly over: boolean;
}

/** Joins the nodes of a database, whose schema has `nodesSchema`. */
export async function joinNodes(options: NodesOptions): Promise<Nodes> {
  const leases = new Leases(options.postgres, leaseTable, options.lease);
  const { id } = await leases.enter({ address: null, certificate: null });
  return new Nodes(options, leases, id);
}

/**
 * The nodes that share a database, and which of them has the chunks of which cycle. Each node has a lease that it renews, by the
 * database's clock. What a node had whose lease has ended, and that was then buried, is lost: every cycle ends in the same transaction.
 * A row of `cycles` is the right to write that load: a writer marks the row, and the node that buries the writer removes it.
 */
export class Nodes {
  readonly #postgres: Postgres;
  readonly #lease: number;
  readonly #leases: Leases;
  readonly #log: Logger;
  readonly #closing = new AbortController();
  #id: bigint;
  /** Where it listens. */
  #at: { readonly address: string; readonly certificate: string | undefined } | undefined;
  #entering: Promise<void> | undefined;

  constructor({ postgres, lease, log }: NodesOptions, leases: Leases, id: bigint) {
    this.#postgres = postgres;
    this.#lease = lease;
    this.#leases = leases;
    this.#log = log;
    this.#id = id;
    void keepRenewing(
      () =>
        this.#renew().catch((error: unknown) => {
          log.warn({ err: error }, `the lease of this node could not be renewed: ${messageOf(error)}`);
        }),
      { every: lease / renewals, signal: this.#closing.signal },
    );
  }

  /** The id of this one. It changes when this node was away so long that it was buried. */
  id(): string {
    return String(this.#id);
  }

  /** Says where this node listens. */
  async announce(address: string, certificate: string | undefined): Promise<void> {
    this.#at = { address, certificate };
    await this.#postgres.rows(
      "UPDATE rollcall.service_nodes SET address = $2, certificate = $3 WHERE id = $1",
      [this.#id, address, certificate ?? null],
      again,
    );
  }

  async #renew(): Promise<void> {
    if ((await this.#leases.renew(this.#id, this.#postgres, again)) === undefined) await this.#enterAgain();
  }

  /** A node that was away too long and was buried goes on as another: what it had has ended. */
  #enterAgain(): Promise<void> {
    this.#entering ??= (async () => {
      const { address = null, certificate = null } = this.#at ?? {};
      const { id } = await this.#leases.enter({ address, certificate });
      await this.#postgres.rows("UPDATE rollcall.ended_loads SET node = $1 WHERE node = $2", [id, this.#id], again);
      this.#id = id;
      this.#log.warn(
        `this node was away for longer than service.loads.lostAfter (${this.#lease / 1000} s): the loads with data on it have failed`,
      );
    })().finally(() => {
      this.#entering = undefined;
    });
    return this.#entering;
  }

  /** Enters a cycle of this node. */
  async add(record: CycleRecord): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      // Nobody buries this node meanwhile.
      const added = await this.#postgres.rows(
        `INSERT INTO rollcall.cycles (id, node, owner, record)
         SELECT $2, n.id, $3, $4 FROM (SELECT id FROM rollcall.service_nodes WHERE id = $1 FOR KEY SHARE) n
         ON CONFLICT (id) DO UPDATE SET record = excluded.record RETURNING 1 AS one`,
        [this.#id, record.id, record.owner, JSON.stringify(record)],
        again,
      );
      if (added.length > 0) return;
      if (attempt > 1) throw new UnavailableError("this node was away for too long: try again");
      await this.#enterAgain();
    }
  }

  /** Returns false when the cycle is not this node's any more. */
  async update(record: CycleRecord): Promise<boolean> {
    const updated = await this.#postgres.rows(
      "UPDATE rollcall.cycles SET record = $3 WHERE id = $1 AND node = $2 RETURNING 1 AS one",
      [record.id, this.#id, JSON.stringify(record)],
      again,
    );
    return updated.length > 0;
  }

  /**
   * Ends a cycle of this node. What was written counts as written, whatever the record says.
   * @returns how it has ended; undefined when that is forgotten
   */
  end(record: CycleRecord): Promise<CycleRecord | undefined> {
    return this.#postgres.transaction(async (transaction) => {
      const [gone] = await transaction.rows<{ written: string | null }>(
        "DELETE FROM rollcall.cycles WHERE id = $1 AND node = $2 RETURNING written",
        [record.id, this.#id],
      );
      if (gone === undefined) {
        const [ended] = await transaction.rows<{ record: string }>(
          "SELECT record FROM rollcall.ended_loads WHERE id = $1",
          [record.id],
        );
        return ended === undefined ? undefined : (JSON.parse(ended.record) as CycleRecord);
      }
      const { outcome } = record;
      const isOk = gone.written === null || outcome === undefined || outcome.code === "OK";
      const ended = isOk ? record : { ...record, outcome: writtenOutcome(gone.written, outcome.ended) };
      await enterEnded(transaction, [ended], this.#id);
      return ended;
    }, again);
  }

  /** Forgets cycles whose folders are, or were, this node's. */
  async remove(ids: readonly string[]): Promise<void> {
    await this.#postgres.rows("DELETE FROM rollcall.cycles WHERE id = ANY($1)", [ids], again);
  }

  /**
   * Takes over what an earlier process left in this node's folder.
   * @returns those that are this node's now, each with what was written of it
   */
  async adopt(records: readonly CycleRecord[]): Promise<ReadonlyMap<string, WrittenLoad | undefined>> {
    const ids = records.map((record) => record.id);
    const strangers = records.filter(({ isShared }) => isShared !== true);
    const adopted = await this.#postgres.transaction(async (transaction) => {
      // Cycles from before the service had a database.
      for (const record of strangers)
        await transaction.rows(
          "INSERT INTO rollcall.cycles (id, node, owner, record) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO NOTHING",
          [record.id, this.#id, record.owner, JSON.stringify(record)],
        );
      return transaction.rows<{ id: string; written: string | null }>(
        "UPDATE rollcall.cycles SET node = $1 WHERE id = ANY($2) RETURNING id, written",
        [this.#id, ids],
      );
    }, again);
    return new Map(
      adopted.map(({ id, written }) => [id, written === null ? undefined : (JSON.parse(written) as WrittenLoad)]),
    );
  }

  /** Says that the rejected rows of these ended cycles are here. */
  async claimRejected(ids: readonly string[]): Promise<void> {
    await this.#postgres.rows("UPDATE rollcall.ended_loads SET node = $1 WHERE id = ANY($2)", [this.#id, ids], again);
  }

  /** Where the rejected rows of an ended cycle are, if that is another node, which has not been lost. */
  async findRejected(id: string): Promise<Node | undefined> {
    const [row] = await this.#postgres.rows<Omit<PlacedRow, "record" | "over">>(
      `SELECT n.id::text AS node, n.address, n.certificate
       FROM rollcall.ended_loads e JOIN rollcall.service_nodes n ON n.id = e.node WHERE e.id = $1 AND n.id <> $2`,
      [id, this.#id],
    );
    return row && nodeOf(row);
  }

  async find(id: string): Promise<PlacedCycle | undefined> {
    const [row] = await this.#postgres.rows<PlacedRow>(`${placed} WHERE c.id = $1`, [id]);
    return row && placedOf(row);
  }

  /** Cycles that have not ended, of an account or of all. */
  async list(owner: string | undefined): Promise<readonly PlacedCycle[]> {
    const [condition, values] = owner === undefined ? ["", []] : ["WHERE c.owner = $1", [owner]];
    const rows = await this.#postgres.rows<PlacedRow>(`${placed} ${condition}`, values);
    return rows.map(placedOf);
  }

  /** The ids of this node's cycles. */
  async mine(): Promise<ReadonlySet<string>> {
    const query = "SELECT id FROM rollcall.cycles WHERE node = $1";
    const rows = await this.#postgres.rows<{ id: string }>(query, [this.#id]);
    return new Set(rows.map((row) => row.id));
  }

  /**
   * Ends a cycle of another node that does not answer.
   * @returns its end; undefined when it cannot be told yet whether it was written
   */
  cancel(id: string, outcome: Outcome): Promise<readonly CycleRecord[] | undefined> {
    return this.#postgres.transaction(async (transaction) => {
      const cycles = await transaction.rows<CycleRow & { readonly node: bigint }>(
        "SELECT id, record, written, node FROM rollcall.cycles WHERE id = $1 FOR UPDATE SKIP LOCKED",
        [id],
      );
      const ended = await endAll(transaction, cycles, cycles[0]?.node ?? null, () => outcome);
      const [left] = await transaction.rows("SELECT 1 AS one FROM rollcall.cycles WHERE id = $1", [id]);
      return left === undefined ? ended : undefined;
    }, again);
  }

  /**
   * Buries a node if its lease has ended: its cycles have failed then, those that were written are OK.
   * @returns how they ended; undefined when that has to wait: where all nodes were away, as in a power cut, each is given as
   *   long as its lease to come back
   */
  async bury(dead: string): Promise<readonly CycleRecord[] | undefined> {
    const buried = await this.#postgres.transaction(async (transaction) => {
      if (!(await this.#leases.lasts(transaction, this.#id, "steady"))) return undefined;
      const [node] = await transaction.rows<{ address: string | null; lives: boolean }>(
        "SELECT address, ends_at > clock_timestamp() AS lives FROM rollcall.service_nodes WHERE id = $1 FOR UPDATE",
        [dead],
      );
      if (node?.lives === true) return undefined;
      // What is being written at this moment is decided in a moment.
      const cycles = await transaction.rows<CycleRow>(
        "SELECT id, record, written FROM rollcall.cycles WHERE node = $1 FOR UPDATE SKIP LOCKED",
        [dead],
      );
      const address = node?.address ?? "";
      const lost = (now: number): Outcome => ({ ...nothing(now), code: "LOAD_FAILED", message: lostMessage(address) });
      const ended = await endAll(transaction, cycles, BigInt(dead), lost);
      const [left] = await transaction.rows("SELECT 1 AS one FROM rollcall.cycles WHERE node = $1 LIMIT 1", [dead]);
      if (left === undefined) await transaction.rows("DELETE FROM rollcall.service_nodes WHERE id = $1", [dead]);
      return { address, ended };
    }, again);
    if (buried !== undefined && buried.ended.length > 0)
      this.#log.warn(
        `the node ${buried.address} has been away for longer than its service.loads.lostAfter: ${buried.ended.length} loads with data on it have ended`,
      );
    return buried?.ended;
  }

  /** Buries every node whose lease has ended. */
  async buryAll(): Promise<readonly CycleRecord[]> {
    const ended: CycleRecord[] = [];
    for (const id of await this.#leases.ended())
      if (id !== this.#id) ended.push(...((await this.bury(String(id))) ?? []));
    return ended;
  }

  async isOver(id: string): Promise<boolean> {
    return !(await this.#leases.lasts(this.#postgres, id));
  }

  async close(): Promise<void> {
    this.#closing.abort();
    // One that leaves something behind stays for as long as its lease: it may be started again.
    const unless = `EXISTS (SELECT FROM rollcall.cycles c WHERE c.node = n.id)
      OR EXISTS (SELECT FROM rollcall.ended_loads e WHERE e.node = n.id)`;
    await this.#leases.leave(this.#id, { unless }).catch(() => undefined);
  }
}

interface CycleRow {
  readonly id: string;
  readonly record: string;
  readonly written: string | null;
}

/** Ends cycles whose rows the transaction has locked: as written where they were, otherwise like this. */
async function endAll(
  transaction: Transaction,
  cycles: readonly CycleRow[],
  node: bigint | null,
  otherwise: (now: number) => Outcome,
): Promise<readonly CycleRecord[]> {
  if (cycles.length === 0) return [];
  const now = await readClock(transaction);
  const ended = cycles.map(({ record, written }): CycleRecord => {
    const { chunks: _, ...rest } = JSON.parse(record) as CycleRecord;
    const outcome = written === null ? otherwise(now) : writtenOutcome(written, now);
    return { ...rest, stage: "DONE", outcome };
  });
  await transaction.rows("DELETE FROM rollcall.cycles WHERE id = ANY($1)", [cycles.map(({ id }) => id)]);
  await enterEnded(transaction, ended, node);
  return ended;
}

async function enterEnded(
  transaction: Transaction,
  records: readonly CycleRecord[],
  node: bigint | null,
): Promise<void> {
  await transaction.rows(
    `INSERT INTO rollcall.ended_loads (id, owner, ended, record, node)
     SELECT t.id, t.owner, t.ended, t.record, $5
     FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) AS t (id, owner, ended, record)`,
    [
      records.map(({ id }) => id),
      records.map(({ owner }) => owner),
      records.map(({ outcome, started }) => BigInt(Math.round(outcome?.ended ?? started))),
      records.map((record) => JSON.stringify(record)),
      node,
    ],
  );
}

function lostMessage(address: string): string {
  return `The node that had the data of this load${address === "" ? "" : ` (${address})`} was lost before the load was written. Nothing of it is in the table: load it again.`;
}

function nothing(now: number): Pick<Outcome, "ended" | "rowsWritten" | "ignoredRows" | "errors"> {
  return { ended: now, rowsWritten: 0, ignoredRows: 0, errors: [] };
}

function writtenOutcome(written: string | null, ended: number): Outcome {
  return { ...nothing(ended), ...(JSON.parse(written ?? "{}") as WrittenLoad), code: "OK" };
}

function nodeOf({ node, address, certificate }: Pick<PlacedRow, "node" | "address" | "certificate">): Node {
  return { id: node, address: address ?? undefined, certificate: certificate ?? undefined };
}

function placedOf(row: PlacedRow): PlacedCycle {
  return { record: JSON.parse(row.record) as CycleRecord, node: nodeOf(row), isOver: row.over };
}
