import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { Control } from "#control/control.ts";
import type { Daemon } from "#control/control.ts";
import { addControlRoutes } from "#control/routes.ts";
import { startControlListener } from "#control/listener.ts";
import { announceDaemon, withdrawDaemon } from "#control/presence.ts";
import { accountsIn } from "./accounts.ts";
import { createToken } from "#control/access.ts";
import { verifyAudit } from "#state/audit/verify.ts";
import { chainIn } from "#state/folder/chain.ts";
import type { Coordinator } from "#sync/coordinator/coordinator.ts";

/** The daemon's API in this process, over real HTTP. */
export interface ControlServer {
  readonly url: string;
  readonly data: string;
  readonly token: string;
  /** Everything it logged. */
  readonly logged: () => string;
  /** A request with the token. */
  request(
    path: string,
    init?: Omit<RequestInit, "headers"> & { headers?: Readonly<Record<string, string>> },
  ): Promise<Response>;
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<Response>;
  /** Starts the shutdown; requests are still answered. */
  beginStopping(): void;
  /** Ends it as a crash would: the data folder stays as it was. */
  end(): Promise<void>;
  stop(): Promise<void>;
}

export async function startControl(
  coordinator: Coordinator | undefined,
  { reload = async () => undefined, changes = noChanges }: Partial<Pick<Daemon, "reload" | "changes">> = {},
): Promise<ControlServer> {
  const data = await mkdtemp(join(tmpdir(), "rollcall-control-"));
  const token = createToken();
  const startedAt = new Date().toISOString();
  const lines: string[] = [];
  const log = pino({ level: "trace" }, { write: (line: string) => lines.push(line) });
  let stopping = false;
  const configuration = { file: "/etc/rollcall/rollcall.yaml", digest: "d1" };
  const control = new Control({ token, ...accountsIn(data), version: "1.2.3", startedAt, log });
  const audit: Daemon["audit"] = (options) => verifyAudit(chainIn(data), options);
  const hold = { renew: (): boolean => true, release: (): void => undefined };
  if (coordinator !== undefined)
    control.attach({ coordinator, reload, changes, audit, hold, configuration: () => configuration });
  const listener = await startControlListener({
    listen: { host: "127.0.0.1", port: 0 },
    allowPlainHttp: false,
    probes: [],
    log,
    isStopping: () => stopping,
    routes: (app, host) => addControlRoutes(app, host, control),
  });
  await announceDaemon(data, { pid: process.pid, url: listener.url, startedAt, token });
  const request: ControlServer["request"] = (path, { headers, ...init } = {}) =>
    fetch(listener.url + path, { ...init, headers: { authorization: `Bearer ${token}`, ...headers } });
  return {
    url: listener.url,
    data,
    token,
    logged: () => lines.join(""),
    request,
    post: (path, body, headers = {}) =>
      request(path, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
      }),
    beginStopping: () => {
      stopping = true;
      control.beginStopping();
    },
    end: () => listener.stop(),
    stop: async () => {
      await listener.stop();
      await withdrawDaemon(data);
      await rm(data, { recursive: true, force: true });
    },
  };
}

async function* noChanges(): AsyncGenerator<never> {
  // There are none.
}
