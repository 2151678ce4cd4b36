import { setTimeout as delay } from "node:timers/promises";
import { createParser } from "eventsource-parser";
import type { EventSourceMessage } from "eventsource-parser";
import { z } from "zod";
import { InputError, RefusedError, UnavailableError } from "#errors.ts";
import type { RollcallError } from "#errors.ts";
import { createHttpClient, jsonBody, textOf } from "#http/client.ts";
import type { Answer } from "#http/client.ts";
import { HttpError } from "#http/errors.ts";
import { presentable } from "#http/redact.ts";
import type { SyncEvent } from "#sync/coordinator/coordinator.ts";
import type { RunRecord } from "#sync/record.ts";
import { controlRoot, controlRoutes, ofControl } from "#wire/routes.ts";
import type { Route } from "#wire/routes.ts";
import { accountHeader } from "./access.ts";
import type { DaemonPresence } from "./presence.ts";

/** The way to a daemon on this machine. */
export interface Connection {
  readonly presence: DaemonPresence;
  /**
   * Asks one thing. `status` tells 202 from 200.
   * @throws {NoDaemonError} nobody is there, or somebody else
   * @throws {RollcallError} what the daemon says
   */
  ask(route: Route, signal: AbortSignal, body?: object): Promise<{ readonly status: number; readonly value: unknown }>;
  /** Hands every event to `hear`, until the stream ends or breaks. @throws as `ask` */
  listen(
    route: Route,
    lastId: string | undefined,
    hear: (event: EventSourceMessage) => void,
    signal: AbortSignal,
  ): Promise<void>;
}

/** There is no such daemon any more: nothing listens there, or something that does not know its token. */
export class NoDaemonError extends UnavailableError {}

/** Between two heartbeats nothing may move; after three, the daemon is not there. In milliseconds. */
const timeouts = { connect: 5000, headers: 20_000, body: 45_000 };

/** What the longest event may have, in characters. */
const longestEvent = 8 * 1024 * 1024;

const errorDocument = z.object({
  error: z.object({ message: z.string(), problems: z.array(z.string()), advice: z.enum(["fix", "retry", "stop"]) }),
});

/** @param account whose account the caller runs under, for the record */
export function connectTo(presence: DaemonPresence, account: string): Connection {
  const { url, token, certificate, pid } = presence;
  const http = createHttpClient({ owner: "target", timeouts, ca: certificate, pinned: certificate !== undefined });
  const headers = { authorization: `Bearer ${token}`, [accountHeader]: encodeURIComponent(account) };

  const exchange = async <T>(
    request: { readonly route: Route; readonly headers?: Readonly<Record<string, string>>; readonly body?: object },
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
      const asked = route.method === "POST" && error.phase !== "connect";
      const message = `the daemon (process ${pid}): ${error.message}${asked ? ". Whether it has done what it was asked for is not known: `rollcall runs` tells" : ""}`;
      throw error.phase === "connect" ? new NoDaemonError(message) : new UnavailableError(message);
    }
  };

  return {
    presence,
    ask: (route, signal, body) =>
      exchange(
        { route, ...(body === undefined ? {} : { body }) },
        async (answer) => ({ status: answer.status, value: await jsonOf(answer) }),
        signal,
      ),
    listen: (route, lastId, hear, signal) =>
      exchange(
        {
          route,
          headers: { accept: "text/event-stream", ...(lastId === undefined ? {} : { "last-event-id": lastId }) },
        },
        async ({ body }) => {
          const parser = createParser({ onEvent: hear, maxBufferSize: longestEvent });
          const decoder = new TextDecoder();
          for await (const bytes of body) parser.feed(decoder.decode(bytes, { stream: true }));
        },
        signal,
      ),
  };
}

async function jsonOf(answer: Answer): Promise<unknown> {
  const text = await textOf(answer, longestEvent);
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new HttpError("receive", "the answer is not JSON", "later", { cause });
  }
}

async function errorOf(answer: Answer, pid: number): Promise<RollcallError> {
  const { status } = answer;
  if (status === 401) return new NoDaemonError(`process ${pid} is not the daemon that has left its token (401)`);
  const parsed = errorDocument.safeParse(await jsonOf(answer).catch(() => undefined));
  if (!parsed.success) return new RefusedError(`the daemon (process ${pid}) answered ${status}`, { status });
  const { message, problems, advice } = parsed.data.error;
  const said = presentable(message);
  if (advice === "retry") return new UnavailableError(said);
  if (advice === "stop") return new RefusedError(`the daemon (process ${pid}): ${said}`, { status });
  return new InputError(said, { problems: problems.map((problem) => presentable(problem)) });
}

/** Follows what a daemon does, as long as somebody wants to know. */
export interface Follower {
  /** To the daemon, or to the one that has taken its place. */
  connection(): Connection;
  /** How a run ends. @throws {UnavailableError} when the daemon has ended before */
  end(id: string): Promise<RunRecord>;
  /** Calls `listener` with what happens. Returns what ends that. */
  subscribe(listener: (event: SyncEvent) => void): () => void;
  close(): void;
}

export interface FollowerOptions {
  /** A daemon that was started again. */
  readonly again: (signal: AbortSignal) => Promise<Connection | undefined>;
  readonly signal: AbortSignal;
}

/** How long after a stream has broken another one is tried, in milliseconds. Until then, runs are asked for. */
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

  /** Asks how it stands with a run. */
  const look = async (id: string): Promise<void> => {
    try {
      const { status, value } = await connection.ask(ofControl(controlRoutes.end, id), signal);
      if (status === 200) settle(id, value as RunRecord);
    } catch (error) {
      if (!(error instanceof InputError)) throw error;
      // The daemon knows nothing of it.
      waiting.get(id)?.reject(error);
      waiting.delete(id);
    }
  };
  const lookAtAll = async (): Promise<void> => {
    for (const id of waiting.keys()) await look(id);
  };

  const listen = (): Promise<void> =>
    connection.listen(
      controlRoutes.events,
      lastId,
      ({ id, event, data }) => {
        lastId = id ?? lastId;
        const value: unknown = JSON.parse(data);
        // What happened before the stream stood, or was missed, is asked for.
        if (event === "listening" || event === "missed") lookAtAll().catch(() => undefined);
        else if (event === "ended") settle((value as { id: string }).id, (value as { run: RunRecord }).run);
        else for (const listener of listeners) listener(value as SyncEvent);
      },
      signal,
    );

  /** @returns false when there is no daemon any more */
  const recover = async (): Promise<boolean> => {
    try {
      await lookAtAll();
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
              `the daemon (process ${pid}) has ended while run ${id} was under way: what became of it is found out when it is started again; then \`rollcall show ${id}\` tells`,
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
      // It may have ended while the stream was open already, and before it was waited for.
      look(id).catch(() => undefined);
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
      closing.abort(new UnavailableError("the daemon is not followed any more"));
    },
  };
}
