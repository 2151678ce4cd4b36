import type { Coordinator } from "#sync/coordinator/coordinator.ts";
import type { Context } from "#cli/context.ts";
import { findOwnDaemon, withDaemon } from "./daemon.ts";
import { openLocalCoordinator } from "./local.ts";
import { holdLock } from "#cli/data/lock.ts";
import { openRecords } from "#cli/data/records.ts";
import { tellOf } from "#cli/tell/command.ts";

/** How long another command is waited for, which may still be telling people, in milliseconds. */
const patience = 15_000;

/**
 * Works with the coordinator of the data folder: the daemon's, where one is alive; otherwise this process is it.
 * @throws {InputError} when another command is
 * @throws {UnavailableError} when the daemon does not answer
 */
export async function withCoordinator<Result>(
  context: Context,
  work: (coordinator: Coordinator) => Promise<Result>,
): Promise<Result> {
  const daemon = await findOwnDaemon(context);
  if (daemon !== undefined) return withDaemon(context, daemon, work);
  const lock = await holdLock(context.configuration, patience).catch(async (error: unknown) => {
    // A daemon that has begun meanwhile.
    const found = await findOwnDaemon(context);
    if (found === undefined) throw error;
    return found;
  });
  if (!("release" in lock)) return withDaemon(context, lock, work);
  try {
    const records = await openRecords(context.configuration, context.log);
    try {
      const coordinator = await openLocalCoordinator(() => context, records);
      const endTelling = await tellOf(coordinator, context);
      try {
        await coordinator.recover();
        return await work(coordinator);
      } finally {
        await coordinator.close();
        await endTelling();
      }
    } finally {
      await records.close();
    }
  } finally {
    lock.release();
  }
}
