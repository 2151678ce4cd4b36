import { readFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { Server as TlsServer } from "node:tls";
import type { FastifyInstance } from "fastify";
import type { Logger } from "pino";
import { InputError, messageOf, reasonOf } from "#errors.ts";
import { naming } from "#files/disk.ts";
import { addHealthRoutes } from "#http/health-routes.ts";
import type { Probe } from "#http/health-routes.ts";
import {
  addressToListenOn,
  checkIsFree,
  expiryOf,
  listenError,
  localUrl,
  readCertificate,
  serverTls,
} from "#http/listening.ts";
import { closeServer, Work } from "#http/server.ts";
import { Directory } from "#service/directory/directory.ts";
import { hashOfNobody, verifyPassword } from "#passwords.ts";
import { Loads } from "#service/loads/loads.ts";
import type { Pinboard } from "#service/pinboards/pinboards.ts";
import { Pinboards } from "#service/pinboards/pinboards.ts";
import { addAdministrationRoutes } from "#service/server/administration-routes.ts";
import { Callers } from "#service/server/callers.ts";
import { advertised, Forward } from "#service/server/forward.ts";
import { addDataRoutes, addLoadRoutes } from "#service/server/data-routes.ts";
import { createServiceServer } from "#service/server/families.ts";
import { HostedLoads } from "#service/server/host-loads.ts";
import type { ServerContext } from "#service/server/context.ts";
import { addPinboardRoutes } from "#service/server/pinboard-routes.ts";
import { addLocalRoutes } from "#service/server/sql-route.ts";
import { logIn } from "#service/session/login.ts";
import type { LoginContext } from "#service/session/login.ts";
import { Sessions } from "#service/session/sessions.ts";
import { KnownAddresses } from "#service/session/known-addresses.ts";
import type { TableDefinitions } from "#service/worker/messages.ts";
import { Worker } from "#service/worker/worker.ts";
import type { AddRoutes, Figures, Host, Observer } from "./host.ts";
import { Progress } from "./progress.ts";
import type { ServiceSettings } from "./options.ts";
import { openStorage, openStores } from "./storage.ts";
import type { Storage, Stores } from "./storage.ts";
import { familyA, familyB } from "#wire/routes.ts";

/** The service's settings and what else it needs. */
export interface ServiceOptions extends ServiceSettings {
  /** The data folder; the service's files are in `service` below it. */
  readonly data: string;
  /** DuckDB's memory limit in bytes. */
  readonly memory: number;
  readonly log: Logger;
  /** It serves one command, which may need no table: their databases are opened when they are first used. */
  readonly private?: boolean | undefined;
  /** Reads all pinboards, at the start and at every `reload`. Absent: there are none. */
  readonly pinboards?: () => Promise<readonly Pinboard[]>;
  readonly observe?: Observer;
  /** Further readiness checks. */
  readonly probes?: readonly Probe[];
  readonly routes?: AddRoutes;
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

/** How long requests in flight may take to finish, in milliseconds (0.9). */
const grace = 10_000;

/** A running service. */
export class Service {
  /** Where clients on this machine reach it, with the real port. */
  readonly url: string;
  readonly address: { readonly host: string; readonly port: number };
  /** The administrator's password, only at the first start and only when it was generated: to be printed once (0.7). */
  readonly generatedPassword: string | undefined;
  readonly #parts: Parts;
  readonly #app: FastifyInstance;
  readonly #opened: AsyncDisposableStack;
  #certificate: string | undefined;
  #stopped: Promise<void> | undefined;

  /** @param opened closes everything but the listener */
  constructor(
    url: string,
    address: Service["address"],
    parts: Parts,
    app: FastifyInstance,
    opened: AsyncDisposableStack,
    certificate: string | undefined,
  ) {
    this.url = url;
    this.address = address;
    this.generatedPassword = parts.directory.generatedPassword;
    this.#parts = parts;
    this.#app = app;
    this.#opened = opened;
    this.#certificate = certificate;
  }

  /** The cookie value of a session of the administrator without a login. It ends with the process and not before. */
  async openLocalSession(): Promise<string> {
    return this.#parts.sessions.openLocal(await this.#parts.directory.administrator());
  }

  /** The certificate that it serves, in PEM form; undefined without TLS. */
  get certificate(): string | undefined {
    return this.#certificate;
  }

  /** Reads the pinboards and the certificate again. @returns the problems; with any, the previous ones stay */
  async reload(): Promise<readonly string[]> {
    const { pinboards, options } = this.#parts;
    try {
      const renewed = options.tls === undefined ? undefined : await readCertificate(options.tls);
      const count = await pinboards.reload();
      options.log.info(`the pinboards were read again: ${count}`);
      if (renewed !== undefined) await this.#renew(renewed);
      return [];
    } catch (error) {
      return error instanceof InputError && error.problems.length > 0 ? error.problems : [messageOf(error)];
    }
  }

  /** Open connections go on with the certificate that they began with. */
  async #renew({ cert, key }: { readonly cert: string; readonly key: string }): Promise<void> {
    const { options, stores } = this.#parts;
    warnOfExpiry(cert, options.log);
    (this.#app.server as unknown as TlsServer).setSecureContext({ ...serverTls, cert, key });
    if (cert === this.#certificate) return;
    this.#certificate = cert;
    await stores.nodes?.announce(advertised(options.advertise, this.address), cert);
    options.log.info("the certificate was renewed");
  }

  figures(): Figures {
    return { sessions: this.#parts.sessions.count(), cycles: this.#parts.loads.count() };
  }

  /** Refuses new requests, lets those in flight finish, and closes everything (0.9), within 13 s. May be called again. */
  stop(): Promise<void> {
    this.#stopped ??= this.#close();
    return this.#stopped;
  }

  async #close(): Promise<void> {
    try {
      await closeServer(this.#app, this.#parts.requests, grace);
    } finally {
      await this.#opened.disposeAsync();
    }
  }
}

async function open(options: ServiceOptions): Promise<Service> {
  const host = await addressToListenOn(options);
  const certificate = options.tls === undefined ? undefined : await readCertificate(options.tls);
  const secure = certificate !== undefined;
  warnOfExpiry(certificate?.cert, options.log);
  await using opening = new AsyncDisposableStack();
  const requests = new Work();
  const server = createServiceServer({
    tls: certificate,
    prefixes: options.prefixes,
    trustedProxies: options.trustedProxies,
    work: requests,
    log: options.log,
    observe: options.observe?.request,
  });
  // Its libraries load while files are opened. It is awaited when everything else is there, unless that fails.
  server.catch(() => undefined);
  const storage = await openStorage(options.data, options.memory);
  opening.defer(() => {
    storage.database.close();
  });
  const stores = await openStores(storage, options.engine, { lostAfter: options.loads.lostAfter, log: options.log });
  opening.defer(() => stores.close());
  const starting = startWorker(options, storage);
  opening.defer(() =>
    starting.then(
      (worker) => worker.close(),
      () => undefined,
    ),
  );
  await checkIsFree(host, options.listen.port);
  const parts = await openParts({ options, storage, stores, requests, secure, worker: await starting }, opening);
  const app = await server;
  addRoutes(app, parts);
  await app.listen({ host, port: options.listen.port }).catch((error: unknown) => {
    throw listenError(error, host, options.listen.port);
  });
  const { port } = app.server.address() as AddressInfo;
  await stores.nodes?.announce(advertised(options.advertise, { host, port }), certificate?.cert);
  return new Service(
    localUrl(secure ? "https" : "http", host, port),
    { host, port },
    parts,
    app,
    opening.move(),
    certificate?.cert,
  );
}

function warnOfExpiry(cert: string | undefined, log: Logger): void {
  const expired = cert === undefined ? undefined : expiryOf(cert);
  if (expired !== undefined) log.warn(expired);
}

async function startWorker(options: ServiceOptions, { folder }: Storage): Promise<Worker> {
  const { engine, memory, log, tables } = options;
  return Worker.open({
    engine,
    folder: join(folder, "databases"),
    answers: join(folder, "answers"),
    memory,
    files: [loadFolder(folder)],
    tables: tables === undefined ? undefined : await readDefinitions(tables),
    whenUsed: options.private,
    log,
  });
}

function loadFolder(folder: string): string {
  return join(folder, "loads");
}

/** What the service is made of before it has routes. */
interface Foundation {
  readonly options: ServiceOptions;
  readonly storage: Storage;
  readonly stores: Stores;
  readonly worker: Worker;
  readonly requests: Work;
  /** It speaks TLS. */
  readonly secure: boolean;
}

type Parts = Foundation & Awaited<ReturnType<typeof openParts>>;

/** @param opening closes them */
async function openParts(foundation: Foundation, opening: AsyncDisposableStack) {
  const { options, storage, stores, worker } = foundation;
  const { administrator, log } = options;
  const { folder } = storage;
  const { records, nodes } = stores;
  const progress = new Progress();
  // Everything that may fail comes before the directory: a password it generates is printed only after a successful
  // start.
  const read = options.pinboards ?? (async (): Promise<Pinboard[]> => []);
  const pinboards = await Pinboards.open({ ...options.queries, worker, read });
  const directory = await Directory.open({
    store: stores.directory,
    database: storage.database,
    folder,
    administrator,
    progress,
    say: (message) => {
      log.info(message);
    },
  });
  opening.defer(() => directory.close());
  const sessions = await Sessions.open({ records, ...options.sessions, log });
  opening.defer(() => sessions.close());
  const known = await KnownAddresses.open(records, log);
  const loads = await Loads.open({
    ...options.loads,
    records,
    nodes,
    folder: loadFolder(folder),
    worker,
    log,
    progress,
    observe: options.observe?.load,
  });
  opening.defer(() => loads.close());
  const login: LoginContext = {
    account: (name) => directory.store.account(name),
    verify: verifyPassword,
    nobodysHash: hashOfNobody(),
    throttle: stores.throttle({ ...options.logins, isKnown: (name, address) => known.has(name, address) }),
    known,
    sessions,
    log,
  };
  const callers = new Callers({
    sessions,
    store: directory.store,
    administrator: administrator.name,
    privileges: options.privileges,
  });
  return { ...foundation, progress, pinboards, directory, sessions, loads, login, callers };
}

function addRoutes(app: FastifyInstance, parts: Parts): void {
  const { options, storage, stores, worker, requests, directory } = parts;
  const { nodes } = stores;
  const { shutdown } = requests;
  const context: ServerContext = {
    ...parts,
    remembered: options.sessions.remembered,
    forward:
      nodes && new Forward({ id: () => nodes.id(), isOver: (node) => nodes.isOver(node), log: options.log, shutdown }),
    nodeAddress: options.nodeAddress,
    statusHold: options.loads.statusHold,
    limits: options.loads,
    uploads: storage.uploads,
    shutdown,
  };
  addHealthRoutes(app, {
    isStopping: () => requests.isStopping,
    probe: async () => {
      await directory.store.account(options.administrator.name);
    },
    probes: [
      async () =>
        (await storage.isInPlace())
          ? undefined
          : "the data folder is gone, or another one is in its place: bring it back",
      () => parts.progress.stalled(),
      () => storage.database.problem(),
      () => worker.problem(),
      ...(options.probes ?? []),
    ],
  });
  addDataRoutes(app, context);
  addLocalRoutes(app, context);
  addLoadRoutes(app, context);
  const prefixes = [...new Set(options.prefixes)];
  for (const prefix of prefixes) {
    addAdministrationRoutes(app, prefix, context);
    addPinboardRoutes(app, prefix, context);
  }
  options.routes?.(app, hostOf(context, prefixes));
}

/** What the service offers to routes of other modules. */
function hostOf(context: ServerContext, prefixes: readonly string[]): Host {
  const { callers, pinboards, sessions, login, secure, shutdown } = context;
  return {
    paths: [familyA, ...prefixes.map((prefix) => prefix + familyB)],
    administrator: async (request) => {
      const { name } = await callers.require(request, "administration");
      return { name, address: request.exchange.address };
    },
    accounts: {
      secure,
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
    loads: new HostedLoads(context),
  };
}

/** @throws {InputError} */
async function readDefinitions(file: string): Promise<TableDefinitions> {
  const sql = await readFile(file, "utf8").catch((cause: unknown) => {
    throw new InputError(`service.tables: ${file} cannot be read: ${reasonOf(cause)}`, { cause });
  });
  return { sql, origin: file };
}
