import type { Socket } from "node:net";
import { Readable } from "node:stream";
import { Refusal } from "./answers.ts";

/** How often a comment keeps each stream alive, in milliseconds. */
const heartbeat = 15_000;

/** How often it is looked whether a client may still listen, in milliseconds, besides before every event. */
const lookInterval = 2_000;

/** A client that has gone answers what it is sent with a reset, which shows when it is sent something again: so much later, in milliseconds. */
const askAgain = 1_000;

const comment = ":\n\n";

/** How many clients may listen at once: of one account, and altogether. */
const mostListeners = { ofOne: 64, all: 512 };

/** How much is remembered for clients that reconnect: events, and their characters in total. */
const recent = { events: 500, characters: 1024 * 1024 };

/** A client with this many unread bytes, besides what the system buffers, is disconnected. It can reconnect. */
const backlog = 512 * 1024;

/** Whose session a stream hangs on. */
export interface Listening {
  readonly account: string;
  /** Whether the session is there, and allows it. Not a use of it. */
  readonly isAllowed: () => Promise<boolean>;
}

/** A client, and what it is sent once it is certain that it still may have it. */
class Listener {
  readonly account: string | undefined;
  readonly stream = new Readable({ read: () => undefined });
  readonly #isAllowed: (() => Promise<boolean>) | undefined;
  readonly #waiting: string[] = [];
  #isLooking = false;
  #isEnding = false;

  constructor(listening: Listening | undefined) {
    this.account = listening?.account;
    this.#isAllowed = listening?.isAllowed;
  }

  send(text: string): void {
    if (this.#isAllowed === undefined) {
      send(this.stream, text);
      return;
    }
    this.#waiting.push(text);
    if (this.#waiting.length > recent.events) this.stream.destroy();
    else this.look();
  }

  /** Sends what waits if the client may have it, and ends its stream otherwise. */
  look(): void {
    if (!this.#isLooking) void this.#look();
  }

  end(): void {
    this.#isEnding = true;
    if (this.#isAllowed === undefined) this.stream.push(null);
    else this.look();
  }

  async #look(): Promise<void> {
    this.#isLooking = true;
    do {
      const { length } = this.#waiting;
      // When it cannot be looked up, the client connects again.
      const isAllowed = await this.#isAllowed?.().catch(() => false);
      if (this.stream.destroyed) return;
      if (isAllowed === false) {
        this.stream.push(null);
        return;
      }
      for (const text of this.#waiting.splice(0, length)) send(this.stream, text);
    } while (this.#waiting.length > 0);
    this.#isLooking = false;
    if (this.#isEnding) this.stream.push(null);
  }
}

/** Events for clients that listen over HTTP (server-sent events). */
export class EventStreams {
  // Ids of an earlier process mean nothing to this one.
  readonly #era = Date.now().toString(36);
  readonly #remembered: { readonly id: number; readonly text: string }[] = [];
  readonly #listeners = new Set<Listener>();
  readonly #timers: readonly NodeJS.Timeout[];
  #characters = 0;
  #last = 0;
  #closed = false;

  constructor() {
    const keepAlive = setInterval(() => {
      for (const listener of this.#listeners) listener.send(comment);
    }, heartbeat);
    const looking = setInterval(() => {
      for (const listener of this.#listeners) if (listener.account !== undefined) listener.look();
    }, lookInterval);
    this.#timers = [keepAlive.unref(), looking.unref()];
  }

  /**
   * A stream of the events since `lastId` and from now on. If some of them are forgotten, it starts with `missed`. It ends when
   * its session does: nothing is sent that happened after that.
   * @param listening absent: a command on this machine
   * @param client is asked whether it is still there once it has closed its side, as a browser does that leaves a page
   * @throws {Refusal} 503 when too many clients listen already, of this account or altogether
   */
  open(lastId: string | undefined, listening?: Listening, client?: Socket): Readable {
    if (this.#closed) throw new Refusal(503, "the daemon is stopping");
    const own = [...this.#listeners].filter(({ account }) => account === listening?.account).length;
    const later = { headers: { "retry-after": "10" } };
    if (listening !== undefined && own >= mostListeners.ofOne)
      throw new Refusal(503, `${own} clients listen already with the account ${listening.account}`, later);
    if (this.#listeners.size >= mostListeners.all)
      throw new Refusal(503, `${mostListeners.all} clients listen already`, later);
    const listener = new Listener(listening);
    const { stream } = listener;
    this.#listeners.add(listener);
    const ask = (): void => {
      listener.send(comment);
      setTimeout(() => listener.send(comment), askAgain).unref();
    };
    client?.once("end", ask);
    stream.once("close", () => {
      this.#listeners.delete(listener);
      // The connection outlives the stream: it may be used for the next one.
      client?.off("end", ask);
    });
    const missed = lastId === undefined ? [] : this.#since(lastId);
    // The first event gives the client an id to reconnect with, before anything has happened.
    const first = `${this.#era}-${this.#last - (missed?.length ?? 0)}`;
    send(stream, message(first, missed === undefined ? "missed" : "listening", {}));
    for (const text of missed ?? []) send(stream, text);
    return stream;
  }

  /** Sends an event to every client that listens. */
  publish(type: string, data: object): void {
    this.#last++;
    const text = message(`${this.#era}-${this.#last}`, type, data);
    this.#remembered.push({ id: this.#last, text });
    this.#characters += text.length;
    while (
      this.#remembered.length > recent.events ||
      (this.#characters > recent.characters && this.#remembered.length > 1)
    ) {
      this.#characters -= this.#remembered.shift()?.text.length ?? 0;
    }
    for (const listener of this.#listeners) listener.send(text);
  }

  /** Ends every stream, and opens no more. */
  close(): void {
    this.#closed = true;
    for (const timer of this.#timers) clearInterval(timer);
    for (const listener of this.#listeners) listener.end();
  }

  /** The events since; undefined when some are forgotten. */
  #since(lastId: string): readonly string[] | undefined {
    const [, from, number] = /^(\w+)-(\d{1,15})$/.exec(lastId) ?? [];
    const id = Number(number);
    const oldest = this.#remembered[0]?.id ?? this.#last + 1;
    if (from !== this.#era || id > this.#last || id < oldest - 1) return undefined;
    return this.#remembered.filter((each) => each.id > id).map((each) => each.text);
  }
}

/** Disconnects a client that has too much to read. */
function send(stream: Readable, text: string): void {
  if (stream.destroyed) return;
  stream.push(text);
  if (stream.readableLength > backlog) stream.destroy();
}

function message(id: string, type: string, data: object): string {
  return `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
}
