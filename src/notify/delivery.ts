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
import { clockTolerance } from "#times.ts";
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

/** Sends the notices of one channel, one message after the other, with retries. */
export class Delivery {
  readonly #options: DeliveryOptions;
  readonly #log: Logger;
  readonly #outbox: Outbox;
  readonly #abort = new AbortController();
  readonly #closing = new AbortController();
  /** Changes of the outbox. */
  readonly #changes = createQueue();
  readonly #attempts = new Map<string, number>();
  readonly #working: Promise<void>;
  #failures = 0;
  /** The pause that the receiver asked for. */
  #asked = 0;
  /** Ends the wait for the next message. */
  #waiting = new AbortController();

  /** Opens the outbox of the channel, and begins to send what is in it. */
  static async open(options: DeliveryOptions): Promise<Delivery> {
    const log = options.log.child({ channel: options.name });
    const outbox = new Outbox(options.folder, (message) => {
      log.warn(`channel ${options.name}: ${message}`);
    });
    await outbox.read();
    return new Delivery(options, log, outbox);
  }

  private constructor(options: DeliveryOptions, log: Logger, outbox: Outbox) {
    this.#options = options;
    this.#log = log;
    this.#outbox = outbox;
    this.#working = this.#work().catch((error: unknown) => {
      if (!this.#abort.signal.aborted)
        log.error({ err: error }, `channel ${options.name}: sending has stopped: ${messageOf(error)}`);
    });
  }

  /** Takes a notice, at once on disk. Never rejects. */
  async accept(notice: Notice): Promise<void> {
    await this.#changes(() => this.#add(this.#options.channel.names ? notice : withoutNames(notice)));
    this.#waiting.abort();
  }

  /**
   * Tries once what is due, for so many milliseconds at most. The rest stays on disk for the next process.
   * @param giveUp ends that at once
   * @returns how many are left that were due
   */
  async close(patience: number, giveUp?: AbortSignal): Promise<number> {
    const end = (): void => {
      this.#abort.abort(new Error("closed"));
    };
    await this.#changes.idle();
    this.#closing.abort();
    const limit = setTimeout(end, patience);
    if (giveUp?.aborted === true) end();
    giveUp?.addEventListener("abort", end, { once: true });
    await this.#working;
    giveUp?.removeEventListener("abort", end);
    clearTimeout(limit);
    const messages = this.#outbox.messages();
    const left = messages.length === 1 ? "a notification is" : `${messages.length} notifications are`;
    if (messages.length > 0)
      this.#log.info(`channel ${this.#options.name}: ${left} stored and sent after the next start`);
    return messages.filter(isDue).length;
  }

  async #add(notice: Notice): Promise<void> {
    const { name, channel } = this.#options;
    const now = Date.now();
    const { digest } = channel;
    const collects = digest !== undefined && !digest.except.includes(notice.event);
    // It goes into the digest that is not due yet, if there is one.
    const open = collects ? this.#outbox.messages().find((message) => !isDue(message)) : undefined;
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
    for (const { id } of await this.#outbox.put(message))
      this.#log.error({ delivery: id }, `channel ${name}: too many notices are waiting; the oldest one was dropped`);
  }

  /** The oldest of the messages tried least: one that is always refused for now must not hold up the others. */
  #next(): Message | undefined {
    const due = this.#outbox.messages().filter(isDue);
    return due.toSorted((one, other) => this.#tried(one) - this.#tried(other))[0];
  }

  #tried({ id }: Message): number {
    return this.#attempts.get(id) ?? 0;
  }

  async #work(): Promise<void> {
    while (!this.#abort.signal.aborted) {
      const message = this.#next();
      if (message !== undefined) {
        const isDone = await this.#attempt(message);
        if (isDone) this.#failures = 0;
        else if (this.#closing.signal.aborted) return;
        else await this.#rest();
      } else if (this.#closing.signal.aborted) return;
      else await this.#untilDue();
    }
  }

  /** Whether the message is done with. */
  async #attempt(message: Message): Promise<boolean> {
    const { name, sender, patience, ended, saved } = this.#options;
    const about = { delivery: message.id, runs: message.notices.flatMap(({ run }) => run ?? []) };
    const said = `channel ${name}: ${wordsOf(message)}`;
    const age = Date.now() - Date.parse(message.dueAt);
    const result: Attempt =
      age > patience.most
        ? { problem: `it could not be sent for ${formatDuration(age)}`, again: false }
        : await sender.send(message, this.#abort.signal).catch((error: unknown): Attempt => {
            this.#abort.signal.throwIfAborted();
            return { problem: messageOf(error), again: true };
          });
    if ("accepted" in result) {
      this.#log.info(about, `${said} sent to ${result.accepted}`);
      if (result.warning !== undefined) this.#log.warn(about, `channel ${name}: ${result.warning}`);
    } else if (result.again) {
      this.#asked = Math.min(result.after ?? 0, patience.longest);
      this.#attempts.set(message.id, this.#tried(message) + 1);
      this.#log.warn(about, `${said} not sent yet: ${result.problem}`);
      return false;
    } else this.#log.error(about, `${said} given up: ${result.problem}`);
    ended?.("accepted" in result);
    this.#attempts.delete(message.id);
    await this.#changes(() => this.#outbox.remove(message));
    await saved?.().catch((error: unknown) => {
      // It may be sent twice.
      this.#log.warn(`channel ${name}: the outbox cannot be saved: ${messageOf(error)}`);
    });
    return true;
  }

  async #rest(): Promise<void> {
    const { first, longest } = this.#options.patience;
    const own = Math.min(longest, first * 2 ** Math.min(this.#failures, 30)) * (1 - Math.random() / 2);
    this.#failures += 1;
    await this.#pause(Math.max(own, this.#asked));
  }

  async #untilDue(): Promise<void> {
    const times = this.#outbox.messages().map(({ dueAt }) => Date.parse(dueAt) - Date.now());
    this.#waiting = new AbortController();
    // Timers are limited to 24 days; waking up early does no harm.
    await this.#pause(Math.max(0, Math.min(86_400_000, ...times)), this.#waiting.signal);
  }

  async #pause(milliseconds: number, ...signals: readonly AbortSignal[]): Promise<void> {
    const signal = AbortSignal.any([this.#closing.signal, ...signals]);
    // Rejects when it is aborted.
    await sleep(milliseconds, undefined, { ref: false, signal }).catch(() => undefined);
  }
}

