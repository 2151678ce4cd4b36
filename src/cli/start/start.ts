import { Signals } from "#daemon/signals.ts";
import { Greeting } from "./greeting.ts";
import { Option } from "commander";
import type { Command } from "commander";
import { common, help } from "#cli/flags.ts";
import type { CommonOptions } from "#cli/flags.ts";
import type { Runner } from "#cli/runner.ts";
import { flushCompileCache } from "node:module";
import { setTimeout as delay } from "node:timers/promises";
import type { BegunService, Composition, RunningService, ServiceStart } from "#daemon/composition.ts";
import { exitAfter, load, localActor, passwordNotice } from "#daemon/context.ts";
import type { Sinks } from "#daemon/context.ts";
import type { AddRoutes, DaemonApi } from "./api.ts";
import type { Daemon } from "#daemon/daemon.ts";
import { createReload } from "#daemon/reload.ts";
import { announce, dataFolderInUse, holdLock, refuseForeignFolder, withdraw } from "#daemon/data-folder.ts";
import type { Lock } from "#daemon/data-folder.ts";
import { openEmbedded } from "#daemon/embedded.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";
import type { OpenedStore } from "#daemon/records.ts";
import { command } from "#commands.ts";
import type { Configuration } from "#config/configuration.ts";
import type { Metrics } from "#control/metrics/metrics.ts";
import { lockHolder } from "#duckdb/database.ts";
import { InputError, messageOf } from "#errors.ts";
import type { Actor } from "#state/record.ts";

export function declare(command: Command, runner: Runner): void {
  common(command).addOption(new Option("--only <part>", "run only one of them").choices(["service", "daemon"]));
  help(command, {
    examples: ["rollcall start", "rollcall start --only service"],
    exits: { 0: "stopped by a signal", 1: "could not start, or failed" },
  }).action((options: CommonOptions & { readonly only?: Only }) =>
    runner.run(
      options,
      (file, sinks) => start(file, runner.composition, sinks, options.only),
      // It logs to standard output: it has no other result.
      { level: "info", destination: 1 },
    ),
  );
}

export type Only = "service" | "daemon";

/** How long the service waits for an applying run before it stops too, in milliseconds. */
const applyGrace = 2000;

/** When everything must have ended after the first signal (0.9), in milliseconds. */
const shutdownLimit = 14_000;

/** The sender of a signal is unknown. */
const signaller: Actor = { name: "rollcall", from: "signal" };

