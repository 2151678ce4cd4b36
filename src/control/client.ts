import { isAlive } from "#files/durable.ts";
import type { Begun, Coordinator } from "#sync/coordinator/coordinator.ts";
import { recordOf } from "#state/record.ts";
import type { RunDocument, RunRecord, Stage, SyncEvent, SyncStatus } from "#state/record.ts";
import { controlRoutes, ofControl } from "#wire/routes.ts";
import type { Route } from "#wire/routes.ts";
import { connectTo, createFollower, NoDaemonError } from "./connection.ts";
import type { Connection } from "./connection.ts";
import { readDaemonPresence } from "./presence.ts";
import type { RunList, Status } from "./routes.ts";

/** A daemon that answers. */
export interface FoundDaemon {
  readonly connection: Connection;
  readonly status: Status;
}

/**
 * The daemon of a data folder; undefined when there is none: its process is gone, nothing listens at its address, or
 * another program does.
 * @param account the account the caller runs under, for the audit log
 * @throws {UnavailableError} when it exists but does not answer
 */
export async function findDaemon(data: string, account: string, signal: AbortSignal): Promise<FoundDaemon | undefined> {
  const presence = await readDaemonPresence(data);
  if (presence === undefined || !isAlive(presence.pid)) return undefined;
  const connection = connectTo(presence, account);
  try {
    const { value } = await connection.request(controlRoutes.status, signal);
    return { connection, status: value as Status };
  } catch (error) {
    if (error instanceof NoDaemonError) return undefined;
    throw error;
  }
}

/**
 * Makes a daemon read its configuration again. Returns the file.
 * @throws {RollcallError} when it keeps the old one, and why
 */
export async function reloadDaemon({ connection }: FoundDaemon, signal: AbortSignal): Promise<string> {
  const { value } = await connection.request(controlRoutes.reload, signal);
  return (value as Pick<Status, "configuration">).configuration.file;
}

/** A coordinator in another process. */
export interface RemoteCoordinator extends Coordinator {
  /** Stops following the daemon. */
  close(): void;
}

/** What a remote run reports while it is under way. */
interface Watcher {
  readonly progress?: (stage: Stage, records?: number) => void;
}

export interface RemoteOptions {
  /** The data folder, in which a restarted daemon is found again. */
  readonly data: string;
  readonly account: string;
  /** Aborting it stops following; the daemon continues. */
  readonly signal: AbortSignal;
}

/**
 * A coordinator in another process, over its API. The daemon decides who `by` is, and calls only a watcher's `progress`.
 * `runs` and `syncs` are refreshed at the start and whenever a run that was started here ends. Such a run's `ended` rejects
 * with an `UnavailableError` when the daemon ends first, and with the signal's reason when `signal` is aborted.
 */
export async function connectCoordinator(daemon: FoundDaemon, options: RemoteOptions): Promise<RemoteCoordinator> {
  const { data, account, signal } = options;
  const follower = createFollower(daemon.connection, {
    again: async (signal) => (await findDaemon(data, account, signal))?.connection,
    signal,
  });
  const request = async (route: Route, body?: object): Promise<unknown> => {
    const { value } = await follower.connection().request(route, signal, body);
    return value;
  };
  let runs: readonly RunRecord[] = [];
  let syncs: readonly SyncStatus[] = [];
  const refresh = async (): Promise<void> => {
    ({ syncs } = (await request(controlRoutes.status)) as Status);
    const found: RunRecord[] = [];
    for (let more = true; more;) {
      const before = found.at(-1)?.id;
      const query = before === undefined ? "" : `&before=${encodeURIComponent(before)}`;
      const { method, path } = controlRoutes.runs;
      const list = (await request({ method, path: `${path}?limit=1000${query}` })) as RunList;
      found.push(...list.runs.map(recordOf));
      ({ more } = list);
    }
    runs = found;
  };
  const begin = async (route: Route, body: object, watcher?: Watcher): Promise<Begun> => {
    const run = recordOf((await request(route, body)) as RunDocument);
    const unsubscribe = follower.subscribe((event) => {
      if (event.type === "stage" && event.id === run.id) watcher?.progress?.(event.stage, event.records);
    });
    const end = async (): Promise<RunRecord> => {
      try {
        const last = await follower.end(run.id);
        // The outcome is known already; a daemon that is gone by now does not change it.
        await refresh().catch(() => undefined);
        return last;
      } finally {
        unsubscribe();
      }
    };
    const ended = end();
    // Not every caller waits for it.
    ended.catch(() => undefined);
    return { run, ended };
  };
  await refresh();
  return {
    begin: ({ sync, digest, overrides, for: people }, watcher?: Watcher) =>
      begin(ofControl(controlRoutes.run, sync), { digest, overrides, for: people }, watcher),
    approve: (id, { digest, overrides, selection, reason }, watcher?: Watcher) =>
      begin(ofControl(controlRoutes.approve, id), { digest, overrides, reason, ...selection }, watcher),
    reject: async (id, { reason }) => {
      const run = recordOf((await request(ofControl(controlRoutes.reject, id), { reason })) as RunDocument);
      await refresh();
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
