import { join } from "node:path";
import pino from "pino";
import { connectors } from "#connectors/index.ts";
import { holdLock } from "#daemon/data-folder.ts";
import { placeOf } from "#daemon/targets.ts";
import { openSync } from "#daemon/wiring.ts";
import { openStore } from "#daemon/records.ts";
import type { Configuration } from "#config/configuration.ts";
import { loadConfiguration } from "#config/load.ts";
import { LocalCoordinator } from "#sync/coordinator/local.ts";
import type { Store } from "#state/store.ts";
import type { ListTarget } from "#connector.ts";

/** Wrappers around what the coordinator is given. */
export interface Wrapping {
  store(store: Store): Store;
  target(target: ListTarget): ListTarget;
  after(): void;
}

const asTheyAre: Wrapping = {
  store: (store) => store,
  target: (target) => target,
  after: () => undefined,
};

const never = new AbortController().signal;

function configurationIn(folder: string): Promise<Configuration> {
  const path = join(folder, "rollcall.yaml");
  return loadConfiguration(path, { connectors, loadConnector: () => Promise.reject(new Error("no such connector")) });
}

/** Opens the coordinator of a folder's configuration as a command does, runs `work` and closes everything. */
export async function withCoordinatorIn<Result>(
  folder: string,
  work: (coordinator: LocalCoordinator, logged: readonly string[]) => Promise<Result>,
  wrapping: Wrapping = asTheyAre,
): Promise<Result> {
  const configuration = await configurationIn(folder);
  const logged: string[] = [];
  const log = pino({ level: "error" }, { write: (line: string) => logged.push(line) });
  const embedded = { access: () => Promise.reject(new Error("the target is elsewhere")), close: async () => {} };
  const lock = await holdLock(configuration);
  const store = await openStore(configuration, log);
  const coordinator = new LocalCoordinator({
    store: wrapping.store(store),
    memory: 64 * 1024 * 1024,
    interruption: { stop: never, abandon: never },
    syncs: () =>
      Object.fromEntries(
        Object.entries(configuration.syncs).map(([name, { to, approval, approvers, approvalExpires }]) => [
          name,
          { target: to, place: placeOf(configuration, to), approval, approvers, approvalExpires },
        ]),
      ),
    open: async (name) => {
      const sync = await openSync(configuration, name, embedded);
      return sync.target.takes === "list" ? { ...sync, target: wrapping.target(sync.target) } : sync;
    },
    after: async () => {
      wrapping.after();
      return undefined;
    },
  });
  try {
    return await work(coordinator, logged);
  } finally {
    await coordinator.close();
    await store.close();
    lock.release();
  }
}
