import type { IncomingMessage, RequestListener, Server } from "node:http";
import type { Socket } from "node:net";
import { pipeline, Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { constants, createGzip, gzipSync } from "node:zlib";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import { serverTls, withoutSchemas } from "#http/listening.ts";
import { messageOf, UnavailableError } from "#errors.ts";
import { isFromOtherSite, otherSite } from "#http/sites.ts";
import { serviceHeaders } from "#wire/errors.ts";
import { healthRoutes } from "#wire/routes.ts";
import { HttpError, httpErrorOf, json, turnIntoError } from "./answers.ts";
import { Connections, mostConnections, openFilesLimit } from "./connections.ts";
import { beginExchange, createAddressOf, pathOf, plainAddress } from "./request.ts";

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
  /** Those of family B (0.2). */
  readonly prefixes: readonly string[];
  /** Addresses and networks of proxies whose `X-Forwarded-For` counts. Default: none. */
  readonly trustedProxies?: readonly string[] | undefined;
  readonly isStopping: () => boolean;
  /** Tracks the handling of every request until its answer is out, even after its client has disconnected. */
  readonly track: (work: Promise<unknown>) => Promise<unknown>;
  readonly log: Logger;
  readonly observe?: ((ended: EndedRequest) => void) | undefined;
  /** The most connections at a time. Default: as many as the system's limit on open files allows. */
  readonly connections?: number | undefined;
  /** How long a connection may stall while data is expected, in milliseconds. Default: 2 min. */
  readonly stall?: number;
}

const healthPaths = new Set<string | undefined>(Object.values(healthRoutes).map((route) => route.path));

