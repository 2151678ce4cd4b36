import { createMetrics } from "#control/metrics/metrics.ts";
import { renewDaemonPresence } from "#control/presence.ts";
import { addMetricsRoute } from "#control/metrics/route.ts";
import { EmbeddedService, startAnnounced } from "#daemon/embedded.ts";
import { Signals } from "#daemon/signals.ts";
import { Greeting } from "./greeting.ts";
import { Option } from "commander";
import type { Command } from "commander";
import { common, help } from "#cli/flags.ts";
import type { CommonOptions } from "#cli/flags.ts";
import type { Runner } from "#cli/runner.ts";
import { flushCompileCache } from "node:module";
import { setTimeout as delay } from "node:timers/promises";
import type { Composition } from "#daemon/composition.ts";
import { exitAfter, load } from "#daemon/context.ts";
import type { Sinks } from "#daemon/context.ts";
import type { AddRoutes } from "./api.ts";
import type { Daemon } from "#daemon/daemon.ts";
import { createReload } from "#daemon/reload.ts";
import { holdLock, renewPresence, withdraw } from "#daemon/data-folder.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";
import type { Configuration } from "#config/configuration.ts";
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
  const greeting = new Greeting(sinks.output);
  // What was started is stopped in the opposite order, however far the start came.
  const started = new AsyncDisposableStack();
  try {
    const running = await startAll({ file, composition, sinks, only, signals, greeting }, started);
    await stopAll(running, signals, sinks.log);
    return exitCodes.done;
  } finally {
    greeting.show();
    signals.end();
    await started.disposeAsync();
  }
}

interface Start {
  readonly file: string;
  readonly composition: Composition;
  readonly sinks: Sinks;
  readonly only: Only | undefined;
  readonly signals: Signals;
  readonly greeting: Greeting;
}

/** @param started closes everything */
async function startAll(options: Start, started: AsyncDisposableStack) {
  const { file, composition, sinks, only, signals, greeting } = options;
  const { log, output } = sinks;
  const configuration = await load(file, composition);
  for (const warning of configuration.warnings) log.warn(warning);
  if (only === "service" && configuration.service === undefined)
    throw new InputError(`${file} has no \`service:\`: there is no service to start`);
  const hasConsole = only !== "service" && configuration.console !== false;
  const greet = (url: string, password?: string): void => greeting.set({ url, hasConsole, password, configuration });
  const metrics = createMetrics(composition.version);
  const addMetrics: AddRoutes = (app, host) => {
    addMetricsRoute(app, metrics.registry, configuration.metrics, host);
  };
  let daemon: Daemon | undefined;
  const probes = [() => daemon?.problem()];
  const embedded = new EmbeddedService(configuration, composition, {
    log,
    mayStart: false,
    announcePassword: () => {},
  });

  // The data folder, whose lock a daemon holds.
  if (only !== "service") started.adopt(await holdLock(configuration), (lock) => lock.release());
  started.defer(() => withdraw(configuration.data));

  // A service alone needs none of what runs syncs.
  const parts = only === "service" ? undefined : await import("./parts.ts");
  const store = parts && started.adopt(await parts.openStore(configuration, log), (opened) => opened.close());
  if (store !== undefined) await parts?.recordStart(store);
  const api =
    store &&
    (await parts?.DaemonApi.create({
      configuration,
      version: composition.version,
      log,
      embedded,
      store,
      addInboxRoutes: await composition.loadInboxRoutes(),
      besides: addMetrics,
      probes,
    }));
  started.defer(() => api?.stop());

  const routes: AddRoutes = (app, host) => {
    addMetrics(app, host);
    api?.routes(app, host);
  };
  const service =
    only === "daemon" || configuration.service === undefined
      ? undefined
      : await startAnnounced(configuration, composition, { log, observe: metrics, probes, routes });
  started.defer(() => service?.stop());
  if (service !== undefined) {
    metrics.watch(() => service.figures());
    greet(service.url, service.generatedPassword);
  }

  const base = { configuration, embedded, log, output, observe: metrics.client };
  if (store !== undefined) daemon = await parts?.Daemon.start(base, store, metrics);
  started.defer(() => daemon?.stop());

  let current = configuration;
  const take = async (next: Configuration, by: Actor): Promise<void> => {
    const { certificate } = service ?? {};
    if (certificate !== undefined) {
      // Commands on this machine accept only the one that is served.
      await renewPresence(configuration.data, { certificate });
      await renewDaemonPresence(configuration.data, { certificate });
    }
    if (store !== undefined) await parts?.recordConfiguration(next, store, by);
    daemon?.take(next);
    current = next;
  };
  const reload = createReload({ file, composition, sinks, running: configuration, service, take });
  signals.hangUp(() => reload(signaller));
  if (api !== undefined && daemon !== undefined) {
    const url = await api.open({ coordinator: daemon.coordinator, current: () => current, reload, service });
    if (service === undefined && hasConsole) greet(url);
  }
  signals.demand(() => {
    if (daemon === undefined) log.warn("SIGUSR1 requests a run of every sync, but this process runs no syncs");
    else daemon.trigger(signaller);
  });
  greeting.whenQuiet(() => daemon?.isBusy() === true);
  // Otherwise Node writes what it has compiled when the process ends by itself, and one that is killed leaves nothing to the next.
  flushCompileCache();
  return { store, api, service, daemon };
}

/** Waits for a signal, and stops what runs. */
async function stopAll(
  { store, api, service, daemon }: Awaited<ReturnType<typeof startAll>>,
  signals: Signals,
  log: Sinks["log"],
): Promise<void> {
  const signal = await signals.stopped;
  log.info(`stopping on ${signal}`);
  exitAfter(shutdownLimit, (message) => log.error(message)).unref();
  signals.again(() => daemon?.abandon());
  api?.beginStopping();
  // An applying run gets a moment to finish; then the service stops accepting requests too.
  const ended = daemon?.stop();
  await Promise.race([ended, delay(applyGrace, undefined, { ref: false })]);
  await service?.stop();
  daemon?.abandon();
  await ended;
  await api?.stop();
  const entry = { event: "stopped", by: signaller, process: process.pid, reason: signal } as const;
  // It stops anyway.
  await store?.audit.append(entry).catch((error: unknown) => log.error(messageOf(error)));
  log.info("stopped");
}
