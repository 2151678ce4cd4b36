import { command } from "#commands.ts";
import { setTimeout as delay } from "node:timers/promises";
import { createParser } from "eventsource-parser";
import type { EventSourceMessage } from "eventsource-parser";
import { z } from "zod";
import { InputError, RefusedError, UnavailableError } from "#errors.ts";
import type { RollcallError } from "#errors.ts";
import { HttpClient, jsonBody, jsonIn } from "#http/client.ts";
import type { Answer } from "#http/client.ts";
import { HttpError } from "#http/errors.ts";
import { presentable } from "#redact.ts";
import { eventOf, recordOf } from "#state/record.ts";
import type { EventDocument, RunDocument, RunRecord, SyncEvent } from "#state/record.ts";
import { controlRoot, controlRoutes, ofControl } from "#wire/routes.ts";
import type { Route } from "#wire/routes.ts";
import { accountHeader } from "./access.ts";
import type { DaemonPresence } from "./presence.ts";

/** A connection to a daemon on this machine. */
export interface Connection {
  readonly presence: DaemonPresence;
  /**
   * Sends one request. The `status` distinguishes 202 from 200.
   * @throws {NoDaemonError} when nothing listens there, or another program does
   * @throws {RollcallError} the daemon's own error
   */
  request(
    route: Route,
    signal: AbortSignal,
    body?: object,
  ): Promise<{ readonly status: number; readonly value: unknown }>;
  /** Calls `onEvent` with every event until the stream ends or breaks. @throws as `request` */
  listen(
    route: Route,
    lastId: string | undefined,
    onEvent: (event: EventSourceMessage) => void,
    signal: AbortSignal,
  ): Promise<void>;
}

/** The daemon is gone: nothing listens there, or another program does, which does not know the token. */
export class NoDaemonError extends UnavailableError {}

/** `body`: three heartbeats of the event stream. In milliseconds. */
const timeouts = { connect: 5000, headers: 20_000, body: 45_000 };

/** The longest event, in characters. */
const longestEvent = 8 * 1024 * 1024;

const errorDocument = z.object({
  error: z.object({ message: z.string(), problems: z.array(z.string()), advice: z.enum(["fix", "retry", "stop"]) }),
});

