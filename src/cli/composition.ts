import type { Logger } from "pino";
import type { Configuration } from "#config/configuration.ts";
import type { Connector } from "#connector.ts";

/** What the commands need that only the composition root may import. */
export interface Composition {
  /** The built-in connectors. */
  readonly connectors: readonly Connector[];
  /** Loads a connector of the user's own from a module path. */
  loadConnector(path: string, folder: string): Promise<Connector>;
  /** Starts the embedded service of a configuration that has one. */
  startService(configuration: Configuration, options: ServiceStart): Promise<RunningService>;
}

export interface ServiceStart {
  readonly log: Logger;
  /** True: on a free port of the loopback address without TLS, for one command alone. */
  readonly private: boolean;
}

export interface RunningService {
  /** Where clients on this machine reach it. */
  readonly url: string;
  /** The administrator's password, at the first start only, when the configuration has none. */
  readonly generatedPassword?: string;
  /** The cookie value of a session of the administrator that ends with the process. */
  openLocalSession(): Promise<string>;
  /** Reads again what can be read again while it runs: the pinboards. What is wrong with them is in the log. */
  reload(): Promise<void>;
  stop(): Promise<void>;
}
