import { readFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import type { Logger } from "pino";
import { InputError, messageOf } from "#errors.ts";
import { naming } from "#files/disk.ts";
import { addressToListenOn, checkIsFree, listenError, localUrl, readCertificate } from "#http/listening.ts";
import { Directory } from "#service/directory/directory.ts";
import type { Account } from "#service/directory/store.ts";
import { hashOfNobody, verifyPassword } from "#service/directory/passwords.ts";
import { openLoads } from "#service/loads/loads.ts";
import type { Pinboard, Pinboards } from "#service/pinboards/pinboards.ts";
import { openPinboards } from "#service/pinboards/pinboards.ts";
import { addAdministrationRoutes } from "#service/server/administration-routes.ts";
import { createCallers } from "#service/server/callers.ts";
import { advertised, createForward } from "#service/server/forward.ts";
import { addDataRoutes, addLoadRoutes } from "#service/server/data-routes.ts";
import { hostLoads } from "#service/server/host-loads.ts";
import { addHealthRoutes } from "#service/server/health-routes.ts";
import { addPinboardRoutes } from "#service/server/pinboard-routes.ts";
import { closeServer, createServer, createWork } from "#service/server/server.ts";
import type { Work } from "#service/server/server.ts";
import { addLocalRoutes } from "#service/server/sql-route.ts";
import { logIn } from "#service/session/login.ts";
import { Sessions } from "#service/session/sessions.ts";
import { KnownAddresses } from "#service/session/known-addresses.ts";
import type { Forked } from "#service/worker/fork.ts";
import { openWorker } from "#service/worker/worker.ts";
import type { Worker } from "#service/worker/worker.ts";
import type { AddRoutes, Figures, Observer, Probe } from "./host.ts";
import { createProgress } from "./progress.ts";
import type { ServiceSettings } from "./options.ts";
import { openStorage, openStores } from "./storage.ts";

/** The service's settings and what else it needs. */
export interface ServiceOptions extends ServiceSettings {
  /** The data folder; the service's files are in `service` below it. */
  readonly data: string;
  /** DuckDB's memory limit in bytes. */
  readonly memory: number;
  readonly log: Logger;
  /** Reads all pinboards, at the start and at every `reload`. Absent: there are none. */
  readonly pinboards?: () => Promise<readonly Pinboard[]>;
  readonly observe?: Observer;
  /** A process for the databases that was started beforehand, and is the service's from then on. */
  readonly databases?: Forked | undefined;
  /** Further readiness checks. */
  readonly probes?: readonly Probe[];
  readonly routes?: AddRoutes;
}

/** A running service. */
export interface Service {
  /** Where clients on this machine reach it, with the real port. */
  readonly url: string;
  readonly address: { readonly host: string; readonly port: number };
  /** The administrator's password, only at the first start and only when it was generated: to be printed once (0.7). */
  readonly generatedPassword?: string | undefined;
  /** The cookie value of a session of the administrator without a login. It ends with the process and not before. */
  openLocalSession(): Promise<string>;
  /** Reads the pinboards again. @returns the problems; with any, the previous pinboards stay */
  reload(): Promise<readonly string[]>;
  figures(): Figures;
  /**
   * Refuses new requests, lets those in flight finish, and closes everything (0.9), within 13 s. May be called again.
   */
  stop(): Promise<void>;
}

/**
 * Starts the service: both families on one listener (0.1).
 * @throws {InputError} when a setting is wrong, the port is taken, or another process uses the data folder;
 *   {UnavailableError} when its disk is full
 */
export async function startService(options: ServiceOptions): Promise<Service> {
  return open(options).catch((error: unknown) => {
    throw naming(`the folder ${options.data}`, error);
  });
}

async function open(options: ServiceOptions): Promise<Service> {
  const { log, administrator, sessions: lifetimes, logins, privileges, observe = {} } = options;
  const host = await addressToListenOn(options);
  const certificate = options.tls === undefined ? undefined : await readCertificate(options.tls);
  const progress = createProgress();
  await using opening = new AsyncDisposableStack();
  const storage = await openStorage(options.data, options.memory);
  const { database, folder, uploads, isInPlace } = storage;
  opening.defer(() => {
    database.close();
  });
  const stores = await openStores(storage, options.engine, { lostAfter: options.loads.lostAfter, log });
  opening.defer(() => stores.close());
  const { records, nodes } = stores;
  const loadFolder = join(folder, "loads");
  const starting = openWorker({
    engine: options.engine,
    folder: join(folder, "databases"),
    answers: join(folder, "answers"),
    memory: options.memory,
    files: [loadFolder],
    log,
    forked: options.databases,
  });
  opening.defer(() =>
    starting.then(
      (worker) => worker.close(),
      () => undefined,
    ),
  );
  await checkIsFree(host, options.listen.port);
  const requests = createWork();
  const { shutdown } = requests;
  let isStopping = false;
  const server = createServer({
    tls: certificate,
    prefixes: options.prefixes,
    trustedProxies: options.trustedProxies,
    isStopping: () => isStopping,
    track: (work) => requests.track(work),
    log,
    observe: observe.request,
  });
  // It is awaited when everything else is there, unless that fails.
  server.catch(() => undefined);
  const worker = await starting;
  // Everything that may fail comes before the directory: a password it generates is printed only after a successful
  // start.
  const read = options.pinboards ?? (async (): Promise<Pinboard[]> => []);
  const pinboards = await openPinboards({ ...options.queries, worker, read });
  if (options.tables !== undefined) await defineTables(worker, options.tables);
  const directory = await Directory.open({
    store: stores.directory,
    database,
    folder,
    administrator,
    progress,
    say: (message) => {
      log.info(message);
    },
  });
  opening.defer(() => directory.close());
  const sessions = await Sessions.open({ records, ...lifetimes, log });
  opening.defer(() => sessions.close());
  const known = await KnownAddresses.open(records, log);
  const loads = await openLoads({
    ...options.loads,
    records,
    nodes,
    folder: loadFolder,
    worker,
    log,
    progress,
    observe: observe.load,
  });
  opening.defer(() => loads.close());

  const throttling = { ...logins, isKnown: (name: string, address: string) => known.has(name, address) };
  const throttle = stores.throttle(throttling);
  const nobodysHash = hashOfNobody();
  const account = (name: string): ReturnType<typeof directory.store.account> => directory.store.account(name);
  const bootstrap = async (): Promise<Account> => {
    const user = await account(administrator.name);
    if (user === undefined) throw new Error(`the administrator ${administrator.name} does not exist`);
    return user;
  };
  const login = { account, verify: verifyPassword, nobodysHash, throttle, known, sessions, log };
  const loginSettings = { login, remembered: lifetimes.remembered, secure: certificate !== undefined };
  const callers = createCallers({ sessions, store: directory.store, administrator: administrator.name, privileges });
  const app = await server;
  addHealthRoutes(app, {
    isStopping: () => isStopping,
    probe: async () => {
      await account(administrator.name);
    },
    probes: [
      async () =>
        (await isInPlace()) ? undefined : "the data folder is gone, or another one is in its place: bring it back",
      () => progress.stalled(),
      () => database.problem(),
      () => worker.problem(),
      ...(options.probes ?? []),
    ],
  });
  addDataRoutes(app, loginSettings);
  addLocalRoutes(app, { callers, worker, shutdown });
  const forward = nodes && createForward({ id: () => nodes.id(), isOver: (node) => nodes.isOver(node), log, shutdown });
  addLoadRoutes(app, {
    callers,
    loads,
    forward,
    nodeAddress: options.nodeAddress,
    secure: loginSettings.secure,
    statusHold: options.loads.statusHold,
    shutdown,
  });
  for (const prefix of new Set(options.prefixes)) {
    addAdministrationRoutes(app, prefix, { ...loginSettings, callers, sessions, directory, uploads, shutdown });
    addPinboardRoutes(app, prefix, { callers, pinboards, shutdown, administrator: async () => (await bootstrap()).id });
  }
  options.routes?.(app, {
    administrator: async (request) => {
      const { name } = await callers.require(request, "administration");
      return { name, address: request.exchange.address };
    },
    contentType: (request) => request.exchange.contentType,
    accounts: {
      secure: loginSettings.secure,
      find: async (request, isUse) => {
        const caller = await callers.find(request, isUse);
        if (caller === undefined) return undefined;
        const { name, token } = caller;
        const isAdministrator = await callers.holds(caller, "administration");
        const mayLoad = isAdministrator || (await callers.holds(caller, "dataManagement"));
        return { name, token, address: request.exchange.address, isAdministrator, mayLoad };
      },
      signIn: (request, credentials) => logIn(login, { ...credentials, remembered: false }, request.exchange.address),
      signOut: (token) => sessions.end(token),
    },
    pinboards: {
      list: () => pinboards.list(),
      data: (request, signal, account) => pinboards.data(request, AbortSignal.any([shutdown, signal]), account),
    },
    loads: hostLoads({ callers, loads, forward, worker, store: directory.store, limits: options.loads, shutdown }),
  });
  await app.listen({ host, port: options.listen.port }).catch((error: unknown) => {
    throw listenError(error, host, options.listen.port);
  });

  const { port } = app.server.address() as AddressInfo;
  await nodes?.announce(advertised(options.advertise, { host, port }), certificate?.cert);
  const opened = opening.move();
  let stopped: Promise<void> | undefined;
  return {
    url: localUrl(certificate === undefined ? "http" : "https", host, port),
    address: { host, port },
    generatedPassword: directory.generatedPassword,
    openLocalSession: async () => sessions.openLocal(await bootstrap()),
    reload: () => reload(pinboards, log),
    figures: () => ({ sessions: sessions.count(), cycles: loads.count() }),
    stop: () => {
      isStopping = true;
      stopped ??= close(app, requests, opened);
      return stopped;
    },
  };
}

/** Creates what a file defines and does not exist yet. @throws {InputError} */
async function defineTables(worker: Worker, file: string): Promise<void> {
  const sql = await readFile(file, "utf8").catch((cause: unknown) => {
    throw new InputError(`service.tables: ${file} cannot be read: ${messageOf(cause)}`, { cause });
  });
  await worker.define(sql, file);
}

async function reload(pinboards: Pinboards, log: Logger): Promise<readonly string[]> {
  try {
    const count = await pinboards.reload();
    log.info(`the pinboards were read again: ${count}`);
    return [];
  } catch (error) {
    return error instanceof InputError && error.problems.length > 0 ? error.problems : [messageOf(error)];
  }
}

async function close(app: FastifyInstance, requests: Work, open: AsyncDisposableStack): Promise<void> {
  try {
    await closeServer(app, requests);
  } finally {
    await open.disposeAsync();
  }
}
