import type { Directory } from "#service/directory/directory.ts";
import type { Limits } from "#service/loads/capacity.ts";
import type { Loads } from "#service/loads/loads.ts";
import type { Pinboards } from "#service/pinboards/pinboards.ts";
import type { Sessions } from "#service/session/sessions.ts";
import type { Worker } from "#service/worker/worker.ts";
import type { Callers, LoginSettings } from "./callers.ts";
import type { Forward } from "./forward.ts";

/** What the routes of the service work with. */
export interface ServerContext extends LoginSettings {
  readonly callers: Callers;
  readonly sessions: Sessions;
  readonly directory: Directory;
  readonly pinboards: Pinboards;
  readonly loads: Loads;
  readonly worker: Worker;
  /** Passes requests on to other nodes, where there may be several. */
  readonly forward: Forward | undefined;
  /** The configured answer of StartLoad (A.5). */
  readonly nodeAddress?: NodeAddress;
  /** How long a status call may be held while a commit runs, in milliseconds (A.11). */
  readonly statusHold: number;
  readonly limits: Limits;
  /** The folder for uploads in progress. */
  readonly uploads: string;
  /** Aborted when the service stops waiting for requests (0.9). */
  readonly shutdown: AbortSignal;
}

/** The address of the node that serves a load (specification 2.3). */
export interface NodeAddress {
  readonly host: string;
  readonly port: number;
}
