import { randomUUID } from "node:crypto";
import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "pino";
import { makeFolders } from "#files/disk.ts";
import { messageOf, UnavailableError } from "#errors.ts";
import { createQueue } from "#queue.ts";
import type { Table } from "#service/engine/engine.ts";
import type { Records } from "#service/records.ts";
import type { Progress } from "#service/progress.ts";
import type { Worker } from "#service/worker/worker.ts";
import type { LoadParameters, LoadStatus } from "#wire/loads.ts";
import { isOutOfMemory } from "#duckdb/database.ts";
import { isOutOfHandles } from "./capacity.ts";
import type { Limits } from "./capacity.ts";
import { chunkOf } from "./chunks.ts";
import type { Chunk } from "./chunks.ts";
import { cancelled, failed, failureOf } from "./commit.ts";
import type { LoadJob } from "./commit.ts";
import { chunkFolder, createCycle, distantCycle, openCycle, readRecord, recordStatus, removeEnded } from "./cycle.ts";
import type {
  Cycle,
  CycleRecord,
  CycleSettings,
  DistantCycle,
  KnownCycle,
  Node,
  Outcome,
  WrittenLoad,
} from "./cycle.ts";
import { openEndedCycles } from "./ended.ts";
import type { EndedLoad } from "./ended.ts";
import type { EndedCycles } from "./ended.ts";
import type { Nodes, PlacedCycle } from "./nodes.ts";
import { targetOf } from "./load-format.ts";

export interface LoadOptions extends Limits {
  /** For the cycles that have ended. */
  readonly records: Records;
  /** Those that share the records, where there may be several. */
  readonly nodes?: Nodes | undefined;
  /** Holds a folder for each cycle that goes on, or has rejected rows. */
  readonly folder: string;
  readonly worker: Pick<Worker, "find" | "load">;
  /** When a cycle that is not committed expires, and for how long one that has ended is remembered, in milliseconds. */
  readonly expireAfter: number;
  readonly log: Logger;
  readonly progress: Progress;
  /** Is called when a cycle ends. */
  readonly observe?: (ended: EndedLoad) => void;
}

/** The load cycles of the service (specification 3). */
export interface Loads {
  /** @param file the name of a file that was dropped on the table: the cycle is a draft until it is committed */
  start(owner: string, parameters: LoadParameters, file?: string): Promise<Cycle>;
  /** The cycle of that id; undefined when there is none, or when it has expired. */
  find(id: string): Promise<Cycle | DistantCycle | undefined>;
  /** The other node that has the rejected rows of a cycle that has ended; undefined: they are here, or nowhere. */
  findRejected(cycle: Cycle): Promise<Node | undefined>;
  /** The status of each that an account started, the oldest first. */
  statuses(owner: string): Promise<readonly LoadStatus[]>;
  /** The newest that an account started, or anybody, the newest first. */
  newest(owner: string | undefined, limit: number): Promise<readonly (Cycle | DistantCycle)[]>;
  /** The table that the cycle is for, or undefined. */
  table(cycle: Cycle): Promise<Table | undefined>;
  /** Loads the cycle in the background, once. Returns the number of chunks if it is not the expected one. */
  commit(cycle: Cycle, expected: number | undefined): Promise<{ readonly arrived: number } | undefined>;
  /** Ends the cycle at any stage. When this returns, nothing is being written any more (A.9). */
  cancel(cycle: Cycle): Promise<void>;
  /** Ends a cycle of a node that does not answer. @throws {UnavailableError} when it is being written at this moment */
  cancelDistant(cycle: DistantCycle): Promise<void>;
  /** @param listener is called whenever a cycle begins, takes a chunk, is committed or ends. @returns what stops that */
  subscribe(listener: () => void): () => void;
  /** Whether chunks are arriving or being loaded; at another node: as far as somebody has looked at it just now. */
  isBusy(): boolean;
  /** How many cycles take chunks or are being loaded. */
  count(): number;
  /** Stops running loads; the next start repeats them. */
  close(): Promise<void>;
}

