import { randomUUID } from "node:crypto";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import { messageOf } from "#errors.ts";
import { makeFolder } from "#files/disk.ts";
import { readJson, writeDurably } from "#files/durable.ts";
import { createQueue } from "#queue.ts";
import { formatDuration } from "#text.ts";
import type { Channel } from "./options.ts";
import { mostNotices, noticeDocument, noticeOf, withoutNames } from "./notice.ts";
import type { Message, Notice, NoticeDocument } from "./notice.ts";

/** The pauses between attempts to send a message, in milliseconds. */
export interface Patience {
  /** The first pause; each further one is twice as long, minus a random part of up to a half. */
  readonly first: number;
  readonly longest: number;
  /** When it is given up. */
  readonly most: number;
}

export const usualPatience: Patience = { first: 5_000, longest: 900_000, most: 86_400_000 };

/** The result of one attempt to send something. Its texts hold no secrets. */
export type Attempt =
  /** By whom it was accepted, and what they answered. */
  | { readonly accepted: string; readonly warning?: string | undefined }
  /** It was not accepted. `again`: it may be later, after at least `after` milliseconds. */
  | { readonly problem: string; readonly again: boolean; readonly after?: number | undefined };

/** Sends by one channel. */
export interface Sender {
  /** Tries once, in bounded time. Rejects only with the reason of `signal`, when it is aborted. */
  send(message: Message, signal: AbortSignal): Promise<Attempt>;
  /** Checks whether it could, without sending anything. */
  check(signal: AbortSignal): Promise<Attempt>;
}

/** Sends the notices of one channel, one message after the other, with retries. */
export interface Delivery {
  /** Takes a notice, at once on disk. Never rejects. */
  accept(notice: Notice): Promise<void>;
  /**
   * Tries once what is due, for so many milliseconds at most. The rest stays on disk for the next process.
   * @param giveUp ends that at once
   * @returns how many are left that were due
   */
  close(patience: number, giveUp?: AbortSignal): Promise<number>;
}

export interface DeliveryOptions {
  readonly name: string;
  readonly channel: Channel;
  readonly sender: Sender;
  /** The channel's own. */
  readonly folder: string;
  /** Called when the outbox on disk has changed. */
  readonly saved?: (() => Promise<void>) | undefined;
  readonly log: Logger;
  readonly patience: Patience;
  /** Called when a message was sent or given up. */
  readonly ended?: (sent: boolean) => void;
}

export async function openDelivery(options: DeliveryOptions): Promise<Delivery> {
  const { name, channel, sender, patience } = options;
  const log = options.log.child({ channel: name });
  const outbox = await openOutbox(options.folder, (message) => {
    log.warn(`channel ${name}: ${message}`);
  });
  const abort = new AbortController();
  let failures = 0;
  const attempts = new Map<string, number>();
  /** The pause that the receiver asked for. */
  let asked = 0;
  /** Ends the wait for the next message. */
  let waiting = new AbortController();
  const closing = new AbortController();

  /** Changes of the outbox. */
  const changes = createQueue();

  const add = async (notice: Notice): Promise<void> => {
    const now = Date.now();
    const { digest } = channel;
    const collects = digest !== undefined && !digest.except.includes(notice.event);
    // It goes into the digest that is not due yet, if there is one.
    const open = collects ? outbox.messages().find((message) => !isDue(message)) : undefined;
    const message: Message =
      open === undefined
        ? {
            id: randomUUID(),
            createdAt: new Date(now).toISOString(),
            dueAt: new Date(collects ? now + digest.every : now).toISOString(),
            notices: [notice],
            more: 0,
          }
        : open.notices.length < mostNotices
          ? { ...open, notices: [...open.notices, notice] }
          : { ...open, more: open.more + 1 };
    for (const dropped of await outbox.put(message))
      log.error({ delivery: dropped.id }, `channel ${name}: too many notices are waiting; the oldest one was dropped`);
  };

  /** The oldest of the messages tried least: one that is always refused for now must not hold up the others. */
  const next = (): Message | undefined =>
    outbox
      .messages()
      .filter(isDue)
      .reduce<Message | undefined>(
        (best, message) => (best === undefined || tried(message) < tried(best) ? message : best),
        undefined,
      );
  const tried = ({ id }: Message): number => attempts.get(id) ?? 0;

  async function work(): Promise<void> {
    while (!abort.signal.aborted) {
      const message = next();
      if (message !== undefined) {
        const isDone = await attempt(message);
        if (isDone) failures = 0;
        else if (closing.signal.aborted) return;
        else await rest();
      } else if (closing.signal.aborted) return;
      else await untilDue();
    }
  }

  /** Whether the message is done with. */
  async function attempt(message: Message): Promise<boolean> {
    const about = { delivery: message.id, runs: message.notices.flatMap(({ run }) => run ?? []) };
    const age = Date.now() - Date.parse(message.dueAt);
    const result: Attempt =
      age > patience.most
        ? { problem: `it could not be sent for ${formatDuration(age)}`, again: false }
        : await sender.send(message, abort.signal).catch((error: unknown): Attempt => {
            abort.signal.throwIfAborted();
            return { problem: messageOf(error), again: true };
          });
    if ("accepted" in result) {
      log.info(about, `channel ${name}: ${wordsOf(message)} sent to ${result.accepted}`);
      if (result.warning !== undefined) log.warn(about, `channel ${name}: ${result.warning}`);
    } else if (result.again) {
      asked = Math.min(result.after ?? 0, patience.longest);
      attempts.set(message.id, tried(message) + 1);
      log.warn(about, `channel ${name}: ${wordsOf(message)} not sent yet: ${result.problem}`);
      return false;
    } else log.error(about, `channel ${name}: ${wordsOf(message)} given up: ${result.problem}`);
    options.ended?.("accepted" in result);
    attempts.delete(message.id);
    await changes(() => outbox.remove(message));
    await options.saved?.().catch((error: unknown) => {
      // It may be sent twice.
      log.warn(`channel ${name}: the outbox cannot be saved: ${messageOf(error)}`);
    });
    return true;
  }

  async function rest(): Promise<void> {
    const own = Math.min(patience.longest, patience.first * 2 ** Math.min(failures, 30)) * (1 - Math.random() / 2);
    failures += 1;
    await pause(Math.max(own, asked));
  }

  async function untilDue(): Promise<void> {
    const times = outbox.messages().map(({ dueAt }) => Date.parse(dueAt) - Date.now());
    waiting = new AbortController();
    // Timers are limited to 24 days; waking up early does no harm.
    await pause(Math.max(0, Math.min(86_400_000, ...times)), waiting.signal);
  }

  async function pause(milliseconds: number, ...signals: readonly AbortSignal[]): Promise<void> {
    const signal = AbortSignal.any([closing.signal, ...signals]);
    // Rejects when it is aborted.
    await sleep(milliseconds, undefined, { ref: false, signal }).catch(() => undefined);
  }

  const working = work().catch((error: unknown) => {
    if (!abort.signal.aborted) log.error({ err: error }, `channel ${name}: sending has stopped: ${messageOf(error)}`);
  });

  const end = (): void => {
    abort.abort(new Error("closed"));
  };

  return {
    accept: async (notice) => {
      await changes(() => add(channel.names ? notice : withoutNames(notice)));
      waiting.abort();
    },
    close: async (patience, giveUp) => {
      await changes.idle();
      closing.abort();
      const limit = setTimeout(end, patience);
      if (giveUp?.aborted === true) end();
      giveUp?.addEventListener("abort", end, { once: true });
      await working;
      giveUp?.removeEventListener("abort", end);
      clearTimeout(limit);
      const left = outbox.messages().length;
      if (left > 0)
        log.info(
          `channel ${name}: ${left === 1 ? "a notification is" : `${left} notifications are`} stored and sent after the next start`,
        );
      return outbox.messages().filter(isDue).length;
    },
  };
}

