import { randomUUID } from "node:crypto";
import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import { firstLineOf, messageOf } from "#errors.ts";
import { makeFolder } from "#files/disk.ts";
import { readJson, writeDurably } from "#files/durable.ts";
import type { SyncEvent } from "#sync/coordinator/coordinator.ts";
import type { RunRecord } from "#sync/record.ts";
import type { Attempt, Sender } from "./delivery.ts";
import type { Channel } from "./options.ts";
import { openDelivery, usualPatience } from "./delivery.ts";
import type { Patience } from "./delivery.ts";
import { emailSender } from "./email.ts";
import { noticeOfTest } from "./notice.ts";
import { createWatch } from "./watch.ts";
import type { Memory, Telling } from "./watch.ts";
import { chatSender, webhookSender } from "./webhook.ts";

/** Tells people what happens, by every channel that is for it. */
export interface Notifier {
  /** For `Coordinator.subscribe`. Returns at once, and never throws. */
  readonly listener: (event: SyncEvent) => void;
  /** Ends, with a last try of what is due. What could not be sent is sent by the next process. */
  close(): Promise<void>;
}

export interface NotifierOptions {
  /** Where notices wait: `outbox` in the daemon's folder. */
  readonly folder: string;
  readonly log: Logger;
  /** Some of the principals that a run would change, a line each. Absent: names are in no notice. */
  readonly names?: (run: RunRecord, most: number) => Promise<readonly string[]>;
  /** Whether the process is being stopped: a run that fails then has not failed by itself. */
  readonly isStopping?: () => boolean;
  readonly patience?: Patience;
  /** Is told how each message has ended: sent, or given up. */
  readonly ended?: (channel: string, sent: boolean) => void;
  /** How long after a failure it must be known whether the run is tried again, in milliseconds. 0: none is. */
  readonly settle?: number;
  /** How long the last try may take once it begins, in milliseconds. */
  readonly closing?: () => number;
  /** Ends the last try at once. */
  readonly giveUp?: AbortSignal;
  /** Is told of what was due at the end and has not gone out: how many notices, and of which channel. */
  readonly left?: (channel: string, count: number) => void;
}

/** No more principals are named in a notice. */
const mostNames = 10;

export async function openNotifier(
  channels: Readonly<Record<string, Channel>>,
  options: NotifierOptions,
): Promise<Notifier> {
  const { folder, log, patience = usualPatience, settle = 2_000, closing = () => 3_000, ended } = options;
  const messages = join(folder, "letters");
  const file = join(folder, "told.json");
  await makeFolder(messages, "the outbox");
  await forget(messages, Object.keys(channels), patience.most);
  const watch = createWatch(memoryIn(await readJson(file)));
  const routes = await Promise.all(
    Object.entries(channels).map(async ([name, channel]) => ({
      name,
      channel,
      delivery: await openDelivery({
        name,
        channel,
        sender: senderOf(channel),
        folder: join(messages, name),
        log,
        patience,
        ended: (sent) => ended?.(name, sent),
      }),
    })),
  );
  const ending = new AbortController();
  let telling: Promise<void> = Promise.resolve();

  async function tell({ notices, run }: Telling): Promise<void> {
    const chosen = routes.flatMap((route) => {
      const { events, syncs } = route.channel;
      const notice = notices.find(({ event, sync }) => events.includes(event) && (syncs?.includes(sync) ?? true));
      return notice === undefined ? [] : [{ ...route, notice }];
    });
    const wanted = run !== undefined && chosen.some(({ channel }) => channel.names);
    const names = wanted ? await namesOf(run) : [];
    await Promise.all(chosen.map(({ delivery, notice }) => delivery.accept({ ...notice, names })));
  }

  async function namesOf(run: RunRecord): Promise<readonly string[]> {
    try {
      return (await options.names?.(run, mostNames)) ?? [];
    } catch (error) {
      log.warn(`run ${run.id}: its changes cannot be read for notices: ${firstLineOf(error)}`);
      return [];
    }
  }

  /** One after the other, so that people read what happened in the order in which it did. */
  function inTurn(told: Telling | undefined): void {
    const memory = watch.memory();
    telling = after(telling, async () => {
      if (told !== undefined) await tell(told);
      await writeDurably(file, `${JSON.stringify(memory)}\n`);
    }).catch((error: unknown) => {
      log.warn(`what people were told cannot be kept: ${messageOf(error)}`);
    });
  }

  async function settleLater(run: RunRecord): Promise<void> {
    if (settle > 0) await sleep(settle, undefined, { ref: false, signal: ending.signal });
    inTurn(watch.settle(run));
  }

  function listener(event: SyncEvent): void {
    if (ending.signal.aborted || event.type === "stage") return;
    if (event.type === "run" && event.run.state === "running") return;
    if (event.type === "run" && event.run.state === "failed" && options.isStopping?.() === true) return;
    const result = watch.take(event);
    if (result !== undefined && "settle" in result) {
      // Rejects when it ends meanwhile.
      settleLater(result.settle).catch(() => undefined);
    } else inTurn(result);
  }

  return {
    listener: (event) => {
      try {
        listener(event);
      } catch (error) {
        log.error({ err: error }, "an event could not be told");
      }
    },
    close: async () => {
      ending.abort();
      await telling;
      const patience = closing();
      await Promise.all(
        routes.map(async ({ name, delivery }) => {
          const count = await delivery.close(patience, options.giveUp);
          if (count > 0) options.left?.(name, count);
        }),
      );
    },
  };
}

async function after(before: Promise<void>, work: () => Promise<void>): Promise<void> {
  await before;
  await work();
}

/** Throws away what waits for channels that are gone, when it is too old to be sent should they come back. */
async function forget(messages: string, names: readonly string[], age: number): Promise<void> {
  for (const name of await readdir(messages)) {
    if (names.includes(name)) continue;
    const path = join(messages, name);
    const changed = await stat(path).catch(() => undefined);
    if (changed !== undefined && changed.mtimeMs < Date.now() - age) await rm(path, { recursive: true, force: true });
  }
}

function memoryIn(value: unknown): Memory | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { syncs, told } = value as Partial<Memory>;
  return typeof syncs === "object" && syncs !== null && Array.isArray(told) ? { syncs, told } : undefined;
}

function senderOf(channel: Channel): Sender {
  switch (channel.by) {
    case "email":
      return emailSender(channel);
    case "webhook":
      return webhookSender(channel);
    case "chat":
    default:
      return chatSender(channel);
  }
}

/**
 * Sends a test by a channel, once, whatever it is for and however it collects.
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
 * Looks whether something could be sent by a channel, as far as that can be known without sending.
 * @throws the reason of `signal`, when it is aborted
 */
export function checkChannel(channel: Channel, signal: AbortSignal): Promise<Attempt> {
  return senderOf(channel).check(signal);
}
