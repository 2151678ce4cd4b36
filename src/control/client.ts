import { setTimeout as delay } from "node:timers/promises";
import { command } from "#commands.ts";
import { InputError, UnavailableError } from "#errors.ts";
import { isAlive } from "#files/durable.ts";
import { z } from "zod";
import { roles } from "#roles.ts";
import type { Role } from "#roles.ts";
import type { Approval, Begun, CommandCoordinator, RunRequest } from "#sync/coordinator/coordinator.ts";
import { recordOf } from "#state/record.ts";
import type { InboxStatus } from "#state/inbox/status.ts";
import type { RunDocument, RunRecord, Stage, SyncStatus } from "#state/record.ts";
import { controlRoutes, ofControl } from "#wire/routes.ts";
import type { Route } from "#wire/routes.ts";
import type { ListedAccount } from "./accounts.ts";
import type { ListedToken } from "./sessions.ts";
import { Connection, elsewhere, NoDaemonError } from "./connection.ts";
import { loginFor } from "./logins.ts";
import { readDaemonPresence } from "./presence.ts";
import type { DaemonPresence } from "./presence.ts";
import type { RunUnderWay } from "./control.ts";
import type { RunList, Status } from "./routes.ts";

/** A daemon that answers. */
export interface FoundDaemon {
  readonly connection: Connection;
  readonly status: Status;
}

/**
 * The daemon of a data folder, or the one that somebody has logged in to with its configuration; undefined when there is none: its process is gone, nothing listens at its address, or
 * another program does.
 * @param account the account the caller runs under, for the audit log
 * @throws {UnavailableError} when it exists but does not answer
 */
export async function findDaemon(data: string, account: string, signal: AbortSignal): Promise<FoundDaemon | undefined> {
  const own = await readDaemonPresence(data);
  const presence = own !== undefined && isAlive(own.pid) ? own : undefined;
  const login = await loginFor(data, presence?.url);
  if (presence === undefined && login === undefined) return undefined;
  const connection = new Connection(presence ?? presenceAt(login?.url ?? ""), account, login);
  try {
    const { value } = await connection.request(controlRoutes.status, signal);
    return { connection, status: value as Status };
  } catch (error) {
    if (error instanceof NoDaemonError) return undefined;
    throw error;
  }
}

/** A daemon that is known by its address alone. */
export function presenceAt(url: string): DaemonPresence {
  return { pid: elsewhere, url, startedAt: "", token: "" };
}

/**
 * Makes a daemon read its configuration again. Returns the file.
 * @throws {RollcallError} when it keeps the old one, and why
 */
export async function reloadDaemon({ connection }: FoundDaemon, signal: AbortSignal): Promise<string> {
  const { value } = await connection.request(controlRoutes.reload, signal);
  return (value as Pick<Status, "configuration">).configuration.file;
}

/** Where accounts are changed: by a daemon, or in the store. */
export interface AccountChanges {
  add(account: { readonly name: string; readonly role: Role; readonly password: string }): Promise<unknown>;
  change(
    name: string,
    changes: {
      readonly role?: Role | undefined;
      readonly disabled?: boolean | undefined;
      readonly password?: string | undefined;
    },
  ): Promise<unknown>;
  remove(name: string): Promise<unknown>;
  revoke(id: string): Promise<unknown>;
}

/** Changes accounts over a daemon. */
export function accountsOver({ connection }: FoundDaemon, signal: AbortSignal): AccountChanges {
  const ask = (route: Route, body: object): Promise<unknown> => connection.request(route, signal, body);
  return {
    add: (account) => ask(controlRoutes.addAccount, account),
    change: (name, { role, disabled, password }) =>
      ask(ofControl(controlRoutes.changeAccount, name), { role, disabled, password }),
    remove: (name) => ask(ofControl(controlRoutes.removeAccount, name), {}),
    revoke: (id) => ask(ofControl(controlRoutes.revokeToken, id), {}),
  };
}

/** Where tokens of inboxes are changed: by a daemon, or in the store. */
export interface InboxChanges {
  add(source: string, name: string | undefined): Promise<{ readonly name: string; readonly token: string }>;
  revoke(source: string, token: string): Promise<{ readonly name: string }>;
}