/** A message without a delay is always due, even after the clock was put back. */
function isDue({ createdAt, dueAt }: Message): boolean {
  return dueAt === createdAt || Date.parse(dueAt) <= Date.now();
}

function wordsOf({ notices, more }: Message): string {
  const [first] = notices;
  const count = notices.length + more;
  return count === 1 && first !== undefined ? `the notice of ${first.sync} (${first.event})` : `${count} notices`;
}

/** The unsent messages of one channel, in memory and on disk: they go out even if the disk is full. */
export interface Outbox {
  /** The oldest first. */
  messages(): readonly Message[];
  /** Adds or replaces a message. Drops the oldest ones if there are too many, and returns them. */
  put(message: Message): Promise<readonly Message[]>;
  remove(message: Message): Promise<void>;
}

/** More messages than this would help nobody. */
const mostMessages = 500;

/**
 * Opens the outbox in a folder. Unreadable files are removed.
 * @param warn called with what the disk refuses
 */
async function openOutbox(folder: string, warn: (message: string) => void): Promise<Outbox> {
  const messages = new Map<string, Message>();
  const attempt = async (what: string, work: () => Promise<unknown>): Promise<void> => {
    await work().catch((error: unknown) => {
      warn(`${what} (${messageOf(error)})`);
    });
  };
  const fileOf = ({ id }: Message): string => join(folder, `${id}.json`);
  await attempt(`${folder} cannot be created: waiting notices do not survive a restart`, () =>
    makeFolder(folder, "the outbox"),
  );
  for (const name of await readdir(folder).catch(() => [])) {
    const document = await readJson(join(folder, name));
    if (isMessage(document) && name === `${document.id}.json`)
      messages.set(document.id, { ...document, notices: document.notices.map(noticeOf) });
    else await rm(join(folder, name), { force: true }).catch(() => undefined);
  }
  const inOrder = (): Message[] => [...messages.values()].sort((a, b) => (a.createdAt < b.createdAt ? -1 : 1));
  const remove = async (message: Message): Promise<void> => {
    messages.delete(message.id);
    await attempt("a finished notice cannot be removed", () => rm(fileOf(message), { force: true }));
  };
  return {
    messages: inOrder,
    remove,
    async put(message) {
      messages.set(message.id, message);
      await attempt("a notice cannot be stored on disk: it does not survive a restart", () =>
        writeDurably(fileOf(message), `${JSON.stringify(documentOf(message))}\n`),
      );
      const dropped = inOrder().slice(0, Math.max(0, messages.size - mostMessages));
      for (const each of dropped) await remove(each);
      return dropped;
    },
  };
}

interface MessageDocument extends Omit<Message, "notices"> {
  readonly notices: readonly NoticeDocument[];
}

function documentOf({ notices, ...message }: Message): MessageDocument {
  return { ...message, notices: notices.map(noticeDocument) };
}

function isMessage(value: unknown): value is MessageDocument {
  if (typeof value !== "object" || value === null) return false;
  const { id, createdAt, dueAt, notices } = value as Partial<MessageDocument>;
  return [id, createdAt, dueAt].every((text) => typeof text === "string") && Array.isArray(notices);
}
