import { createParser } from "eventsource-parser";
import type { EventSourceMessage } from "eventsource-parser";
import { breakageOf } from "#http/trouble.ts";
import { jsonBody } from "#client/form.ts";
import { Broken, createHttp } from "#http/exchange.ts";
import type { Answer } from "#http/exchange.ts";
import { presentable, textOf } from "#http/refusal.ts";
import { InputError, RefusedError, UnavailableError } from "#errors.ts";
import type { RollcallError } from "#errors.ts";
import { controlRoot } from "#wire/routes.ts";
import type { Route } from "#wire/routes.ts";
import { z } from "zod";
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
  const http = createHttp(
    { url, prefix: "", timeouts, ...(certificate === undefined ? {} : { ca: certificate, pinned: true }) },
    controlRoot,
  );
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
          route,
          headers: { ...headers, ...more },
          ...(route.method === "POST" ? { body: jsonBody(body ?? {}) } : {}),
        },
        async (answer) => {
          if (answer.status >= 400) throw await errorOf(answer, pid);
          return use(answer);
        },
        signal,
      );
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
      const { reason } = breakageOf(error.cause, error.phase, http);
      const asked = route.method === "POST" && error.phase !== "connect";
      const message = `the daemon (process ${pid}): ${reason}${asked ? ". Whether it has done what it was asked for is not known: `rollcall runs` tells" : ""}`;
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
          try {
            for await (const text of body.setEncoding("utf8")) parser.feed(String(text));
          } catch (error) {
            throw new Broken("receive", error);
          }
        },
        signal,
      ),
  };
}

async function jsonOf(answer: Answer): Promise<unknown> {
  try {
    return JSON.parse(await textOf(answer, longestEvent));
  } catch (error) {
    throw new Broken("receive", error);
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
