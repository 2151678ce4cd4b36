import { join } from "node:path";
import type { Logger } from "pino";
import { createQueue } from "#queue.ts";
import type { Configuration } from "#config/configuration.ts";
import { storedChanges } from "#plan/stored.ts";
import { messageOf } from "#errors.ts";
import type { LocalCoordinator } from "#sync/coordinator/local.ts";
import { openHeartbeat } from "#notify/heartbeat.ts";
import { Notifier } from "#notify/notifier.ts";
import type { NotifierOptions } from "#notify/notifier.ts";
import type { RunRecord, SyncEvent } from "#state/record.ts";
import { formatName } from "#text.ts";
import { daemonFolder, readState } from "./data-folder.ts";
import { Plans } from "#state/plans.ts";
import type { Context } from "./context.ts";

/** Sends notifications and heartbeats about runs. */
export interface Notifications {
  /** For `Coordinator.subscribe`. Returns at once, and never throws. */
  readonly listener: (event: SyncEvent) => void;
  /** Resolves when what the listener was told so far cannot get lost any more. */
  taken(): Promise<void>;
  /** Switches to another configuration. Events in between are sent by the new one. */
  take(configuration: Configuration): Promise<void>;
  /** Ends within a few seconds, or the time set. What could not be sent is sent after the next start. */
  close(): Promise<void>;
}

export async function openNotifications(
  configuration: Configuration,
  log: Logger,
  options: Pick<NotifierOptions, "isStopping" | "ended" | "saved" | "settle" | "closing" | "giveUp" | "left"> = {},
): Promise<Notifications> {
  let current = await open(configuration);
  /** Events during a switch of configurations. */
  let missed: SyncEvent[] = [];
  let changes = 0;
  const changing = createQueue();
  let closed: Promise<void> | undefined;

  async function open(configuration: Configuration) {
    const folder = join(daemonFolder(configuration), "outbox");
    const urls = Object.entries(configuration.syncs).flatMap(([name, { heartbeat }]) =>
      heartbeat === undefined ? [] : [[name, heartbeat] as const],
    );
    return {
      notifier: await Notifier.open(configuration.notifications, {
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

  async function change(configuration: Configuration): Promise<void> {
    try {
      await end();
      current = await open(configuration);
    } finally {
      changes -= 1;
    }
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
    taken: () => changing(() => current.notifier.taken()),
    take: (configuration) => {
      changes += 1;
      return changing(() => change(configuration));
    },
    close: () => {
      closed ??= changing(end);
      return closed;
    },
  };
}

/** How long a command sends notifications at its end, in milliseconds. */
const closingLimit = 10_000;

/** Until when, as `performance.now()`: a command that opens several coordinators waits only once. */
const ends = new WeakMap<Context["interruption"], number>();

/**
 * Sends the notifications and heartbeats of a one-shot command, which works without a daemon. Call it before anything
 * happens; the function it returns ends it, after a last attempt of some seconds. What could not be sent stays for the
 * next process, and the command says so. Never rejects: no run fails because of notifications.
 */
export async function startNotifying(
  coordinator: Pick<LocalCoordinator, "subscribe">,
  { configuration, interruption, log, output }: Context,
): Promise<() => Promise<void>> {
  const { stop } = interruption;
  let notifications: Notifications;
  try {
    notifications = await openNotifications(configuration, log, {
      isStopping: () => stop.aborted,
      // A command does not wait to retry.
      settle: 0,
      closing: () => {
        const now = performance.now();
        const end = ends.get(interruption) ?? now + closingLimit;
        ends.set(interruption, end);
        return Math.max(0, end - now);
      },
      giveUp: stop,
      ended: (channel, sent) => {
        if (!sent) output.say(`channel ${channel}: a notification was dropped; with --verbose the log says why`);
      },
      left: (channel, count) => {
        output.say(
          `channel ${channel}: ${count === 1 ? "a notification has" : `${count} notifications have`} not been sent yet; the next command or start tries again`,
        );
      },
    });
  } catch (error) {
    output.say(`no notifications are sent: ${messageOf(error)}`);
    return async () => {};
  }
  coordinator.subscribe(notifications.listener);
  return async () => {
    output.progress();
    await notifications.close().catch((error: unknown) => {
      output.say(`unsent notifications cannot be stored: ${messageOf(error)}`);
    });
  };
}

const marks = { delete: "-", create: "+", update: "~" } as const;

/** The first principals that a run would change, a line each, deletions first: `- user zoe`. */
async function changedNames(configuration: Configuration, run: RunRecord, most: number): Promise<readonly string[]> {
  await using state = await readState(configuration);
  const plans = new Plans(state.files);
  await plans.fetch([run.id]);
  const files = { file: plans.file(run.id, "changes"), spill: join(daemonFolder(configuration), "notices.spill") };
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
