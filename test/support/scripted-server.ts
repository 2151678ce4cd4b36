import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import type { IncomingHttpHeaders, IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { AddressInfo, Server, Socket } from "node:net";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";

/** A request with the part of its body that was read. */
export interface Arrived {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** What the server does with one request. The body has been read unless the behaviour is `unread`. */
export type Behaviour = (response: ServerResponse, request: IncomingMessage) => void | Promise<void>;

export interface ScriptedServer {
  readonly url: string;
  readonly arrived: readonly Arrived[];
  /** The requests to this path, by its last two segments: `user/list`. */
  to(path: string): readonly Arrived[];
  /** Connections that are open now. */
  readonly open: ReadonlySet<Socket>;
  close(): Promise<void>;
}

/** Runs a behaviour before the body is read. */
export function unread(behaviour: Behaviour): Behaviour {
  return Object.assign((...args: Parameters<Behaviour>) => behaviour(...args), { unread: true });
}

/** Answers with this status and body. */
export function answer(status: number, body: string | Buffer = "", headers: Record<string, string> = {}): Behaviour {
  return (response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(body);
  };
}

/** Answers with a packed body that goes on until the client has had enough: `start`, then the filling again and again. */
export function bomb(filling: string, start = "", headers: Record<string, string> = {}): Behaviour {
  return async (response) => {
    response.writeHead(200, { "content-type": "application/json", "content-encoding": "gzip", ...headers });
    const piece = Buffer.from(filling.repeat(Math.ceil(2 ** 20 / filling.length)));
    const pieces = function* pieces(): Generator<Buffer> {
      yield Buffer.from(start);
      for (let left = 4096; left > 0; left--) yield piece;
    };
    await pipeline(Readable.from(pieces(), { objectMode: false }), createGzip(), response).catch(() => undefined);
  };
}

export const loggedIn: Behaviour = (response) => {
  response.writeHead(204, { "set-cookie": "JSESSIONID=s3ss10n; Path=/; HttpOnly; SameSite=Lax" }).end();
};

/**
 * An HTTP server that follows a script: for each path a list of behaviours, one per request, the last one repeated. Login
 * and logout succeed unless the script has other behaviours for them.
 */
export async function startScripted(
  script: Readonly<Record<string, Behaviour | readonly Behaviour[]>>,
  tls?: { readonly key: string; readonly cert: string },
): Promise<ScriptedServer> {
  const arrived: Arrived[] = [];
  const turns = new Map<string, Behaviour[]>(
    Object.entries({ "session/login": loggedIn, "session/logout": answer(204), ...script }).map(
      ([path, behaviours]) => [path, [behaviours].flat()],
    ),
  );
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const path = request.url ?? "";
    const turn = turns.get(lastSegments(path));
    const behaviour = (turn !== undefined && turn.length > 1 ? turn.shift() : turn?.[0]) ?? answer(404);
    const wanted = { method: request.method ?? "", path, headers: request.headers };
    if ("unread" in behaviour) {
      arrived.push({ ...wanted, body: Buffer.alloc(0) });
    } else {
      arrived.push({ ...wanted, body: await buffer(request) });
    }
    await behaviour(response, request);
  };
  const listener: RequestListener = (request, response) => {
    serve(request, response).catch(() => {
      response.destroy();
    });
  };
  const server: Server = tls === undefined ? createHttpServer(listener) : createHttpsServer(tls, listener);
  const open = track(server);
  const port = await listen(server);
  return {
    url: `${tls === undefined ? "http" : "https"}://127.0.0.1:${port}`,
    arrived,
    to: (path) => arrived.filter((request) => lastSegments(request.path) === path),
    open,
    close: () => stop(server, open),
  };
}

/** Makes a server listen on this machine alone. @returns its port, which the system chooses */
export async function listen(server: Server): Promise<number> {
  await once(server.listen(0, "127.0.0.1"), "listening");
  return (server.address() as AddressInfo).port;
}

/** The open connections of a server. */
export function track(server: Server): ReadonlySet<Socket> {
  const open = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    open.add(socket);
    socket.on("error", () => undefined).once("close", () => open.delete(socket));
  });
  return open;
}

/** Stops a server at once. */
export async function stop(server: Server, open: ReadonlySet<Socket>): Promise<void> {
  const closed = once(server, "close");
  server.close();
  for (const socket of open) socket.destroy();
  await closed;
}

function lastSegments(path: string): string {
  return path.replace(/\?.*$/, "").split("/").slice(-2).join("/");
}