/**
 * How many commits run at once. Each can use every processor and occupies a thread of Node's pool, which
 * all requests share. The second one lets a small load overtake a large one.
 */
const width = 2;

/** Between two attempts to load without handles, or to record the end of a load, in milliseconds. */
const retryInterval = 1_000;

/** The longest time between two searches for expired cycles, in milliseconds. */
const sweepInterval = 60_000;

/** How long loading so many bytes may take, in milliseconds: even at a megabyte a second it is over by then. */
function patienceOf(bytes: number): number {
  return 10 * 60_000 + bytes / 1000;
}

/** For how long a load at another node is watched after somebody has looked at it, in milliseconds. */
const lookedAt = 10_000;

/** How long a draft stays that nobody looks at, in milliseconds. */
const draftLife = 3_600_000;

type EndedAs = Pick<EndedLoad, "code" | "rowsWritten" | "ignoredRows"> & Pick<Outcome, "ended">;

/** Opens the cycles of a folder and repeats commits that were cut off (A.24). */
export async function openLoads(options: LoadOptions): Promise<Loads> {
  const { records, nodes, folder, worker, expireAfter, log, progress, observe = () => undefined } = options;
  const now = (): number => records.now();
  /** Those that have not ended. */
  const cycles = new Map<string, Cycle>();
  const ended = openEndedCycles(records);
  const loading = new Map<Cycle, { readonly controller: AbortController; readonly over: Promise<void> }>();
  const enqueue = createQueue(width);
  const stopping = new AbortController();
  const listeners = new Set<() => void>();
  const changed = (): void => {
    for (const listener of listeners) listener();
  };
  const remember = async (record: CycleRecord): Promise<CycleRecord> => {
    if (nodes !== undefined) return (await nodes.end(record)) ?? record;
    await ended.add(record);
    return record;
  };
  const settings: CycleSettings = {
    ...options,
    remember,
    tell: nodes && ((record) => nodes.update(record)),
    changed,
    now,
  };
  /** When somebody looked at a cycle that goes on at another node. */
  let seenElsewhere = -Infinity;

  /** Its commit was acknowledged: while files cannot be opened, it waits instead of failing. */
  async function loadWithHandles(cycle: Cycle, signal: AbortSignal): Promise<Outcome> {
    const patience = patienceOf(Number(cycle.status().bytes_written));
    const { id, badRecords } = cycle;
    for (;;) {
      const job: LoadJob = {
        id,
        parameters: cycle.parameters(),
        badRecords,
        chunks: cycle.chunks(),
        node: nodes?.id(),
      };
      try {
        return await progress.watch(`load ${id}`, patience, () => worker.load(job, signal));
      } catch (error) {
        if (signal.aborted || !isOutOfHandles(error)) throw error;
        log.warn({ err: error, cycle: cycle.id }, `a load waits, too many files are open: ${messageOf(error)}`);
        await delay(retryInterval, undefined, { signal });
      }
    }
  }

  async function outcomeOf(cycle: Cycle, signal: AbortSignal): Promise<Outcome> {
    try {
      return await enqueue(() => loadWithHandles(cycle, signal), signal);
    } catch (error) {
      if (signal.aborted) return cancelled();
      const failure = failureOf(error);
      if (isOutOfMemory(error))
        log.error({ err: error, cycle: cycle.id }, `a load ran out of memory (service.memory): ${messageOf(error)}`);
      if (failure !== undefined) return failure;
      const incident = randomUUID();
      log.error({ err: error, cycle: cycle.id, incident }, `a load failed: ${messageOf(error)}`);
      return failed(`The load failed unexpectedly, incident ${incident}.`);
    }
  }

  async function work(cycle: Cycle, signal: AbortSignal): Promise<void> {
    const outcome = await outcomeOf(cycle, AbortSignal.any([signal, stopping.signal]));
    // A load that the end of the service stopped is repeated at its start, unless it was complete.
    if (outcome.code === "CANCELLED" && stopping.signal.aborted && !signal.aborted) return;
    await finish(cycle, outcome);
    const over = cycle.outcome();
    if (over !== undefined) cycles.delete(cycle.id);
    report(cycle, over ?? outcome);
    const { code, message, rowsWritten, ignoredRows } = over ?? outcome;
    log.info({ cycle: cycle.id, code, message, rowsWritten, ignoredRows }, "load ended");
  }

  function report(cycle: Cycle, { code, rowsWritten, ignoredRows, ended }: EndedAs): void {
    const { target } = cycle.parameters();
    const bytes = Number(cycle.status().bytes_written);
    const seconds = (ended - cycle.started) / 1000;
    observe({ database: target.database.toLowerCase(), code, rowsWritten, ignoredRows, bytes, seconds });
    changed();
  }

  /** Cycles of other nodes that this one has ended. */
  function reportDistant(over: readonly CycleRecord[] = []): void {
    for (const { parameters, received, started, outcome } of over) {
      if (outcome === undefined) continue;
      const { code, rowsWritten, ignoredRows, ended } = outcome;
      const database = parameters.target.database.toLowerCase();
      observe({
        database,
        code,
        rowsWritten,
        ignoredRows,
        bytes: received?.bytes ?? 0,
        seconds: (ended - started) / 1000,
      });
    }
    if (over.length > 0) changed();
  }

  /** Retries, so that a full disk does not leave a client polling forever. After a stop, the engine knows if it was written. */
  async function finish(cycle: Cycle, outcome: Outcome): Promise<void> {
    for (let over = false; !over; over = stopping.signal.aborted) {
      try {
        await cycle.finish(outcome);
        return;
      } catch (error) {
        log.error({ err: error, cycle: cycle.id }, `the end of a load could not be written down: ${messageOf(error)}`);
        await delay(retryInterval, undefined, { signal: stopping.signal }).catch(() => undefined);
      }
    }
  }

  function begin(cycle: Cycle): void {
    const controller = new AbortController();
    const over = work(cycle, controller.signal).finally(() => loading.delete(cycle));
    loading.set(cycle, { controller, over });
  }

  const hasExpired = (cycle: Cycle): boolean =>
    now() - cycle.lastActive() >= (cycle.isDraft() ? Math.min(expireAfter, draftLife) : expireAfter);

  /** Ends here what another node has ended, because this one was away or did not answer. */
  async function endLost(shared: Nodes): Promise<void> {
    // One that is begun after this is not asked about.
    const here = [...cycles.values()];
    const mine = await shared.mine();
    for (const cycle of here) {
      if (mine.has(cycle.id) || cycle.outcome() !== undefined) continue;
      const job = loading.get(cycle);
      job?.controller.abort(new UnavailableError("the load was ended by another node"));
      await job?.over;
      await cycle.finish(cancelled());
      cycles.delete(cycle.id);
    }
  }

  async function sweep(): Promise<void> {
    if (nodes !== undefined) {
      reportDistant(await nodes.buryAll());
      await endLost(nodes);
    }
    for (const cycle of cycles.values()) {
      if (!hasExpired(cycle)) continue;
      await nodes?.remove([cycle.id]);
      cycles.delete(cycle.id);
      if (cycle.isIngesting()) report(cycle, { ...cancelled(), code: "EXPIRED" });
      await cycle.remove().catch((error: unknown) => {
        log.warn({ err: error, cycle: cycle.id }, `an expired load cycle could not be removed: ${messageOf(error)}`);
      });
    }
    for (const id of await ended.forget(now() - expireAfter, nodes?.id())) {
      await rm(join(folder, id), { recursive: true, force: true });
    }
  }

  const recovered = await recoverCycles(folder, settings, { ended, nodes, log });
  for (const { cycle } of recovered) cycles.set(cycle.id, cycle);
  for (const { cycle, written } of recovered) {
    if (written === undefined) continue;
    await cycle.finish({ ...written, code: "OK", ended: now() });
    cycles.delete(cycle.id);
  }
  await sweep();
  for (const cycle of cycles.values()) if (!cycle.isIngesting() && cycle.outcome() === undefined) begin(cycle);
  const sweeps = createQueue();
  const timer = setInterval(
    () => {
      sweeps(sweep).catch((error: unknown) => {
        log.warn({ err: error }, `ended load cycles could not be forgotten: ${messageOf(error)}`);
      });
    },
    Math.min(sweepInterval, expireAfter),
  );
  timer.unref();

  /** Where the database says that a cycle is which has not ended. */
  async function placeOf(id: string): Promise<PlacedCycle | undefined> {
    const place = await nodes?.find(id);
    if (place?.isOver !== true || place.node.id === nodes?.id()) return place;
    const buried = await nodes?.bury(place.node.id);
    reportDistant(buried);
    return buried === undefined ? place : nodes?.find(id);
  }

  /** Those that have not ended. */
  async function activeOf(owner: string | undefined): Promise<(Cycle | DistantCycle)[]> {
    const isTheirs = (cycle: KnownCycle): boolean => owner === undefined || cycle.owner === owner;
    const here = [...cycles.values()].filter((cycle) => isTheirs(cycle) && !hasExpired(cycle));
    if (nodes === undefined) return here;
    let placed = await nodes.list(owner);
    const over = new Set(placed.filter(({ isOver }) => isOver).map(({ node }) => node.id));
    over.delete(nodes.id());
    if (over.size > 0) {
      for (const node of over) reportDistant(await nodes.bury(node));
      placed = await nodes.list(owner);
    }
    const ids = new Set(placed.map(({ record }) => record.id));
    const elsewhere = placed.filter(({ node }) => node.id !== nodes.id());
    if (elsewhere.length > 0) seenElsewhere = performance.now();
    return [
      ...here.filter(({ id }) => ids.has(id)),
      ...elsewhere.map(({ record, node }) => distantCycle(record, node)),
    ];
  }

  return {
    start: async (owner, parameters, file) => {
      const id = randomUUID();
      const isShared = nodes === undefined ? undefined : true;
      const record: CycleRecord = { id, owner, file, parameters, started: now(), stage: "INGESTING", isShared };
      const cycle = await createCycle(join(folder, id), record, settings);
      await nodes?.add(record).catch(async (error: unknown) => {
        await cycle.remove();
        throw error;
      });
      cycles.set(id, cycle);
      changed();
      return cycle;
    },
    find: async (id) => {
      // PostgreSQL takes no text with the character 0, not even to look for it.
      if (id.includes("\0")) return undefined;
      const place = await placeOf(id);
      if (place !== undefined && place.node.id !== nodes?.id()) {
        seenElsewhere = performance.now();
        return distantCycle(place.record, place.node);
      }
      const cycle = nodes === undefined || place !== undefined ? cycles.get(id) : undefined;
      if (cycle !== undefined) return hasExpired(cycle) ? undefined : cycle;
      const record = await ended.find(id);
      if (record === undefined) return undefined;
      const over = openCycle(join(folder, id), record, [], settings);
      return hasExpired(over) ? undefined : over;
    },
    findRejected: async (cycle) => nodes?.findRejected(cycle.id),
    statuses: async (owner) => {
      // One may end while the others are looked up.
      const active = await activeOf(owner);
      const over = (await ended.of(owner, now() - expireAfter)).map(recordStatus);
      const ids = new Set(over.map((status) => status.cycle_id));
      const statuses = [...over, ...active.map((cycle) => cycle.status()).filter((each) => !ids.has(each.cycle_id))];
      return statuses.sort((a, b) => Number(a.start_time) - Number(b.start_time));
    },
    newest: async (owner, limit) => {
      const active = await activeOf(owner);
      const known = new Set(active.map(({ id }) => id));
      const records = await ended.newest(owner, now() - expireAfter, limit);
      const over = records
        .filter(({ id }) => !known.has(id))
        .map((record) => openCycle(join(folder, record.id), record, [], settings));
      return [...active, ...over].sort((a, b) => b.started - a.started).slice(0, limit);
    },
    table: (cycle) => worker.find(targetOf(cycle.parameters())),
    commit: async (cycle, expected) => {
      const result = await cycle.commit(expected);
      if (typeof result === "object") return result;
      if (result) begin(cycle);
      changed();
      return undefined;
    },
    cancel: async (cycle) => {
      const outcome = cancelled();
      if (await cycle.cancel(outcome)) {
        cycles.delete(cycle.id);
        report(cycle, outcome);
        return;
      }
      const job = loading.get(cycle);
      job?.controller.abort(new UnavailableError("the load was cancelled"));
      await job?.over;
    },
    cancelDistant: async (cycle) => {
      const over = await nodes?.cancel(cycle.id, { ...cancelled(), ended: now() });
      if (over === undefined)
        throw new UnavailableError(`The load ${cycle.id} is being written at this moment: try again.`);
      reportDistant(over);
    },
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    isBusy: () =>
      [...cycles.values()].some((cycle) => cycle.lastActive() === Infinity) ||
      performance.now() - seenElsewhere < lookedAt,
    count: () => [...cycles.values()].filter((cycle) => cycle.outcome() === undefined && !hasExpired(cycle)).length,
    close: async () => {
      clearInterval(timer);
      stopping.abort(new UnavailableError("the service is stopping"));
      await Promise.all([...loading.values()].map((job) => job.over));
      await sweeps.idle();
    },
  };
}

