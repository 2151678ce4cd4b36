import type { Postgres, Transaction } from "#postgres/database.ts";
import type { Schema } from "#postgres/migrations.ts";
import { createQueue } from "#queue.ts";
import { eventDocument, eventOf, lostRecord, recordOf, runDocument } from "#state/record.ts";
import type { EventDocument, RunDocument, RunRecord, SyncEvent, SyncState } from "#state/record.ts";
import { retain } from "#state/runs.ts";
import type { Retention } from "#state/runs.ts";
import { SlotTakenError } from "#state/store.ts";
import type { Change, Journal, KnownJournal } from "#state/store.ts";
import type { Node } from "./nodes.ts";

export const journalSchema: Schema = {
  part: "journal",
  migrations: [
    `CREATE TABLE IF NOT EXISTS rollcall.journal (
       single boolean PRIMARY KEY DEFAULT true CHECK (single), revision bigint NOT NULL, removed bigint NOT NULL);
     INSERT INTO rollcall.journal (revision, removed) VALUES (0, 0) ON CONFLICT DO NOTHING;
     CREATE TABLE IF NOT EXISTS rollcall.runs (
       id text PRIMARY KEY, document json NOT NULL, node bigint, writer bigint NOT NULL, revision bigint NOT NULL);
     CREATE INDEX IF NOT EXISTS runs_revision ON rollcall.runs (revision);
     CREATE TABLE IF NOT EXISTS rollcall.syncs (
       name text PRIMARY KEY, document json NOT NULL, revision bigint NOT NULL);
     CREATE TABLE IF NOT EXISTS rollcall.slots (
       sync text NOT NULL, slot timestamptz NOT NULL, run text NOT NULL, node bigint NOT NULL, PRIMARY KEY (sync, slot));
     CREATE TABLE IF NOT EXISTS rollcall.events (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, document json NOT NULL)`,
  ],
};

/** How many events are read at once. */
const mostEvents = 100;

const unknown: SyncState = { skipped: [] };

/** A part of the journal that is written at once. */
interface Entry {
  readonly runs?: readonly RunRecord[];
  /** Ids. */
  readonly gone?: readonly string[];
  readonly of?: { readonly sync: string; readonly change: Change } | undefined;
  readonly events?: readonly SyncEvent[] | undefined;
}

export interface RecordedEvent {
  readonly id: bigint;
  readonly event: SyncEvent;
}

interface RunRow {
  readonly document: RunDocument;
  readonly node: bigint | null;
  readonly writer: bigint;
  readonly revision: bigint;
}

/** The journal of several processes. Each knows it as of its last `refresh`, with its own changes. */
export class PostgresJournal implements Journal {
  readonly #postgres: Postgres;
  readonly #node: Node;
  readonly #retention: Retention;
  readonly #byId = new Map<string, RunRecord>();
  readonly #states = new Map<string, SyncState>();
  /** The nodes that are at work on runs, and those that have a lease. */
  readonly #nodes = new Map<string, bigint | null>();
  #alive: ReadonlySet<bigint> = new Set();
  #revision = -1n;
  /** Something could not be written here: what is known here may be what nobody else knows. */
  #isDoubtful = false;
  /** What was changed here and is not written yet: that is newer than what is read. */
  readonly #unwritten = new Map<string, number>();
  /** The runs, the oldest first; undefined: to be sorted anew. */
  #sorted: readonly RunRecord[] | undefined;
  readonly #working = createQueue();

  private constructor(postgres: Postgres, node: Node, retention: Retention) {
    this.#postgres = postgres;
    this.#node = node;
    this.#retention = retention;
  }

  static async open(postgres: Postgres, node: Node, retention: Retention): Promise<PostgresJournal> {
    const journal = new PostgresJournal(postgres, node, retention);
    await journal.refresh();
    return journal;
  }

  get runs(): readonly RunRecord[] {
    this.#sorted ??= [...this.#byId.values()].sort((one, other) => (one.id < other.id ? -1 : 1));
    return this.#sorted;
  }

  find(id: string): RunRecord | undefined {
    return this.#byId.get(id);
  }

  put(
    runs: RunRecord | readonly RunRecord[],
    of?: { readonly sync: string; readonly change: Change },
    events?: readonly SyncEvent[],
  ): Promise<void> {
    return this.#write({ runs: [runs].flat(), of, events });
  }

  note(run: RunRecord): void {
    void this.#write({ runs: [run] }).catch(() => undefined);
  }

  remove(id: string): Promise<void> {
    return this.#write({ gone: [id] });
  }

  state(sync: string): SyncState {
    return this.#states.get(sync) ?? unknown;
  }

  change(sync: string, change: Change): Promise<void> {
    return this.#write({ of: { sync, change } });
  }

