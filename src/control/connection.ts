import { randomBytes } from "node:crypto";
import { command } from "#commands.ts";
import { z } from "zod";
import { InputError, RefusedError, UnavailableError } from "#errors.ts";
import type { RollcallError } from "#errors.ts";
import { HttpClient, jsonBody, jsonIn } from "#http/client.ts";
import type { Answer } from "#http/client.ts";
import { HttpError } from "#http/errors.ts";
import { presentable } from "#redact.ts";
import { controlRoot, controlRoutes } from "#wire/routes.ts";
import type { Route } from "#wire/routes.ts";
import { accountHeader } from "./access.ts";
import type { Login } from "./logins.ts";
import type { DaemonPresence } from "./presence.ts";
import { digestOf, nameOf, proofOf } from "./proof.ts";

/** The daemon is gone: nothing listens there, or another program does, which does not know the token. */
export class NoDaemonError extends UnavailableError {}

/** In place of the process, of a daemon that somebody has logged in to. */
export const elsewhere = 0;

/** In milliseconds. */
const timeouts = { connect: 5000, headers: 20_000, body: 45_000 };

/** The longest answer, in characters. */
const longestAnswer = 8 * 1024 * 1024;

const errorDocument = z.object({
  error: z.object({ message: z.string(), problems: z.array(z.string()), advice: z.enum(["fix", "retry", "stop"]) }),
});

const proven = z.object({ proof: z.string() });

interface Answered {
  readonly status: number;
  readonly value: unknown;
}

/** A connection to a daemon: on this machine, or where somebody has logged in. */
export class Connection {
  readonly presence: DaemonPresence;
  readonly #http: HttpClient;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #bearer: string;
  readonly #isLogin: boolean;
  #isProven: boolean;

  /**
   * @param account the account the caller runs under, for the audit log
   * @param login whoever has logged in here: they ask, with their role
   */
  constructor(presence: DaemonPresence, account: string, login?: Pick<Login, "token">) {
    const { token, certificate, pid } = presence;
    const pinned = certificate !== undefined;
    this.presence = presence;
    this.#isLogin = login !== undefined;
    // Over TLS, its certificate is the proof.
    this.#isProven = login === undefined || presence.url.startsWith("https:");
    const proxy = pid === elsewhere ? undefined : false;
    this.#bearer = login?.token ?? token;
    this.#http = new HttpClient({ owner: "target", timeouts, ca: certificate, pinned, proxy });
    this.#headers = {
      accept: "application/json",
      [accountHeader]: encodeURIComponent(account),
    };
  }

  /**
   * Sends one request. The `status` distinguishes 202 from 200.
   * @throws {NoDaemonError} when nothing listens there, or another program does
   * @throws {RollcallError} the daemon's own error
   */
  async request(route: Route, signal: AbortSignal, body: object = {}): Promise<Answered> {
    if (!this.#isProven) await this.#prove(signal);
    const authorization = this.#bearer !== "" && { authorization: `Bearer ${this.#bearer}` };
    return this.#send(route, signal, body, { ...this.#headers, ...authorization });
  }

  /** Nobody else gets the token of a login. @throws {NoDaemonError} another program listens there */
  async #prove(signal: AbortSignal): Promise<void> {
    const [digest, challenge] = [digestOf(this.#bearer), randomBytes(32).toString("base64url")];
    const body = { token: nameOf(digest), challenge };
    const { value } = await this.#send(controlRoutes.prove, signal, body, this.#headers);
    if (proven.safeParse(value).data?.proof !== proofOf(digest, challenge))
      throw new NoDaemonError(`${this.presence.url}: another program listens there. Your login was not sent to it`);
    this.#isProven = true;
  }

  async #send(
    { path, method }: Route,
    signal: AbortSignal,
    body: object,
    headers: Readonly<Record<string, string>>,
  ): Promise<Answered> {
    const { url } = this.presence;
    try {
      return await this.#http.exchange(
        {
          url: new URL(url + controlRoot + path),
          method,
          headers,
          body: method === "POST" ? jsonBody(body) : undefined,
        },
        async (answer) => {
          if (answer.status >= 400) throw await errorOf(answer, this.presence, this.#isLogin);
          return { status: answer.status, value: await jsonOf(answer) };
        },
        signal,
      );
    } catch (error) {
      if (!(error instanceof HttpError)) throw error;
      const isUncertain = method === "POST" && error.phase !== "connect";
      const message = `${called(this.presence)}: ${error.message}${isUncertain ? `. It may or may not have carried out the request: see \`${command("runs")}\`` : ""}`;
      throw error.phase === "connect" ? new NoDaemonError(message) : new UnavailableError(message);
    }
  }
}

async function jsonOf(answer: Answer): Promise<unknown> {
  try {
    return await jsonIn(answer, longestAnswer);
  } catch (cause) {
    if (cause instanceof HttpError) throw cause;
    throw new HttpError("receive", "the answer is not JSON", "later", { cause });
  }
}

/** What messages call a daemon. */
function called({ pid, url }: DaemonPresence): string {
  return pid === elsewhere ? `the daemon at ${url}` : `the daemon (process ${pid})`;
}

async function errorOf(answer: Answer, presence: DaemonPresence, isLogin: boolean): Promise<RollcallError> {
  const { status } = answer;
  const { pid, url } = presence;
  if (status === 401 && !isLogin && pid !== elsewhere)
    return new NoDaemonError(`process ${pid} is not the daemon that this data folder names (401)`);
  const parsed = errorDocument.safeParse(await jsonOf(answer).catch(() => undefined));
  if (!parsed.success) return new RefusedError(`${called(presence)} answered ${status}`, { status });
  const { message, problems, advice } = parsed.data.error;
  const said = presentable(message);
  if (advice === "retry") return new UnavailableError(said);
  if (advice === "stop") return new RefusedError(`${called(presence)}: ${said}`, { status });
  if (status === 401 && isLogin)
    return new InputError(`your login at ${url} has ended: ${said}. \`rollcall login\` again, or \`rollcall logout\``);
  return new InputError(said, { problems: problems.map((problem) => presentable(problem)) });
}
