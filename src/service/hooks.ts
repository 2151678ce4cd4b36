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

/** What routes beside those of the interface can ask about their callers. */
export interface Guard {
  /**
   * Who is calling, with the administration privilege (0.6).
   * @throws {HttpError} 401, 403, 500
   */
  administrator(request: FastifyRequest): Promise<{ readonly name: string }>;
}

/** Adds routes beside those of the interface. */
export type Extend = (app: FastifyInstance, guard: Guard) => void | Promise<void>;

/** What the service has right now. */
export interface Figures {
  /** Open sessions, those for this machine included. */
  readonly sessions: number;
  /** Load cycles that take chunks, or are being committed. */
  readonly cycles: number;
}