/** After the clock was set back, nothing waits for a time that it had shown: a message of the future is due, and so is one without a delay. */
function isDue({ createdAt, dueAt }: Message): boolean {
  const now = Date.now();
  return dueAt === createdAt || Date.parse(dueAt) <= now || Date.parse(createdAt) > now + clockTolerance;
}

function wordsOf({ notices, more }: Message): string {
  const [first] = notices;
  const count = notices.length + more;
  return count === 1 && first !== undefined ? `the notice of ${first.sync} (${first.event})` : `${count} notices`;
}

/** More messages than this would help nobody. */
const mostMessages = 500;

/** The unsent messages of one channel, in memory and in a folder: they go out even if the disk is full. */
class Outbox {
  readonly #folder: string;
  readonly #warn: (message: string) => void;
  readonly #messages = new Map<string, Message>();

  /** @param warn called with what the disk refuses */
  constructor(folder: string, warn: (message: string) => void) {
    this.#folder = folder;
    this.#warn = warn;
  }

  /** Reads what is in the folder. Unreadable files are removed. */
  async read(): Promise<void> {
    const folder = this.#folder;
    await this.#attempt(`${folder} cannot be created: waiting notices do not survive a restart`, () =>
      makeFolder(folder, "the outbox"),
    );
    for (const name of await readdir(folder).catch(() => [])) {
      const document = await readJson(join(folder, name));
      if (isMessage(document) && name === `${document.id}.json`)
        this.#messages.set(document.id, { ...document, notices: document.notices.map(noticeOf) });
      else await rm(join(folder, name), { force: true }).catch(() => undefined);
    }
  }

  /** The oldest first. */
  messages(): readonly Message[] {
    return [...this.#messages.values()].sort((a, b) => (a.createdAt < b.createdAt ? -1 : 1));
  }

  /** Adds or replaces a message. Drops the oldest ones if there are too many, and returns them. */
  async put(message: Message): Promise<readonly Message[]> {
    this.#messages.set(message.id, message);
    await this.#attempt("a notice cannot be stored on disk: it does not survive a restart", () =>
      writeDurably(this.#fileOf(message), `${JSON.stringify(documentOf(message))}\n`),
    );
    const dropped = this.messages().slice(0, Math.max(0, this.#messages.size - mostMessages));
    for (const each of dropped) await this.remove(each);
    return dropped;
  }

  async remove(message: Message): Promise<void> {
    this.#messages.delete(message.id);
    await this.#attempt("a finished notice cannot be removed", () => rm(this.#fileOf(message), { force: true }));
  }

  #fileOf({ id }: Message): string {
    return join(this.#folder, `${id}.json`);
  }

  async #attempt(what: string, work: () => Promise<unknown>): Promise<void> {
    await work().catch((error: unknown) => {
      this.#warn(`${what} (${messageOf(error)})`);
    });
  }
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
