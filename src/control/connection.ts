import { command } from "#commands.ts";
import { z } from "zod";
import { InputError, RefusedError, UnavailableError } from "#errors.ts";
import type { RollcallError } from "#errors.ts";
import { HttpClient, jsonBody, jsonIn } from "#http/client.ts";
import type { Answer } from "#http/client.ts";
import { HttpError } from "#http/errors.ts";
import { presentable } from "#redact.ts";
import { controlRoot } from "#wire/routes.ts";
import type { Route } from "#wire/routes.ts";
import { accountHeader } from "./access.ts";
import type { DaemonPresence } from "./presence.ts";

/** The daemon is gone: nothing listens there, or another program does, which does not know the token. */
export class NoDaemonError extends UnavailableError {}

/** In milliseconds. */
const timeouts = { connect: 5000, headers: 20_000, body: 45_000 };

/** The longest answer, in characters. */
const longestAnswer = 8 * 1024 * 1024;

const errorDocument = z.object({
  error: z.object({ message: z.string(), problems: z.array(z.string()), advice: z.enum(["fix", "retry", "stop"]) }),
});

/** A connection to a daemon on this machine. */
export class Connection {
  readonly presence: DaemonPresence;
  readonly #http: HttpClient;
  readonly #headers: Readonly<Record<string, string>>;

  /** @param account the account the caller runs under, for the audit log */
  constructor(presence: DaemonPresence, account: string) {
    const { token, certificate } = presence;
    const pinned = certificate !== undefined;
    this.presence = presence;
    this.#http = new HttpClient({ owner: "target", timeouts, ca: certificate, pinned, proxy: false });
    this.#headers = {
      accept: "application/json",
      authorization: `Bearer ${token}`,
      [accountHeader]: encodeURIComponent(account),
    };
  }

  /**
   * Sends one request. The `status` distinguishes 202 from 200.
   * @throws {NoDaemonError} when nothing listens there, or another program does
   * @throws {RollcallError} the daemon's own error
   */
  async request(
    { path, method }: Route,
    signal: AbortSignal,
    body: object = {},
  ): Promise<{ readonly status: number; readonly value: unknown }> {
    const { url, pid } = this.presence;
    try {
      return await this.#http.exchange(
        {
          url: new URL(url + controlRoot + path),
          method,
          headers: this.#headers,
          body: method === "POST" ? jsonBody(body) : undefined,
        },
        async (answer) => {
          if (answer.status >= 400) throw await errorOf(answer, pid);
          return { status: answer.status, value: await jsonOf(answer) };
        },
        signal,
      );
    } catch (error) {
      if (!(error instanceof HttpError)) throw error;
      const isUncertain = method === "POST" && error.phase !== "connect";
      const message = `the daemon (process ${pid}): ${error.message}${isUncertain ? `. It may or may not have carried out the request: see \`${command("runs")}\`` : ""}`;
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

async function errorOf(answer: Answer, pid: number): Promise<RollcallError> {
  const { status } = answer;
  if (status === 401) return new NoDaemonError(`process ${pid} is not the daemon that this data folder names (401)`);
  const parsed = errorDocument.safeParse(await jsonOf(answer).catch(() => undefined));
  if (!parsed.success) return new RefusedError(`the daemon (process ${pid}) answered ${status}`, { status });
  const { message, problems, advice } = parsed.data.error;
  const said = presentable(message);
  if (advice === "retry") return new UnavailableError(said);
  if (advice === "stop") return new RefusedError(`the daemon (process ${pid}): ${said}`, { status });
  return new InputError(said, { problems: problems.map((problem) => presentable(problem)) });
}
