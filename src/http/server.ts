import type { IncomingMessage, RequestListener, Server } from "node:http";
import type { Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import { UnavailableError } from "#errors.ts";
import { healthRoutes } from "#wire/routes.ts";
import { HttpError } from "./answers.ts";
import { Connections, mostConnections, openFilesLimit } from "./connections.ts";
import { beginExchange, createAddressOf, pathOf } from "./exchange.ts";
import { serverTls, withoutSchemas } from "./listening.ts";
import { isFromOtherSite, otherSite } from "./sites.ts";

// `import` evaluates every export of these modules, which loads Node's WebSocket and fetch: 8 MB.
const { createServer: createPlainServer } = process.getBuiltinModule("node:http");
const { createServer: createTlsServer } = process.getBuiltinModule("node:https");

export interface EndedRequest {
  readonly method: string;
  /** The template of its path, `/ts_dataservice/v1/public/loads/:cycle_id`; absent where no route has the path. */
  readonly route?: string | undefined;
  /** Absent when the client went before there was an answer. */
  readonly status?: number | undefined;
  /** Until the last byte of the answer was sent. */
  readonly seconds: number;
}

export interface ServerOptions {
  /** Certificate and key in PEM form; absent: plain HTTP. */
  readonly tls?: { readonly cert: string; readonly key: string } | undefined;
  /** Addresses and networks of proxies whose `X-Forwarded-For` counts. Default: none. */
  readonly trustedProxies?: readonly string[] | undefined;
  /** Tracks the handling of every request until its answer is out, even after its client has disconnected. */
  readonly work: Work;
  /** Makes the answer to a request an error. @returns its body */
  readonly answerError: (thrown: unknown, request: FastifyRequest, reply: FastifyReply) => unknown;
  /** The last look at every answer. @returns its body as it is sent */
  readonly finish?: ((body: unknown, request: FastifyRequest, reply: FastifyReply) => unknown) | undefined;
  readonly log: Logger;
  readonly observe?: ((ended: EndedRequest) => void) | undefined;
  /** The most connections at a time. Default: as many as the system's limit on open files allows. */
  readonly connections?: number | undefined;
  /** How long a connection may stall while data is expected, in milliseconds. Default: 2 min. */
  readonly stall?: number;
}

const healthPaths = new Set<string | undefined>(Object.values(healthRoutes).map((route) => route.path));

/** The one HTTP application, without routes: bounded connections, graceful ends, and a log line for every request. */
export async function createServer(options: ServerOptions): Promise<FastifyInstance> {
  const { trustedProxies = [], work, log, answerError, observe = () => undefined } = options;
  const { connections: most = mostConnections(openFilesLimit()) } = options;
  const { fastify } = await import("fastify");
  const addressOf = createAddressOf(trustedProxies);
  const begin = (request: FastifyRequest, reply: FastifyReply): void => {
    beginExchange(request, addressOf);
    watch(request, reply, log, observe);
  };
  const finish = (body: unknown, request: FastifyRequest, reply: FastifyReply): unknown => {
    if (work.isStopping) reply.header("connection", "close");
    if (!request.raw.complete) lingerFor(request.raw);
    if (!reply.hasHeader("cache-control")) reply.header("cache-control", "no-store");
    reply.header("x-content-type-options", "nosniff");
    return options.finish === undefined ? body : options.finish(body, request, reply);
  };
  const app = fastify({
    ...withoutSchemas,
    serverFactory: (handler) => listenerOf(options, handler),
    frameworkErrors: (error, request, reply) => {
      // Fastify runs no hooks for these.
      begin(request, reply);
      const answer: FastifyReply = reply;
      answer.send(finish(answerError(error, request, reply), request, reply));
    },
    clientErrorHandler: (error, socket) => {
      answerUnreadable(error, socket, log);
    },
    return503OnClosing: false,
    // Routes answer ids of any length themselves (A.9); Node's limit on headers applies before this one.
    routerOptions: { maxParamLength: 65_536 },
    exposeHeadRoutes: false,
  });
  const connections = new Connections(app.server, most);
  app.addHook("preClose", (done) => {
    connections.closeUnused();
    done();
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, _body, done) => {
    done(null);
  });
  app.addHook("onRoute", (route) => {
    const { handler } = route;
    route.handler = function tracked(request, reply) {
      return work.track(Promise.resolve(handler.call(this, request, reply)));
    };
  });
  app.addHook("onRequest", (request, reply, done) => {
    begin(request, reply);
    const isHealth = healthPaths.has(request.routeOptions.url);
    if (work.isStopping && !isHealth) done(new HttpError(503, ["This server is stopping."]));
    else if (!isHealth && connections.isSurplus(request.raw)) done(tooManyConnections(most));
    else done(isFromOtherSite(request.raw, publicOriginOf(request)) ? new HttpError(403, [otherSite]) : undefined);
  });
  app.addHook("onSend", (request, reply, payload, done) => {
    done(null, finish(payload, request, reply));
  });
  app.setErrorHandler((thrown, request, reply) => reply.send(answerError(thrown, request, reply)));
  app.setNotFoundHandler((request, reply) => {
    const none = new HttpError(404, [`There is no ${request.method} ${pathOf(request)} here.`]);
    return reply.send(answerError(none, request, reply));
  });
  return app;
}

/** Where browsers reach the route, if its owner knows. */
function publicOriginOf({ routeOptions }: FastifyRequest): string | undefined {
  const { publicOrigin } = (routeOptions.config ?? {}) as { readonly publicOrigin?: string };
  return publicOrigin;
}

function listenerOf({ tls, stall = 120_000 }: ServerOptions, handler: RequestListener): Server {
  // A body may take any time as long as it keeps moving; a header may not.
  const limits = { headersTimeout: 20_000, requestTimeout: 0, keepAliveTimeout: 72_000 };
  const server =
    tls === undefined
      ? createPlainServer(limits, handler)
      : createTlsServer({ ...limits, ...serverTls, ...tls, allowHalfOpen: true, handshakeTimeout }, handler);
  server.setTimeout(stall);
  // A client that has sent everything may close its side and wait; `watch` finds out whether it still does.
  Object.assign(server, { httpAllowHalfOpen: true });
  return server;
}

/** Answers what Node.js cannot read as a request, and so has no path, in plain text (A.25). */
function answerUnreadable(error: Error & { code?: string }, socket: Socket, log: Logger): void {
  if (error.code === "ECONNRESET" || socket.destroyed) return;
  // The error itself has what was received, cookies among it.
  log.debug(`a request could not be read: ${error.message}`);
  const [status, body] = unreadable[error.code ?? ""] ?? ["400 Bad Request", "This is not a valid HTTP/1.1 request."];
  const head = `content-type: text/plain; charset=utf-8\r\ncontent-length: ${body.length}\r\nconnection: close`;
  if (socket.writable) socket.write(`HTTP/1.1 ${status}\r\n${head}\r\n\r\n${body}`);
  socket.destroy(error);
}

const unreadable: Readonly<Record<string, readonly [status: string, body: string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: ["408 Request Timeout", "The headers of the request did not arrive in time."],
  HPE_HEADER_OVERFLOW: ["431 Request Header Fields Too Large", "The headers of the request are larger than 16 KiB."],
};

function tooManyConnections(most: number): HttpError {
  return new HttpError(
    503,
    [`This server has as many connections as its limit on open files allows: ${most}. Try again when there are fewer.`],
    { headers: { "retry-after": "5", connection: "close" } },
  );
}

/**
 * Logs the request when it is over, without anything that may
 * be secret: no query, no headers, no body. Ends stalled ones.
 */
function watch(
  request: FastifyRequest,
  reply: FastifyReply,
  log: Logger,
  observe: (ended: EndedRequest) => void,
): void {
  const { raw } = reply;
  raw.once("close", () => {
    const { incident, address, started } = request.exchange;
    const { method } = request;
    const milliseconds = performance.now() - started;
    const status = raw.headersSent ? raw.statusCode : undefined;
    const details = {
      incident,
      address,
      method,
      path: pathOf(request),
      status,
      milliseconds: Math.round(milliseconds),
    };
    const route = request.routeOptions?.url;
    observe({ method, route, status, seconds: milliseconds / 1000 });
    if (raw.writableFinished) log.debug(details, "request");
    // What has arrived is worked on, whether or not its client waits. What has not is lost.
    else log[request.raw.complete ? "debug" : "warn"](details, "request broken off");
  });
  // The rest of an unread body is read and dropped: a client that sends everything first still gets its answer.
  raw.once("finish", () => request.raw.resume());
  askWhetherThere(request, reply);
  // While the answer is being computed, the connection may be idle.
  raw.on("timeout", () => {
    if (!request.raw.complete || raw.headersSent) request.raw.socket.destroy();
  });
}

/**
 * How long after a client has closed its side it is asked whether it is there, and then until each next time, in milliseconds; the last
 * is for all that follow. One that has gone is found out the second time: by then the reset that answers the first one has arrived.
 */
const askPauses: readonly number[] = [500, 250, 2_000];

/**
 * A client that has gone and one that has only closed its side of the connection look the same until something is sent:
 * the one that has gone resets the connection. So an interim answer is sent, which clients of HTTP/1.1 pass over.
 */
function askWhetherThere(request: FastifyRequest, { raw }: FastifyReply): void {
  const { socket, httpVersion } = request.raw;
  let timer: NodeJS.Timeout | undefined;
  const ask = (time: number): void => {
    timer = setTimeout(
      () => {
        if (!raw.headersSent) raw.writeProcessing();
        ask(time + 1);
      },
      askPauses[time] ?? askPauses.at(-1),
    );
  };
  if (httpVersion === "1.0") return;
  const begin = (): void => {
    ask(0);
  };
  const underWay = whenClosed.get(socket) ?? listenToEnd(socket);
  underWay.add(begin);
  raw.once("close", () => {
    underWay.delete(begin);
    clearTimeout(timer);
  });
}

/** What to do when a client closes its side. It may have sent many requests before the first is answered. */
const whenClosed = new WeakMap<Socket, Set<() => void>>();

function listenToEnd(socket: Socket): Set<() => void> {
  const underWay = new Set<() => void>();
  whenClosed.set(socket, underWay);
  socket.once("end", () => {
    for (const begin of underWay) begin();
  });
  return underWay;
}

/**
 * Closes the connection gracefully when an answer goes out while the client is still sending and expects the connection
 * to end (`Connection: close`, HTTP/1.0). Node would destroy the socket after the answer; unread data then makes the
 * system reset the connection, and the client sees the reset instead of the answer. So only our side is closed, and the
 * rest of the request is read and dropped.
 */
function lingerFor(request: IncomingMessage): void {
  const { socket } = request;
  const asBefore = (): boolean => Reflect.deleteProperty(socket, "destroySoon");
  socket.destroySoon = () => {
    asBefore();
    if (request.complete || request.destroyed) {
      socket.destroySoon();
      return;
    }
    socket.end();
    request.once("end", () => {
      socket.destroySoon();
    });
    request.resume();
  };
  request.once("close", asBefore);
}

/** How long requests that were cut off may then take to undo what they began, in milliseconds. */
const undoTime = 2_000;

/** The requests in flight. Their handling goes on after their clients have disconnected. */
export class Work {
  readonly #controller = new AbortController();
  readonly #underWay = new Set<Promise<unknown>>();

  /** New requests are refused. */
  isStopping = false;
  /** Aborted when the service stops waiting for requests. */
  readonly shutdown: AbortSignal = this.#controller.signal;

  async track<Result>(work: Promise<Result>): Promise<Result> {
    this.#underWay.add(work);
    try {
      return await work;
    } finally {
      this.#underWay.delete(work);
    }
  }

  abort(): void {
    this.#controller.abort(new UnavailableError("the service is stopping"));
  }

  /** Resolves when none is in flight. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#underWay);
  }
}

/**
 * How long TLS may take to begin, in milliseconds. Whoever leaves before is not noticed earlier, since half-closed
 * connections stay open.
 */
const handshakeTimeout = 20_000;

/**
 * Stops listening, waits for the requests in flight, and cuts off those that take too long (0.9).
 * @param grace how long they may take, in milliseconds
 */
export async function closeServer(app: FastifyInstance, work: Work, grace: number): Promise<void> {
  work.isStopping = true;
  // A connection whose last answer was already on its way when the stop began would otherwise stay open.
  const idle = setInterval(() => {
    app.server.closeIdleConnections();
  }, 50);
  const cutOff = setTimeout(() => {
    work.abort();
    app.server.closeAllConnections();
  }, grace);
  await app.close();
  clearInterval(idle);
  clearTimeout(cutOff);
  await Promise.race([work.settled(), delay(undoTime, undefined, { ref: false })]);
}
