import { UnavailableError } from "#errors.ts";
import type { Postgres, Transaction } from "#postgres/database.ts";
import type { Schema } from "#postgres/migrations.ts";
import { createQueue } from "#queue.ts";
import { retain } from "#state/folder/journal.ts";
import type { Journal, Retention } from "#state/folder/journal.ts";
import { eventDocument, eventOf, recordOf, runDocument } from "#state/record.ts";
import type { EventDocument, RunDocument, RunRecord, SyncEvent, SyncState } from "#state/record.ts";
import type { Node } from "./nodes.ts";

/** The journal of several processes. Each knows it as of its last `refresh`, with its own changes. */
export interface SharedJournal extends Journal {
  /** Reads what others have written. @returns the runs that others have begun or changed */
  refresh(): Promise<readonly RunRecord[]>;
  /** Whether another process that has its lease is at work on a run. */
  isElsewhere(id: string): boolean;
  /** Whether this process is at work on a run, as far as the journal knows. */
  isHere(id: string): boolean;
  /** The events that were recorded with runs, by any process, and that nobody has taken yet; the oldest first. */
  events(): Promise<readonly RecordedEvent[]>;
  /** Removes events, up to this one. */
  taken(id: bigint): Promise<void>;
}

export interface RecordedEvent {
  readonly id: bigint;
  readonly event: SyncEvent;
}

/** Another process has begun the run of this slot. */
export class SlotTakenError extends UnavailableError {}

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
  readonly of?: { readonly sync: string; readonly change: (state: SyncState) => SyncState };
  readonly events?: readonly SyncEvent[];
}

