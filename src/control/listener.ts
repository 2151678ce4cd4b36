import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";
import { addressToListenOn, listenError, localUrl, withoutSchemas } from "#http/listening.ts";
import { healthRoutes } from "#wire/routes.ts";
import type { Host } from "./access.ts";
import { Refusal, answerOf } from "./answers.ts";

export interface ControlListener {
  /** Where clients on this machine reach it, with the real port. */
  readonly url: string;
  /** Refuses new requests and ends open ones after a moment. May be called again. */
  stop(): Promise<void>;
}

/** The daemon's own listener, for a process without the service. */
export interface ControlListenerOptions {
  /** Port 0: any free one. */
  readonly listen: { readonly host: string; readonly port: number };
  /** Allow plain HTTP on an address that other machines can reach. */
  readonly allowPlainHttp: boolean;
  /** Each returns why the daemon is not ready, for a person; undefined: it is. */
  readonly probes: readonly (() => string | undefined | Promise<string | undefined>)[];
  readonly isStopping: () => boolean;
  readonly routes: (app: FastifyInstance, host: Host) => void;
}

/** How long open requests may take to end, in milliseconds. */
const grace = 2000;

/**
 * Serves the daemon's API, `/healthz` and `/readyz`. There are no sessions here; the API needs the token.
 * @throws {InputError} when the address is not valid, not loopback, or in use
 */
export async function startControlListener(options: ControlListenerOptions): Promise<ControlListener> {
  const { listen, isStopping, probes } = options;
  const host = await addressToListenOn(options, "control");
  // Loaded only here: a process with the service uses the service's server.
  const { fastify } = await import("fastify");
  const app = fastify({
    ...withoutSchemas,
    return503OnClosing: false,
    exposeHeadRoutes: false,
    http: { headersTimeout: 20_000 },
  });
  // A client that has sent everything may close its side and wait.
  Object.assign(app.server, { httpAllowHalfOpen: true });
  app.setErrorHandler((error, _request, reply) => {
    const { status, headers, document } = answerOf(error);
    return reply.code(status).headers(headers).send(document);
  });
  app.setNotFoundHandler(() => {
    throw new Refusal(404, "there is no such thing here");
  });
  app.route({
    method: ["GET", "HEAD"],
    url: healthRoutes.alive.path,
    handler: async () => ({ status: "alive" }),
  });
  app.route({
    method: ["GET", "HEAD"],
    url: healthRoutes.ready.path,
    handler: async (_request, reply) => {
      if (isStopping()) return reply.code(503).send({ status: "stopping" });
      const found = await Promise.all(probes.map(async (probe) => probe()));
      const reasons = found.filter((reason) => reason !== undefined);
      return reasons.length === 0 ? { status: "ready" } : reply.code(503).send({ status: "failing", reasons });
    },
  });
  options.routes(app, { contentType: (request) => request.headers["content-type"] });
  await app.listen({ host, port: listen.port }).catch((error: unknown) => {
    throw listenError(error, host, listen.port, "control");
  });
  const { port } = app.server.address() as AddressInfo;
  let stopped: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    const cutOff = setTimeout(() => {
      app.server.closeAllConnections();
    }, grace);
    await app.close();
    clearTimeout(cutOff);
  };
  return {
    url: localUrl("http", host, port),
    stop: () => {
      stopped ??= stop();
      return stopped;
    },
  };
}