  async prune(now: number): Promise<void> {
    const before = this.runs;
    const after = retain(before, this.#retention, now);
    if (after === before) return;
    const staying = new Set(after.map(({ id }) => id));
    await this.#write({
      runs: after.filter((run) => this.#byId.get(run.id) !== run),
      gone: before.flatMap(({ id }) => (staying.has(id) ? [] : [id])),
    });
  }

  refresh(): Promise<readonly RunRecord[]> {
    return this.#working(() => this.#readNew());
  }

  isHere(id: string): boolean {
    return this.#nodes.get(id) === this.#node.id();
  }

  isElsewhere(id: string): boolean {
    const at = this.#nodes.get(id);
    return at !== undefined && at !== null && at !== this.#node.id() && this.#alive.has(at);
  }

  /** The events that were recorded with runs, by any process, and that nobody has taken yet; the oldest first. */
  async events(): Promise<readonly RecordedEvent[]> {
    const rows = await this.#postgres.rows<{ id: bigint; document: EventDocument }>(
      `SELECT id, document FROM rollcall.events ORDER BY id LIMIT ${mostEvents}`,
    );
    return rows.map(({ id, document }) => ({ id, event: eventOf(document) }));
  }

  /** Removes events, up to this one. */
  async taken(id: bigint): Promise<void> {
    await this.#node.fenced((transaction) => transaction.rows("DELETE FROM rollcall.events WHERE id <= $1", [id]));
  }

  #isOwn(key: string): boolean {
    return (this.#unwritten.get(key) ?? 0) > 0;
  }

  #set(changed: readonly RunRecord[]): void {
    for (const run of changed) this.#byId.set(run.id, run);
    this.#sorted = undefined;
  }

  async #write(entry: Entry): Promise<void> {
    const { runs = [], gone = [], of } = entry;
    const keys = [...runs.map(({ id }) => id), ...gone, ...(of === undefined ? [] : [`sync ${of.sync}`])];
    this.#set(runs);
    for (const id of gone) this.#byId.delete(id);
    if (of !== undefined) this.#states.set(of.sync, of.change(this.state(of.sync)));
    for (const key of keys) this.#unwritten.set(key, (this.#unwritten.get(key) ?? 0) + 1);
    try {
      await this.#working(async () => {
        const state = await this.#node.fenced((transaction) => writeEntry(transaction, this.#node.id(), entry));
        for (const run of runs) this.#nodes.set(run.id, run.state === "running" ? this.#node.id() : null);
        // Unless another change of it waits to be written, which is known here already.
        if (of !== undefined && state !== undefined && this.#unwritten.get(`sync ${of.sync}`) === 1)
          this.#states.set(of.sync, state);
      });
    } catch (error) {
      this.#isDoubtful = true;
      throw error;
    } finally {
      for (const key of keys) this.#unwritten.set(key, (this.#unwritten.get(key) ?? 1) - 1);
    }
  }

  async #readNew(): Promise<RunRecord[]> {
    const postgres = this.#postgres;
    const [head] = await postgres.rows<{ revision: bigint; removed: bigint }>(
      "SELECT revision, removed FROM rollcall.journal",
    );
    if (head === undefined) return [];
    if (head.revision === this.#revision && !this.#isDoubtful) {
      await this.#readNodes();
      return [];
    }
    const since = this.#isDoubtful || head.removed > this.#revision ? -1n : this.#revision;
    const found = await postgres.rows<RunRow>(
      "SELECT document, node, writer, revision FROM rollcall.runs WHERE revision > $1 ORDER BY revision, id",
      [since],
    );
    const syncs = await postgres.rows<{ name: string; document: SyncState }>(
      "SELECT name, document FROM rollcall.syncs WHERE revision > $1",
      [since],
    );
    // After the runs: the process that began one was there before it.
    await this.#readNodes();
    if (since < 0n) this.#forgetOthers(found, syncs);
    const taken = found.filter(({ document: { id } }) => !this.#isOwn(id));
    this.#set(taken.map(({ document }) => recordOf(document)));
    for (const { document: run, node: at } of taken) this.#nodes.set(run.id, at);
    for (const { name, document: state } of syncs) if (!this.#isOwn(`sync ${name}`)) this.#states.set(name, state);
    const before = this.#revision;
    this.#revision = head.revision;
    this.#isDoubtful = false;
    if (before < 0n) return [];
    return taken
      .filter((row) => row.revision > before && row.writer !== this.#node.id())
      .map(({ document }) => recordOf(document));
  }

  /** What is known here, and is not among everything that there is. */
  #forgetOthers(found: readonly RunRow[], syncs: readonly { readonly name: string }[]): void {
    const there = new Set([...found.map(({ document: { id } }) => id), ...syncs.map(({ name }) => `sync ${name}`)]);
    for (const id of this.#byId.keys()) if (!there.has(id) && !this.#isOwn(id)) this.#byId.delete(id);
    for (const name of this.#states.keys())
      if (!there.has(`sync ${name}`) && !this.#isOwn(`sync ${name}`)) this.#states.delete(name);
  }

  async #readNodes(): Promise<void> {
    this.#alive = new Set(
      (await this.#postgres.rows<{ id: bigint }>("SELECT id FROM rollcall.nodes")).map(({ id }) => id),
    );
  }
}

/** All runs and states. A run whose process has ended is shown as far as its end is known. */
export async function readJournal(postgres: Pick<Postgres, "rows">): Promise<KnownJournal> {
  const rows = await postgres.rows<{ document: RunDocument; lives: boolean }>(
    `SELECT document, node IN (SELECT id FROM rollcall.nodes WHERE expires > clock_timestamp()) AS lives
     FROM rollcall.runs ORDER BY id`,
  );
  const syncs = await postgres.rows<{ name: string; document: SyncState }>("SELECT name, document FROM rollcall.syncs");
  return {
    runs: rows.map(({ document, lives }) => {
      const run = recordOf(document);
      return run.state === "running" && !lives ? lostRecord(run) : run;
    }),
    syncs: Object.fromEntries(syncs.map(({ name, document: state }) => [name, state])),
  };
}

/** @returns the state of the sync as it is then, if it was to be changed */
async function writeEntry(
  transaction: Transaction,
  node: bigint,
  { runs = [], gone = [], of, events = [] }: Entry,
): Promise<SyncState | undefined> {
  // Locks the journal to the end of the transaction: revisions and events come in order.
  const [head] = await transaction.rows<{ revision: bigint }>(
    `UPDATE rollcall.journal SET revision = revision + 1, removed = CASE WHEN $1 THEN revision + 1 ELSE removed END
     RETURNING revision`,
    [gone.length > 0],
  );
  const revision = head?.revision ?? 0n;
  for (const { id, sync, slot } of runs) {
    if (slot === undefined) continue;
    const [row] = await transaction.rows<{ run: string }>(
      `INSERT INTO rollcall.slots (sync, slot, run, node) VALUES ($1, $2, $3, $4)
       ON CONFLICT (sync, slot) DO UPDATE SET run = slots.run RETURNING run`,
      [sync, slot, id, node],
    );
    if (row?.run !== id) throw new SlotTakenError(`another process has begun the run of sync ${sync} for ${slot}`);
  }
  if (runs.length > 0)
    await transaction.rows(
      `INSERT INTO rollcall.runs (id, document, node, writer, revision)
       SELECT id, document::json, CASE WHEN document::json ->> 'state' = 'running' THEN $3::bigint END, $3, $4
       FROM unnest($1::text[], $2::text[]) AS t (id, document)
       ON CONFLICT (id) DO UPDATE SET document = excluded.document, node = excluded.node, writer = excluded.writer,
         revision = excluded.revision`,
      [runs.map(({ id }) => id), runs.map((run) => JSON.stringify(runDocument(run))), node, revision],
    );
  if (gone.length > 0) {
    await transaction.rows("DELETE FROM rollcall.runs WHERE id = ANY ($1)", [gone]);
    // Longer than the run, which may be pruned before its slot has passed.
    await transaction.rows(
      `DELETE FROM rollcall.slots WHERE slot < clock_timestamp() - interval '7 days'
         AND NOT EXISTS (SELECT FROM rollcall.runs WHERE id = run)`,
    );
  }
  if (events.length > 0)
    await transaction.rows("INSERT INTO rollcall.events (document) SELECT unnest($1::text[])::json", [
      events.map((event) => JSON.stringify(eventDocument(event))),
    ]);
  if (of === undefined) return undefined;
  const [found] = await transaction.rows<{ document: SyncState }>(
    "SELECT document FROM rollcall.syncs WHERE name = $1",
    [of.sync],
  );
  const state = of.change(found?.document ?? unknown);
  const { lastSlotAt } = state;
  // Slots in the future were taken before the clock was set back: the schedule comes to them again.
  if (lastSlotAt !== undefined && lastSlotAt !== found?.document.lastSlotAt)
    await transaction.rows("DELETE FROM rollcall.slots WHERE sync = $1 AND slot > greatest($2, clock_timestamp())", [
      of.sync,
      lastSlotAt,
    ]);
  await transaction.rows(
    `INSERT INTO rollcall.syncs (name, document, revision) VALUES ($1, $2, $3)
     ON CONFLICT (name) DO UPDATE SET document = excluded.document, revision = excluded.revision`,
    [of.sync, JSON.stringify(state), revision],
  );
  return state;
}
