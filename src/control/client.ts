import { isAlive } from "#plan/alive.ts";
import type { Begun, Coordinator, SyncEvent } from "#sync/coordinator.ts";
import type { RunRecord } from "#sync/record.ts";
import { controlRoutes, ofControl } from "#wire/routes.ts";
import { NoDaemonError, connectTo } from "./connection.ts";
import type { Connection } from "./connection.ts";
import { createFollower } from "./follow.ts";
import { readDaemonPresence } from "./presence.ts";
import type { Status } from "./routes.ts";

/** A daemon that is alive. */
export interface Daemon {
  readonly connection: Connection;
  readonly status: Status;
}

/**
 * The daemon of a data folder; undefined when none is alive there: its process is gone, nothing listens where it did, or
 * what does is not it.
 * @param account whose account the caller runs under: it says so to the daemon, for the record
 * @throws {UnavailableError} when it is there and does not answer
 */
export async function findDaemon(data: string, account: string, signal: AbortSignal): Promise<Daemon | undefined> {
  const presence = await readDaemonPresence(data);
  if (presence === undefined || !isAlive(presence.pid)) return undefined;
  const connection = connectTo(presence, account);
  try {
    const { value } = await connection.ask(controlRoutes.status, signal);
    return { connection, status: value as Status };
  } catch (error) {
    if (error instanceof NoDaemonError) return undefined;
    throw error;
  }
}

/** What may be asked of a coordinator in another process. */
export interface RemoteCoordinator extends Pick<Coordinator, "begin" | "approve" | "reject" | "undo" | "subscribe"> {
  /** Follows nothing any more. */
  close(): void;
}

export interface RemoteOptions {
  /** The data folder: a daemon that was started again meanwhile is found there. */
  readonly data: string;
  readonly account: string;
  /** Aborted: nothing is followed any more; the daemon goes on with what it does. */
  readonly signal: AbortSignal;
}

/**
 * A coordinator in another process, over its API. `by` is what the daemon makes of the caller. Of a run that it began,
 * `ended` rejects with an `UnavailableError` when the daemon has ended, and with its reason when `signal` is aborted.
 */
export function connectCoordinator(daemon: Daemon, options: RemoteOptions): RemoteCoordinator {
  const { data, account, signal } = options;
  const follower = createFollower(daemon.connection, {
    again: async (signal) => (await findDaemon(data, account, signal))?.connection,
    signal,
  });
  const begun = async (route: Parameters<Connection["ask"]>[0], body: object): Promise<Begun> => {
    const { value } = await follower.connection().ask(route, signal, body);
    const run = value as RunRecord;
    const ended = follower.end(run.id);
    // Not everybody waits for it.
    ended.catch(() => undefined);
    return { run, ended };
  };
  return {
    begin: ({ sync, digest, overrides }) => begun(ofControl(controlRoutes.run, sync), { digest, overrides }),
    approve: (id, { digest, overrides, selection }) =>
      begun(ofControl(controlRoutes.approve, id), { digest, overrides, ...selection }),
    reject: async (id, { reason }) => {
      const { value } = await follower.connection().ask(ofControl(controlRoutes.reject, id), signal, { reason });
      return value as RunRecord;
    },
    undo: (id) => begun(ofControl(controlRoutes.undo, id), {}),
    subscribe: (listener: (event: SyncEvent) => void) => follower.subscribe(listener),
    close: () => {
      follower.close();
    },
  };
}