/** @param account the account the caller runs under, for the audit log */
export function connectTo(presence: DaemonPresence, account: string): Connection {
  const { url, token, certificate, pid } = presence;
  const pinned = certificate !== undefined;
  const http = new HttpClient({ owner: "target", timeouts, ca: certificate, pinned, proxy: false });
  const headers = { authorization: `Bearer ${token}`, [accountHeader]: encodeURIComponent(account) };

  const exchange = async <T>(
    request: {
      readonly route: Route;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: object | undefined;
    },
    use: (answer: Answer) => Promise<T>,
    signal: AbortSignal,
  ): Promise<T> => {
    const { route, body, headers: more } = request;
    try {
      return await http.exchange(
        {
          url: new URL(url + controlRoot + route.path),
          method: route.method,
          headers: { accept: "application/json", ...headers, ...more },
          body: route.method === "POST" ? jsonBody(body ?? {}) : undefined,
        },
        async (answer) => {
          if (answer.status >= 400) throw await errorOf(answer, pid);
          return use(answer);
        },
        signal,
      );
    } catch (error) {
      if (!(error instanceof HttpError)) throw error;
      const isUncertain = route.method === "POST" && error.phase !== "connect";
      const message = `the daemon (process ${pid}): ${error.message}${isUncertain ? `. It may or may not have carried out the request: see \`${command("runs")}\`` : ""}`;
      throw error.phase === "connect" ? new NoDaemonError(message) : new UnavailableError(message);
    }
  };

  return {
    presence,
    request: (route, signal, body) =>
      exchange({ route, body }, async (answer) => ({ status: answer.status, value: await jsonOf(answer) }), signal),
    listen: (route, lastId, onEvent, signal) =>
      exchange(
        {
          route,
          headers: { accept: "text/event-stream", ...(lastId === undefined ? {} : { "last-event-id": lastId }) },
        },
        async ({ body }) => {
          const parser = createParser({ onEvent, maxBufferSize: longestEvent });
          const decoder = new TextDecoder();
          for await (const bytes of body) parser.feed(decoder.decode(bytes, { stream: true }));
        },
        signal,
      ),
  };
}

async function jsonOf(answer: Answer): Promise<unknown> {
  try {
    return await jsonIn(answer, longestEvent);
  } catch (cause) {
    if (cause instanceof HttpError) throw cause;
    throw new HttpError("receive", "the answer is not JSON", "later", { cause });
  }
}

async function errorOf(answer: Answer, pid: number): Promise<RollcallError> {
  const { status } = answer;
  if (status === 401) return new NoDaemonError(`process ${pid} is not the daemon that this data folder names (401)`);
  const parsed = errorDocument.safeParse(await jsonOf(answer).catch(() => undefined));
  if (!parsed.success) return new RefusedError(`the daemon (process ${pid}) answered ${status}`, { status });
  const { message, problems, advice } = parsed.data.error;
  const said = presentable(message);
  if (advice === "retry") return new UnavailableError(said);
  if (advice === "stop") return new RefusedError(`the daemon (process ${pid}): ${said}`, { status });
  return new InputError(said, { problems: problems.map((problem) => presentable(problem)) });
}

/** Follows a daemon's runs and events, also across a restart of it. */
export interface Follower {
  /** The connection to the daemon, or to the one that replaced it. */
  connection(): Connection;
  /** The run when it has ended. @throws {UnavailableError} when the daemon ends first */
  end(id: string): Promise<RunRecord>;
  /** Calls `listener` with every event. Returns a function that unsubscribes. */
  subscribe(listener: (event: SyncEvent) => void): () => void;
  close(): void;
}

export interface FollowerOptions {
  /** Finds the daemon after a restart. */
  readonly again: (signal: AbortSignal) => Promise<Connection | undefined>;
  readonly signal: AbortSignal;
}

/** How long to wait before a broken stream is opened again, in milliseconds. Meanwhile, runs are polled. */
const pause = 500;

export function createFollower(first: Connection, { again, signal: outer }: FollowerOptions): Follower {
  const closing = new AbortController();
  const signal = AbortSignal.any([outer, closing.signal]);
  const waiting = new Map<string, PromiseWithResolvers<RunRecord>>();
  const listeners = new Set<(event: SyncEvent) => void>();
  let connection = first;
  let lastId: string | undefined;
  let following: Promise<void> | undefined;

  const settle = (id: string, run: RunRecord): void => {
    waiting.get(id)?.resolve(run);
    waiting.delete(id);
  };
  const fail = (reasonOf: (id: string) => unknown): void => {
    for (const [id, { reject }] of waiting) reject(reasonOf(id));
    waiting.clear();
  };

  /** Polls one run. */
  const poll = async (id: string): Promise<void> => {
    try {
      const { status, value } = await connection.request(ofControl(controlRoutes.end, id), signal);
      if (status === 200) settle(id, recordOf(value as RunDocument));
    } catch (error) {
      if (!(error instanceof InputError)) throw error;
      // The daemon does not know the run.
      waiting.get(id)?.reject(error);
      waiting.delete(id);
    }
  };
  const pollAll = async (): Promise<void> => {
    for (const id of waiting.keys()) await poll(id);
  };

  const listen = (): Promise<void> =>
    connection.listen(
      controlRoutes.events,
      lastId,
      ({ id, event, data }) => {
        lastId = id ?? lastId;
        const value: unknown = JSON.parse(data);
        // Poll for what ended before the stream was open, or was missed.
        if (event === "listening" || event === "missed") pollAll().catch(() => undefined);
        else if (event === "ended") settle((value as { id: string }).id, recordOf((value as { run: RunDocument }).run));
        else for (const listener of listeners) listener(eventOf(value as EventDocument));
      },
      signal,
    );

  /** @returns false when there is no daemon any more */
  const recover = async (): Promise<boolean> => {
    try {
      await pollAll();
      return true;
    } catch (error) {
      if (!(error instanceof NoDaemonError)) return true;
    }
    const found = await again(signal).catch(() => connection);
    if (found === undefined) return false;
    connection = found;
    return true;
  };

  const follow = async (): Promise<void> => {
    while (waiting.size > 0 || listeners.size > 0) {
      await listen().catch(() => undefined);
      if (signal.aborted) break;
      if (!(await recover())) {
        const { pid } = connection.presence;
        fail(
          (id) =>
            new UnavailableError(
              `the daemon (process ${pid}) ended while run ${id} was running. When it is started again, it finds out how the run ended; then see \`${command("show", id)}\``,
            ),
        );
        return;
      }
      await delay(pause, undefined, { signal }).catch(() => undefined);
    }
    if (signal.aborted) fail(() => signal.reason);
  };
  const start = (): void => {
    following ??= follow().finally(() => {
      following = undefined;
      if (waiting.size > 0 && !signal.aborted) start();
    });
  };

  return {
    connection: () => connection,
    end: (id) => {
      const end = Promise.withResolvers<RunRecord>();
      waiting.set(id, end);
      start();
      // It may have ended before anybody waited for it, with the stream already open.
      poll(id).catch(() => undefined);
      return end.promise;
    },
    subscribe: (listener) => {
      listeners.add(listener);
      start();
      return () => {
        listeners.delete(listener);
      };
    },
    close: () => {
      closing.abort(new UnavailableError("the daemon is no longer followed"));
    },
  };
}
