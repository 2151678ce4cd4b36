import { openLocalCoordinator } from "#daemon/coordinator.ts";
import { command } from "#commands.ts";
import { connectCoordinator, findDaemon } from "#control/client.ts";
import type { FoundDaemon } from "#control/client.ts";
import { configurationDigest } from "#control/presence.ts";
import { InputError } from "#errors.ts";
import type { CommandCoordinator } from "#sync/coordinator/coordinator.ts";
import type { Context } from "#daemon/context.ts";
import { localActor } from "#daemon/context.ts";
import { holdLock } from "#daemon/data-folder.ts";
import type { startNotifying as start } from "#daemon/notifications.ts";
import { openStore } from "#daemon/records.ts";
import type { OpenedStore } from "#daemon/records.ts";

/** How long to wait for another command, which may still be sending notifications, in milliseconds. */
const lockTimeout = 15_000;

/**
 * Works with the coordinator of the data folder: that of the daemon, if one is running; otherwise one in this process.
 * @throws {InputError} when another command has the lock
 * @throws {UnavailableError} when the daemon does not answer
 */
export async function withCoordinator<Result>(
  context: Context,
  work: (coordinator: CommandCoordinator) => Promise<Result>,
): Promise<Result> {
  return withDaemonOrStore(context, {
    daemon: (daemon) => withDaemon(context, daemon, work),
    store: async (store) => {
      const coordinator = await openLocalCoordinator(() => context, store);
      // What several daemons share, the one that leads tells people of.
      const endNotifying =
        store.isShared || !notifies(context) ? undefined : await startNotifying(coordinator, context);
      try {
        await coordinator.recover();
        return await work(coordinator);
      } finally {
        await coordinator.close();
        await endNotifying?.();
      }
    },
  });
}

/**
 * Lets the daemon of the data folder do something, if one is running; otherwise this process, which opens the store.
 * @throws as `withCoordinator` does
 */
export async function withDaemonOrStore<Result>(
  context: Pick<Context, "configuration" | "interruption" | "log">,
  work: {
    readonly daemon: (daemon: FoundDaemon) => Promise<Result>;
    readonly store: (store: OpenedStore) => Promise<Result>;
  },
): Promise<Result> {
  const daemon = await findOwnDaemon(context);
  if (daemon !== undefined) return work.daemon(daemon);
  const lock = await holdLock(context.configuration, lockTimeout).catch(async (error: unknown) => {
    // A daemon may have started meanwhile.
    const found = await findOwnDaemon(context);
    if (found === undefined) throw error;
    return found;
  });
  if (!("release" in lock)) return work.daemon(lock);
  try {
    const store = await openStore(context.configuration, context.log);
    try {
      return await work.store(store);
    } finally {
      await store.close();
    }
  } finally {
    lock.release();
  }
}

/** The daemon of the data folder, if one is running. @throws {UnavailableError} when it does not answer */
function findOwnDaemon({
  configuration,
  interruption,
}: Pick<Context, "configuration" | "interruption">): Promise<FoundDaemon | undefined> {
  return findDaemon(configuration.data, localActor().name, interruption.stop);
}

/** Works with the coordinator of a daemon. Says if the daemon has another configuration. */
async function withDaemon<Result>(
  { configuration, interruption, output }: Context,
  daemon: FoundDaemon,
  work: (coordinator: CommandCoordinator) => Promise<Result>,
): Promise<Result> {
  const { connection, status } = daemon;
  const { pid, token } = connection.presence;
  if (token !== "" && status.configuration.digest !== configurationDigest(configuration, token)) {
    output.say(
      `note: the daemon (process ${pid}) runs with another configuration than ${configuration.file} has now; ` +
        `\`${command("reload")}\` reloads ${status.configuration.file}`,
    );
  }
  const leaving = new AbortController();
  const leave = (): void => {
    leaving.abort(
      new InputError(
        `Cancelled. The daemon (process ${pid}) continues with the request; \`${command("runs")}\` shows how it ends.`,
      ),
    );
  };
  interruption.stop.addEventListener("abort", leave);
  const options = { data: configuration.data, account: localActor().name, signal: leaving.signal };
  const coordinator = await connectCoordinator(daemon, options);
  try {
    return await work(coordinator);
  } finally {
    interruption.stop.removeEventListener("abort", leave);
    coordinator.close();
  }
}

/** Whether a command tells anybody what it does. */
function notifies({ configuration: { notifications, syncs }, notify = true }: Context): boolean {
  const hasHeartbeat = Object.values(syncs).some(({ heartbeat }) => heartbeat !== undefined);
  return notify && (Object.keys(notifications).length > 0 || hasHeartbeat);
}

/** Only loaded where somebody is told: channels are many files. */
async function startNotifying(...given: Parameters<typeof start>): ReturnType<typeof start> {
  const notifications = await import("#daemon/notifications.ts");
  return notifications.startNotifying(...given);
}
