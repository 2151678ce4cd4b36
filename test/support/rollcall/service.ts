import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Agent, request } from "undici";
import type { Dispatcher } from "undici";
import { startRollcall } from "./rollcall.ts";
import type { Ended, Running } from "./rollcall.ts";
import { databaseFor, portForAll } from "../postgres.ts";

export interface ServiceOptions {
  /** Keys of `service:`, added to or replacing the defaults. */
  readonly service?: Readonly<Record<string, unknown>>;
  /** Top-level keys beside `service:`. */
  readonly beside?: Readonly<Record<string, unknown>>;
  /** Starts the daemon, too, and with it the console. */
  readonly isWhole?: boolean;
  /** The data folder of an earlier service. It is not removed. */
  readonly data?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** Whether its log has requests. */
  readonly verbose?: boolean;
  /** Commands of the shell that come before it: `ulimit -n 256`, `umask 0`. */
  readonly shell?: string;
}

/** A service in a process of its own. */
export interface TestService extends AsyncDisposable {
  readonly url: string;
  readonly administrator: { readonly name: string; readonly password: string };
  readonly data: string;
  readonly running: Running;
  /** Ends it as an operator would. This and `kill` remove the data folder unless it was given. */
  stop(): Promise<Ended>;
  /** SIGKILL. */
  kill(): Promise<void>;
}

export const administrator = { name: "admin", password: "correct horse battery staple" };

/** Starts the real program with only a service, on a free port. */
export async function startService(options: ServiceOptions = {}): Promise<TestService> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-service-"));
  const data = options.data ?? join(folder, "data");
  const running = await runService(folder, data, options);
  const presence = join(data, "service.json");
  const { url } = await Promise.race([readPresence(presence, running.process.pid), neverReady(running)]);
  const end = async (signal: NodeJS.Signals): Promise<Ended> => {
    running.process.kill(signal);
    const ended = await running.ended;
    await rm(folder, { recursive: true, force: true });
    return ended;
  };
  const stop = (): Promise<Ended> => end("SIGTERM");
  return {
    url,
    administrator,
    data,
    running,
    stop,
    kill: async () => {
      await end("SIGKILL");
    },
    [Symbol.asyncDispose]: async () => {
      await stop();
    },
  };
}

/** Runs a service that must fail to start, until it ends. */
export async function failToStart(options: ServiceOptions = {}): Promise<Ended> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-service-"));
  const running = await runService(folder, options.data ?? join(folder, "data"), options);
  const ended = await running.ended;
  await rm(folder, { recursive: true, force: true });
  return ended;
}

async function runService(folder: string, data: string, options: ServiceOptions): Promise<Running> {
  const file = join(folder, "rollcall.yaml");
  // JSON is YAML.
  await writeFile(
    file,
    JSON.stringify({
      service: { listen: "127.0.0.1:0", data, administrator, ...(await engineOf(data)), ...options.service },
      ...options.beside,
    }),
  );
  const only = options.isWhole === true ? [] : ["--only", "service"];
  const verbose = options.verbose === true ? ["--verbose"] : [];
  return startRollcall(["start", ...only, ...verbose, "--config", file], {
    env: { ...options.env },
    shell: options.shell,
  });
}

/** The project `postgres` runs the same tests with a database for each data folder. */
async function engineOf(data: string): Promise<object> {
  const port = portForAll();
  return port === undefined ? {} : { engine: { postgres: await databaseFor(port, data) } };
}

async function readPresence(file: string, pid: number | undefined): Promise<{ url: string }> {
  for (;;) {
    const text = await readFile(file, "utf8").catch(() => "{}");
    const presence = JSON.parse(text) as { pid?: number; url: string };
    if (presence.pid === pid) return presence;
    await delay(20);
  }
}

async function neverReady(running: Running): Promise<never> {
  const ended = await running.ended;
  throw new Error(`the service did not start: ${JSON.stringify(ended, undefined, 2)}`);
}

/** An answer with its body. `text` is not decompressed: undici does not ask for compression by itself. */
export interface Answer {
  readonly status: number;
  readonly headers: Dispatcher.ResponseData["headers"];
  readonly text: string;
}

export type CallOptions = Omit<NonNullable<Parameters<typeof request>[1]>, "headers"> & {
  readonly headers?: Readonly<Record<string, string>>;
  /** The value of the session cookie. */
  readonly session?: string;
};

/** Accepts any certificate: tests make their own. */
const dispatcher = new Agent({ connect: { rejectUnauthorized: false } });

/** Makes a request and reads the answer. */
export async function call(url: string, { session, headers, ...options }: CallOptions = {}): Promise<Answer> {
  const cookie = session === undefined ? {} : { cookie: `JSESSIONID=${session}` };
  const answer = await request(url, { dispatcher, ...options, headers: { ...cookie, ...headers } });
  return { status: answer.statusCode, headers: answer.headers, text: await answer.body.text() };
}

/** Posts a form. */
export function post(url: string, form: Readonly<Record<string, string>>, options: CallOptions = {}): Promise<Answer> {
  const headers = { "content-type": "application/x-www-form-urlencoded", ...options.headers };
  return call(url, { ...options, method: "POST", headers, body: new URLSearchParams(form).toString() });
}

/** The value of the session cookie that an answer sets; undefined when it sets none. */
export function sessionOf(answer: Answer): string | undefined {
  const header = answer.headers["set-cookie"];
  const first = Array.isArray(header) ? header[0] : header;
  return /^JSESSIONID=([^;]*)/.exec(first ?? "")?.[1];
}

/** Logs in through family B and returns the value of the session cookie. */
export async function login(
  url: string,
  { name, password }: { name: string; password: string } = administrator,
): Promise<string> {
  const answer = await post(`${url}/tspublic/v1/session/login`, { username: name, password });
  const session = sessionOf(answer);
  if (answer.status !== 204 || session === undefined) throw new Error(`login: ${answer.status} ${answer.text}`);
  return session;
}
