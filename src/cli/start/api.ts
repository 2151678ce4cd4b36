import { daemonFolder, readState } from "#daemon/data-folder.ts";
import type { FormatGuess, GuessFormat, Plans } from "#console/context.ts";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import type { Logger } from "pino";
import type { Configuration } from "#config/configuration.ts";
import type { Host } from "#control/access.ts";
import type { ControlListener } from "#control/listener.ts";
import { announceDaemon, withdrawDaemon } from "#control/presence.ts";
import { InputError, UnavailableError } from "#errors.ts";
import type { LocalCoordinator } from "#sync/coordinator/local.ts";
import { exists } from "#files/disk.ts";
import type { Actor } from "#state/record.ts";
import { quarantinedRecords } from "#state/quarantined.ts";
import { Plans as StoredPlans } from "#state/plans.ts";
import type { Embedded } from "#daemon/embedded.ts";
import { verifyAccount } from "#daemon/wiring.ts";
import type { VerifyAccount } from "#console/accounts.ts";
import type { ConsoleOptions } from "#console/app.ts";
import type { Control } from "#control/control.ts";
import { Connections } from "#daemon/connections.ts";
import { People } from "#daemon/people.ts";
import { Trials } from "#daemon/trials.ts";
import type { Reloaded } from "#daemon/reload.ts";

export type AddRoutes = (app: FastifyInstance, host: Host) => void;

/** The daemon's control API: on the service's listener, or on one of its own. */
export interface DaemonApi {
  /** Adds its routes to the service's listener. */
  readonly routes: AddRoutes;
  /**
   * Starts serving, and announces the address to commands on this machine.
   * @returns the address
   * @throws {InputError} when its own listener cannot listen
   */
  open(served: Served): Promise<string>;
  /** From here on, no run is begun or decided. Running ones can still be followed. */
  beginStopping(): void;
  /** May be called again. */
  stop(): Promise<void>;
}

export interface Served {
  readonly coordinator: LocalCoordinator;
  /** The current configuration. */
  readonly current: () => Configuration;
  readonly reload: (by: Actor) => Promise<Reloaded>;
  /** The service whose listener has the routes; undefined: there is none. */
  readonly service: { readonly url: string } | undefined;
}

export interface DaemonApiOptions {
  readonly configuration: Configuration;
  readonly version: string;
  readonly log: Logger;
  /** Finds the service of this data folder, whose accounts may sign in to the console of a daemon alone. */
  readonly embedded: Embedded;
  /** Further routes for its own listener. */
  readonly besides: AddRoutes;
  /** Conditions for that listener to be ready: each returns a problem for a person, or undefined. */
  readonly probes: readonly (() => string | undefined)[];
}

