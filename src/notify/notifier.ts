import { randomUUID } from "node:crypto";
import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import { firstLineOf, messageOf } from "#errors.ts";
import { makeFolder } from "#files/disk.ts";
import { readJson, writeDurably } from "#files/durable.ts";
import { createQueue } from "#queue.ts";
import type { RunRecord, SyncEvent } from "#state/record.ts";
import type { Attempt, Patience, Sender } from "./delivery.ts";
import { Delivery, usualPatience } from "./delivery.ts";
import { emailSender } from "./email.ts";
import { Filter } from "./filter.ts";
import type { Announcement, FilterState } from "./filter.ts";
import { noticeOfTest, withLink } from "./notice.ts";
import type { Channel } from "./options.ts";
import { chatSender, teamsSender, webhookSender } from "./webhook.ts";

export interface NotifierOptions {
  /** The folder for unsent notices: `outbox` in the daemon's folder. */
  readonly folder: string;
  readonly log: Logger;
  /** Where the console is, for links; without a final slash. */
  readonly publicUrl?: string | undefined;
  /** Some of the principals that a run would change, a line each. Absent: notices name none. */
  readonly names?: (run: RunRecord, most: number) => Promise<readonly string[]>;
  /** Whether the process is stopping: a run that fails then is no news. */
  readonly isStopping?: () => boolean;
  readonly patience?: Patience;
  /** Called when a message was sent or given up. */
  readonly ended?: (channel: string, sent: boolean) => void;
  /** How long after a failure the scheduler says whether it will retry, in milliseconds. 0: there are no retries. */
  readonly settle?: number;
  /** How long the last attempt may take, in milliseconds. */
  readonly closing?: () => number;
  /** Ends the last attempt at once. */
  readonly giveUp?: AbortSignal;
  /** Called when the outbox on disk has changed. */
  readonly saved?: (() => Promise<void>) | undefined;
  /** Called at the end with the number of messages of a channel that were due and not sent. */
  readonly left?: (channel: string, count: number) => void;
}

/** The most principals that a notice names. */
const mostNames = 10;

/** What the filter knows, in the folder. */
const stateFile = "told.json";

interface Route {
  readonly name: string;
  readonly channel: Channel;
  readonly delivery: Delivery;
}

/** Notifies people of what happens, by every channel that subscribes to it. */
export class Notifier {
  readonly #options: NotifierOptions;
  readonly #routes: readonly Route[];
  readonly #filter: Filter;
  readonly #ending = new AbortController();
  readonly #sending = createQueue();
  readonly #settling = new Set<Promise<void>>();

  static async open(channels: Readonly<Record<string, Channel>>, options: NotifierOptions): Promise<Notifier> {
    const { folder, log, patience = usualPatience, ended, saved } = options;
    const messages = join(folder, "letters");
    await makeFolder(messages, "the outbox");
    await forget(messages, Object.keys(channels), patience.most);
    const routes = await Promise.all(
      Object.entries(channels).map(async ([name, channel]) => ({
        name,
        channel,
        delivery: await Delivery.open({
          name,
          channel,
          sender: senderOf(channel),
          folder: join(messages, name),
          saved,
          log,
          patience,
          ended: (sent) => ended?.(name, sent),
        }),
      })),
    );
    return new Notifier(options, routes, new Filter(stateIn(await readJson(join(folder, stateFile)))));
  }

  private constructor(options: NotifierOptions, routes: readonly Route[], filter: Filter) {
    this.#options = options;
    this.#routes = routes;
    this.#filter = filter;
  }

  /** For `Coordinator.subscribe`. Returns at once, and never throws. */
  readonly listener = (event: SyncEvent): void => {
    try {
      this.#take(event);
    } catch (error) {
      this.#options.log.error({ err: error }, "an event could not be turned into a notice");
    }
  };

