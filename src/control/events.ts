import { Readable } from "node:stream";
import { Refusal } from "./answers.ts";

/** How often a listener hears that the daemon is there, in milliseconds. */
const heartbeat = 15_000;

/** So many listen at once. */
const mostListeners = 64;

/** So much is kept for a listener that comes back: events, and characters of them. */
const recent = { events: 500, characters: 1024 * 1024 };

/** A listener that has not read so much (in bytes, beside what the system buffers) is dropped: it can come back. */
const backlog = 512 * 1024;

/** What happens, for whoever listens over HTTP (server-sent events). */
export interface EventStreams {
  /**
   * What happens from now on, after what has happened since `lastId`, as far as that is remembered: where it is not, an
   * event `missed` says so.
   * @throws {Refusal} 503 too many listen already
   */
  open(lastId: string | undefined): Readable;
  /** Tells everybody who listens. */
  tell(type: string, data: object): void;
  /** Ends every stream, and opens no more. */
  close(): void;
}

export function createEventStreams(): EventStreams {
  // Ids of one process say nothing to the next one.
  const era = Date.now().toString(36);
  const remembered: { readonly id: number; readonly text: string }[] = [];
  const listeners = new Set<Readable>();
  let characters = 0;
  let last = 0;
  let closed = false;

  const beat = setInterval(() => {
    for (const stream of listeners) tell(stream, ":\n\n");
  }, heartbeat);
  beat.unref();

  /** What has happened since; undefined where that is not known any more. */
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
      // The first event gives the listener an id to come back with, before anything has happened.
      tell(stream, frame(`${era}-${last - (missed?.length ?? 0)}`, missed === undefined ? "missed" : "listening", {}));
      for (const text of missed ?? []) tell(stream, text);
      return stream;
    },
    tell: (type, data) => {
      last++;
      const text = frame(`${era}-${last}`, type, data);
      remembered.push({ id: last, text });
      characters += text.length;
      while (remembered.length > recent.events || (characters > recent.characters && remembered.length > 1)) {
        characters -= remembered.shift()?.text.length ?? 0;
      }
      for (const stream of listeners) tell(stream, text);
    },
    close: () => {
      closed = true;
      clearInterval(beat);
      for (const stream of listeners) stream.push(null);
    },
  };
}

/** Hands a listener a piece, unless it has too much to read already. */
function tell(stream: Readable, text: string): void {
  if (stream.destroyed) return;
  stream.push(text);
  if (stream.readableLength > backlog) stream.destroy();
}

function frame(id: string, type: string, data: object): string {
  return `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
}
