import { join } from "node:path";
import type { Logger } from "pino";
import type { Configuration } from "#config/configuration.ts";
import { storedChanges } from "#plan/stored.ts";
import { messageOf } from "#errors.ts";
import type { LocalCoordinator } from "#sync/coordinator/open.ts";
import type { SyncEvent } from "#sync/coordinator/coordinator.ts";
import { openHeartbeat } from "#sync/notify/heartbeat.ts";
import { openNotifier } from "#sync/notify/notifier.ts";
import type { NotifierOptions } from "#sync/notify/notifier.ts";
import type { RunRecord } from "#sync/record.ts";
import { formatName } from "#text.ts";
import { daemonFolder } from "./data-folder.ts";
import type { Context } from "./context.ts";

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

/** How long a command tells people at its end, in milliseconds. */
const patience = 10_000;

/** Until when, in the time of `performance`: a command that works several times does not wait as often. */
const ends = new WeakMap<Context["interruption"], number>();

/**
 * Has the channels of notifications, and whoever watches for heartbeats, told of what a command does where no daemon
 * does that. To be called before anything happens; what it returns ends it, after a last try of some seconds. What could
 * not be sent is kept for the next process, and said. Never rejects: no run fails for it.
 */
export async function tellOf(
  coordinator: Pick<LocalCoordinator, "subscribe">,
  { configuration, interruption, log, output, notify = true }: Context,
): Promise<() => Promise<void>> {
  const { notifications, syncs } = configuration;
  const isWanted =
    Object.keys(notifications).length > 0 || Object.values(syncs).some(({ heartbeat }) => heartbeat !== undefined);
  if (!notify || !isWanted) return async () => {};
  const { stop } = interruption;
  let notices: Notices;
  try {
    notices = await openNotices(configuration, log, {
      isStopping: () => stop.aborted,
      // A command tries nothing again.
      settle: 0,
      closing: () => {
        const now = performance.now();
        const end = ends.get(interruption) ?? now + patience;
        ends.set(interruption, end);
        return Math.max(0, end - now);
      },
      giveUp: stop,
      ended: (channel, sent) => {
        if (!sent) output.say(`channel ${channel}: a notice is given up; with --verbose the log says why`);
      },
      left: (channel, count) => {
        output.say(
          `channel ${channel}: ${count === 1 ? "a notice has" : `${count} notices have`} not gone out yet; the next command or start tries again`,
        );
      },
    });
  } catch (error) {
    output.say(`nobody is told by the channels of notifications: ${messageOf(error)}`);
    return async () => {};
  }
  coordinator.subscribe(notices.listener);
  return async () => {
    output.progress();
    await notices.close().catch((error: unknown) => {
      output.say(`what people are told cannot be kept: ${messageOf(error)}`);
    });
  };
}

const marks = { delete: "-", create: "+", update: "~" } as const;

/** The first principals that a run would change, a line each, deletions first: `- user zoe`. */
async function changedNames(configuration: Configuration, run: RunRecord, most: number): Promise<readonly string[]> {
  const folder = daemonFolder(configuration);
  const files = { file: join(folder, "runs", run.id, "changes.parquet"), spill: join(folder, "notices.spill") };
  const lines: string[] = [];
  for (const action of ["delete", "create", "update"] as const) {
    if (run.counts === undefined || run.counts.users[action] + run.counts.groups[action] === 0) continue;
    for await (const { kind, name } of storedChanges(run, files, { actions: [action] })) {
      lines.push(`${marks[action]} ${kind} ${formatName(name)}`);
      if (lines.length >= most) return lines;
    }
  }
  return lines;
}
