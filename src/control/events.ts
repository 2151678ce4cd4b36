import { Readable } from "node:stream";
import { Refusal } from "./answers.ts";

/** How often a comment keeps each stream alive, in milliseconds. */
const heartbeat = 15_000;

/** How many clients may listen at once. */
const mostListeners = 64;

/** How much is remembered for clients that reconnect: events, and their characters in total. */
const recent = { events: 500, characters: 1024 * 1024 };

/** A client with this many unread bytes, besides what the system buffers, is disconnected. It can reconnect. */
const backlog = 512 * 1024;

/** Events for clients that listen over HTTP (server-sent events). */
export interface EventStreams {
  /**
   * A stream of the events since `lastId` and from now on. If some of them are forgotten, it starts with `missed`.
   * @throws {Refusal} 503 when too many clients listen already
   */
  open(lastId: string | undefined): Readable;
  /** Sends an event to every client that listens. */
  publish(type: string, data: object): void;
  /** Ends every stream, and opens no more. */
  close(): void;
}

export function createEventStreams(): EventStreams {
  // Ids of an earlier process mean nothing to this one.
  const era = Date.now().toString(36);
  const remembered: { readonly id: number; readonly text: string }[] = [];
  const listeners = new Set<Readable>();
  let characters = 0;
  let last = 0;
  let closed = false;

  const keepAlive = setInterval(() => {
    for (const stream of listeners) send(stream, ":\n\n");
  }, heartbeat);
  keepAlive.unref();

  /** The events since; undefined when some are forgotten. */
  function since(lastId: string): readonly string[] | undefined {
    const [, from, number] = /^(\w+)-(\d{1,15})$/.exec(lastId) ?? [];
    const id = Number(number);
    if (from !== era || id > last || id < (remembered[0]?.id ?? last + 1) - 1) return undefined;
    return remembered.filter((each) => each.id > id).map((each) => each.text);
  }

  return {
    open: (lastId) => {
      if (closed) throw new Refusal(503, "the daemon is stopping");
      if (listeners.size >= mostListeners)
        throw new Refusal(503, `${mostListeners} clients listen already`, { headers: { "retry-after": "10" } });
      const stream = new Readable({ read: () => undefined });
      listeners.add(stream);
      stream.once("close", () => listeners.delete(stream));
      const missed = lastId === undefined ? [] : since(lastId);
      // The first event gives the client an id to reconnect with, before anything has happened.
      send(
        stream,
        message(`${era}-${last - (missed?.length ?? 0)}`, missed === undefined ? "missed" : "listening", {}),
      );
      for (const text of missed ?? []) send(stream, text);
      return stream;
    },
    publish: (type, data) => {
      last++;
      const text = message(`${era}-${last}`, type, data);
      remembered.push({ id: last, text });
      characters += text.length;
      while (remembered.length > recent.events || (characters > recent.characters && remembered.length > 1)) {
        characters -= remembered.shift()?.text.length ?? 0;
      }
      for (const stream of listeners) send(stream, text);
    },
    close: () => {
      closed = true;
      clearInterval(keepAlive);
      for (const stream of listeners) stream.push(null);
    },
  };
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
