import { readFile } from "node:fs/promises";
import { connect } from "node:net";
import type { Logger } from "pino";
import type { BegunService, Composition, RunningService, ServiceStart } from "./composition.ts";
import { announce, dataFolderInUse, readPresence, refuseForeignFolder } from "./data-folder.ts";
import { lockHolder } from "#duckdb/database.ts";
import type { Configuration } from "#config/configuration.ts";
import { command } from "#commands.ts";
import { InputError, UnavailableError } from "#errors.ts";
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

/** The embedded service: that of a running process, or one started for this command. */
export interface Embedded {
  /** Ask each time: another process may have started or restarted it. */
  access(): Promise<EmbeddedAccess>;
  /** Stops what `access` started. */
  close(): Promise<void>;
}

/** Finds the service of the configuration's data folder, or starts it once. */
export function openEmbedded(
  configuration: Configuration,
  composition: Composition,
  options: { log: Logger; mayStart: boolean; announcePassword: (password: string) => void },
): Embedded {
  let started: RunningService | undefined;
  let own: EmbeddedAccess | undefined;
  const access = async (): Promise<EmbeddedAccess> => {
    if (own !== undefined) return own;
    const { service } = configuration;
    if (service === undefined) throw new InputError("the target `embedded` needs a `service:` in the configuration");
    const present = await readPresence(configuration.data);
    if (present !== undefined && isAlive(present.pid) && (await listens(present.url))) {
      const certificate = service.tls === undefined ? undefined : await readFile(service.tls.cert, "utf8");
      return { url: present.url, session: present.session, administrator: service.administrator.name, certificate };
    }
    if (!options.mayStart) {
      throw new UnavailableError(
        `no service is running on the data folder ${configuration.data}; start it: \`${command("start", "--only", "service")}\``,
      );
    }
    await refuseForeignFolder(configuration.data);
    started = await composition.startService(configuration, { log: options.log, private: true });
    if (started.generatedPassword !== undefined) options.announcePassword(started.generatedPassword);
    own = {
      url: started.url,
      session: await started.openLocalSession(),
      administrator: service.administrator.name,
    };
    return own;
  };
  return {
    access,
    close: async () => {
      await started?.stop();
    },
  };
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
  begun: BegunService,
  options: Omit<ServiceStart, "private">,
): Promise<RunningService> {
  const { data } = configuration;
  await refuseForeignFolder(data);
  const service = await begun.start(configuration, { private: false, ...options }).catch(async (error: unknown) => {
    throw lockHolder(error) === undefined ? error : await dataFolderInUse(data, error);
  });
  const session = await service.openLocalSession();
  await announce(data, { pid: process.pid, url: service.url, startedAt: new Date().toISOString(), session });
  options.log.info({ url: service.url }, `the service is listening on ${service.url}`);
  return service;
}