/** Imports what only a daemon needs. */
export async function createDaemonApi(options: DaemonApiOptions): Promise<DaemonApi> {
  const { configuration, version, log, besides, probes } = options;
  const [
    { createControl },
    { comparePlans, storedChanges, withExcerpts, withStoredPlan },
    { configurationDigest },
    { createToken },
  ] = await Promise.all([
    import("#control/control.ts"),
    import("#plan/stored.ts"),
    import("#control/presence.ts"),
    import("#control/access.ts"),
  ]);
  const { data } = configuration;
  const folder = daemonFolder(configuration);
  const state = await readState(configuration);
  const store = new StoredPlans(state.files);
  const spill = join(folder, "work", "spill");
  const token = createToken();
  const startedAt = new Date().toISOString();
  const control = createControl({ token, version, startedAt, log });
  let current = (): Configuration => configuration;
  const plans: Plans = {
    read: async ({ id, digest, counts }, filter, read) => {
      await store.fetch([id]);
      if (digest === undefined || counts === undefined) throw new InputError(`run ${id} has no plan`);
      return withStoredPlan({ digest, counts }, { file: store.file(id, "changes"), spill }, filter, read);
    },
    excerpts: async ({ id }, filter, read) => {
      await store.fetch([id]);
      return withExcerpts({ file: store.file(id, "changes"), spill }, filter, read);
    },
    quarantined: async ({ id, sameAs }) => {
      for (const each of [id, sameAs]) {
        if (each !== undefined) await store.fetch([each]);
        const file = each === undefined ? undefined : store.file(each, "quarantined");
        if (file !== undefined && (await exists(file))) return quarantinedRecords(file, spill);
      }
      return undefined;
    },
    compare: async (shown, now) => {
      await store.fetch([shown.id, now.id]);
      return comparePlans(store.file(shown.id, "changes"), store.file(now.id, "changes"), spill);
    },
  };
  let coordinator: LocalCoordinator | undefined;
  const people = new People({
    current: () => current(),
    embedded: options.embedded,
    coordinator: () => {
      if (coordinator === undefined) throw new UnavailableError("the daemon is starting");
      return coordinator;
    },
    warn: (message) => log.warn(message),
  });
  const connections = new Connections({ current: () => current(), embedded: options.embedded, log });
  const trials = new Trials({ current: () => current(), log });
  const routes = await openRoutes(
    options,
    control,
    { plans, people, connections, trials, guessFormat: (...asked) => guessFormat(current(), ...asked) },
    () => current(),
  );
  let listener: ControlListener | undefined;
  let isStopping = false;
  let closing: Promise<void> | undefined;

  const listen = async (): Promise<ControlListener> => {
    const { startControlListener } = await import("#control/listener.ts");
    return startControlListener({
      ...configuration.control,
      probes,
      isStopping: () => isStopping,
      routes: (app, host) => {
        routes(app, host);
        besides(app, host);
      },
    });
  };

  return {
    routes,
    open: async ({ coordinator: attached, current: latest, reload, service }) => {
      current = latest;
      coordinator = attached;
      control.attach({
        coordinator: attached,
        configuration: () => ({ file: current().file, digest: configurationDigest(current(), token) }),
        changes: async function* (run, filter) {
          await store.fetch([run.id]);
          yield* storedChanges(run, { file: store.file(run.id, "changes"), spill }, filter);
        },
        audit: async (options) => {
          const { verifyAudit } = await import("#state/audit/verify.ts");
          const expected = await state.audit.head();
          return verifyAudit(state.audit, { ...options, expected });
        },
        reload: async (by) => {
          const { problems } = await reload(by);
          if (problems.length > 0) throw new InputError("the old configuration stays", { problems });
        },
      });
      if (service === undefined) listener = await listen();
      const { url } = service ?? listener ?? { url: "" };
      const { tls } = (service === undefined ? undefined : configuration.service) ?? {};
      const certificate = tls === undefined ? undefined : await readFile(tls.cert, "utf8");
      await announceDaemon(data, { pid: process.pid, url, startedAt, token, certificate });
      if (listener !== undefined) log.info({ url }, `the daemon is listening on ${url}`);
      return url;
    },
    beginStopping: () => {
      isStopping = true;
      control.beginStopping();
      void people.close();
      void connections.close();
      void trials.close();
    },
    stop: async () => {
      await people.close();
      await connections.close();
      await trials.close();
      await withdrawDaemon(data);
      await listener?.stop();
      closing ??= state[Symbol.asyncDispose]();
      await closing;
    },
  };
}

/** The routes of the API and, unless it is turned off, of the console. */
async function openRoutes(
  { configuration, version, log, embedded }: DaemonApiOptions,
  control: Control,
  readers: Pick<ConsoleOptions, "plans" | "people" | "connections" | "trials" | "guessFormat">,
  current: () => Configuration,
): Promise<AddRoutes> {
  if (configuration.console === false) return control.routes;
  const { addConsole } = await import("#console/app.ts");
  const options = {
    version,
    log,
    control,
    ...readers,
    ...configuration.console,
    targets: {
      targets: () => Object.keys(current().targets),
      verify: (credentials: Parameters<VerifyAccount>[0]) => verifyAccount(current(), credentials, embedded),
    },
  };
  return (app, host) => {
    control.routes(app, host);
    addConsole(app, host, options);
  };
}

/** Guesses the format of a file for the console as `rollcall load` does. */
async function guessFormat(
  configuration: Configuration,
  ...[sample, columns, called]: Parameters<GuessFormat>
): Promise<FormatGuess> {
  const [{ guessFormat: guess }, { loadFormatOf }, { openWorkbench }] = await Promise.all([
    import("#exports/format/guess.ts"),
    import("#exports/format/options.ts"),
    import("#duckdb/workbench.ts"),
  ]);
  const folder = join(daemonFolder(configuration), "work");
  const workbench = await openWorkbench({ folder, memory: configuration.memory });
  try {
    const { options, header, notes, doubts } = await guess(workbench, sample, columns, {}, called);
    return { format: loadFormatOf(options).format, header, notes, doubts };
  } finally {
    await workbench.close();
  }
}
