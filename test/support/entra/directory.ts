import { createServer as createHttpServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { Server, Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { listen, stop, track } from "../scripted-server.ts";
import { Refusal } from "./answer.ts";
import type { Answer } from "./answer.ts";
import { Graph } from "./graph.ts";
import type { Faults } from "./graph.ts";
import type { Tenant } from "./tenant.ts";
import { Tokens } from "./tokens.ts";
import type { TokenOptions } from "./tokens.ts";

export interface EntraOptions extends TokenOptions {
  readonly tls?: { readonly key: string; readonly cert: string } | undefined;
}

export interface EntraDirectory {
  /** Where tokens are, and where Graph is. */
  readonly login: string;
  readonly graph: string;
  readonly tenant: Tenant;
  readonly faults: Faults;
  /** Of the app. */
  permissions: readonly string[];
  /** Paths and queries of Graph, in the order of the requests. */
  readonly requests: string[];
  /** How many tokens were issued. */
  readonly tokens: () => number;
  /** The header with the last token. */
  readonly authorization: () => string;
  /** All tokens end now. */
  readonly revoke: () => void;
  /** Connections that are open now. */
  readonly open: ReadonlySet<Socket>;
  /** Has delta queries say that something changed, or is gone. */
  readonly changed: (kind: "users" | "groups", id: string, reason?: "changed" | "deleted") => void;
  /** Sees every request of Graph first; true if it has answered. Stays until replaced. */
  intercept(answer: (request: IncomingMessage, response: ServerResponse) => boolean | Promise<boolean>): void;
  close(): Promise<void>;
}

/** Microsoft Entra ID and Graph v1.0, as far as a directory of users and groups goes, for one tenant and one app. */
export async function startEntra(tenant: Tenant, options: EntraOptions = {}): Promise<EntraDirectory> {
  const faults: Faults = {};
  const graph = new Graph(tenant, faults);
  const tokens = new Tokens(options, () => graph.origin);
  let interception: Parameters<EntraDirectory["intercept"]>[0] = () => false;
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? "/", graph.origin);
    if (!/^\/(?:v1\.0|beta)\//.test(url.pathname)) return send(response, await tokens.answer(request, url));
    graph.requests.push(decodeURIComponent(request.url ?? "").replaceAll("+", " "));
    if (faults.latency !== undefined) await sleep(faults.latency);
    if (await interception(request, response)) return;
    try {
      tokens.check(request.headers.authorization);
      send(response, graph.answer(url, request.headers));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      send(response, error.answer);
    }
  };
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    answer(request, response).catch((error: unknown) => response.destroy(error as Error));
  };
  const { tls } = options;
  const server: Server = tls === undefined ? createHttpServer(listener) : createHttpsServer(tls, listener);
  const open = track(server);
  graph.origin = `${tls === undefined ? "http" : "https"}://127.0.0.1:${await listen(server)}`;
  return {
    login: graph.origin,
    graph: graph.origin,
    tenant,
    faults,
    get permissions() {
      return graph.permissions;
    },
    set permissions(value) {
      graph.permissions = value;
      tokens.permissions = value;
    },
    requests: graph.requests,
    tokens: () => tokens.issued,
    authorization: () => `Bearer ${tokens.last}`,
    revoke: () => tokens.revoke(),
    open,
    changed: (kind, id, reason) => void graph.changes.push({ kind, id, reason }),
    intercept: (by) => {
      interception = by;
    },
    close: async () => {
      if (server.listening) await stop(server, open);
    },
  };
}

function send(response: ServerResponse, { status, body, headers }: Answer): void {
  const isText = typeof body === "string";
  response.writeHead(status, { "content-type": isText ? "text/plain" : "application/json", ...headers });
  response.end(isText ? body : JSON.stringify(body));
}
