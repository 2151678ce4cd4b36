import { setTimeout as delay } from "node:timers/promises";
import { firstLineOf } from "#errors.ts";
import type { LocalCoordinator } from "#sync/coordinator/local.ts";
import { leadership } from "#state/postgres/nodes.ts";
import type { PostgresStore } from "#state/postgres/store.ts";
import type { SyncEvent } from "#state/record.ts";

/** What only one of the processes does at a time: schedules, and telling people. */
export interface Lead {
  /** Takes an event that some process has recorded. Resolves when it cannot get lost any more. */
  take(event: SyncEvent): Promise<void>;
  stop(): Promise<void>;
}

export interface PartOptions {
  readonly store: PostgresStore;
  readonly coordinator: Pick<LocalCoordinator, "recover" | "refresh" | "idle">;
  /** Begins to lead. */
  readonly lead: () => Promise<Lead>;
  readonly log: { info(message: string): void; warn(message: string): void };
}

/** How often this process looks what others have done, in milliseconds. */
const pause = 500;

/** How often it removes those whose lease has ended, and asks whether it can lead, in rounds. */
const rounds = 4;

/**
 * Takes part in what several processes do: follows what the others write, leads when nobody else does, and takes a new lease
 * after one was lost, once nothing runs here any more.
 * @returns ends that
 */
export function takePart({ store, coordinator, lead, log }: PartOptions): () => Promise<void> {
  const { lease: node, journal } = store;
  const stop = new AbortController();
  let leading: Lead | undefined;
  let problem: string | undefined;
  let delivering: Promise<unknown> | undefined;

  const endLeading = async (): Promise<void> => {
    const ending = leading;
    leading = undefined;
    await ending?.stop();
    // An event that nobody has taken then stays for the next one.
    await delivering;
  };
  const rejoin = async (): Promise<void> => {
    log.warn(firstLineOf(node.lost().reason));
    await endLeading();
    await coordinator.idle();
    await node.join();
    log.info(`this process (${node.name}) is part of the group again`);
  };
  const deliver = async (to: Lead): Promise<void> => {
    for (const { id, event } of await journal.events()) {
      await to.take(event);
      if (leading !== to) return;
      await journal.taken(id);
    }
  };
  const round = async (count: number): Promise<void> => {
    if (node.lost().aborted) await rejoin();
    await coordinator.refresh();
    // Asking also removes the nodes whose lease has ended.
    const mayLead = count % rounds === 0 && (await node.claim(leadership));
    if (mayLead && leading === undefined) {
      log.info(`this process (${node.name}) now runs the schedules`);
      leading = await lead();
    }
    await coordinator.recover(leading === undefined);
    if (leading === undefined) return;
    const to = leading;
    // A failed run is told of when it is known whether it will be retried: the rest does not wait for that.
    delivering ??= deliver(to)
      .catch((error: unknown) => {
        if (!stop.signal.aborted && leading === to) log.warn(`events cannot be taken: ${firstLineOf(error)}`);
      })
      .finally(() => (delivering = undefined));
  };
  const work = async (): Promise<void> => {
    for (let count = 0; !stop.signal.aborted; count++) {
      try {
        await round(count);
        if (problem !== undefined) log.info("the shared state can be reached again");
        problem = undefined;
      } catch (error) {
        if (stop.signal.aborted) break;
        const message = firstLineOf(error);
        if (message !== problem) log.warn(`the shared state cannot be reached: ${message}`);
        problem = message;
      }
      await delay(pause, undefined, { ref: false, signal: stop.signal }).catch(() => undefined);
    }
  };
  const working = work();
  return async () => {
    stop.abort();
    await working;
    await endLeading();
  };
}
