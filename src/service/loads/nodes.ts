import type { Logger } from "pino";
import { messageOf, UnavailableError } from "#errors.ts";
import type { Postgres, Transaction } from "#postgres/database.ts";
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

/**
 * The nodes that share a database, and which of them has the chunks of which cycle. Each node has a lease that it renews, by the
 * database's clock. What a node had whose lease has ended, and that was then buried, is lost: every cycle ends in the same transaction.
 * A row of `cycles` is the right to write that load: whoever writes one marks the row, and whoever buries the node removes it.
 */
export interface Nodes {
  /** The id of this one. It changes when this node was away so long that it was buried. */
  id(): string;
  /** Says where this node listens. */
  announce(address: string, certificate: string | undefined): Promise<void>;
  /** Enters a cycle of this node. */
  add(record: CycleRecord): Promise<void>;
  /** Returns false when the cycle is not this node's any more. */
  update(record: CycleRecord): Promise<boolean>;
  /**
   * Ends a cycle of this node. What was written counts as written, whatever the record says.
   * @returns how it has ended; undefined when that is forgotten
   */
  end(record: CycleRecord): Promise<CycleRecord | undefined>;
  /** Forgets cycles whose folders are, or were, this node's. */
  remove(ids: readonly string[]): Promise<void>;
  /**
   * Takes over what an earlier process left in this node's folder.
   * @returns those that are this node's now, each with what was written of it
   */
  adopt(records: readonly CycleRecord[]): Promise<ReadonlyMap<string, WrittenLoad | undefined>>;
  /** Says that the rejected rows of these ended cycles are here. */
  claimRejected(ids: readonly string[]): Promise<void>;
  /** Where the rejected rows of an ended cycle are, if that is another node, which has not been lost. */
  findRejected(id: string): Promise<Node | undefined>;
  find(id: string): Promise<PlacedCycle | undefined>;
  /** Those that have not ended, of an account or of all. */
  list(owner: string | undefined): Promise<readonly PlacedCycle[]>;
  /** The ids of this node's cycles. */
  mine(): Promise<ReadonlySet<string>>;
  /**
   * Ends a cycle of another node that does not answer.
   * @returns its end; undefined when it cannot be told yet whether it was written
   */
  cancel(id: string, outcome: Outcome): Promise<readonly CycleRecord[] | undefined>;
  /**
   * Buries a node if its lease has ended: its cycles have failed then, those that were written are OK.
   * @returns how they ended; undefined when that has to wait: where all nodes were away, as in a power cut, each is given as
   *   long as its lease to come back
   */
  bury(id: string): Promise<readonly CycleRecord[] | undefined>;
  /** Buries every node whose lease has ended. */
  buryAll(): Promise<readonly CycleRecord[]>;
  isOver(id: string): Promise<boolean>;
  close(): Promise<void>;
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
export async function joinNodes({ postgres, lease, log }: NodesOptions): Promise<Nodes> {
  const lasting = `clock_timestamp() + ${lease} * INTERVAL '1 millisecond'`;
  let at: { readonly address: string; readonly certificate: string | undefined } | undefined;
  let id = await enter();

  async function enter(): Promise<string> {
    const [row] = await postgres.rows<{ id: string }>(
      `INSERT INTO rollcall.service_nodes (address, certificate, steady_since, ends_at)
       VALUES ($1, $2, clock_timestamp(), ${lasting}) RETURNING id::text AS id`,
      [at?.address ?? null, at?.certificate ?? null],
      again,
    );
    if (row === undefined) throw new Error("the database gave this node no id");
    return row.id;
  }

  /** A node that was away too long and was buried goes on as another: what it had has ended. */
  let entering: Promise<void> | undefined;
  function enterAgain(): Promise<void> {
    entering ??= (async () => {
      const before = id;
      const next = await enter();
      await postgres.rows("UPDATE rollcall.ended_loads SET node = $1 WHERE node = $2", [next, before], again);
      id = next;
      log.warn(
        `this node was away for longer than service.loads.lostAfter (${lease / 1000} s): the loads whose data it had have failed`,
      );
    })().finally(() => {
      entering = undefined;
    });
    return entering;
  }

  async function renew(): Promise<void> {
    // Where the lease had ended, the others had perhaps no way to renew theirs either.
    const renewed = await postgres.rows(
      `UPDATE rollcall.service_nodes SET ends_at = ${lasting},
         steady_since = CASE WHEN ends_at <= clock_timestamp() THEN clock_timestamp() ELSE steady_since END
       WHERE id = $1 RETURNING 1 AS one`,
      [id],
      again,
    );
    if (renewed.length === 0) await enterAgain();
  }

  let isRenewing = false;
  const timer = setInterval(() => {
    if (isRenewing) return;
    isRenewing = true;
    renew()
      .catch((error: unknown) => {
        log.warn({ err: error }, `the lease of this node could not be renewed: ${messageOf(error)}`);
      })
      .finally(() => {
        isRenewing = false;
      });
  }, lease / renewals);
  timer.unref();

  async function bury(dead: string): Promise<readonly CycleRecord[] | undefined> {
    const buried = await postgres.transaction(async (transaction) => {
      const [self] = await transaction.rows(
        `SELECT 1 AS one FROM rollcall.service_nodes
         WHERE id = $1 AND ends_at > clock_timestamp()
           AND steady_since <= clock_timestamp() - ${lease} * INTERVAL '1 millisecond'`,
        [id],
      );
      if (self === undefined) return undefined;
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
      const ended = await endAll(transaction, cycles, dead, lost);
      const [left] = await transaction.rows("SELECT 1 AS one FROM rollcall.cycles WHERE node = $1 LIMIT 1", [dead]);
      if (left === undefined) await transaction.rows("DELETE FROM rollcall.service_nodes WHERE id = $1", [dead]);
      return { address, ended };
    }, again);
    if (buried !== undefined && buried.ended.length > 0)
      log.warn(
        `the node ${buried.address} has been away for longer than its service.loads.lostAfter: ${buried.ended.length} loads whose data it had have ended`,
      );
    return buried?.ended;
  }

  return {
    id: () => id,
    announce: async (address, certificate) => {
      at = { address, certificate };
      const values = [id, address, certificate ?? null];
      await postgres.rows(
        "UPDATE rollcall.service_nodes SET address = $2, certificate = $3 WHERE id = $1",
        values,
        again,
      );
    },
    add: async (record) => {
      for (let attempt = 1; ; attempt++) {
        // Nobody buries this node meanwhile.
        const added = await postgres.rows(
          `INSERT INTO rollcall.cycles (id, node, owner, record)
           SELECT $2, n.id, $3, $4 FROM (SELECT id FROM rollcall.service_nodes WHERE id = $1 FOR KEY SHARE) n
           ON CONFLICT (id) DO UPDATE SET record = excluded.record RETURNING 1 AS one`,
          [id, record.id, record.owner, JSON.stringify(record)],
          again,
        );
        if (added.length > 0) return;
        if (attempt > 1) throw new UnavailableError("this node was away for too long: try again");
        await enterAgain();
      }
    },
    update: async (record) => {
      const updated = await postgres.rows(
        "UPDATE rollcall.cycles SET record = $3 WHERE id = $1 AND node = $2 RETURNING 1 AS one",
        [record.id, id, JSON.stringify(record)],
        again,
      );
      return updated.length > 0;
    },
    end: (record) =>
      postgres.transaction(async (transaction) => {
        const [gone] = await transaction.rows<{ written: string | null }>(
          "DELETE FROM rollcall.cycles WHERE id = $1 AND node = $2 RETURNING written",
          [record.id, id],
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
        await enterEnded(transaction, [ended], id);
        return ended;
      }, again),
    remove: async (ids) => {
      await postgres.rows("DELETE FROM rollcall.cycles WHERE id = ANY($1)", [ids], again);
    },
    adopt: async (records) => {
      const ids = records.map((record) => record.id);
      const strangers = records.filter(({ isShared }) => isShared !== true);
      const adopted = await postgres.transaction(async (transaction) => {
        // Those of a service that had no database before.
        for (const record of strangers)
          await transaction.rows(
            "INSERT INTO rollcall.cycles (id, node, owner, record) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO NOTHING",
            [record.id, id, record.owner, JSON.stringify(record)],
          );
        return transaction.rows<{ id: string; written: string | null }>(
          "UPDATE rollcall.cycles SET node = $1 WHERE id = ANY($2) RETURNING id, written",
          [id, ids],
        );
      }, again);
      return new Map(
        adopted.map(({ id, written }) => [id, written === null ? undefined : (JSON.parse(written) as WrittenLoad)]),
      );
    },
    claimRejected: async (ids) => {
      await postgres.rows("UPDATE rollcall.ended_loads SET node = $1 WHERE id = ANY($2)", [id, ids], again);
    },
    findRejected: async (cycle) => {
      const [row] = await postgres.rows<Omit<PlacedRow, "record" | "over">>(
        `SELECT n.id::text AS node, n.address, n.certificate
         FROM rollcall.ended_loads e JOIN rollcall.service_nodes n ON n.id = e.node WHERE e.id = $1 AND n.id <> $2`,
        [cycle, id],
      );
      return row && nodeOf(row);
    },
    find: async (cycle) => {
      const [row] = await postgres.rows<PlacedRow>(`${placed} WHERE c.id = $1`, [cycle]);
      return row && placedOf(row);
    },
    list: async (owner) => {
      const [condition, values] = owner === undefined ? ["", []] : ["WHERE c.owner = $1", [owner]];
      const rows = await postgres.rows<PlacedRow>(`${placed} ${condition}`, values);
      return rows.map(placedOf);
    },
    mine: async () => {
      const rows = await postgres.rows<{ id: string }>("SELECT id FROM rollcall.cycles WHERE node = $1", [id]);
      return new Set(rows.map((row) => row.id));
    },
    cancel: (cycle, outcome) =>
      postgres.transaction(async (transaction) => {
        const cycles = await transaction.rows<CycleRow & { readonly node: string }>(
          "SELECT id, record, written, node::text AS node FROM rollcall.cycles WHERE id = $1 FOR UPDATE SKIP LOCKED",
          [cycle],
        );
        const ended = await endAll(transaction, cycles, cycles[0]?.node ?? null, () => outcome);
        const [left] = await transaction.rows("SELECT 1 AS one FROM rollcall.cycles WHERE id = $1", [cycle]);
        return left === undefined ? ended : undefined;
      }, again),
    bury,
    buryAll: async () => {
      const over = await postgres.rows<{ id: string }>(
        "SELECT id::text AS id FROM rollcall.service_nodes WHERE ends_at <= clock_timestamp() AND id <> $1",
        [id],
      );
      const ended: CycleRecord[] = [];
      for (const node of over) ended.push(...((await bury(node.id)) ?? []));
      return ended;
    },
    isOver: async (node) => {
      const [row] = await postgres.rows(
        "SELECT 1 AS one FROM rollcall.service_nodes WHERE id = $1 AND ends_at > clock_timestamp()",
        [node],
      );
      return row === undefined;
    },
    close: async () => {
      clearInterval(timer);
      // One that leaves something behind stays for as long as its lease: it may be started again.
      await postgres
        .rows(
          `DELETE FROM rollcall.service_nodes n WHERE id = $1
             AND NOT EXISTS (SELECT FROM rollcall.cycles c WHERE c.node = n.id)
             AND NOT EXISTS (SELECT FROM rollcall.ended_loads e WHERE e.node = n.id)`,
          [id],
        )
        .catch(() => undefined);
    },
  };
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
  node: string | null,
  otherwise: (now: number) => Outcome,
): Promise<readonly CycleRecord[]> {
  if (cycles.length === 0) return [];
  const [clock] = await transaction.rows<{ now: bigint }>(
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now",
  );
  const now = Number(clock?.now);
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
  node: string | null,
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
