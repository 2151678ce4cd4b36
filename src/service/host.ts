import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Pinboard, PinboardData, Visualization } from "#service/pinboards/pinboards.ts";
import type { DataRequest } from "#service/pinboards/request.ts";
import type { HostedLoads } from "#service/server/host-loads.ts";
import type { EndedRequest } from "#http/server.ts";
import type { LoginResult } from "#service/session/login.ts";
import type { EndedLoad } from "#service/loads/ended.ts";

export type { EndedLoad } from "#service/loads/ended.ts";
export type { ListedTable as HostedTable, TableName } from "#service/engine/engine.ts";
export type { Preview, PreviewKeys, PreviewRow } from "#service/loads/preview.ts";
export type { ChartOptions, PinboardData } from "#service/pinboards/pinboards.ts";
export type { CallersLoads, FileSample, HostedCycle, HostedLoads } from "#service/server/host-loads.ts";
export type { Probe } from "#http/health-routes.ts";
export type { LoginResult } from "#service/session/login.ts";

/** Adds routes of other modules to the listener. The service only tells them who is calling. */
export type AddRoutes = (app: FastifyInstance, host: Host) => void;

/** What the service offers to routes of other modules. */
export interface Host {
  /** What the paths of the interface begin with: both families, below every prefix (0.2). */
  readonly paths: readonly string[];
  /**
   * The administrator whose session the request has (0.6), and the client's address.
   * @throws {HttpError} 401, 403, 500
   */
  administrator(request: FastifyRequest): Promise<{ readonly name: string; readonly address: string }>;
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

/** Callbacks for metrics. They must not throw, and must return quickly. */
export interface Observer {
  /** A request has ended, answered or broken off. */
  readonly request?: (ended: EndedRequest) => void;
  /** A load cycle has ended. */
  readonly load?: (ended: EndedLoad) => void;
}

/** Current numbers, for metrics. */
export interface Figures {
  /** Open sessions, including those for this machine. */
  readonly sessions: number;
  /** Load cycles that accept chunks or are being committed. */
  readonly cycles: number;
}
