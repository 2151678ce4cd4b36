import { isAlive } from "#files/durable.ts";
import type { Begun, Coordinator, SyncEvent, SyncStatus } from "#sync/coordinator/coordinator.ts";
import type { RunRecord } from "#sync/record.ts";
import type { Stage } from "#sync/sync.ts";
import { controlRoutes, ofControl } from "#wire/routes.ts";
import type { Route } from "#wire/routes.ts";
import { connectTo, createFollower, NoDaemonError } from "./connection.ts";
import type { Connection } from "./connection.ts";
import { readDaemonPresence } from "./presence.ts";
import type { RunList, Status } from "./routes.ts";

/** A daemon that is alive. */
export interface FoundDaemon {
  readonly connection: Connection;
  readonly status: Status;
}

/**
 * The daemon of a data folder; undefined when none is alive there: its process is gone, nothing listens where it did, or
 * what does is not it.
 * @param account whose account the caller runs under: it says so to the daemon, for the record
 * @throws {UnavailableError} when it is there and does not answer
 */
export async function findDaemon(data: string, account: string, signal: AbortSignal): Promise<FoundDaemon | undefined> {
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

/** A coordinator in another process. */
export interface RemoteCoordinator extends Coordinator {
  /** Follows nothing any more. */
  close(): void;
}

/** What of a run is told to who watches it. */
interface Watcher {
  readonly progress?: (stage: Stage, records?: number) => void;
}

export interface RemoteOptions {
  /** The data folder: a daemon that was started again meanwhile is found there. */
  readonly data: string;
  readonly account: string;
  /** Aborted: nothing is followed any more; the daemon goes on with what it does. */
  readonly signal: AbortSignal;
}

/**
 * A coordinator in another process, over its API. `by` is what the daemon makes of the caller, and of a watcher only
 * `progress` is called. `runs` and `syncs` are as they were when they were last asked for: at first, and when a run that
 * was begun here has ended. Of such a run `ended` rejects with an `UnavailableError` when the daemon has ended before,
 * and with its reason when `signal` is aborted.
 */
export async function connectCoordinator(daemon: FoundDaemon, options: RemoteOptions): Promise<RemoteCoordinator> {
  const { data, account, signal } = options;
  const follower = createFollower(daemon.connection, {
    again: async (signal) => (await findDaemon(data, account, signal))?.connection,
    signal,
  });
  const ask = async (route: Route, body?: object): Promise<unknown> => {
    const { value } = await follower.connection().ask(route, signal, body);
    return value;
  };
  let runs: readonly RunRecord[] = [];
  let syncs: readonly SyncStatus[] = [];
  const look = async (): Promise<void> => {
    ({ syncs } = (await ask(controlRoutes.status)) as Status);
    const found: RunRecord[] = [];
    for (let more = true; more;) {
      const before = found.at(-1)?.id;
      const query = before === undefined ? "" : `&before=${encodeURIComponent(before)}`;
      const { method, path } = controlRoutes.runs;
      const list = (await ask({ method, path: `${path}?limit=1000${query}` })) as RunList;
      found.push(...list.runs);
      ({ more } = list);
    }
    runs = found;
  };
  const begin = async (route: Route, body: object, watcher?: Watcher): Promise<Begun> => {
    const run = (await ask(route, body)) as RunRecord;
    const unsubscribe = follower.subscribe((event) => {
      if (event.type === "stage" && event.id === run.id) watcher?.progress?.(event.stage, event.records);
    });
    const end = async (): Promise<RunRecord> => {
      try {
        const last = await follower.end(run.id);
        // How the run has ended is known, whatever becomes of the daemon.
        await look().catch(() => undefined);
        return last;
      } finally {
        unsubscribe();
      }
    };
    const ended = end();
    // Not everybody waits for it.
    ended.catch(() => undefined);
    return { run, ended };
  };
  await look();
  return {
    begin: ({ sync, digest, overrides }, watcher?: Watcher) =>
      begin(ofControl(controlRoutes.run, sync), { digest, overrides }, watcher),
    approve: (id, { digest, overrides, selection }, watcher?: Watcher) =>
      begin(ofControl(controlRoutes.approve, id), { digest, overrides, ...selection }, watcher),
    reject: async (id, { reason }) => {
      const run = (await ask(ofControl(controlRoutes.reject, id), { reason })) as RunRecord;
      await look();
      return run;
    },
    undo: (id, _, watcher?: Watcher) => begin(ofControl(controlRoutes.undo, id), {}, watcher),
    runs: () => runs,
    syncs: () => syncs,
    subscribe: (listener: (event: SyncEvent) => void) => follower.subscribe(listener),
    close: () => {
      follower.close();
    },
  };
}
