import type { Readable } from "node:stream";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { ListedTable, TableName } from "#service/engine/engine.ts";
import type { Preview } from "#service/loads/preview.ts";
import type { Pinboard, PinboardData, Visualization } from "#service/pinboards/pinboards.ts";
import type { DataRequest } from "#service/pinboards/request.ts";
import type { LoginResult } from "#service/session/login.ts";
import type { LoadParameters, LoadRequest, LoadStatus, StatusCode } from "#wire/loads.ts";

export type { ListedTable as HostedTable, TableName } from "#service/engine/engine.ts";
export type { Preview, PreviewRow } from "#service/loads/preview.ts";
export type { ChartOptions, PinboardData } from "#service/pinboards/pinboards.ts";
export type { LoginResult } from "#service/session/login.ts";

/** Adds routes of other modules to the listener. The service only tells them who is calling. */
export type AddRoutes = (app: FastifyInstance, host: Host) => void;

/** What the service offers to routes of other modules. */
export interface Host {
  /**
   * The administrator whose session the request has (0.6), and the client's address.
   * @throws {HttpError} 401, 403, 500
   */
  administrator(request: FastifyRequest): Promise<{ readonly name: string; readonly address: string }>;
  /** The content type as it was sent; Fastify does not see it. */
  contentType(request: FastifyRequest): string | undefined;
  readonly accounts: HostAccounts;
  readonly pinboards: HostPinboards;
  readonly loads: HostedLoads;
}

/** The accounts and sessions of the interface. */
export interface HostAccounts {
  /** The cookie of a session travels over TLS only. */
  readonly secure: boolean;
  /** Who is signed in. @param isUse whether this counts as a use of the session, from which its idle time begins anew */
  find(request: FastifyRequest, isUse: boolean): Promise<SignedIn | undefined>;
  /** Opens a session, slowed down like every login (0.8). */
  signIn(
    request: FastifyRequest,
    credentials: { readonly username: string; readonly password: string },
  ): Promise<LoginResult>;
  /** Ends a session. */
  signOut(token: string): Promise<void>;
}

/** Who is signed in, and from where. */
export interface SignedIn {
  readonly name: string;
  readonly address: string;
  /** The value of the session's cookie. */
  readonly token: string;
  /** Whether they have the administration privilege. */
  readonly isAdministrator: boolean;
  /** Whether they may load data (0.6); absent: no. */
  readonly mayLoad?: boolean | undefined;
}

/** The pinboards of the interface, with its limits; whoever has any session may see them (0.6). */
export interface HostPinboards {
  /** By name. */
  list(): readonly HostPinboard[];
  /**
   * The answer of `pinboarddata`: the rows of visualizations; of all of them when none is named.
   * @param account who asks: an account does not hold all slots of queries
   * @throws {InputError} unknown ids, or what is wrong with the SQL; {UnavailableError} when a query took too much time or
   *   memory
   */
  data(request: DataRequest, signal: AbortSignal, account?: string): Promise<PinboardData>;
}

export interface HostPinboard extends Pick<Pinboard, "id" | "name" | "description" | "modified"> {
  readonly visualizations: readonly HostVisualization[];
}

export type HostVisualization = Omit<Visualization, "database" | "sql">;

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
  tables(): Promise<readonly ListedTable[]>;
  /** The table that a load with this name is for (A.22). */
  table(name: TableName): Promise<ListedTable | undefined>;
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

/** Callbacks for metrics. They must not throw, and must return quickly. */
export interface Observer {
  /** A request has ended, answered or broken off. */
  readonly request?: (ended: EndedRequest) => void;
  /** A load cycle has ended. */
  readonly load?: (ended: EndedLoad) => void;
}

export interface EndedRequest {
  readonly method: string;
  /** The template of its path, `/ts_dataservice/v1/public/loads/:cycle_id`; absent where no route has the path. */
  readonly route?: string | undefined;
  /** Absent when the client went before there was an answer. */
  readonly status?: number | undefined;
  /** Until the last byte of the answer was sent. */
  readonly seconds: number;
}

export interface EndedLoad {
  /** The name of the database as the client wrote it, in lower case: names of databases are case-insensitive. */
  readonly database: string;
  /** `EXPIRED`: it was not committed in time. */
  readonly code: StatusCode | "EXPIRED";
  readonly rowsWritten: number;
  readonly ignoredRows: number;
  /** Of the chunks. */
  readonly bytes: number;
  /** From its start to its end, the uploads included. */
  readonly seconds: number;
}

/** A readiness check: why the service is not ready, for a person, or undefined. */
export type Probe = () => string | undefined | Promise<string | undefined>;

/** Current numbers, for metrics. */
export interface Figures {
  /** Open sessions, including those for this machine. */
  readonly sessions: number;
  /** Load cycles that accept chunks or are being committed. */
  readonly cycles: number;
}