/** A cycle that was left in the folder. */
interface Recovered {
  readonly cycle: Cycle;
  /** Set when it was written, and only its end was not recorded. */
  readonly written: WrittenLoad | undefined;
}

/**
 * The cycles that an earlier process left in a folder (A.24). Incomplete cycles, drafts and incomplete chunks are removed,
 * and of ended ones all but their rejected rows.
 */
async function recoverCycles(
  folder: string,
  settings: CycleSettings,
  { ended, nodes, log }: { readonly ended: EndedCycles; readonly nodes: Nodes | undefined; readonly log: Logger },
): Promise<Recovered[]> {
  await makeFolders(folder, 0o700);
  const found: CycleRecord[] = [];
  const over: string[] = [];
  const drafts: string[] = [];
  const known = await ended.ids();
  const reading = async (name: string, work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      // It stays for a person to look at; the other cycles go on.
      log.error({ err: error }, `the load cycle in ${join(folder, name)} cannot be read: ${messageOf(error)}`);
    }
  };
  for (const name of await readdir(folder)) {
    await reading(name, async () => {
      const place = join(folder, name);
      const record = await readRecord(place);
      // Rollcall 0.1.0 left it there.
      const isOld = record?.stage === "DONE" && !known.has(name);
      if (isOld) await ended.add(record);
      if (isOld || known.has(name)) {
        await removeEnded(place);
        over.push(name);
      } else if (record === undefined || (record.stage === "INGESTING" && record.file !== undefined)) {
        await rm(place, { recursive: true, force: true });
        drafts.push(name);
      } else found.push(record);
    });
  }
  const adopted = await nodes?.adopt(found);
  await nodes?.remove(drafts);
  await nodes?.claimRejected(over);
  const cycles: Recovered[] = [];
  for (const record of found) {
    await reading(record.id, async () => {
      const place = join(folder, record.id);
      if (adopted?.has(record.id) === false) {
        log.warn(
          { cycle: record.id },
          "what was left of a load is removed: other nodes have ended it, so long ago that it is forgotten",
        );
        await rm(place, { recursive: true, force: true });
      } else
        cycles.push({
          cycle: openCycle(
            place,
            nodes === undefined ? record : { ...record, isShared: true },
            await recoverChunks(chunkFolder(place)),
            settings,
          ),
          written: adopted?.get(record.id),
        });
    });
  }
  return cycles;
}

async function recoverChunks(place: string): Promise<Chunk[]> {
  const chunks: Chunk[] = [];
  for (const file of await readdir(place)) {
    const path = join(place, file);
    const { size, mtimeMs } = await stat(path);
    const chunk = chunkOf(file, size, mtimeMs);
    if (chunk === undefined) await rm(path);
    else chunks.push(chunk);
  }
  return chunks;
}
