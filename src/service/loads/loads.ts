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
import { chunkFolder, createCycle, Cycle, distantCycle, readRecord, recordStatus, removeEnded } from "./cycle.ts";
import type { CycleRecord, CycleSettings, DistantCycle, KnownCycle, Node, Outcome, WrittenLoad } from "./cycle.ts";
import { EndedCycles } from "./ended.ts";
import type { EndedLoad } from "./ended.ts";
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

/** The load cycles of the service (specification 3). */
export class Loads {
  readonly #options: LoadOptions;
  readonly #settings: CycleSettings;
  readonly #ended: EndedCycles;
  /** Those that have not ended. */
  readonly #cycles = new Map<string, Cycle>();
  readonly #loading = new Map<Cycle, { readonly controller: AbortController; readonly over: Promise<void> }>();
  readonly #enqueue = createQueue(width);
  readonly #stopping = new AbortController();
  readonly #listeners = new Set<() => void>();
  readonly #sweeps = createQueue();
  #timer: NodeJS.Timeout | undefined;
  /** When somebody looked at a cycle that goes on at another node. */
  #seenElsewhere = -Infinity;

  private constructor(options: LoadOptions) {
    const { nodes, records } = options;
    const ended = new EndedCycles(records);
    this.#options = options;
    this.#ended = ended;
    this.#settings = {
      ...options,
      remember: async (record) => {
        if (nodes !== undefined) return (await nodes.end(record)) ?? record;
        await ended.add(record);
        return record;
      },
      tell: nodes && ((record) => nodes.update(record)),
      changed: () => {
        this.#changed();
      },
      now: () => records.now(),
    };
  }

  /** Opens the cycles of a folder and repeats commits that were cut off (A.24). */
  static async open(options: LoadOptions): Promise<Loads> {
    const loads = new Loads(options);
    await loads.#recover();
    await loads.#sweep();
    for (const cycle of loads.#cycles.values())
      if (!cycle.isIngesting() && cycle.outcome() === undefined) loads.#begin(cycle);
    loads.#sweepRegularly();
    return loads;
  }

  /** @param file the name of a file that was dropped on the table: the cycle is a draft until it is committed */
  async start(owner: string, parameters: LoadParameters, file?: string): Promise<Cycle> {
    const { nodes, folder } = this.#options;
    const id = randomUUID();
    const isShared = nodes === undefined ? undefined : true;
    const record: CycleRecord = { id, owner, file, parameters, started: this.#now(), stage: "INGESTING", isShared };
    const cycle = await createCycle(join(folder, id), record, this.#settings);
    await nodes?.add(record).catch(async (error: unknown) => {
      await cycle.remove();
      throw error;
    });
    this.#cycles.set(id, cycle);
    this.#changed();
    return cycle;
  }

  /** The cycle of that id; undefined when there is none, or when it has expired. */
  async find(id: string): Promise<Cycle | DistantCycle | undefined> {
    const { nodes } = this.#options;
    // PostgreSQL takes no text with the character 0, not even to look for it.
    if (id.includes("\0")) return undefined;
    const place = await this.#placeOf(id);
    if (place !== undefined && place.node.id !== nodes?.id()) {
      this.#seenElsewhere = performance.now();
      return distantCycle(place.record, place.node);
    }
    const cycle = nodes === undefined || place !== undefined ? this.#cycles.get(id) : undefined;
    if (cycle !== undefined) return this.#hasExpired(cycle) ? undefined : cycle;
    const record = await this.#ended.find(id);
    const over = record && this.#overCycle(record);
    return over === undefined || this.#hasExpired(over) ? undefined : over;
  }

  /** The other node that has the rejected rows of a cycle that has ended; undefined: they are here, or nowhere. */
  async findRejected(cycle: Cycle): Promise<Node | undefined> {
    return this.#options.nodes?.findRejected(cycle.id);
  }

  /** The status of each that an account started, the oldest first. */
  async statuses(owner: string): Promise<readonly LoadStatus[]> {
    // One may end while the others are looked up.
    const active = await this.#activeOf(owner);
    const over = (await this.#ended.of(owner, this.#now() - this.#options.expireAfter)).map(recordStatus);
    const ids = new Set(over.map((status) => status.cycle_id));
    const statuses = [...over, ...active.map((cycle) => cycle.status()).filter((each) => !ids.has(each.cycle_id))];
    return statuses.sort((a, b) => Number(a.start_time) - Number(b.start_time));
  }

  /** The newest that an account started, or anybody, the newest first. */
  async newest(owner: string | undefined, limit: number): Promise<readonly (Cycle | DistantCycle)[]> {
    const active = await this.#activeOf(owner);
    const known = new Set(active.map(({ id }) => id));
    const records = await this.#ended.newest(owner, this.#now() - this.#options.expireAfter, limit);
    const over = records.filter(({ id }) => !known.has(id)).map((record) => this.#overCycle(record));
    return [...active, ...over].sort((a, b) => b.started - a.started).slice(0, limit);
  }

  /** The table that the cycle is for, or undefined. */
  table(cycle: Cycle): Promise<Table | undefined> {
    return this.#options.worker.find(targetOf(cycle.parameters()));
  }

  /** Loads the cycle in the background, once. Returns the number of chunks if it is not the expected one. */
  async commit(cycle: Cycle, expected: number | undefined): Promise<{ readonly arrived: number } | undefined> {
    const result = await cycle.commit(expected);
    if (typeof result === "object") return result;
    if (result) this.#begin(cycle);
    this.#changed();
    return undefined;
  }

  /** Ends the cycle at any stage. When this returns, nothing is being written any more (A.9). */
  async cancel(cycle: Cycle): Promise<void> {
    const outcome = cancelled();
    if (await cycle.cancel(outcome)) {
      this.#cycles.delete(cycle.id);
      this.#report(cycle, outcome);
      return;
    }
    await this.#stop(cycle, "the load was cancelled");
  }

  /** Ends a cycle of a node that does not answer. @throws {UnavailableError} when it is being written at this moment */
  async cancelDistant(cycle: DistantCycle): Promise<void> {
    const over = await this.#options.nodes?.cancel(cycle.id, { ...cancelled(), ended: this.#now() });
    if (over === undefined)
      throw new UnavailableError(`The load ${cycle.id} is being written at this moment: try again.`);
    this.#reportDistant(over);
  }

  /** @param listener is called whenever a cycle begins, takes a chunk, is committed or ends. @returns what stops that */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Whether chunks are arriving or being loaded; at another node: as far as somebody has looked at it just now. */
  isBusy(): boolean {
    return (
      [...this.#cycles.values()].some((cycle) => cycle.lastActive() === Infinity) ||
      performance.now() - this.#seenElsewhere < lookedAt
    );
  }

  /** How many cycles take chunks or are being loaded. */
  count(): number {
    const goesOn = (cycle: Cycle): boolean => cycle.outcome() === undefined && !this.#hasExpired(cycle);
    return [...this.#cycles.values()].filter(goesOn).length;
  }

  /** Stops running loads; the next start repeats them. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#stopping.abort(new UnavailableError("the service is stopping"));
    await Promise.all([...this.#loading.values()].map((job) => job.over));
    await this.#sweeps.idle();
  }

  #now(): number {
    return this.#options.records.now();
  }

  #changed(): void {
    for (const listener of this.#listeners) listener();
  }

  #hasExpired(cycle: Cycle): boolean {
    const { expireAfter } = this.#options;
    return this.#now() - cycle.lastActive() >= (cycle.isDraft() ? Math.min(expireAfter, draftLife) : expireAfter);
  }

  /** A cycle that has ended. */
  #overCycle(record: CycleRecord): Cycle {
    return new Cycle(join(this.#options.folder, record.id), record, [], this.#settings);
  }

  #begin(cycle: Cycle): void {
    const controller = new AbortController();
    const over = this.#work(cycle, controller.signal).finally(() => this.#loading.delete(cycle));
    this.#loading.set(cycle, { controller, over });
  }

  async #stop(cycle: Cycle, why: string): Promise<void> {
    const job = this.#loading.get(cycle);
    job?.controller.abort(new UnavailableError(why));
    await job?.over;
  }

  async #work(cycle: Cycle, signal: AbortSignal): Promise<void> {
    const stopping = this.#stopping.signal;
    const outcome = await this.#outcomeOf(cycle, AbortSignal.any([signal, stopping]));
    // A load that the end of the service stopped is repeated at its start, unless it was complete.
    if (outcome.code === "CANCELLED" && stopping.aborted && !signal.aborted) return;
    await this.#finish(cycle, outcome);
    const over = cycle.outcome();
    if (over !== undefined) this.#cycles.delete(cycle.id);
    this.#report(cycle, over ?? outcome);
    this.#logEnd(cycle, over ?? outcome);
  }

  /** A load that wrote every row is logged at debug level: its caller knows. */
  #logEnd(cycle: Cycle, { code, message, rowsWritten, ignoredRows }: Outcome): void {
    const level = code !== "OK" ? "warn" : ignoredRows > 0 ? "info" : "debug";
    const { database, schema, table } = cycle.parameters().target;
    const details = { cycle: cycle.id, database, schema, table, code, message, rowsWritten, ignoredRows };
    this.#options.log[level](details, "load ended");
  }

  async #outcomeOf(cycle: Cycle, signal: AbortSignal): Promise<Outcome> {
    const { log } = this.#options;
    try {
      return await this.#enqueue(() => this.#loadWithHandles(cycle, signal), signal);
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

  /** Its commit was acknowledged: while files cannot be opened, it waits instead of failing. */
  async #loadWithHandles(cycle: Cycle, signal: AbortSignal): Promise<Outcome> {
    const { progress, worker, nodes, log } = this.#options;
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

  /** Retries, so that a full disk does not leave a client polling forever. After a stop, the engine knows if it was written. */
  async #finish(cycle: Cycle, outcome: Outcome): Promise<void> {
    const { signal } = this.#stopping;
    for (let over = false; !over; over = signal.aborted) {
      try {
        await cycle.finish(outcome);
        return;
      } catch (error) {
        const what = `the end of a load could not be written down: ${messageOf(error)}`;
        this.#options.log.error({ err: error, cycle: cycle.id }, what);
        await delay(retryInterval, undefined, { signal }).catch(() => undefined);
      }
    }
  }

  #report(cycle: Cycle, outcome: EndedAs): void {
    this.#observe(cycle.parameters(), Number(cycle.status().bytes_written), cycle.started, outcome);
    this.#changed();
  }

  /** Cycles of other nodes that this one has ended. */
  #reportDistant(over: readonly CycleRecord[] = []): void {
    for (const { parameters, received, started, outcome } of over)
      if (outcome !== undefined) this.#observe(parameters, received?.bytes ?? 0, started, outcome);
    if (over.length > 0) this.#changed();
  }

  #observe({ target }: LoadParameters, bytes: number, started: number, outcome: EndedAs): void {
    const { code, rowsWritten, ignoredRows, ended } = outcome;
    const seconds = (ended - started) / 1000;
    this.#options.observe?.({
      database: target.database.toLowerCase(),
      code,
      rowsWritten,
      ignoredRows,
      bytes,
      seconds,
    });
  }

  async #recover(): Promise<void> {
    const { folder, nodes, log } = this.#options;
    const recovered = await recoverCycles(folder, this.#settings, { ended: this.#ended, nodes, log });
    for (const { cycle } of recovered) this.#cycles.set(cycle.id, cycle);
    for (const { cycle, written } of recovered) {
      if (written === undefined) continue;
      await cycle.finish({ ...written, code: "OK", ended: this.#now() });
      this.#cycles.delete(cycle.id);
    }
  }

  #sweepRegularly(): void {
    const { log, expireAfter } = this.#options;
    this.#timer = setInterval(
      () => {
        this.#sweeps(() => this.#sweep()).catch((error: unknown) => {
          log.warn({ err: error }, `ended load cycles could not be forgotten: ${messageOf(error)}`);
        });
      },
      Math.min(sweepInterval, expireAfter),
    );
    this.#timer.unref();
  }

  async #sweep(): Promise<void> {
    const { nodes, log, folder, expireAfter } = this.#options;
    if (nodes !== undefined) {
      this.#reportDistant(await nodes.buryAll());
      await this.#endLost(nodes);
    }
    for (const cycle of this.#cycles.values()) {
      if (!this.#hasExpired(cycle)) continue;
      await nodes?.remove([cycle.id]);
      this.#cycles.delete(cycle.id);
      if (cycle.isIngesting()) this.#report(cycle, { ...cancelled(), code: "EXPIRED" });
      await cycle.remove().catch((error: unknown) => {
        log.warn({ err: error, cycle: cycle.id }, `an expired load cycle could not be removed: ${messageOf(error)}`);
      });
    }
    for (const id of await this.#ended.forget(this.#now() - expireAfter, nodes?.id()))
      await rm(join(folder, id), { recursive: true, force: true });
  }

  /** Ends here what another node has ended, because this one was away or did not answer. */
  async #endLost(nodes: Nodes): Promise<void> {
    // One that is begun after this is not asked about.
    const here = [...this.#cycles.values()];
    const mine = await nodes.mine();
    for (const cycle of here) {
      if (mine.has(cycle.id) || cycle.outcome() !== undefined) continue;
      await this.#stop(cycle, "the load was ended by another node");
      await cycle.finish(cancelled());
      this.#cycles.delete(cycle.id);
    }
  }

  /** Where the database says that a cycle is which has not ended. */
  async #placeOf(id: string): Promise<PlacedCycle | undefined> {
    const { nodes } = this.#options;
    const place = await nodes?.find(id);
    if (place?.isOver !== true || place.node.id === nodes?.id()) return place;
    const buried = await nodes?.bury(place.node.id);
    this.#reportDistant(buried);
    return buried === undefined ? place : nodes?.find(id);
  }

  /** Those that have not ended. */
  async #activeOf(owner: string | undefined): Promise<(Cycle | DistantCycle)[]> {
    const { nodes } = this.#options;
    const isTheirs = (cycle: KnownCycle): boolean => owner === undefined || cycle.owner === owner;
    const here = [...this.#cycles.values()].filter((cycle) => isTheirs(cycle) && !this.#hasExpired(cycle));
    if (nodes === undefined) return here;
    let placed = await nodes.list(owner);
    const over = new Set(placed.filter(({ isOver }) => isOver).map(({ node }) => node.id));
    over.delete(nodes.id());
    if (over.size > 0) {
      for (const node of over) this.#reportDistant(await nodes.bury(node));
      placed = await nodes.list(owner);
    }
    const ids = new Set(placed.map(({ record }) => record.id));
    const elsewhere = placed.filter(({ node }) => node.id !== nodes.id());
    if (elsewhere.length > 0) this.#seenElsewhere = performance.now();
    return [
      ...here.filter(({ id }) => ids.has(id)),
      ...elsewhere.map(({ record, node }) => distantCycle(record, node)),
    ];
  }
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
        log.warn({ cycle: record.id }, "the remains of a load were removed: other nodes ended it long ago");
        await rm(place, { recursive: true, force: true });
      } else
        cycles.push({
          cycle: new Cycle(
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
