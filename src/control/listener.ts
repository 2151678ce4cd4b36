import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";
import type { Logger } from "pino";
import { addHealthRoutes } from "#http/health-routes.ts";
import type { Probe } from "#http/health-routes.ts";
import { addressToListenOn, listenError, localUrl } from "#http/listening.ts";
import { closeServer, createServer, Work } from "#http/server.ts";
import type { Host } from "./access.ts";
import { answerOf } from "./answers.ts";

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
  readonly probes: readonly Probe[];
  readonly isStopping: () => boolean;
  readonly log: Logger;
  readonly routes: (app: FastifyInstance, host: Host) => void;
}

/** How long open requests may take to end, in milliseconds. */
const grace = 2000;

/**
 * Serves the daemon's API, `/healthz` and `/readyz`. There are no sessions here; the API needs the token.
 * @throws {InputError} when the address is not valid, not loopback, or in use
 */
export async function startControlListener(options: ControlListenerOptions): Promise<ControlListener> {
  const { listen, isStopping, probes, log, routes } = options;
  const host = await addressToListenOn(options, "control");
  const work = new Work();
  const app = await createServer({
    work,
    log,
    answerError: (thrown, _request, reply) => {
      const { status, headers, document } = answerOf(thrown);
      reply.code(status).headers(headers);
      return document;
    },
  });
  addHealthRoutes(app, { isStopping, probes });
  routes(app, {});
  await app.listen({ host, port: listen.port }).catch((error: unknown) => {
    throw listenError(error, host, listen.port, "control");
  });
  const { port } = app.server.address() as AddressInfo;
  let stopped: Promise<void> | undefined;
  return {
    url: localUrl("http", host, port),
    stop: () => {
      stopped ??= closeServer(app, work, grace);
      return stopped;
    },
  };
}
