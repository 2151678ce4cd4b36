import { setTimeout as delay } from "node:timers/promises";
import { isatty } from "node:tty";
import type { Composition, RunningService, ServiceStart } from "#cli/composition.ts";
import { load, localActor, passwordNotice } from "#cli/context.ts";
import type { Voices } from "#cli/context.ts";
import { createDaemonApi } from "./api.ts";
import type { AddRoutes, DaemonApi } from "./api.ts";
import { startDaemon } from "./daemon.ts";
import type { Daemon } from "./daemon.ts";
import { createReload } from "./reload.ts";
import { announce, dataFolderInUse, holdLock, refuseForeignFolder, withdraw } from "#cli/data-folder.ts";
import type { Lock } from "#cli/data-folder.ts";
import { openEmbedded } from "#cli/embedded.ts";
import { exitCodes } from "#cli/output.ts";
import type { ExitCode } from "#cli/output.ts";
import { openRecords } from "#cli/records.ts";
import type { Records } from "#cli/records.ts";
import type { Configuration } from "#config/configuration.ts";
import type { Metrics } from "#control/metrics/metrics.ts";
import { lockHolder } from "#duckdb/database.ts";
import { InputError, messageOf } from "#errors.ts";
import type { Actor } from "#sync/record.ts";

export type Only = "service" | "daemon";

/** How long a run that applies is waited for before the service stops too, in milliseconds. */
const patience = 2000;

/** How long after the first signal everything must have ended (0.9), in milliseconds. */
const shutdownLimit = 14_000;

/** Who sends a signal is not known. */
const signaller: Actor = { name: "rollcall", from: "signal" };

/** `rollcall start`: the service and the daemon in this process, until SIGINT or SIGTERM. */
export async function start(
  file: string,
  composition: Composition,
  { only, ...voices }: Voices & { only?: Only },
): Promise<ExitCode> {
  const signals = listenToSignals();
  const configuration = await load(file, composition, voices).catch((error: unknown) => {
    signals.end();
    throw error;
  });
  const { output } = voices;
  const log = voices.log.logger;
  let lock: Lock | undefined;
  let records: Records | undefined;
  let service: RunningService | undefined;
  let daemon: Daemon | undefined;
  let api: DaemonApi | undefined;
  const metrics = await openMetrics(composition.version);
  const { addMetricsRoute } = await import("#control/metrics/route.ts");
  const probes = [() => overdueNotice(daemon)];
  const addMetrics: AddRoutes = (app, host) => {
    addMetricsRoute(app, metrics.registry, configuration.metrics, host);
  };
  try {
    if (only !== "service") {
      lock = await holdLock(configuration);
      records = await openRecords(configuration, log);
      await records.audit.append({ event: "started", by: localActor(), process: process.pid });
      api = await createDaemonApi({ configuration, version: composition.version, log, besides: addMetrics, probes });
    }
    if (only !== "daemon" && configuration.service !== undefined) {
      service = await startService(configuration, composition, voices, metrics, {
        routes: (app, host) => {
          addMetrics(app, host);
          api?.routes(app, host);
        },
        probes,
      });
      metrics.watch(service.figures);
    } else if (only === "service") {
      throw new InputError(`${file} has no \`service:\`: there is no service to start`);
    }
    if (records !== undefined) {
      const embedded = openEmbedded(configuration, composition, { log, mayStart: false, announcePassword: () => {} });
      const base = { configuration, embedded, log, output, observe: metrics.client };
      daemon = await startDaemon(base, records, metrics);
    }
    let current = configuration;
    const take = async (next: Configuration, by: Actor): Promise<void> => {
      await records?.configured(next, by);
      daemon?.take(next);
      current = next;
    };
    const reload = createReload({ file, composition, voices, running: configuration, service, take });
    signals.hangUp(() => reload(signaller));
    if (daemon !== undefined)
      await api?.open({ coordinator: daemon.coordinator, current: () => current, reload, service });
    signals.demand(() => {
      if (daemon === undefined) log.warn("SIGUSR1 asks for a run of every sync, and this process runs none");
      else daemon.scheduler.trigger(signaller);
    });
    const signal = await signals.stopped;
    log.info(`stopping on ${signal}`);
    const deadline = setTimeout(() => {
      log.error("what was under way did not end in time");
      process.exit(exitCodes.failed);
    }, shutdownLimit);
    deadline.unref();
    signals.again(() => daemon?.abandon());
    api?.beginStopping();
    // A run that applies is given a moment to end by itself; then the service takes no new requests either.
    const ended = daemon?.stop();
    await Promise.race([ended, delay(patience, undefined, { ref: false })]);
    await service?.stop();
    daemon?.abandon();
    await ended;
    await api?.stop();
    const entry = { event: "stopped", by: { name: "rollcall", from: "signal" }, process: process.pid } as const;
    await records?.audit.append({ ...entry, reason: signal }).catch((error: unknown) => {
      // It has stopped all the same.
      log.error(messageOf(error));
    });
    log.info("stopped");
    return exitCodes.done;
  } finally {
    signals.end();
    await daemon?.stop();
    await api?.stop();
    await withdraw(configuration.data);
    await service?.stop();
    await records?.close();
    lock?.release();
  }
}

