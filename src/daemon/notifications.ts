import { byDanger, countOf } from "#plan/change.ts";
import { join } from "node:path";
import type { Logger } from "pino";
import { createQueue } from "#queue.ts";
import type { Configuration } from "#config/configuration.ts";
import { storedChanges } from "#plan/stored.ts";
import { messageOf } from "#errors.ts";
import type { LocalCoordinator } from "#sync/coordinator/local.ts";
import { Heartbeat } from "#notify/heartbeat.ts";
import { Notifier } from "#notify/notifier.ts";
import type { NotifierOptions } from "#notify/notifier.ts";
import type { RunRecord, SyncEvent } from "#state/record.ts";
import { formatName } from "#text.ts";
import { daemonFolder, readState } from "./data-folder.ts";
import { Plans } from "#state/plans.ts";
import type { Context } from "./context.ts";

type Options = Pick<NotifierOptions, "isStopping" | "ended" | "saved" | "settle" | "closing" | "giveUp" | "left">;

/** Sends notifications and heartbeats about runs. */
export class Notifications {
  readonly #log: Logger;
  readonly #options: Options;
  readonly #changing = createQueue();
  #notifier: Notifier;
  #heartbeat: Heartbeat;
  /** Events during a switch of configurations. */
  #missed: SyncEvent[] = [];
  #changes = 0;
  #closed: Promise<void> | undefined;

  static async open(configuration: Configuration, log: Logger, options: Options = {}): Promise<Notifications> {
    return new Notifications(
      await openNotifier(configuration, log, options),
      openHeartbeat(configuration, log),
      log,
      options,
    );
  }

  private constructor(notifier: Notifier, heartbeat: Heartbeat, log: Logger, options: Options) {
    this.#notifier = notifier;
    this.#heartbeat = heartbeat;
    this.#log = log;
    this.#options = options;
  }

  /** For `Coordinator.subscribe`. Returns at once, and never throws. */
  readonly listener = (event: SyncEvent): void => {
    if (this.#changes > 0) {
      this.#missed.push(event);
      return;
    }
    this.#notifier.listener(event);
    this.#heartbeat.listener(event);
  };

  /** Resolves when what the listener was told so far cannot get lost any more. */
  taken(): Promise<void> {
    return this.#changing(() => this.#notifier.taken());
  }

  /** Switches to another configuration. Events in between are sent by the new one. */
  take(configuration: Configuration): Promise<void> {
    this.#changes += 1;
    return this.#changing(() => this.#change(configuration));
  }

  /** Ends within a few seconds, or the time set. What could not be sent is sent after the next start. */
  close(): Promise<void> {
    this.#closed ??= this.#changing(() => this.#end());
    return this.#closed;
  }

  async #change(configuration: Configuration): Promise<void> {
    try {
      await this.#end();
      this.#notifier = await openNotifier(configuration, this.#log, this.#options);
      this.#heartbeat = openHeartbeat(configuration, this.#log);
    } finally {
      this.#changes -= 1;
    }
    if (this.#changes > 0) return;
    const events = this.#missed;
    this.#missed = [];
    for (const event of events) this.listener(event);
  }

  async #end(): Promise<void> {
    const { closing, giveUp } = this.#options;
    await Promise.all([this.#notifier.close(), this.#heartbeat.close(closing?.(), giveUp)]);
  }
}

function openNotifier(configuration: Configuration, log: Logger, options: Options): Promise<Notifier> {
  const names = (run: RunRecord, most: number) => changedNames(configuration, run, most);
  const folder = join(daemonFolder(configuration), "outbox");
  const publicUrl = configuration.console === false ? undefined : configuration.console.publicUrl;
  return Notifier.open(configuration.notifications, { folder, log, names, publicUrl, ...options });
}

function openHeartbeat({ syncs }: Configuration, log: Logger): Heartbeat {
  const urls = Object.entries(syncs).flatMap(([name, { heartbeat }]) =>
    heartbeat === undefined ? [] : [[name, heartbeat] as const],
  );
  return new Heartbeat(Object.fromEntries(urls), { log });
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
    notifications = await Notifications.open(configuration, log, {
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

const marks = { delete: "-", create: "+", update: "~", suspend: "‖", reactivate: "↺" } as const;

/** The first principals that a run would change, a line each, deletions first: `- user zoe`. */
async function changedNames(configuration: Configuration, run: RunRecord, most: number): Promise<readonly string[]> {
  await using state = await readState(configuration);
  const plans = new Plans(state.files);
  await plans.fetch([run.id]);
  const files = { file: plans.file(run.id, "changes"), spill: join(daemonFolder(configuration), "notices.spill") };
  const lines: string[] = [];
  for (const action of byDanger) {
    if (run.counts === undefined || countOf(run.counts, action) === 0) continue;
    for await (const { kind, name } of storedChanges(run, files, { actions: [action] })) {
      lines.push(`${marks[action]} ${kind} ${formatName(name)}`);
      if (lines.length >= most) return lines;
    }
  }
  return lines;
}