/** The inboxes of a daemon. */
export function inboxesOver(
  { connection }: FoundDaemon,
  signal: AbortSignal,
): InboxChanges & { status(): Promise<readonly InboxStatus[]> } {
  const ask = async (route: Route, source: string, body: object): Promise<unknown> =>
    (await connection.request(ofControl(route, source), signal, body)).value;
  return {
    status: async () => {
      const { value } = await connection.request(controlRoutes.inboxes, signal);
      return (value as { readonly inboxes: readonly InboxStatus[] }).inboxes;
    },
    add: async (source, name) =>
      (await ask(controlRoutes.addInboxToken, source, { name })) as Awaited<ReturnType<InboxChanges["add"]>>,
    revoke: async (source, token) =>
      (await ask(controlRoutes.revokeInboxToken, source, { token })) as Awaited<ReturnType<InboxChanges["revoke"]>>,
  };
}

/** The accounts and the tokens of a daemon. */
export async function listedOver(
  { connection }: FoundDaemon,
  signal: AbortSignal,
): Promise<{ readonly accounts: readonly ListedAccount[]; readonly tokens: readonly ListedToken[] }> {
  const { value: accounts } = await connection.request(controlRoutes.accounts, signal);
  const { value: tokens } = await connection.request(controlRoutes.tokens, signal);
  return {
    ...(accounts as { readonly accounts: readonly ListedAccount[] }),
    ...(tokens as { readonly tokens: readonly ListedToken[] }),
  };
}

/**
 * Lets no run of a daemon begin for 20 seconds.
 * @returns the runs that are under way still; undefined: none is
 */
export async function holdRuns(
  { connection }: FoundDaemon,
  signal: AbortSignal,
): Promise<readonly string[] | undefined> {
  // Only a process that can read the data folder may: a login is no help.
  const own = new Connection(connection.presence, "");
  const { status, value } = await own.request(controlRoutes.hold, signal);
  return status === 200 ? undefined : (value as { readonly running: readonly string[] }).running;
}

export async function releaseRuns({ connection }: FoundDaemon, signal: AbortSignal): Promise<void> {
  await new Connection(connection.presence, "").request(controlRoutes.release, signal);
}

const loggedIn = z.object({ name: z.string(), role: z.enum(roles), token: z.string().optional() });

/**
 * Logs in to a daemon: gets a token for a name and a password, or asks whose a token is.
 * @throws {InputError} they are wrong
 */
export async function logInTo(
  presence: DaemonPresence,
  given: { readonly secret: string } | { readonly name?: string; readonly password?: string; readonly token: string },
  signal: AbortSignal,
): Promise<{ readonly token: string; readonly name: string; readonly role: Role }> {
  const isToken = "secret" in given;
  const there = { ...presence, pid: elsewhere, token: "" };
  const connection = new Connection(there, "", isToken ? { token: given.secret } : undefined);
  const { value } = await (isToken
    ? connection.request(controlRoutes.caller, signal)
    : connection.request(controlRoutes.logIn, signal, given));
  const { name, role, token = isToken ? given.secret : "" } = loggedIn.parse(value);
  return { name, role, token };
}

/** Revokes the access token of a login. */
export async function logOutOf(connection: Connection, signal: AbortSignal): Promise<void> {
  await connection.request(controlRoutes.logOut, signal);
}

/** What a remote run reports while it is under way. */
interface Watcher {
  readonly progress?: (stage: Stage, records?: number) => void;
}

export interface RemoteOptions {
  /** The data folder, in which a restarted daemon is found again. */
  readonly data: string;
  readonly account: string;
  /** Aborting it stops following; the daemon continues. */
  readonly signal: AbortSignal;
}

/** How long to wait before a run is asked for again, in milliseconds: longer each time. */
const pauses = [50, 100, 200, 400];

/** Connects to a daemon. */
export async function connectCoordinator(daemon: FoundDaemon, options: RemoteOptions): Promise<RemoteCoordinator> {
  const remote = new RemoteCoordinator(daemon, options);
  await remote.refresh();
  return remote;
}

/**
 * A coordinator in another process, over its API. The daemon decides who `by` is, and calls only a watcher's `progress`.
 * `runs` and `syncs` are refreshed at the start and whenever a run that was started here ends. Such a run's `ended` rejects
 * with an `UnavailableError` when the daemon ends first, and with the signal's reason when `signal` is aborted.
 */
export class RemoteCoordinator implements CommandCoordinator {
  #connection: Connection;
  readonly #options: RemoteOptions;
  readonly #closing = new AbortController();
  readonly #signal: AbortSignal;
  #runs: readonly RunRecord[] = [];
  #syncs: readonly SyncStatus[] = [];