/** Loaded here alone: no command has a use for it. */
async function openMetrics(version: string): Promise<Metrics> {
  const { createMetrics } = await import("#control/metrics/metrics.ts");
  return createMetrics(version);
}

async function startService(
  configuration: Configuration,
  composition: Composition,
  { log: { logger: log }, output }: Voices,
  metrics: Metrics,
  hooks: Pick<ServiceStart, "routes" | "probes">,
): Promise<RunningService> {
  await refuseForeignFolder(configuration.data);
  const { data } = configuration;
  const service = await composition
    .startService(configuration, {
      log,
      private: false,
      observe: metrics,
      ...hooks,
    })
    .catch(async (error: unknown) => {
      throw lockHolder(error) === undefined ? error : await dataFolderInUse(data, error);
    });
  await announce(data, {
    pid: process.pid,
    url: service.url,
    startedAt: new Date().toISOString(),
    session: await service.openLocalSession(),
  });
  if (service.generatedPassword !== undefined) {
    const notice = passwordNotice(configuration, service.generatedPassword);
    // What follows at a terminal is long; this is the one line that a person must not miss.
    output.say(output.interactive ? `\n${output.colour ? `\u001B[1m${notice}\u001B[22m` : notice}\n` : notice);
  }
  log.info({ url: service.url }, `the service is listening on ${service.url}`);
  return service;
}

/** What keeps the service from being ready while a sync is overdue; nothing of what is in it. */
function overdueNotice(daemon: Daemon | undefined): string | undefined {
  const overdue = daemon?.scheduler.overdue() ?? [];
  return overdue.length === 0 ? undefined : `without a success for too long: ${overdue.join(", ")}`;
}

/** The signals that a process which stays up listens to. What comes before there is a listener is kept for it. */
export interface Signals {
  /** The first signal to stop. */
  readonly stopped: Promise<string>;
  /** Is called when there is another one. */
  again(listener: () => void): void;
  /** Is called at every SIGHUP, unless it says that the terminal is gone: that is a signal to stop. */
  hangUp(listener: () => unknown): void;
  /** Is called at every SIGUSR1. */
  demand(listener: () => unknown): void;
  end(): void;
}

/** Listens from now on. SIGUSR1 then no longer opens a port for debuggers, as it does in Node by itself. */
export function listenToSignals(): Signals {
  const { promise, resolve } = Promise.withResolvers<string>();
  const hadTerminal = isatty(1);
  let onAgain: (() => void) | undefined;
  const hungUp = pending();
  const demanded = pending();
  const onStop = (signal: string): void => {
    resolve(signal);
    onAgain?.();
  };
  const onHangUp = (signal: string): void => {
    if (hadTerminal && !isatty(1)) onStop(signal);
    else hungUp.came();
  };
  process.on("SIGINT", onStop).on("SIGTERM", onStop).on("SIGHUP", onHangUp).on("SIGUSR1", demanded.came);
  return {
    stopped: promise,
    again: (listener) => {
      onAgain = listener;
    },
    hangUp: hungUp.tell,
    demand: demanded.tell,
    end: () => {
      process.off("SIGINT", onStop).off("SIGTERM", onStop).off("SIGHUP", onHangUp).off("SIGUSR1", demanded.came);
    },
  };
}

/** A signal that may come before anybody can do anything about it. */
function pending(): { came(): void; tell(listener: () => unknown): void } {
  let listener: (() => unknown) | undefined;
  let waits = false;
  return {
    came: () => {
      if (listener === undefined) waits = true;
      else void listener();
    },
    tell: (told) => {
      listener = told;
      if (waits) void told();
      waits = false;
    },
  };
}
