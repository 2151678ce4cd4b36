import type { Coordinator } from "#sync/coordinator.ts";
import type { Context } from "./context.ts";
import { openLocalCoordinator } from "./local-coordinator.ts";
import { holdLock } from "./lock.ts";
import { openRecords } from "./records.ts";

/** How long another command is waited for, in milliseconds. */
const patience = 5000;

/**
 * Works with a coordinator of the data folder: this process is it then.
 * @throws {InputError} when another process is
 */
export async function withCoordinator<Result>(
  context: Context,
  work: (coordinator: Coordinator) => Promise<Result>,
): Promise<Result> {
  const lock = await holdLock(context.configuration, patience);
  try {
    const records = await openRecords(context.configuration, context.log);
    try {
      const coordinator = await openLocalCoordinator(() => context, records);
      try {
        await coordinator.recover();
        return await work(coordinator);
      } finally {
        await coordinator.close();
      }
    } finally {
      await records.close();
    }
  } finally {
    lock.release();
  }
}