  constructor({ connection }: FoundDaemon, options: RemoteOptions) {
    this.#connection = connection;
    this.#options = options;
    this.#signal = AbortSignal.any([options.signal, this.#closing.signal]);
  }

  begin({ sync, digest, overrides, for: people }: RunRequest, watcher?: Watcher): Promise<Begun> {
    return this.#begin(ofControl(controlRoutes.run, sync), { digest, overrides, for: people }, watcher);
  }

  approve(id: string, { digest, overrides, selection, reason }: Approval, watcher?: Watcher): Promise<Begun> {
    return this.#begin(ofControl(controlRoutes.approve, id), { digest, overrides, reason, ...selection }, watcher);
  }

  async reject(id: string, { reason }: Parameters<CommandCoordinator["reject"]>[1]): Promise<RunRecord> {
    const run = recordOf((await this.#request(ofControl(controlRoutes.reject, id), { reason })) as RunDocument);
    await this.refresh();
    return run;
  }

  undo(id: string, _: unknown, watcher?: Watcher): Promise<Begun> {
    return this.#begin(ofControl(controlRoutes.undo, id), {}, watcher);
  }

  runs(): readonly RunRecord[] {
    return this.#runs;
  }

  syncs(): readonly SyncStatus[] {
    return this.#syncs;
  }

  /** Reads the runs and the status of the syncs. */
  async refresh(): Promise<void> {
    ({ syncs: this.#syncs } = (await this.#request(controlRoutes.status)) as Status);
    const found: RunRecord[] = [];
    for (let more = true; more;) {
      const before = found.at(-1)?.id;
      const query = before === undefined ? "" : `&before=${encodeURIComponent(before)}`;
      const { method, path } = controlRoutes.runs;
      const list = (await this.#request({ method, path: `${path}?limit=1000${query}` })) as RunList;
      found.push(...list.runs.map(recordOf));
      ({ more } = list);
    }
    this.#runs = found;
  }

  /** Stops following the daemon, which goes on. */
  close(): void {
    this.#closing.abort(new UnavailableError("the daemon is no longer followed"));
  }

  async #request(route: Route, body?: object): Promise<unknown> {
    const { value } = await this.#connection.request(route, this.#signal, body);
    return value;
  }

  async #begin(route: Route, body: object, watcher?: Watcher): Promise<Begun> {
    const run = recordOf((await this.#request(route, body)) as RunDocument);
    const ended = this.#end(run.id, watcher);
    // Not every caller waits for it.
    ended.catch(() => undefined);
    return { run, ended };
  }

  /** Asks for a run until it has ended, also across a restart of the daemon. */
  async #end(id: string, watcher: Watcher | undefined): Promise<RunRecord> {
    let shown: string | undefined;
    for (let asked = 0; ; asked++) {
      const { status, value } = await this.#ask(id);
      if (status === 200) {
        // The outcome is known already; a daemon that is gone by now does not change it.
        await this.refresh().catch(() => undefined);
        return recordOf(value as RunDocument);
      }
      const { progress } = value as RunUnderWay;
      if (progress !== undefined && JSON.stringify(progress) !== shown) {
        watcher?.progress?.(progress.stage, progress.records);
        shown = JSON.stringify(progress);
      }
      await delay(pauses[asked] ?? pauses.at(-1), undefined, { signal: this.#signal }).catch(() => undefined);
      if (this.#signal.aborted) throw this.#signal.reason;
    }
  }

  async #ask(id: string): ReturnType<Connection["request"]> {
    for (;;) {
      try {
        return await this.#connection.request(ofControl(controlRoutes.end, id), this.#signal);
      } catch (error) {
        if (this.#signal.aborted) throw this.#signal.reason;
        // The daemon does not know the run.
        if (error instanceof InputError) throw error;
        if (error instanceof NoDaemonError) await this.#findAgain(id);
      }
      await delay(pauses.at(-1), undefined, { signal: this.#signal }).catch(() => undefined);
    }
  }

  /** @throws {UnavailableError} when there is no daemon any more */
  async #findAgain(id: string): Promise<void> {
    const { data, account } = this.#options;
    try {
      const found = await findDaemon(data, account, this.#signal);
      if (found !== undefined) {
        this.#connection = found.connection;
        return;
      }
    } catch {
      // It is there, and does not answer yet.
      return;
    }
    const { pid } = this.#connection.presence;
    throw new UnavailableError(
      `the daemon (process ${pid}) ended while run ${id} was running. When it is started again, it finds out how the run ended; then see \`${command("show", id)}\``,
    );
  }
}
