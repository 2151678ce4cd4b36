import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import { request } from "undici";
import { call, login, startService } from "../rollcall/service.ts";
import type { TestService } from "../rollcall/service.ts";
import { listen, stop, track } from "../scripted-server.ts";

/** A list that the target got with applyChanges=true. */
interface Sending {
  /** The names in it. */
  readonly names: readonly string[];
  /** What the target did, as it answered; absent: not yet, or nothing. */
  did?: Readonly<Record<"creates" | "updates" | "deletes", number>> | undefined;
}

/** A real service behind a server that notes what is sent to be applied. */
export interface RecordedTarget {
  readonly url: string;
  readonly sendings: readonly Sending[];
  /** Holds back the answer to the next list that is applied. Resolves when the service has applied it. */
  hold(): Promise<void>;
  release(): void;
  /** Names and display names of the users that begin so. */
  directory(beginning: string): Promise<Readonly<Record<string, string>>>;
  close(): Promise<void>;
}

export async function startTarget(): Promise<RecordedTarget> {
  const service: TestService = await startService();
  const sendings: Sending[] = [];
  let hold: (() => Promise<void>) | undefined;
  let holding = Promise.withResolvers<void>();
  const forward = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await buffer(incoming);
    const form = new URLSearchParams(incoming.url?.endsWith("/user/sync") === true ? body.toString() : "");
    let sending: Sending | undefined;
    if (form.get("applyChanges") === "true") {
      const principals = JSON.parse(form.get("principals") ?? "[]") as { name: string }[];
      sending = { names: principals.map(({ name }) => name) };
      sendings.push(sending);
    }
    const { host: _, connection: __, "content-length": ___, "transfer-encoding": ____, ...headers } = incoming.headers;
    const method = incoming.method as "GET" | "POST";
    const answer = await request(service.url + incoming.url, { method, headers, ...(body.length > 0 && { body }) });
    const text = await answer.body.text();
    if (sending !== undefined && answer.statusCode === 200) {
      sending.did = didOf(text);
      const waits = hold?.();
      hold = undefined;
      await waits;
    }
    const { "transfer-encoding": _____, "content-length": ______, ...given } = answer.headers;
    response.writeHead(answer.statusCode, given).end(text);
  };
  const server = createServer((incoming, response) => {
    forward(incoming, response).catch(() => response.destroy());
  });
  const open = track(server);
  const port = await listen(server);
  let session: string | undefined;
  return {
    url: `http://127.0.0.1:${port}`,
    sendings,
    hold: () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      holding = Promise.withResolvers();
      const until = holding.promise;
      hold = () => {
        resolve();
        return until;
      };
      return promise;
    },
    release: () => holding.resolve(),
    directory: async (beginning) => {
      const url = `${service.url}/tspublic/v1/user/list`;
      let answer = await call(url, session === undefined ? {} : { session });
      if (answer.status === 401) answer = await call(url, { session: (session = await login(service.url)) });
      const list = JSON.parse(answer.text) as { name: string; displayName: string }[];
      const own = list.filter(({ name }) => name.startsWith(beginning));
      return Object.fromEntries(own.map(({ name, displayName }) => [name, displayName]));
    },
    close: async () => {
      holding.resolve();
      await stop(server, open);
      await service.kill();
    },
  };
}

function didOf(text: string): NonNullable<Sending["did"]> {
  const answer = JSON.parse(text) as Readonly<Record<string, readonly string[]>>;
  const count = (done: string): number =>
    (answer[`users${done}`]?.length ?? 0) + (answer[`groups${done}`]?.length ?? 0);
  return { creates: count("Added"), updates: count("Updated"), deletes: count("Deleted") };
}

/** Who is told: the runs that notices are about. */
export interface Told {
  readonly url: string;
  readonly runs: readonly string[];
  close(): Promise<void>;
}

export async function startTold(): Promise<Told> {
  const runs: string[] = [];
  const server = createServer((incoming, response) => {
    void (async () => {
      const body = await buffer(incoming);
      const { notices = [] } = JSON.parse(body.toString()) as { notices?: { run?: string }[] };
      runs.push(...notices.flatMap(({ run }) => run ?? []));
      response.writeHead(204).end();
    })();
  });
  const open = track(server);
  const port = await listen(server);
  return { url: `http://127.0.0.1:${port}/notices`, runs, close: () => stop(server, open) };
}