/** `rollcall start`: the service and the daemon in this process, until SIGINT or SIGTERM. */
export async function start(file: string, composition: Composition, sinks: Sinks, only?: Only): Promise<ExitCode> {
  const signals = new Signals();
  const configuration = await load(file, composition).catch((error: unknown) => {
    signals.end();
    throw error;
  });
  const { output } = sinks;
  const log = sinks.log;
  let begun: BegunService | undefined;
  let lock: Lock | undefined;
  let store: OpenedStore | undefined;
  let service: RunningService | undefined;
  let daemon: Daemon | undefined;
  let api: DaemonApi | undefined;
  const metrics = await openMetrics(composition.version);
  const { addMetricsRoute } = await import("#control/metrics/route.ts");
  const greeting = new Greeting(output);
  const probes = [() => overdueNotice(daemon)];
  const addMetrics: AddRoutes = (app, host) => {
    addMetricsRoute(app, metrics.registry, configuration.metrics, host);
  };
  const embedded = openEmbedded(configuration, composition, { log, mayStart: false, announcePassword: () => {} });
  const hasConsole = only !== "service" && configuration.console !== false;
  try {
    if (only !== "daemon" && configuration.service !== undefined) begun = await composition.beginService();
    if (only !== "service") {
      lock = await holdLock(configuration);
      const { openStore } = await import("#daemon/records.ts");
      store = await openStore(configuration, log);
      await recordStart(store);
      const { version } = composition;
      const { createDaemonApi } = await import("./api.ts");
      api = await createDaemonApi({ configuration, version, log, embedded, besides: addMetrics, probes });
    }
    if (begun !== undefined) {
      service = await startService(configuration, begun, sinks, metrics, {
        routes: (app, host) => {
          addMetrics(app, host);
          api?.routes(app, host);
        },
        probes,
      });
      const running = service;
      metrics.watch(() => running.figures());
      const { generatedPassword: password } = service;
      const notice = password === undefined ? undefined : passwordNotice(configuration, password);
      greeting.set(placeOf(service.url, hasConsole), notice, hintOf(configuration));
    } else if (only === "service") {
      throw new InputError(`${file} has no \`service:\`: there is no service to start`);
    }
    if (store !== undefined) {
      const base = { configuration, embedded, log, output, observe: metrics.client };
      // A service alone needs none of what runs syncs.
      const { startDaemon } = await import("#daemon/daemon.ts");
      daemon = await startDaemon(base, store, metrics);
    }
    let current = configuration;
    const take = async (next: Configuration, by: Actor): Promise<void> => {
      if (store !== undefined) {
        const { recordConfiguration } = await import("#daemon/records.ts");
        await recordConfiguration(next, store, by);
      }
      daemon?.take(next);
      current = next;
    };
    const reload = createReload({ file, composition, sinks, running: configuration, service, take });
    signals.hangUp(() => reload(signaller));
    const openApi = async (coordinator: Daemon["coordinator"]): Promise<void> => {
      const url = await api?.open({ coordinator, current: () => current, reload, service });
      if (url !== undefined && service === undefined && hasConsole)
        greeting.set(placeOf(url, hasConsole), undefined, hintOf(configuration));
    };
    if (daemon !== undefined) await openApi(daemon.coordinator);
    signals.demand(() => {
      if (daemon === undefined) log.warn("SIGUSR1 requests a run of every sync, but this process runs no syncs");
      else daemon.trigger(signaller);
    });
    greeting.whenQuiet(() => daemon?.isBusy() === true);
    // Otherwise Node writes what it has compiled when the process ends by itself, and one that is killed leaves nothing to the next.
    flushCompileCache();
    const signal = await signals.stopped;
    log.info(`stopping on ${signal}`);
    exitAfter(shutdownLimit, (message) => {
      log.error(message);
    }).unref();
    signals.again(() => daemon?.abandon());
    api?.beginStopping();
    // An applying run gets a moment to finish; then the service stops accepting requests too.
    const ended = daemon?.stop();
    await Promise.race([ended, delay(applyGrace, undefined, { ref: false })]);
    await service?.stop();
    daemon?.abandon();
    await ended;
    await api?.stop();
    const entry = { event: "stopped", by: { name: "rollcall", from: "signal" }, process: process.pid } as const;
    await store?.audit.append({ ...entry, reason: signal }).catch((error: unknown) => {
      // It stops anyway.
      log.error(messageOf(error));
    });
    log.info("stopped");
    return exitCodes.done;
  } finally {
    greeting.show();
    signals.end();
    await daemon?.stop();
    await api?.stop();
    await withdraw(configuration.data);
    await service?.stop();
    begun?.abandon();
    await store?.close();
    lock?.release();
  }
}

async function recordStart({ audit, isShared }: OpenedStore): Promise<void> {
  const record = (): Promise<void> => audit.append({ event: "started", by: localActor(), process: process.pid });
  if (!isShared) return record();
  const { startPatiently } = await import("#postgres/primary.ts");
  return startPatiently(record);
}

/** Imported only here: no other command needs it. */
async function openMetrics(version: string): Promise<Metrics> {
  const { createMetrics } = await import("#control/metrics/metrics.ts");
  return createMetrics(version);
}

async function startService(
  configuration: Configuration,
  begun: BegunService,
  { log }: Sinks,
  metrics: Metrics,
  hooks: Pick<ServiceStart, "routes" | "probes">,
): Promise<RunningService> {
  await refuseForeignFolder(configuration.data);
  const { data } = configuration;
  const service = await begun
    .start(configuration, {
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
  log.info({ url: service.url }, `the service is listening on ${service.url}`);
  return service;
}

function placeOf(url: string, hasConsole: boolean): string {
  return hasConsole ? `The console is at ${url}/.` : `The service is at ${url}.`;
}

function hintOf({ syncs }: Configuration): string {
  if (Object.keys(syncs).length === 0) return "";
  return `\`${command("runs")}\` in another terminal shows what was done. `;
}

/** Why the service is not ready while a sync is overdue; says nothing about the content of the sync. */
function overdueNotice(daemon: Daemon | undefined): string | undefined {
  const overdue = daemon?.overdue() ?? [];
  return overdue.length === 0 ? undefined : `no success for too long: ${overdue.join(", ")}`;
}
