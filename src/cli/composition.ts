import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import type { Configuration } from "#config/configuration.ts";
import type { BuiltInConnector, Connector } from "#connector.ts";
import type { Metrics } from "#control/metrics/metrics.ts";

/** What routes beside the interface's ask of the service that they are on. */
export interface RouteHost {
  /** The administrator whose session the request has, and the client's address. Throws what is then answered. */
  administrator(request: FastifyRequest): Promise<{ readonly name: string; readonly address: string }>;
  /** The content type as it was sent: the framework does not see it. */
  contentType(request: FastifyRequest): string | undefined;
}

/** What the commands need that only the composition root may import. */
export interface Composition {
  /** Rollcall's. */
  readonly version: string;
  /** The built-in connectors. */
  readonly connectors: readonly BuiltInConnector[];
  /** Loads a connector of the user's own from a module path. */
  loadConnector(path: string, folder: string): Promise<Connector>;
  /** Starts the embedded service of a configuration that has one. */
  startService(configuration: Configuration, options: ServiceStart): Promise<RunningService>;
}

export interface ServiceStart {
  readonly log: Logger;
  /** True: on a free port of the loopback address without TLS, for one command alone. */
  readonly private: boolean;
  /** Is told of what it serves. */
  readonly observe?: Pick<Metrics, "request" | "load">;
  /** What else must be well for it to be ready: each says for a person what is not. */
  readonly probes?: readonly (() => string | undefined | Promise<string | undefined>)[];
  /** Adds routes beside the interface's. */
  readonly routes?: (app: FastifyInstance, host: RouteHost) => void;
}

export interface RunningService {
  /** Where clients on this machine reach it. */
  readonly url: string;
  /** The administrator's password, at the first start only, when the configuration has none. */
  readonly generatedPassword?: string;
  /** The cookie value of a session of the administrator that ends with the process. */
  openLocalSession(): Promise<string>;
  /** Reads the pinboards again. @returns what is wrong with them; then those from before stay */
  reload(): Promise<readonly string[]>;
  /** What it has right now. */
  figures(): { readonly sessions: number; readonly cycles: number };
  stop(): Promise<void>;
}
