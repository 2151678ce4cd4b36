import { join } from "node:path";
import type { Logger } from "pino";
import type { Configuration } from "#config/configuration.ts";
import type { SyncEvent } from "#sync/coordinator/coordinator.ts";
import { openHeartbeat } from "#sync/notify/heartbeat.ts";
import { openNotifier } from "#sync/notify/notifier.ts";
import type { NotifierOptions } from "#sync/notify/notifier.ts";
import { changedNames } from "./changed-names.ts";
import { daemonFolder } from "#cli/context.ts";

/** Tells people, and whoever watches for heartbeats, what happens to runs. */
export interface Notices {
  /** For `Coordinator.subscribe`. Returns at once, and never throws. */
  readonly listener: (event: SyncEvent) => void;
  /** Goes by another configuration. What happens meanwhile is told by that one. */
  take(configuration: Configuration): Promise<void>;
  /** Ends, within a few seconds or what is set. What could not be sent is sent after the next start. */
  close(): Promise<void>;
}

export async function openNotices(
  configuration: Configuration,
  log: Logger,
  options: Pick<NotifierOptions, "isStopping" | "ended" | "settle" | "closing" | "giveUp" | "left"> = {},
): Promise<Notices> {
  let current = await open(configuration);
  /** What happened while one configuration took the place of another. */
  let missed: SyncEvent[] = [];
  let changes = 0;
  let changing: Promise<void> = Promise.resolve();
  let closed: Promise<void> | undefined;

  async function open(configuration: Configuration) {
    const folder = join(daemonFolder(configuration), "outbox");
    const urls = Object.entries(configuration.syncs).flatMap(([name, { heartbeat }]) =>
      heartbeat === undefined ? [] : [[name, heartbeat] as const],
    );
    return {
      notifier: await openNotifier(configuration.notifications, {
        folder,
        log,
        names: (run, most) => changedNames(configuration, run, most),
        ...options,
      }),
      heartbeat: openHeartbeat(Object.fromEntries(urls), { log }),
    };
  }

  async function end(): Promise<void> {
    const { closing, giveUp } = options;
    await Promise.all([current.notifier.close(), current.heartbeat.close(closing?.(), giveUp)]);
  }

  async function change(before: Promise<void>, configuration: Configuration): Promise<void> {
    await before;
    await end();
    current = await open(configuration);
    changes -= 1;
    if (changes > 0) return;
    const events = missed;
    missed = [];
    for (const event of events) listener(event);
  }

  function listener(event: SyncEvent): void {
    if (changes > 0) {
      missed.push(event);
      return;
    }
    current.notifier.listener(event);
    current.heartbeat.listener(event);
  }

  return {
    listener,
    take: (configuration) => {
      changes += 1;
      changing = change(changing, configuration);
      return changing;
    },
    close: () => {
      closed ??= changing.then(end, end);
      return closed;
    },
  };
}
