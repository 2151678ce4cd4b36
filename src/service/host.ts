import type { Readable } from "node:stream";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { ListedTable, TableName } from "#service/engine/engine.ts";
import type { Preview } from "#service/loads/preview.ts";
import type { LoadParameters, LoadRequest, LoadStatus } from "#wire/loads.ts";

/** The loads of the service, for pages on its listener: the same cycles, with the same rights (0.6, A.9). */
export interface HostedLoads {
  /** The largest file, in bytes. */
  readonly largest: number;
  /** The loads as the caller of a request may see them; undefined where they may not load data. */
  of(request: FastifyRequest): Promise<CallersLoads | undefined>;
  /**
   * Passes a request about a cycle on to the node of the service that has its data. Its body is not read yet.
   * @returns the reply when the answer comes from there
   */
  passOn(request: FastifyRequest, reply: FastifyReply, id: string): Promise<FastifyReply | undefined>;
  /** @param listener is called whenever a cycle begins, takes data, is committed or ends. @returns what stops that */
  subscribe(listener: () => void): () => void;
  /** Whether data is arriving or being loaded. */
  isBusy(): boolean;
}

export interface CallersLoads {
  tables(): Promise<readonly HostedTable[]>;
  /** The table that a load with this name is for (A.22). */
  table(name: TableName): Promise<HostedTable | undefined>;
  /** The newest cycles, the newest first: the caller's, or to an administrator everybody's. */
  cycles(): Promise<readonly HostedCycle[]>;
  cycle(id: string): Promise<HostedCycle | undefined>;
  /**
   * Begins a cycle of the caller with a file. It is a draft, which nobody has to load.
   * @returns its id
   * @throws {InputError} when there is no such table, or no room for the file: then nothing of it stays
   */
  receive(table: TableName, file: DroppedFile, signal: AbortSignal): Promise<string>;
  /** The beginning of a draft's file: whole lines. @throws {InputError} when it is no draft any more */
  sample(id: string): Promise<FileSample>;
  /** How that would be read. @throws {InputError} when it is no draft any more, or cannot be read like this */
  preview(id: string, request: LoadRequest, signal: AbortSignal): Promise<Preview>;
  /** Loads a draft. Nothing happens if that was begun already. @throws {InputError} */
  load(id: string, request: LoadRequest): Promise<void>;
  /** Ends a cycle at any stage. */
  cancel(id: string): Promise<void>;
  /** The rejected rows, exactly as they were sent; undefined: there are none. */
  badRecords(id: string): Promise<Readable | undefined>;
}

export type HostedTable = ListedTable;
export type { Preview, PreviewRow } from "#service/loads/preview.ts";
export type { TableName } from "#service/engine/engine.ts";

/** A file as it arrives. */
export interface DroppedFile {
  readonly name: string;
  readonly content: Readable;
}

/** The beginning of a file. */
export interface FileSample {
  readonly name: string;
  readonly sample: Buffer;
  /** There is nothing after it. */
  readonly isWhole: boolean;
}

/** A cycle, as a page shows it. */
export interface HostedCycle {
  readonly id: string;
  readonly table: TableName;
  /** The name of the file that was dropped on the table. */
  readonly file: string | undefined;
  /** The name of who began it; undefined: the caller. */
  readonly by: string | undefined;
  /** Its file waits for somebody to look at how it would be read. */
  readonly isDraft: boolean;
  readonly parameters: LoadParameters;
  readonly status: LoadStatus;
  /** The size of the rejected rows, in bytes; undefined: there are none. */
  readonly badRecords: number | undefined;
}