export async function openSharedJournal(postgres: Postgres, node: Node, retention: Retention): Promise<SharedJournal> {
  const runs = new Map<string, RunRecord>();
  const states = new Map<string, SyncState>();
  /** The nodes that are at work on runs, and those that have a lease. */
  const nodes = new Map<string, bigint | null>();
  let alive: ReadonlySet<bigint> = new Set();
  let revision = -1n;
  /** Something could not be written here: what is known here may be what nobody else knows. */
  let isDoubtful = false;
  /** What was changed here and is not written yet: that is newer than what is read. */
  const unwritten = new Map<string, number>();
  /** The runs, the oldest first; undefined: to be sorted anew. */
  let sorted: readonly RunRecord[] | undefined;
  const working = createQueue();

  const isOwn = (key: string): boolean => (unwritten.get(key) ?? 0) > 0;
  const set = (changed: readonly RunRecord[]): void => {
    for (const run of changed) runs.set(run.id, run);
    sorted = undefined;
  };

  const write = async (entry: Entry): Promise<void> => {
    const { runs: changed = [], gone = [], of } = entry;
    const keys = [...changed.map(({ id }) => id), ...gone, ...(of === undefined ? [] : [`sync ${of.sync}`])];
    set(changed);
    for (const id of gone) runs.delete(id);
    if (of !== undefined) states.set(of.sync, of.change(states.get(of.sync) ?? unknown));
    for (const key of keys) unwritten.set(key, (unwritten.get(key) ?? 0) + 1);
    try {
      await working(async () => {
        const state = await node.fenced((transaction) => writeEntry(transaction, node.id(), entry));
        for (const run of changed) nodes.set(run.id, run.state === "running" ? node.id() : null);
        // Unless another change of it waits to be written, which is known here already.
        if (of !== undefined && state !== undefined && unwritten.get(`sync ${of.sync}`) === 1)
          states.set(of.sync, state);
      });
    } catch (error) {
      isDoubtful = true;
      throw error;
    } finally {
      for (const key of keys) unwritten.set(key, (unwritten.get(key) ?? 1) - 1);
    }
  };

  const readNodes = async (): Promise<void> => {
    alive = new Set((await postgres.rows<{ id: bigint }>("SELECT id FROM rollcall.nodes")).map(({ id }) => id));
  };

  const refresh = async (): Promise<RunRecord[]> => {
    const [head] = await postgres.rows<{ revision: bigint; removed: bigint }>(
      "SELECT revision, removed FROM rollcall.journal",
    );
    if (head === undefined) return [];
    if (head.revision === revision && !isDoubtful) {
      await readNodes();
      return [];
    }
    const since = isDoubtful || head.removed > revision ? -1n : revision;
    const found = await postgres.rows<{ document: RunDocument; node: bigint | null; writer: bigint; revision: bigint }>(
      "SELECT document, node, writer, revision FROM rollcall.runs WHERE revision > $1 ORDER BY revision, id",
      [since],
    );
    const syncs = await postgres.rows<{ name: string; document: SyncState }>(
      "SELECT name, document FROM rollcall.syncs WHERE revision > $1",
      [since],
    );
    // After the runs: whoever has begun one of them was there before.
    await readNodes();
    if (since < 0n) {
      const there = new Set([...found.map(({ document: { id } }) => id), ...syncs.map(({ name }) => `sync ${name}`)]);
      for (const id of runs.keys()) if (!there.has(id) && !isOwn(id)) runs.delete(id);
      for (const name of states.keys()) if (!there.has(`sync ${name}`) && !isOwn(`sync ${name}`)) states.delete(name);
    }
    const taken = found.filter(({ document: { id } }) => !isOwn(id));
    set(taken.map(({ document }) => recordOf(document)));
    for (const { document: run, node: at } of taken) nodes.set(run.id, at);
    for (const { name, document: state } of syncs) if (!isOwn(`sync ${name}`)) states.set(name, state);
    const before = revision;
    revision = head.revision;
    isDoubtful = false;
    if (before < 0n) return [];
    return taken
      .filter((row) => row.revision > before && row.writer !== node.id())
      .map(({ document }) => recordOf(document));
  };

  const allRuns = (): readonly RunRecord[] => {
    sorted ??= [...runs.values()].sort((one, other) => (one.id < other.id ? -1 : 1));
    return sorted;
  };

  const journal: SharedJournal = {
    get document() {
      return { version: 1, runs: allRuns(), syncs: Object.fromEntries(states) } as const;
    },
    find: (id) => runs.get(id),
    put: (changed, of, events) => write({ runs: [changed].flat(), of, events }),
    note: (run) => void write({ runs: [run] }).catch(() => undefined),
    remove: (id) => write({ gone: [id] }),
    state: (sync) => states.get(sync) ?? unknown,
    change: (sync, change) => write({ of: { sync, change } }),
    audited: () => {
      // The audit log knows its own end.
    },
    prune: async (now) => {
      const before = allRuns();
      const after = retain(before, retention, now);
      if (after === before) return;
      const staying = new Set(after.map(({ id }) => id));
      await write({
        runs: after.filter((run) => runs.get(run.id) !== run),
        gone: before.flatMap(({ id }) => (staying.has(id) ? [] : [id])),
      });
    },
    refresh: () => working(refresh),
    isElsewhere: (id) => {
      const at = nodes.get(id);
      return at !== undefined && at !== null && at !== node.id() && alive.has(at);
    },
    isHere: (id) => nodes.get(id) === node.id(),
    events: async () => {
      const rows = await postgres.rows<{ id: bigint; document: EventDocument }>(
        `SELECT id, document FROM rollcall.events ORDER BY id LIMIT ${mostEvents}`,
      );
      return rows.map(({ id, document }) => ({ id, event: eventOf(document) }));
    },
    taken: async (id) => {
      await node.fenced((transaction) => transaction.rows("DELETE FROM rollcall.events WHERE id <= $1", [id]));
    },
  };
  await journal.refresh();
  return journal;
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
  await transaction.rows(
    `INSERT INTO rollcall.syncs (name, document, revision) VALUES ($1, $2, $3)
     ON CONFLICT (name) DO UPDATE SET document = excluded.document, revision = excluded.revision`,
    [of.sync, JSON.stringify(state), revision],
  );
  return state;
}
