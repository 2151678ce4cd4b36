import { mkdir, readFile, rename, rm, rmdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { codeOf, removeFile } from "#files/disk.ts";
import { syncFolder, writeDurably } from "#files/durable.ts";
import { createQueue } from "#queue.ts";
import type { InternalStage, LoadParameters, LoadStatus, StatusCode } from "#wire/loads.ts";
import { createRoom, writeError } from "./capacity.ts";
import type { Limits, Room } from "./capacity.ts";
import { Arriving, fileNameOf, inOrder } from "./chunks.ts";
import type { Chunk } from "./chunks.ts";

/** A process of the service that shares its database with others. */
export interface Node {
  /** Never used again, not even after a restart. */
  readonly id: string;
  /** `host:port`, where the others reach it; undefined: it does not listen yet. */
  readonly address: string | undefined;
  /** The certificate it serves HTTPS with, in PEM form. */
  readonly certificate: string | undefined;
}

/** What is known of a load cycle, wherever its chunks are. */
export interface KnownCycle {
  readonly id: string;
  /** The id of the account that started it. */
  readonly owner: string;
  /** The name of the file that was dropped on the table; undefined: it was begun by a client. */
  readonly file: string | undefined;
  parameters(): LoadParameters;
  /** In epoch milliseconds. */
  readonly started: number;
  /** Whether somebody still looks at how its file would be read. It ends sooner than others. */
  isDraft(): boolean;
  /** How it ended; undefined while it goes on. */
  outcome(): Outcome | undefined;
  status(): LoadStatus;
}

/** A cycle that goes on, and whose chunks another node has: what it says of it. */
export interface DistantCycle extends KnownCycle {
  readonly node: Node;
}

/** The folder of a cycle's chunks. */
export function chunkFolder(folder: string): string {
  return join(folder, "chunks");
}

export interface CycleSettings extends Limits {
  /**
   * Takes the record of a cycle that has ended, which is no longer in its folder then.
   * @returns how it has ended: where several nodes share the records, another one may have ended it before
   */
  readonly remember: (record: CycleRecord) => Promise<CycleRecord>;
  /** Tells the other nodes of a change. Returns false when the cycle is not this node's any more. */
  readonly tell?: ((record: CycleRecord) => Promise<boolean>) | undefined;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Is called when a chunk begins to arrive, and when it is there or given up. */
  readonly changed?: (() => void) | undefined;
}

/** Creates a cycle on disk. `folder` must not be there yet. */
export async function createCycle(folder: string, record: CycleRecord, settings: CycleSettings): Promise<Cycle> {
  try {
    await mkdir(chunkFolder(folder), { recursive: true, mode: 0o700 });
    await writeRecord(folder, record);
    await syncFolder(join(folder, ".."));
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw writeError(error);
  }
  return new Cycle(folder, record, [], settings);
}

/** A load cycle: its folder on disk, and what is known of it. */
export class Cycle implements KnownCycle {
  readonly node = undefined;
  readonly id: string;
  readonly owner: string;
  readonly file: string | undefined;
  readonly started: number;
  /** The file of the rejected rows (A.13), which need not exist. */
  readonly badRecords: string;
  /** Resolves when it has ended. */
  readonly ended: Promise<void>;

  readonly #folder: string;
  readonly #place: string;
  readonly #settings: CycleSettings;
  #record: CycleRecord;
  readonly #chunks: Map<string, Chunk>;
  /** The chunks that arrive, with what they will be called. */
  readonly #arriving = new Map<Arriving, { readonly key: string } & Pick<Chunk, "arrival" | "id">>();
  #used = 0;
  #arrivals: number;
  /** Changes of the cycle follow each other. */
  readonly #alone = createQueue();
  readonly #ending = Promise.withResolvers<void>();

  /** A cycle as it is on disk, or as it has ended. */
  constructor(folder: string, record: CycleRecord, arrived: readonly Chunk[], settings: CycleSettings) {
    const { id, owner, file, started } = record;
    this.id = id;
    this.owner = owner;
    this.file = file;
    this.started = started;
    this.badRecords = join(folder, "bad_records");
    this.ended = this.#ending.promise;
    this.#folder = folder;
    this.#place = chunkFolder(folder);
    this.#settings = settings;
    this.#record = record;
    this.#chunks = new Map(arrived.map((chunk) => [keyOf(chunk), chunk]));
    this.#arrivals = Math.max(0, ...arrived.map((chunk) => chunk.arrival));
    if (record.stage === "DONE") this.#ending.resolve();
  }

  parameters(): LoadParameters {
    return this.#record.parameters;
  }

  isIngesting(): boolean {
    return this.#record.stage === "INGESTING";
  }

  isDraft(): boolean {
    return this.isIngesting() && this.file !== undefined;
  }

  outcome(): Outcome | undefined {
    return this.#record.outcome;
  }

  status(): LoadStatus {
    const coming = this.isIngesting() ? sum([...this.#arriving.keys()].map(({ size }) => size)) : 0;
    return statusOf(this.#record, this.#received(), this.#buffered() + coming);
  }

  /** When anything happened last, in epoch milliseconds. Infinity while something does. */
  lastActive(): number {
    const { outcome, stage } = this.#record;
    if (outcome !== undefined) return outcome.ended;
    return this.#arriving.size > 0 || stage === "COMMITTING" ? Infinity : Math.max(this.#received().until, this.#used);
  }

  /** Counts as use: a draft that is looked at is not abandoned. */
  use(): void {
    this.#used = this.#settings.now();
  }

  /** Changes what it is loaded with, as long as it takes chunks. Returns false when it does not. */
  configure(parameters: LoadParameters): Promise<boolean> {
    return this.#alone(async () => this.isIngesting() && this.#save({ ...this.#record, parameters }));
  }

  /** The files of the chunks that have arrived, in the order of their rows. */
  arrived(): readonly string[] {
    return inOrder(this.#chunks.values()).map((chunk) => join(this.#place, chunk.file));
  }

  /** The files of the chunks to load, in the order of their rows. */
  chunks(): readonly string[] {
    return (this.#record.chunks ?? []).map((file) => join(this.#place, file));
  }

  /** Begins a chunk. This decides its place among those without an id (A.8). */
  beginUpload(id: string | undefined): Arriving {
    const arrival = ++this.#arrivals;
    const key = keyOf({ file: fileNameOf(arrival, id), id });
    const fits = createRoom(this.#settings, this.#place, () => {
      const others = [...this.#arriving.keys()].filter((each) => each !== upload);
      return this.#buffered() - (this.#chunks.get(key)?.size ?? 0) + sum(others.map(({ size }) => size));
    });
    const room: Room = async (bytes) => {
      if (!this.isIngesting()) throw new Error("the cycle has ended while a chunk was arriving");
      await fits(bytes);
    };
    const upload = new Arriving(this.#place, room);
    this.#arriving.set(upload, { key, arrival, id });
    this.#settings.changed?.();
    return upload;
  }

  /** Adds what was written to the cycle as a chunk. Returns false when the cycle takes no more chunks. */
  publish(upload: Arriving): Promise<boolean> {
    return this.#alone(async () => {
      const place = this.#arriving.get(upload);
      if (place === undefined || !this.isIngesting()) return false;
      const { key, arrival, id } = place;
      // It takes the place of the one it replaces.
      const replaced = this.#chunks.get(key);
      const position = replaced?.arrival ?? arrival;
      const file = fileNameOf(position, id);
      const { size } = await stat(upload.path);
      const complete = this.#settings.now();
      const bytes = this.#buffered() - (replaced?.size ?? 0) + size;
      if (!(await this.#tell({ ...this.#record, received: { bytes, until: complete } }))) return false;
      await rename(upload.path, join(this.#place, file));
      await syncFolder(this.#place);
      this.#chunks.set(key, { file, arrival: position, id, size, complete });
      this.#arriving.delete(upload);
      return true;
    });
  }

  /** Ends an upload, and removes what was not published. */
  async endUpload(upload: Arriving): Promise<void> {
    this.#arriving.delete(upload);
    this.#settings.changed?.();
    await upload.discard();
  }

  /**
   * Closes the cycle to chunks, if the expected number has arrived (A.8).
   * @returns whether to load it now; false when that was already started or is done
   */
  commit(expected: number | undefined): Promise<boolean | { readonly arrived: number }> {
    return this.#alone(async () => {
      if (!this.isIngesting()) return false;
      if (expected !== undefined && expected !== this.#chunks.size) return { arrived: this.#chunks.size };
      const chunks = inOrder(this.#chunks.values()).map((chunk) => chunk.file);
      return this.#save({ ...this.#record, stage: "COMMITTING", chunks, received: this.#received() });
    });
  }

  /** Ends it and removes its chunks, unless it has ended. @throws when that cannot be recorded; then it has not ended */
  finish(outcome: Outcome): Promise<void> {
    return this.#alone(async () => {
      if (this.#record.stage !== "DONE") await this.#end(outcome);
    });
  }

  /** Ends it while it takes chunks. Returns false when it does not. */
  cancel(outcome: Outcome): Promise<boolean> {
    return this.#alone(async () => {
      if (!this.isIngesting()) return false;
      await this.#end(outcome);
      return true;
    });
  }

  /** Removes it from the disk. */
  remove(): Promise<void> {
    return rm(this.#folder, { recursive: true, force: true });
  }

  #buffered(): number {
    return sum([...this.#chunks.values()].map((chunk) => chunk.size));
  }

  #received(): Received {
    const ends = [...this.#chunks.values()].map((chunk) => chunk.complete);
    return this.#record.received ?? { bytes: this.#buffered(), until: Math.max(this.started, ...ends) };
  }

  async #tell(record: CycleRecord): Promise<boolean> {
    return (await this.#settings.tell?.(record)) ?? true;
  }

  /** Returns false when the cycle is not this node's any more. */
  async #save(next: CycleRecord): Promise<boolean> {
    try {
      if (!(await this.#tell(next))) return false;
      await writeRecord(this.#folder, next);
    } catch (error) {
      throw writeError(error);
    }
    this.#record = next;
    return true;
  }

  async #end(outcome: Outcome): Promise<void> {
    const { chunks: _, ...rest } = this.#record;
    try {
      this.#record = await this.#settings.remember({ ...rest, stage: "DONE", received: this.#received(), outcome });
    } catch (error) {
      throw writeError(error);
    }
    this.#chunks.clear();
    this.#ending.resolve();
    if (this.#record.outcome?.code === "CANCELLED") await removeFile(this.badRecords);
    await removeEnded(this.#folder);
  }
}

/** What identifies a chunk: the client's id, or the file. */
function keyOf({ id, file }: Pick<Chunk, "id" | "file">): string {
  return id === undefined ? `file ${file}` : `id ${id}`;
}

function sum(sizes: readonly number[]): number {
  return sizes.reduce((total, size) => total + size, 0);
}

/** The state of a cycle, apart from its chunks, as its file holds it, and once it has ended, the service's database. Times are in epoch milliseconds. */
export interface CycleRecord {
  readonly id: string;
  /** The id of the account that started it. */
  readonly owner: string;
  /** The name of the file that was dropped on the table. */
  readonly file?: string | undefined;
  readonly parameters: LoadParameters;
  readonly started: number;
  readonly stage: InternalStage;
  /** The files of the chunks to load, in the order of their rows, once it is committed. */
  readonly chunks?: readonly string[] | undefined;
  /** What the client uploaded, once the cycle is committed; before, its chunks say it. */
  readonly received?: Received | undefined;
  /** Set when it is done. */
  readonly outcome?: Outcome | undefined;
  /** It was entered where all nodes that share a database find it: one that is not there any more has ended. */
  readonly isShared?: boolean | undefined;
}

export interface Received {
  readonly bytes: number;
  /** When the last chunk had arrived. */
  readonly until: number;
}

/** How a cycle ended. */
export interface Outcome {
  readonly code: StatusCode;
  readonly message?: string | undefined;
  readonly ended: number;
  readonly rowsWritten: number;
  readonly ignoredRows: number;
  readonly errors: readonly string[];
}

/** What is stored of a load in the same transaction as its rows. */
export type WrittenLoad = Pick<Outcome, "rowsWritten" | "ignoredRows" | "errors">;

const fileName = "cycle.json";

/** Reads the record in a cycle's folder; undefined when there is none. */
export async function readRecord(folder: string): Promise<CycleRecord | undefined> {
  try {
    return JSON.parse(await readFile(join(folder, fileName), "utf8")) as CycleRecord;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Removes what is not needed of a cycle that has ended: all but its rejected rows. */
export async function removeEnded(folder: string): Promise<void> {
  await rm(chunkFolder(folder), { recursive: true, force: true });
  // A kill may have left the second one.
  for (const name of [fileName, `${fileName}.new`]) await removeFile(join(folder, name));
  await rmdir(folder).catch((error: unknown) => {
    if (codeOf(error) !== "ENOTEMPTY") throw error;
  });
}

/** Replaces the record: after a crash there is either this one or the one before. */
function writeRecord(folder: string, record: CycleRecord): Promise<void> {
  return writeDurably(join(folder, fileName), JSON.stringify(record));
}

/** The status of a cycle whose chunks are not here. */
export function recordStatus(record: CycleRecord): LoadStatus {
  const received = record.received ?? { bytes: 0, until: record.started };
  return statusOf(record, received, record.stage === "DONE" ? 0 : received.bytes);
}

/** A cycle whose chunks another node has. */
export function distantCycle(record: CycleRecord, node: Node): DistantCycle {
  const { id, owner, file, started, parameters, stage, outcome } = record;
  return {
    id,
    owner,
    file,
    started,
    node,
    parameters: () => parameters,
    isDraft: () => stage === "INGESTING" && file !== undefined,
    outcome: () => outcome,
    status: () => recordStatus(record),
  };
}

/** The status of a cycle (A.10, A.11). @param buffered the bytes of its chunks */
function statusOf(record: CycleRecord, received: Received, buffered: number): LoadStatus {
  const { id, stage, started, outcome } = record;
  return {
    cycle_id: id,
    internal_stage: stage,
    status: { code: outcome?.code ?? "OK", message: outcome?.message },
    rows_written: String(outcome?.rowsWritten ?? 0),
    ignored_row_count: String(outcome?.ignoredRows ?? 0),
    bytes_written: String(received.bytes),
    buffered_bytes_size: String(buffered),
    ingested_network_bw: String(bandwidth(started, received)),
    start_time: microseconds(started),
    end_time: outcome && microseconds(outcome.ended),
    parsing_errors: outcome === undefined || outcome.errors.length === 0 ? undefined : [...outcome.errors],
  };
}

/** Bytes a second, from the start of the cycle to its last chunk. */
function bandwidth(started: number, { bytes, until }: Received): number {
  return Math.round((bytes * 1000) / Math.max(1, until - started));
}

function microseconds(milliseconds: number): string {
  return `${Math.round(milliseconds)}000`;
}
