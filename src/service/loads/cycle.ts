import { mkdir, readFile, rename, rm, rmdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { codeOf } from "#files/disk.ts";
import { syncFolder, writeDurably } from "#files/durable.ts";
import { createQueue } from "#queue.ts";
import type { InternalStage, LoadParameters, LoadStatus, StatusCode } from "#wire/loads.ts";
import { createRoom, writeError } from "./capacity.ts";
import type { Limits, Room } from "./capacity.ts";
import { createArriving, fileNameOf, inOrder } from "./chunks.ts";
import type { Arriving, Chunk } from "./chunks.ts";

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

/** A load cycle: its folder on disk, and what is known of it. */
export interface Cycle extends KnownCycle {
  readonly node?: undefined;
  /** The file of the rejected rows (A.13), which need not exist. */
  readonly badRecords: string;
  isIngesting(): boolean;
  /** When anything happened last, in epoch milliseconds. Infinity while something does. */
  lastActive(): number;
  /** Counts as use: whoever looks at a draft has not abandoned it. */
  use(): void;
  /** Changes what it is loaded with, as long as it takes chunks. Returns false when it does not. */
  configure(parameters: LoadParameters): Promise<boolean>;
  /** The files of the chunks that have arrived, in the order of their rows. */
  arrived(): readonly string[];
  /** Begins a chunk. This decides its place among those without an id (A.8). */
  beginUpload(id: string | undefined): Upload;
  /**
   * Closes the cycle to chunks, if the expected number has arrived (A.8).
   * @returns whether to load it now; false when that was already started or is done
   */
  commit(expected: number | undefined): Promise<boolean | { readonly arrived: number }>;
  /** The files of the chunks to load, in the order of their rows. */
  chunks(): readonly string[];
  /** Ends it and removes its chunks, unless it has ended. @throws when that cannot be recorded; then it has not ended */
  finish(outcome: Outcome): Promise<void>;
  /** Ends it while it takes chunks. Returns false when it does not. */
  cancel(outcome: Outcome): Promise<boolean>;
  /** Resolves when it has ended. */
  readonly ended: Promise<void>;
  /** Removes it from the disk. */
  remove(): Promise<void>;
}

/** A chunk that is arriving. */
export interface Upload {
  /** Writes the data to disk. @throws {CapacityError}; also when the cycle ends meanwhile */
  write(body: Readable, signal: AbortSignal): Promise<void>;
  /** Adds the written data to the cycle as a chunk. Returns false when the cycle takes no more chunks. */
  publish(): Promise<boolean>;
  /** Ends the upload and removes what was not published. */
  end(): Promise<void>;
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
  return openCycle(folder, record, [], settings);
}

/** A cycle as it is on disk, or as it has ended. */
export function openCycle(
  folder: string,
  initial: CycleRecord,
  arrived: readonly Chunk[],
  settings: CycleSettings,
): Cycle {
  const { id, owner, file, started } = initial;
  const { changed = () => undefined, tell = async () => true, now } = settings;
  const place = chunkFolder(folder);
  const badRecords = join(folder, "bad_records");
  let record = initial;
  const chunks = new Map(arrived.map((chunk) => [keyOf(chunk), chunk]));
  const arriving = new Set<Arriving>();
  let used = 0;
  let arrivals = Math.max(0, ...arrived.map((chunk) => chunk.arrival));
  /** Changes of the cycle follow each other. */
  const alone = createQueue();
  const ended = Promise.withResolvers<void>();
  if (record.stage === "DONE") ended.resolve();

  const isIngesting = (): boolean => record.stage === "INGESTING";
  const buffered = (): number => sum([...chunks.values()].map((chunk) => chunk.size));
  const received = (): Received =>
    record.received ?? {
      bytes: buffered(),
      until: Math.max(started, ...[...chunks.values()].map((chunk) => chunk.complete)),
    };

  /** Returns false when the cycle is not this node's any more. */
  async function save(next: CycleRecord): Promise<boolean> {
    try {
      if (!(await tell(next))) return false;
      await writeRecord(folder, next);
    } catch (error) {
      throw writeError(error);
    }
    record = next;
    return true;
  }

  async function end(outcome: Outcome): Promise<void> {
    const { chunks: _, ...rest } = record;
    try {
      record = await settings.remember({ ...rest, stage: "DONE", received: received(), outcome });
    } catch (error) {
      throw writeError(error);
    }
    chunks.clear();
    ended.resolve();
    if (record.outcome?.code === "CANCELLED") await rm(badRecords, { force: true });
    await removeEnded(folder);
  }

  return {
    id,
    owner,
    file,
    parameters: () => record.parameters,
    started,
    badRecords,
    isIngesting,
    isDraft: () => isIngesting() && file !== undefined,
    ended: ended.promise,
    outcome: () => record.outcome,
    status: () => {
      const coming = isIngesting() ? sum([...arriving].map((part) => part.size())) : 0;
      return statusOf(record, received(), buffered() + coming);
    },
    lastActive: () => {
      if (record.outcome !== undefined) return record.outcome.ended;
      return arriving.size > 0 || record.stage === "COMMITTING" ? Infinity : Math.max(received().until, used);
    },
    use: () => {
      used = now();
    },
    configure: (parameters) =>
      alone(async () => {
        return isIngesting() && save({ ...record, parameters });
      }),
    arrived: () => inOrder(chunks.values()).map((chunk) => join(place, chunk.file)),
    chunks: () => {
      return (record.chunks ?? []).map((file) => join(place, file));
    },
    beginUpload: (chunkId) => {
      const arrival = ++arrivals;
      const key = keyOf({ file: fileNameOf(arrival, chunkId), id: chunkId });
      const fits = createRoom(settings, place, () => {
        const others = [...arriving].filter((part) => part !== upload);
        return buffered() - (chunks.get(key)?.size ?? 0) + sum(others.map((part) => part.size()));
      });
      const hasRoom: Room = async (bytes) => {
        if (!isIngesting()) throw new Error("the cycle has ended while a chunk was arriving");
        await fits(bytes);
      };
      const upload = createArriving(place, hasRoom);
      arriving.add(upload);
      changed();
      return {
        write: upload.write,
        publish: () =>
          alone(async () => {
            if (!isIngesting()) return false;
            // It takes the place of the one it replaces.
            const replaced = chunks.get(key);
            const { arrival: position } = replaced ?? { arrival };
            const file = fileNameOf(position, chunkId);
            const path = join(place, file);
            const { size } = await stat(upload.path);
            const complete = now();
            const bytes = buffered() - (replaced?.size ?? 0) + size;
            if (!(await tell({ ...record, received: { bytes, until: complete } }))) return false;
            await rename(upload.path, path);
            await syncFolder(place);
            chunks.set(key, { file, arrival: position, id: chunkId, size, complete });
            arriving.delete(upload);
            return true;
          }),
        end: async () => {
          arriving.delete(upload);
          changed();
          await upload.discard();
        },
      };
    },
    commit: (expected) =>
      alone(async () => {
        if (!isIngesting()) return false;
        if (expected !== undefined && expected !== chunks.size) return { arrived: chunks.size };
        const files = inOrder(chunks.values()).map((chunk) => chunk.file);
        return save({ ...record, stage: "COMMITTING", chunks: files, received: received() });
      }),
    finish: (outcome) =>
      alone(async () => {
        if (record.stage !== "DONE") await end(outcome);
      }),
    cancel: (outcome) =>
      alone(async () => {
        if (!isIngesting()) return false;
        await end(outcome);
        return true;
      }),
    remove: () => rm(folder, { recursive: true, force: true }),
  };
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
  for (const name of [fileName, `${fileName}.new`]) await rm(join(folder, name), { force: true });
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
