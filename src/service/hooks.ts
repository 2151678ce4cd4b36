import type { FastifyInstance, FastifyRequest } from "fastify";
import type { StatusCode } from "#wire/loads.ts";

/** What whoever runs the service may want to count. What is called here neither throws nor takes long. */
export interface Observer {
  /** A request is over, answered or broken off. */
  readonly request?: (ended: EndedRequest) => void;
  /** A load cycle is over. */
  readonly load?: (ended: EndedLoad) => void;
}

export interface EndedRequest {
  readonly method: string;
  /** The template of its path, `/ts_dataservice/v1/public/loads/:cycle_id`; absent where no route has the path. */
  readonly route?: string;
  /** Absent when the client went before there was an answer. */
  readonly status?: number;
  /** Until the last byte of the answer had gone. */
  readonly seconds: number;
}

export interface EndedLoad {
  /** The name of the database as the client wrote it, in lower case: databases are told apart without regard to case. */
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

/** Looked at when somebody asks whether the service is ready: what keeps it from that, for a person, or undefined. */
export type Probe = () => string | undefined | Promise<string | undefined>;

/** Adds routes of others to the listener. The service knows nothing of them but that they ask who is calling. */
export type AddRoutes = (app: FastifyInstance, host: RouteHost) => void;

/** What routes of others may ask of the service that they are on. */
export interface RouteHost {
  /**
   * The administrator whose session the request has (0.6), and the client's address.
   * @throws {HttpError} 401, 403, 500
   */
  administrator(request: FastifyRequest): Promise<{ readonly name: string; readonly address: string }>;
  /** The content type as it was sent: the framework does not see it. */
  contentType(request: FastifyRequest): string | undefined;
}

/** What the service has right now. */
export interface Figures {
  /** Open sessions, those for this machine included. */
  readonly sessions: number;
  /** Load cycles that take chunks, or are being committed. */
  readonly cycles: number;
}
