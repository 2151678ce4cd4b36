import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Pinboards } from "#service/pinboards/pinboards.ts";
import type { HostedLoads } from "#service/host.ts";
import type { LoginResult } from "#service/session/login.ts";
import type { StatusCode } from "#wire/loads.ts";

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

/** Adds routes of other modules to the listener. The service only tells them who is calling. */
export type AddRoutes = (app: FastifyInstance, host: RouteHost) => void;

/** What the service offers to routes of other modules. */
export interface RouteHost {
  /**
   * The administrator whose session the request has (0.6), and the client's address.
   * @throws {HttpError} 401, 403, 500
   */
  administrator(request: FastifyRequest): Promise<{ readonly name: string; readonly address: string }>;
  /** The content type as it was sent; Fastify does not see it. */
  contentType(request: FastifyRequest): string | undefined;
  readonly accounts: RouteAccounts;
  /** The pinboards of the interface, with its limits; whoever has any session may see them (0.6). */
  readonly pinboards: Pick<Pinboards, "list" | "data">;
  readonly loads: HostedLoads;
}

/** The accounts and sessions of the interface, for routes of other modules. */
export interface RouteAccounts {
  /** The cookie of a session travels over TLS only. */
  readonly secure: boolean;
  /** Who is signed in; undefined without a session. @param isUse whether this counts as a use of it */
  find(request: FastifyRequest, isUse: boolean): Promise<RouteCaller | undefined>;
  /** Opens a session, slowed down like every login (0.8). */
  signIn(
    request: FastifyRequest,
    credentials: { readonly username: string; readonly password: string },
  ): Promise<LoginResult>;
  signOut(token: string): Promise<void>;
}

/** Who is signed in, and from where. */
export interface RouteCaller {
  readonly name: string;
  readonly address: string;
  /** The value of the session's cookie. */
  readonly token: string;
  readonly isAdministrator: boolean;
  /** Whether they may load data (0.6). */
  readonly mayLoad: boolean;
}

/** Current numbers, for metrics. */
export interface Figures {
  /** Open sessions, including those for this machine. */
  readonly sessions: number;
  /** Load cycles that accept chunks or are being committed. */
  readonly cycles: number;
}