  /** Resolves when everything that the listener was told so far is in the outbox, and that is saved. */
  async taken(): Promise<void> {
    await Promise.all(this.#settling);
    await this.#sending.idle();
  }

  /** Tries once more to send what is due, then ends. The next process sends the rest. */
  async close(): Promise<void> {
    const { closing = () => 3_000, giveUp, left } = this.#options;
    this.#ending.abort();
    await this.#sending.idle();
    const patience = closing();
    await Promise.all(
      this.#routes.map(async ({ name, delivery }) => {
        const count = await delivery.close(patience, giveUp);
        if (count > 0) left?.(name, count);
      }),
    );
  }

  #take(event: SyncEvent): void {
    if (this.#ending.signal.aborted || event.type === "stage") return;
    if (event.type === "run" && event.run.state === "running") return;
    if (event.type === "run" && event.run.state === "failed" && this.#options.isStopping?.() === true) return;
    const result = this.#filter.take(event);
    if (result !== undefined && "settle" in result) {
      // Rejects if the notifier ends meanwhile.
      const settled = this.#settleLater(result.settle)
        .catch(() => undefined)
        .finally(() => this.#settling.delete(settled));
      this.#settling.add(settled);
    } else this.#announce(result);
  }

  async #settleLater(run: RunRecord): Promise<void> {
    const { settle = 2_000 } = this.#options;
    if (settle > 0) await sleep(settle, undefined, { ref: false, signal: this.#ending.signal });
    this.#announce(this.#filter.settle(run));
  }

  /** In the order of the events. */
  #announce(news: Announcement | undefined): void {
    const { folder, log, saved } = this.#options;
    const state = this.#filter.state();
    this.#sending(async () => {
      if (news !== undefined) await this.#send(news);
      await writeDurably(join(folder, stateFile), `${JSON.stringify(state)}\n`);
      await saved?.();
    }).catch((error: unknown) => {
      log.warn(`the state of the notifications cannot be saved: ${messageOf(error)}`);
    });
  }

  async #send({ notices, run }: Announcement): Promise<void> {
    const chosen = this.#routes.flatMap((route) => {
      const { events, syncs } = route.channel;
      const notice = notices.find(({ event, sync }) => events.includes(event) && (syncs?.includes(sync) ?? true));
      return notice === undefined ? [] : [{ ...route, notice }];
    });
    const wanted = run !== undefined && chosen.some(({ channel }) => channel.names);
    const names = wanted ? await this.#namesOf(run) : [];
    const { publicUrl } = this.#options;
    await Promise.all(
      chosen.map(({ delivery, notice }) =>
        delivery.accept({ ...(publicUrl === undefined ? notice : withLink(notice, publicUrl)), names }),
      ),
    );
  }

  async #namesOf(run: RunRecord): Promise<readonly string[]> {
    try {
      return (await this.#options.names?.(run, mostNames)) ?? [];
    } catch (error) {
      this.#options.log.warn(`run ${run.id}: its changes cannot be read for notices: ${firstLineOf(error)}`);
      return [];
    }
  }
}

/** Removes messages for channels that no longer exist, once they are too old to be sent if the channel comes back. */
async function forget(messages: string, names: readonly string[], age: number): Promise<void> {
  for (const name of await readdir(messages)) {
    if (names.includes(name)) continue;
    const path = join(messages, name);
    const changed = await stat(path).catch(() => undefined);
    if (changed !== undefined && changed.mtimeMs < Date.now() - age) await rm(path, { recursive: true, force: true });
  }
}

function stateIn(value: unknown): FilterState | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { syncs, told } = value as Partial<FilterState>;
  return typeof syncs === "object" && syncs !== null && Array.isArray(told) ? { syncs, told } : undefined;
}

function senderOf(channel: Channel): Sender {
  switch (channel.by) {
    case "email":
      return emailSender(channel);
    case "webhook":
      return webhookSender(channel);
    case "teams":
      return teamsSender(channel);
    case "chat":
    default:
      return chatSender(channel);
  }
}

/**
 * Sends a test by a channel, once, whatever events it subscribes to.
 * @throws the reason of `signal`, when it is aborted
 */
export function testChannel(channel: Channel, signal: AbortSignal): Promise<Attempt> {
  const now = new Date().toISOString();
  const message = {
    id: randomUUID(),
    createdAt: now,
    dueAt: now,
    notices: [noticeOfTest()],
    more: 0,
    test: true,
  } as const;
  return senderOf(channel).send(message, signal);
}

/**
 * Checks whether a channel works, as far as that is possible without sending anything.
 * @throws the reason of `signal`, when it is aborted
 */
export function checkChannel(channel: Channel, signal: AbortSignal): Promise<Attempt> {
  return senderOf(channel).check(signal);
}
