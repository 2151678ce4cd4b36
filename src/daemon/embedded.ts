import { connect } from "node:net";
import type { Logger } from "pino";
import type { Composition, RunningService, ServiceStart } from "./composition.ts";
import { announce, dataFolderInUse, readPresence, refuseUnusable } from "./data-folder.ts";
import { lockHolder } from "#duckdb/database.ts";
import type { Configuration } from "#config/configuration.ts";
import { command } from "#commands.ts";
import { InputError, UnavailableError } from "#errors.ts";
import { createQueue } from "#queue.ts";
import { isAlive } from "#files/durable.ts";

/** How to reach the service of this data folder from this machine. */
export interface EmbeddedAccess {
  readonly url: string;
  /** A session of the built-in administrator. */
  readonly session: string;
  readonly administrator: string;
  /** The service's own certificate in PEM form, if it serves TLS. */
  readonly certificate?: string | undefined;
}

export interface EmbeddedOptions {
  readonly log: Logger;
  readonly mayStart: boolean;
  readonly announcePassword: (password: string) => void;
}

/** The embedded service: that of a running process, or one started for this command. */
export class EmbeddedService {
  readonly #configuration: Configuration;
  readonly #composition: Composition;
  readonly #options: EmbeddedOptions;
  readonly #turns = createQueue();
  #started: RunningService | undefined;
  #own: EmbeddedAccess | undefined;

  constructor(configuration: Configuration, composition: Composition, options: EmbeddedOptions) {
    this.#configuration = configuration;
    this.#composition = composition;
    this.#options = options;
  }

  /** Finds the service of the data folder, or starts it once. Ask each time: another process may have started or restarted it. */
  access(): Promise<EmbeddedAccess> {
    return this.#turns(() => this.#access());
  }

  async #access(): Promise<EmbeddedAccess> {
    if (this.#own !== undefined) return this.#own;
    const { service, data } = this.#configuration;
    const { log, mayStart, announcePassword } = this.#options;
    if (service === undefined) throw new InputError("the target `embedded` needs a `service:` in the configuration");
    const present = await runningService(data);
    const administrator = service.administrator.name;
    if (present !== undefined) {
      const { url, session, certificate } = present;
      return { url, session, administrator, certificate };
    }
    if (!mayStart) {
      throw new UnavailableError(
        `no service is running on the data folder ${data}; start it: \`${command("start", "--only", "service")}\``,
      );
    }
    await refuseUnusable(data);
    this.#started = await this.#composition.startService(this.#configuration, { log, private: true });
    const { url, generatedPassword } = this.#started;
    if (generatedPassword !== undefined) announcePassword(generatedPassword);
    this.#own = { url, session: await this.#started.openLocalSession(), administrator };
    return this.#own;
  }

  /** Stops what `access` started. */
  async close(): Promise<void> {
    await this.#started?.stop();
  }
}

/** How others ask for it. */
export type Embedded = Pick<EmbeddedService, "access" | "close">;

/** The service that runs on a data folder; undefined: none does. */
export async function runningService(data: string): ReturnType<typeof readPresence> {
  const present = await readPresence(data);
  return present !== undefined && isAlive(present.pid) && (await listens(present.url)) ? present : undefined;
}

/** Whether anything listens there: a killed process may have left its file behind. */
function listens(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect({ host: hostname.replace(/^\[|\]$/g, ""), port: Number(port), timeout: 2000 });
    const settle = (result: boolean) => (): void => {
      socket.destroy();
      resolve(result);
    };
    socket.once("connect", settle(true)).once("error", settle(false)).once("timeout", settle(false));
  });
}

/**
 * Starts the service of a configuration for everybody, and tells other processes on this machine where it is.
 * @throws {InputError} when another process uses the data folder
 */
export async function startAnnounced(
  configuration: Configuration,
  composition: Pick<Composition, "startService">,
  options: Omit<ServiceStart, "private">,
): Promise<RunningService> {
  const { data } = configuration;
  await refuseUnusable(data);
  const service = await composition
    .startService(configuration, { private: false, ...options })
    .catch(async (error: unknown) => {
      throw lockHolder(error) === undefined ? error : await dataFolderInUse(data, error);
    });
  const session = await service.openLocalSession();
  const { url, certificate } = service;
  const startedAt = new Date().toISOString();
  await announce(data, {
    pid: process.pid,
    url,
    startedAt,
    session,
    ...(certificate !== undefined && { certificate }),
  });
  options.log.info({ url: service.url }, `the service is listening on ${service.url}`);
  return service;
}
