import type { FastifyInstance } from "fastify";
import type { Logger } from "pino";
import type { Configuration } from "#config/configuration.ts";
import type { BuiltInConnector, BuiltInTargetConnector, Connector, InboxHost, TargetConnector } from "#connector.ts";
import type { TableReader } from "#principals/lookup.ts";
import type { AddRoutes, Observer, Probe } from "#service/host.ts";

/** What the commands need that only `main.ts` may import. */
export interface Composition {
  /** Rollcall's. */
  readonly version: string;
  /** The built-in connectors. */
  readonly connectors: readonly BuiltInConnector[];
  /** Loads a user's own connector from a module path. */
  loadConnector(path: string, folder: string): Promise<Connector>;
  /** The built-in connectors of targets, besides the service. */
  readonly targetConnectors: readonly BuiltInTargetConnector[];
  /** As `loadConnector`, of a target. */
  loadTargetConnector(path: string, folder: string): Promise<TargetConnector>;
  /** Reads a table that rules look values up in. */
  readonly readTable: TableReader;
  /** Loads what adds the routes by which providers push to all inboxes of a configuration, whatever that is later. */
  loadInboxRoutes(): Promise<(app: FastifyInstance, host: InboxHost) => void>;
  /** As `copyToPostgres`: copies what the embedded service of a configuration has stored. */
  copyEngine(configuration: Configuration, copy: EngineCopy): Promise<void>;
  /** Starts the embedded service of a configuration that has one. */
  startService(configuration: Configuration, options: ServiceStart): Promise<RunningService>;
}

export interface EngineCopy {
  /** The database, as `service.engine.postgres`. */
  readonly url: string;
  /** A file of certificates, as `service.engine.sslrootcert`. */
  readonly sslrootcert?: string | undefined;
  /** Gets each part as soon as it is copied and compared. */
  readonly copied: (part: { readonly what: string; readonly rows: number; readonly digest: string }) => Promise<void>;
  readonly signal: AbortSignal;
}

export interface ServiceStart {
  readonly log: Logger;
  /** True: on a free port of the loopback address without TLS, for one command. */
  readonly private: boolean;
  /** Receives every request and load. */
  readonly observe?: Observer;
  /** Further conditions for being ready: each returns a problem for a person, or undefined. */
  readonly probes?: readonly Probe[];
  /** Adds routes to those of the interface. */
  readonly routes?: AddRoutes;
}

export interface RunningService {
  /** Where clients on this machine reach it. */
  readonly url: string;
  /** The administrator's password, at the first start only, if the configuration has none. */
  readonly generatedPassword?: string;
  /** The cookie value of a session of the administrator that ends with the process. */
  openLocalSession(): Promise<string>;
  /** The certificate that it serves, in PEM form; absent without TLS. */
  readonly certificate?: string | undefined;
  /** Reads the pinboards and the certificate again. @returns what is wrong with them; then the old ones stay */
  reload(): Promise<readonly string[]>;
  /** How many of each it has now. */
  figures(): { readonly sessions: number; readonly cycles: number };
  stop(): Promise<void>;
}

/** What the daemon calls the program with to try rules in a process of its own; nobody at a terminal does. */
export const trialArgument = "try-rules";