/** Creates a server without routes. It adds what all answers have in common (B.10, A.25, B.1). */
export async function createServer(options: ServerOptions): Promise<FastifyInstance> {
  const { prefixes, trustedProxies = [], isStopping, track, log, observe = () => undefined } = options;
  const { connections: most = mostConnections(openFilesLimit()) } = options;
  // Loaded while the process of the databases starts.
  const [{ fastify }, { default: cookie }] = await Promise.all([import("fastify"), import("@fastify/cookie")]);
  const exchanges = { prefixes, addressOf: createAddressOf(trustedProxies) };
  const begin = (request: FastifyRequest, reply: FastifyReply): void => {
    beginExchange(request, exchanges);
    watch(request, reply, log, observe);
  };
  const app = fastify({
    ...withoutSchemas,
    serverFactory: (handler) => listenerOf(options, handler),
    frameworkErrors: (error, request, reply) => {
      // Fastify runs no hooks for these.
      begin(request, reply);
      const body = turnIntoError(request, reply, httpErrorOf(error, request.exchange.incident));
      addHeaders(request, reply);
      lingerFor(request.raw);
      const answer: FastifyReply = reply;
      answer.send(compressed(request, reply, body, log));
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
  await app.register(cookie);
  app.addHook("onRoute", (route) => {
    const { handler } = route;
    route.handler = function tracked(request, reply) {
      return track(Promise.resolve(handler.call(this, request, reply)));
    };
  });
  app.addHook("onRequest", (request, reply, done) => {
    begin(request, reply);
    const isHealth = healthPaths.has(request.routeOptions.url);
    if (isStopping() && !isHealth) done(new HttpError(503, ["The service is stopping."]));
    else if (!isHealth && connections.isSurplus(request.raw)) done(tooManyConnections(most));
    else done(isFromOtherSite(request.raw) ? new HttpError(403, [otherSite]) : undefined);
  });
  app.addHook("onSend", (request, reply, payload, done) => {
    if (isStopping()) reply.header("connection", "close");
    if (!request.raw.complete) lingerFor(request.raw);
    addHeaders(request, reply);
    done(null, compressed(request, reply, payload, log));
  });
  answerErrors(app, log);
  return app;
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

function answerErrors(app: FastifyInstance, log: Logger): void {
  app.setErrorHandler((thrown, request, reply) => {
    const error = httpErrorOf(thrown, request.exchange.incident);
    if (error.status >= 500 && error.cause !== undefined) {
      // A client that has disconnected is usually the whole cause.
      const level = reply.raw.closed || request.raw.errored !== null ? "info" : "error";
      log[level]({ err: error.cause, incident: request.exchange.incident }, messageOf(error.cause));
    }
    return reply.send(turnIntoError(request, reply, error));
  });
  app.setNotFoundHandler((request, reply) =>
    reply.send(
      turnIntoError(request, reply, new HttpError(404, [`There is no ${request.method} ${pathOf(request)} here.`])),
    ),
  );
}

function tooManyConnections(most: number): HttpError {
  return new HttpError(
    503,
    [`The service has as many connections as its limit on open files allows: ${most}. Try again when there are fewer.`],
    { headers: { "retry-after": "5", connection: "close" } },
  );
}

/** The headers of every answer, and those of family B (B.10). */
function addHeaders(request: FastifyRequest, reply: FastifyReply): void {
  const { family, incident, trace, started } = request.exchange;
  if (!reply.hasHeader("cache-control")) reply.header("cache-control", "no-store");
  reply.header("x-content-type-options", "nosniff");
  if (family !== "administration") return;
  reply.headers({
    "cache-control": "no-cache, no-store, max-age=0, must-revalidate",
    pragma: "no-cache",
    [serviceHeaders.incident]: incident,
    [serviceHeaders.trace]: trace,
    [serviceHeaders.time]: Math.ceil((performance.now() - started) * 1000),
    [serviceHeaders.address]: plainAddress(request.raw.socket.localAddress),
  });
}

/** The body as it is sent: family B compresses JSON for clients that accept gzip (B.10). */
function compressed(request: FastifyRequest, reply: FastifyReply, body: unknown, log: Logger): unknown {
  const onError = (error: Error & { code?: string }): void => {
    // The client disconnected; `watch` logs that.
    if (error.code === "ERR_STREAM_PREMATURE_CLOSE") return;
    log.warn({ err: error, incident: request.exchange.incident }, `an answer broke off: ${messageOf(error)}`);
  };
  if (request.exchange.family !== "administration" || reply.getHeader("content-type") !== json) return body;
  reply.header("vary", "accept-encoding");
  const accepted = acceptsGzip(request.headers["accept-encoding"]);
  if (accepted) reply.header("content-encoding", "gzip");
  if (body instanceof Readable) return accepted ? gzipStream(body, onError) : body.once("error", onError);
  return accepted && body instanceof Uint8Array ? gzipBytes(body) : body;
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
    if (!raw.writableFinished) log.info(details, "request broken off");
    else {
      // What Rollcall asks itself says nothing about what others do.
      const isRoutine = healthPaths.has(details.path) || (request.exchange.isOwn === true && raw.statusCode < 400);
      log[isRoutine ? "debug" : "info"](details, "request");
    }
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
const askPauses: readonly number[] = [1_000, 250, 2_000];

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

/** CPU time is worth more than the last percent of compression. */
const gzipOptions = { level: constants.Z_BEST_SPEED };

/**
 * Whether the client accepts gzip, even if it prefers something else
 * (B.10). `*` stands for every coding not named (RFC 9110, 12.5.3).
 */
export function acceptsGzip(header: string | undefined): boolean {
  const weights = new Map<string, number>();
  for (const part of (header ?? "").toLowerCase().split(",")) {
    const [coding = "", ...parameters] = part.split(";").map((piece) => piece.trim());
    const weight = parameters.find((parameter) => /^q\s*=/.test(parameter));
    weights.set(coding, weight === undefined ? 1 : Number(weight.slice(weight.indexOf("=") + 1)));
  }
  const weight = weights.get("gzip") ?? weights.get("x-gzip") ?? weights.get("*") ?? 0;
  return weight > 0;
}

/** Compresses a small body. */
function gzipBytes(body: Uint8Array): Buffer {
  return gzipSync(body, gzipOptions);
}

/** Compresses a stream as it flows. When either end breaks off, the other is destroyed. */
function gzipStream(body: Readable, onError: (error: Error) => void): Readable {
  return pipeline(body, createGzip(gzipOptions), (error) => {
    if (error) onError(error);
  });
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

/** How long requests in flight may take to finish, in milliseconds (0.9). */
const graceTime = 10_000;

/** How long requests that were cut off may then take to undo what they began, in milliseconds. */
const undoTime = 2_000;

/** The requests in flight. Their handling goes on after their clients have disconnected. */
export class Work {
  readonly #controller = new AbortController();
  readonly #underWay = new Set<Promise<unknown>>();

  /** New requests are refused. */
  isStopping = false;
  /** Aborted when the service stops waiting for requests. */
  readonly shutdown = this.#controller.signal;

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

/** Stops listening, waits for the requests in flight, and cuts off those that take too long (0.9). */
export async function closeServer(app: FastifyInstance, work: Work): Promise<void> {
  // A connection whose last answer was already on its way when the stop began would otherwise stay open.
  const idle = setInterval(() => {
    app.server.closeIdleConnections();
  }, 50);
  const cutOff = setTimeout(() => {
    work.abort();
    app.server.closeAllConnections();
  }, graceTime);
  await app.close();
  clearInterval(idle);
  clearTimeout(cutOff);
  await Promise.race([work.settled(), delay(undoTime, undefined, { ref: false })]);
}
