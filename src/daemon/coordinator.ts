import { command } from "#commands.ts";
import type { Configuration } from "#config/configuration.ts";
import { connectCoordinator, findDaemon } from "#control/client.ts";
import type { FoundDaemon } from "#control/client.ts";
import { configurationDigest } from "#control/presence.ts";
import { InputError } from "#errors.ts";
import { openCoordinator } from "#sync/coordinator/open.ts";
import type { CoordinatorOptions, SyncSettings } from "#sync/coordinator/context.ts";
import type { LocalCoordinator } from "#sync/coordinator/open.ts";
import type { Coordinator } from "#sync/coordinator/coordinator.ts";
import type { Context } from "./context.ts";
import { localActor } from "./context.ts";
import { daemonFolder, holdLock } from "./data-folder.ts";
import { startNotifying } from "./notifications.ts";
import { openSync, placeOf } from "./wiring.ts";
import { exportAfter, exportDocument, exportRecord } from "#daemon/export.ts";
import { openRecords } from "./records.ts";
import type { Records } from "./records.ts";

/** How long to wait for another command, which may still be sending notifications, in milliseconds. */
const lockTimeout = 15_000;

/**
 * Works with the coordinator of the data folder: that of the daemon, if one is running; otherwise one in this process.
 * @throws {InputError} when another command has the lock
 * @throws {UnavailableError} when the daemon does not answer
 */
export async function withCoordinator<Result>(
  context: Context,
  work: (coordinator: Coordinator) => Promise<Result>,
): Promise<Result> {
  const daemon = await findOwnDaemon(context);
  if (daemon !== undefined) return withDaemon(context, daemon, work);
  const lock = await holdLock(context.configuration, lockTimeout).catch(async (error: unknown) => {
    // A daemon may have started meanwhile.
    const found = await findOwnDaemon(context);
    if (found === undefined) throw error;
    return found;
  });
  if (!("release" in lock)) return withDaemon(context, lock, work);
  try {
    const records = await openRecords(context.configuration, context.log);
    try {
      const coordinator = await openLocalCoordinator(() => context, records);
      // What several daemons share, the one that leads tells people of.
      const endNotifying = records.shared === undefined ? await startNotifying(coordinator, context) : async () => {};
      try {
        await coordinator.recover();
        return await work(coordinator);
      } finally {
        await coordinator.close();
        await endNotifying();
      }
    } finally {
      await records.close();
    }
  } finally {
    lock.release();
  }
}

/** The daemon of the data folder, if one is running. @throws {UnavailableError} when it does not answer */
function findOwnDaemon({ configuration, interruption }: Context): Promise<FoundDaemon | undefined> {
  return findDaemon(configuration.data, localActor().name, interruption.stop);
}

/** Works with the coordinator of a daemon. Says if the daemon has another configuration. */
async function withDaemon<Result>(
  { configuration, interruption, output }: Context,
  daemon: FoundDaemon,
  work: (coordinator: Coordinator) => Promise<Result>,
): Promise<Result> {
  const { connection, status } = daemon;
  const { pid, token } = connection.presence;
  if (status.configuration.digest !== configurationDigest(configuration, token)) {
    output.say(
      `note: the daemon (process ${pid}) runs with another configuration than ${configuration.file} has now; ` +
        `\`${command("reload")}\` makes it read ${status.configuration.file} again`,
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

/**
 * The coordinator of this process, which must hold the lock of the data folder. Call `recover` first: it finds out what
 * became of runs whose process was killed.
 * @param current gives the current context: the configuration may be reloaded
 */
export async function openLocalCoordinator(
  current: () => Context,
  { journal, audit, shared }: Records,
  options: Pick<CoordinatorOptions, "statusOf" | "report" | "now"> = {},
): Promise<LocalCoordinator> {
  const { configuration, interruption } = current();
  const { memory } = configuration;
  const folder = daemonFolder(configuration);
  const coordinator = openCoordinator({
    ...options,
    folder,
    memory,
    journal,
    shared,
    audit,
    interruption,
    syncs: () => settingsOf(current().configuration),
    open: (name) => {
      const { configuration, embedded, observe } = current();
      return openSync(configuration, name, embedded, observe);
    },
    applying: async (name) => {
      const { configuration } = current();
      // From here on the exported tables are out of date, however this run ends.
      exportRecord(configuration, placeOf(configuration, configuration.syncs[name]?.to ?? "")).invalidate();
    },
    after: async (name, outcome) => {
      const exported = await exportAfter(current(), name, outcome);
      return exported === undefined ? undefined : exportDocument(exported);
    },
  });
  coordinator.subscribe((event) => {
    const { interruption } = current();
    if (event.type === "run" && event.run.state !== "running" && event.elsewhere !== true)
      interruption.isApplying = false;
    if (event.type === "stage" && event.stage === "apply") interruption.isApplying = true;
  });
  return coordinator;
}

function settingsOf(configuration: Configuration): Readonly<Record<string, SyncSettings>> {
  return Object.fromEntries(
    Object.entries(configuration.syncs).map(([name, { to, approval, approvalExpires, schedule }]) => {
      const place = placeOf(configuration, to);
      return [name, { target: to, place, approval, approvalExpires, schedule }];
    }),
  );
}
