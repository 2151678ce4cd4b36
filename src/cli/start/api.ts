import { Control } from "#control/control.ts";
import { addControlRoutes } from "#control/routes.ts";
import { createToken } from "#control/access.ts";
import { RunPlans } from "#daemon/plans.ts";
import { Plans } from "#state/plans.ts";
import { daemonFolder, readState } from "#daemon/data-folder.ts";
import type { FormatGuess, GuessFormat } from "#console/context.ts";
import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import type { Logger } from "pino";
import type { Configuration } from "#config/configuration.ts";
import type { Host } from "#control/access.ts";
import type { ControlListener } from "#control/listener.ts";
import { announceDaemon, configurationDigest, withdrawDaemon } from "#control/presence.ts";
import { InputError, UnavailableError } from "#errors.ts";
import type { LocalCoordinator } from "#sync/coordinator/local.ts";
import type { Actor } from "#state/record.ts";
import type { Embedded } from "#daemon/embedded.ts";
import { Hold } from "#daemon/hold.ts";
import { placeOf, servicesOf, verifyAccount } from "#daemon/targets.ts";
import { inboxesOf } from "#daemon/wiring.ts";
import type { addConsole, ConsoleOptions } from "#console/app.ts";
import type { InboxHost } from "#connector.ts";
import { Accounts } from "#control/accounts.ts";
import { InboxAccess } from "#control/inboxes.ts";
import { Sessions } from "#control/sessions.ts";
import type { Reader, Store } from "#state/store.ts";
import { Connections } from "#daemon/connections.ts";
import { People } from "#daemon/people.ts";
import { Trials } from "#daemon/trials.ts";
import type { Reloaded } from "#daemon/reload.ts";

export type AddRoutes = (app: FastifyInstance, host: Host) => void;

type AddConsole = typeof addConsole;

export interface Served {
  readonly coordinator: LocalCoordinator;
  /** The current configuration. */
  readonly current: () => Configuration;
  readonly reload: (by: Actor) => Promise<Reloaded>;
  /** The service whose listener has the routes; undefined: there is none. */
  readonly service: { readonly url: string; readonly certificate?: string | undefined } | undefined;
}

export interface DaemonApiOptions {
  readonly configuration: Configuration;
  readonly version: string;
  readonly log: Logger;
  /** Finds the service of this data folder, whose accounts may sign in to the console of a daemon alone. */
  readonly embedded: Embedded;
  /** Where accounts and sessions are, and the audit log. */
  readonly store: Pick<Store, "access" | "audit" | "inboxes" | "lease" | "throttle">;
  /** Adds the routes by which providers push. */
  readonly addInboxRoutes: (app: FastifyInstance, host: InboxHost) => void;
  /** Further routes for its own listener. */
  readonly besides: AddRoutes;
  /** Conditions for that listener to be ready: each returns a problem for a person, or undefined. */
  readonly probes: readonly (() => string | undefined)[];
}

/** The daemon's control API and console: on the service's listener, or on one of its own. */
export class DaemonApi {
  readonly #options: DaemonApiOptions;
  readonly #state: Reader;
  readonly #plans: RunPlans;
  readonly #token = createToken();
  readonly #startedAt = new Date().toISOString();
  readonly #accounts: Accounts;
  readonly #sessions: Sessions;
  readonly #inboxes: InboxAccess;
  readonly #control: Control;
  readonly #people: People;
  readonly #connections: Connections;
  readonly #trials: Trials;
  readonly #addConsole: AddConsole | undefined;
  #served: Served | undefined;
  #listener: ControlListener | undefined;
  #isStopping = false;
  #hold: Hold | undefined;
  #closing: Promise<void> | undefined;

  static async create(options: DaemonApiOptions): Promise<DaemonApi> {
    const { configuration } = options;
    const state = await readState(configuration);
    // Its pages are loaded only where somebody can see them.
    const { addConsole } = configuration.console === false ? {} : await import("#console/app.ts");
    return new DaemonApi(options, state, addConsole);
  }

  private constructor(options: DaemonApiOptions, state: Reader, addConsole: AddConsole | undefined) {
    const { configuration, version, embedded, store, log } = options;
    const current = (): Configuration => this.#current();
    this.#options = options;
    this.#state = state;
    this.#addConsole = addConsole;
    this.#plans = new RunPlans(new Plans(state.files), join(daemonFolder(configuration), "work", "spill"));
    const { access, audit } = store;
    const context = {
      access,
      audit,
      throttle: (limits: Parameters<Store["throttle"]>[0]) => store.throttle(limits),
      now: () => store.lease.now(),
    };
    this.#accounts = new Accounts(context);
    const { console: settings } = configuration;
    this.#sessions = new Sessions(context, settings === false ? undefined : settings.oidc?.issuer);
    this.#inboxes = new InboxAccess({
      ...context,
      inboxes: store.inboxes,
      settings: () => inboxesOf(current()),
      warn: (message) => log.warn(message),
    });
    this.#control = new Control({
      token: this.#token,
      accounts: this.#accounts,
      sessions: this.#sessions,
      inboxes: this.#inboxes,
      version,
      startedAt: this.#startedAt,
      log,
    });
    this.#people = new People({
      current,
      embedded,
      coordinator: () => {
        if (this.#served === undefined) throw new UnavailableError("the daemon is starting");
        return this.#served.coordinator;
      },
      warn: (message) => log.warn(message),
    });
    this.#connections = new Connections({ current, embedded, log });
    this.#trials = new Trials({ current, log });
  }

  /** Adds its routes to a listener: those of the API, of inboxes and, unless it is turned off, of the console. */
  readonly routes: AddRoutes = (app, host) => {
    addControlRoutes(app, host, this.#control);
    this.#options.addInboxRoutes(app, {
      settingsOf: this.#inboxes.settingsOf,
      inboxes: this.#options.store.inboxes,
      admit: this.#inboxes.admit,
      url: () => publicUrlOf(this.#current()),
      now: () => this.#options.store.lease.now(),
      warn: (message, err) => this.#options.log.error({ err }, message),
    });
    this.#addConsole?.(app, host, this.#consoleOptions());
  };

  /**
   * Starts serving, and announces the address to commands on this machine.
   * @returns the address
   * @throws {InputError} when its own listener cannot listen
   */
  async open(served: Served): Promise<string> {
    const { configuration, log } = this.#options;
    const { service } = served;
    this.#served = served;
    this.#control.attach({
      coordinator: served.coordinator,
      configuration: () => ({
        file: this.#current().file,
        digest: configurationDigest(this.#current(), this.#token),
      }),
      changes: (run, filter) => this.#plans.changes(run, filter),
      audit: async (options) => {
        const { verifyAudit } = await import("#state/audit/verify.ts");
        return verifyAudit(this.#state.audit, { ...options, expected: await this.#state.audit.head() });
      },
      hold: this.#holdOf(served.coordinator),
      reload: async (by) => {
        const { problems } = await served.reload(by);
        if (problems.length > 0) throw new InputError("the old configuration stays", { problems });
      },
    });
    if (service === undefined) this.#listener = await this.#listen();
    const { url } = service ?? this.#listener ?? { url: "" };
    const presence = { pid: process.pid, url, startedAt: this.#startedAt, token: this.#token };
    const certificate = service?.certificate;
    await announceDaemon(configuration.data, { ...presence, ...(certificate !== undefined && { certificate }) });
    if (service === undefined) log.info({ url }, `the daemon is listening on ${url}`);
    return url;
  }

  /** From here on, no run is begun or decided. Running ones can still be followed. */
  beginStopping(): void {
    this.#isStopping = true;
    this.#hold?.release();
    this.#control.beginStopping();
    void this.#people.close();
    void this.#connections.close();
    void this.#trials.close();
  }

  /** May be called again. */
  async stop(): Promise<void> {
    await this.#people.close();
    await this.#connections.close();
    await this.#trials.close();
    await withdrawDaemon(this.#options.configuration.data);
    await this.#listener?.stop();
    this.#closing ??= this.#state[Symbol.asyncDispose]();
    await this.#closing;
  }

  #holdOf(coordinator: LocalCoordinator): Hold {
    const places = (): string[] => {
      const current = this.#current();
      return Object.values(current.syncs).map(({ to }) => placeOf(current, to));
    };
    this.#hold = new Hold(places, (...turn) => coordinator.inTurn(...turn));
    return this.#hold;
  }

  #current(): Configuration {
    return this.#served?.current() ?? this.#options.configuration;
  }

  async #listen(): Promise<ControlListener> {
    const { configuration, probes, log, besides } = this.#options;
    const { startControlListener } = await import("#control/listener.ts");
    return startControlListener({
      ...configuration.control,
      probes,
      log,
      isStopping: () => this.#isStopping,
      routes: (app, host) => {
        this.routes(app, host);
        besides(app, host);
      },
    });
  }

  #consoleOptions(): ConsoleOptions {
    const { configuration, version, log, embedded, store } = this.#options;
    const settings = configuration.console === false ? { viewers: false } : configuration.console;
    return {
      version,
      log,
      settings,
      own: { accounts: this.#accounts, sessions: this.#sessions, lease: store.lease, audit: store.audit },
      control: this.#control,
      plans: this.#plans,
      people: this.#people,
      connections: this.#connections,
      inboxes: this.#inboxes,
      trials: this.#trials,
      guessFormat: (...asked) => guessFormat(this.#current(), ...asked),
      targets: {
        targets: () => servicesOf(this.#current()),
        verify: (credentials) => verifyAccount(this.#current(), credentials, embedded),
      },
    };
  }
}

/** Where everybody reaches the listener; undefined: the configuration does not say. */
function publicUrlOf({ console }: Configuration): string | undefined {
  return console === false ? undefined : console.publicUrl;
}

/** Guesses the format of a file for the console as `rollcall load` does. */
async function guessFormat(
  configuration: Configuration,
  ...[sample, columns, called]: Parameters<GuessFormat>
): Promise<FormatGuess> {
  const [{ guessFormat: guess }, { loadFormatOf }, { Workbench }] = await Promise.all([
    import("#exports/format/guess.ts"),
    import("#exports/format/options.ts"),
    import("#duckdb/workbench.ts"),
  ]);
  const folder = join(daemonFolder(configuration), "work");
  await using workbench = await Workbench.open({ folder, memory: configuration.memory });
  const { options, header, notes, doubts } = await guess(workbench, sample, columns, {}, called);
  return { format: loadFormatOf(options).format, header, notes, doubts };
}
