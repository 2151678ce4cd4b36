import type { Socket } from "node:net";
import { resolve } from "node:path";
import { z } from "zod";
import type { OpenContext, ReadContext } from "#connector.ts";
import { IncompleteReadError, InputError, messageOf, RefusedError, UnavailableError } from "#errors.ts";
import { longestCertificates, readSmallFile } from "#files/disk.ts";
import { HttpClient, formBody, jsonIn } from "#http/client.ts";
import type { Answer, HttpRequest } from "#http/client.ts";
import { HttpError } from "#http/errors.ts";
import { presentable } from "#redact.ts";
import { defaultRetries, repeat, retryAfter } from "#http/retries.ts";
import type { Outcome } from "#http/retries.ts";
import { formatDuration } from "#text.ts";
import { JsonError } from "./json.ts";
import type { Auth, Options } from "./options.ts";
import { objectOf } from "./resource.ts";

/** A SCIM server, for the time of one read. */
export class Server {
  /** Its URL, with a slash at the end. */
  readonly base: URL;
  readonly name: string;
  /** For messages: `source corp`. */
  readonly subject: string;
  readonly signal: AbortSignal;
  readonly warn: (message: string) => void;
  readonly timeouts: Options["timeouts"];
  readonly #authorization: Authorization;
  readonly #client: HttpClient;
  /** A list that is still arriving occupies the connection of the first client. */
  readonly #second: HttpClient;
  readonly #end: number;
  #isOccupied = false;
  #socket: Socket | undefined;

  constructor(
    { url, proxy, timeouts }: ServerOptions,
    ca: string | undefined,
    authorization: Authorization,
    name: string,
    { signal, warn }: ReadContext,
  ) {
    const { connect, answer, read } = timeouts;
    const limits = { connect, headers: answer, body: answer };
    const http = { owner: "source", ca, proxy, timeouts: limits, keepAlive: true };
    this.base = new URL(url.replace(/\/*$/, "/"));
    this.name = name;
    this.subject = `source ${name}`;
    this.signal = signal;
    this.warn = warn;
    this.timeouts = timeouts;
    this.#authorization = authorization;
    this.#client = new HttpClient(http);
    this.#second = new HttpClient(http);
    this.#end = performance.now() + read;
  }

  /** Never to appear in a message. */
  secrets(): readonly string[] {
    return this.#authorization.secrets();
  }

  /** The connection of the last answer. */
  socket(): Socket | undefined {
    return this.#socket;
  }

  /** @throws what `request` throws */
  get<T>({ path, parameters, refused, ...query }: Query<T>): Promise<T> {
    const url = new URL(path.replace(/^\/+/, ""), this.base);
    for (const [key, value] of Object.entries(parameters)) url.searchParams.set(key, value);
    let credentials: Readonly<Record<string, string>> = {};
    let isRenewed = false;
    return request(this, {
      ...query,
      title: `GET ${titleOf(url)}`,
      secrets: () => this.secrets(),
      request: async () => {
        credentials = await this.#authorization.headers(this);
        return { url, headers: { accept: "application/scim+json, application/json", ...credentials } };
      },
      refused: (refusal) => {
        if (refusal.status === 401 && !isRenewed && this.#authorization.renew(credentials)) {
          isRenewed = true;
          return "again";
        }
        return refused?.(refusal);
      },
    });
  }

  /** Sends one request, within the limits of the read. The answer must be closed. */
  async send(request: HttpRequest): Promise<Answer> {
    this.#assertInTime(Infinity, request.url);
    if (this.#isOccupied) return this.#limited(await this.#second.send(request, this.signal), request.url);
    this.#isOccupied = true;
    try {
      const answer = this.#limited(await this.#client.send(request, this.signal), request.url);
      this.#socket = answer.socket;
      const close = (): void => {
        this.#isOccupied = false;
        answer.close();
      };
      return { ...answer, close };
    } catch (error) {
      this.#isOccupied = false;
      throw error;
    }
  }

  /** Neither client knows how long a body may take altogether. */
  #limited(answer: Answer, url: URL): Answer {
    const end = performance.now() + this.timeouts.request;
    return { ...answer, body: until(answer.body, () => this.#assertInTime(end, url)) };
  }

  #assertInTime(requestEnd: number, url: URL): void {
    const now = performance.now();
    if (now <= requestEnd && now <= this.#end) return;
    const { read, request } = this.timeouts;
    const [limit, setting, what] =
      now > this.#end
        ? [read, "read", "the whole read takes"]
        : [request, "request", `GET ${titleOf(url)}: the answer takes`];
    throw new UnavailableError(
      `${this.subject}: ${what} longer than ${formatDuration(limit)} (timeouts: { ${setting} })`,
    );
  }

  async close(): Promise<void> {
    await this.#client.close();
    await this.#second.close();
  }
}

export type ServerOptions = Options & { readonly url: string };

/** @throws {IncompleteReadError} when the file of certificates cannot be read */
export async function openServer(
  options: ServerOptions,
  authorization: Authorization,
  { name, folder }: OpenContext,
  context: ReadContext,
): Promise<Server> {
  const ca = options.ca === undefined ? undefined : await certificatesIn(options.ca, folder);
  return new Server(options, ca, authorization, name, context);
}

/** The pieces of a body, for as long as there is time. */
async function* until(body: AsyncIterable<Buffer>, assertInTime: () => void): AsyncGenerator<Buffer> {
  for await (const piece of body) {
    assertInTime();
    yield piece;
  }
}

export interface Query<T> extends Pick<Request<T>, "use" | "keepsOpen"> {
  /** Below the base. */
  readonly path: string;
  readonly parameters: Readonly<Record<string, string>>;
  readonly refused?: ((refusal: Refusal) => { readonly value: T } | undefined) | undefined;
}

async function certificatesIn(path: string, folder: string): Promise<string> {
  try {
    return readSmallFile(resolve(folder, path), longestCertificates).toString();
  } catch (error) {
    const why = error instanceof Error && "code" in error ? String(error.code) : messageOf(error);
    throw new IncompleteReadError(`ca: ${path} cannot be read (${why}); it is relative to the configuration's folder`);
  }
}

/** A URL for messages: of its query only the place in a list. */
export function titleOf(url: URL): string {
  const place = ["startIndex", "count"].flatMap((name) => {
    const value = url.searchParams.get(name);
    return value === null ? [] : [`${name}=${value}`];
  });
  return `${url.origin}${url.pathname}${place.length === 0 ? "" : `?${place.join("&")}`}`;
}

interface Request<T> {
  /** For messages: `GET https://idp.example.com/scim/v2/Users?startIndex=1`. */
  readonly title: string;
  /** Called for every attempt. */
  readonly request: () => Promise<HttpRequest>;
  /** Reads a successful answer. */
  readonly use: (answer: Answer) => Promise<T>;
  /** The answer stays open after `use`; its result says who closes it. */
  readonly keepsOpen?: boolean | undefined;
  /** May turn a refusal into a result, or into another attempt at once (`again`). */
  readonly refused?: ((refusal: Refusal) => { readonly value: T } | "again" | undefined) | undefined;
  /** Never to appear in a message. */
  readonly secrets: () => readonly string[];
}

/** An answer without success, and what its body says. */
interface Refusal {
  readonly status: number;
  readonly scimType?: string | undefined;
  readonly detail?: string | undefined;
}

const temporary = new Set([408, 425, 429, 500, 502, 503, 504]);

/**
 * Sends a request, again where another attempt may succeed.
 * @throws {UnavailableError} no answer, or a temporary refusal, at every attempt
 * @throws {RefusedError} the server refuses
 * @throws {InputError} the answer is not what it should be
 */
function request<T>(server: Server, request: Request<T>): Promise<T> {
  const { signal, warn, timeouts } = server;
  const subject = `${server.subject}: ${request.title}`;

  const attempt = async (): Promise<Outcome<T>> => {
    const sent = await request.request();
    let answer: Answer | undefined;
    let refusal: Refusal;
    try {
      answer = await server.send(sent);
      // What other successes hold (202, 204, 206) is not the whole answer.
      if (answer.status === 200 || answer.status === 203) {
        const value = await request.use(answer);
        if (request.keepsOpen !== true) answer.close();
        return { value };
      }
      refusal = await refusalOf(answer, request.secrets());
      answer.close();
    } catch (error) {
      answer?.close();
      signal.throwIfAborted();
      return { problem: `${subject}: ${problemOf(error, subject)}` };
    }
    const result = request.refused?.(refusal);
    if (result === "again") return attempt();
    if (result !== undefined) return result;
    const said = [refusal.scimType, refusal.detail].filter((part) => part !== undefined).join(": ");
    const problem = `${subject} answered ${refusal.status}${said === "" ? "" : ` (${said})`}`;
    if (temporary.has(refusal.status)) return { problem, after: retryAfter(answer.headers["retry-after"], Date.now()) };
    throw new RefusedError(`${problem}: ${adviceOn(refusal, answer)}`, { status: refusal.status });
  };

  return repeat(attempt, { retries: { ...defaultRetries, patience: timeouts.pause }, log: warn }, signal);
}

/** Why an attempt failed; throws when another one would fail too. */
export function problemOf(error: unknown, subject: string): string {
  if (error instanceof JsonError) {
    if (error.reason === "truncated") return `the answer ${error.message}`;
    throw new InputError(
      `${subject}: the answer ${error.message}, at its line ${error.line}; is the url that of a SCIM server?`,
    );
  }
  if (!(error instanceof HttpError)) throw error;
  if (error.advice === "fix") throw new RefusedError(`${subject}: ${error.message}`);
  return error.message;
}

async function refusalOf(answer: Answer, secrets: readonly string[]): Promise<Refusal> {
  const { status } = answer;
  let body: Readonly<Record<string, unknown>> | undefined;
  try {
    body = objectOf(await jsonIn(answer));
  } catch {
    return { status };
  }
  const textIn = (value: unknown): string | undefined =>
    typeof value === "string" ? presentable(value, secrets) : undefined;
  // Token endpoints use other names (RFC 6749, 5.2).
  return {
    status,
    scimType: textIn(body?.["scimType"] ?? body?.["error"]),
    detail: textIn(body?.["detail"] ?? body?.["error_description"]),
  };
}

function adviceOn({ status }: Refusal, { headers }: Answer): string {
  if (status < 300) return "expected 200; anything else is not known to be the whole answer";
  if (status >= 300 && status < 400) {
    const { location } = headers;
    const target = typeof location === "string" ? URL.parse(location) : null;
    const place = target === null ? "another address" : `${target.origin}${target.pathname}`;
    return `it points to ${place}, which is not followed; if that is the server, use its address as the url`;
  }
  switch (status) {
    case 400:
      return "the server rejects the request: check the filter; paging: { count } may be too large, or attributes: all may be needed";
    case 401:
      return "the server rejects the credentials: check auth";
    case 403:
      return "the credentials are not sufficient: the account must be able to read all users and groups";
    case 404:
      return "not found: check the url and the paths of users and groups";
    default:
      return "the server, or a proxy in front of it, rejects such requests";
  }
}

/** The credentials of a source. Holds a token for as long as it is valid, across reads. */
export interface Authorization {
  /** The headers of a request. @throws what `request` throws, when there is no token */
  headers(server: Server): Promise<Readonly<Record<string, string>>>;
  /** Forgets the token that was refused; false when there is no way to get another. */
  renew(refused: Readonly<Record<string, string>>): boolean;
  /** Never to appear in a message. */
  secrets(): readonly string[];
  /** Whose credentials these are, for a person. */
  readonly who: string;
}

type OAuth = Extract<Auth, { oauth: unknown }>["oauth"];

export function authorizationOf(auth: Auth | undefined): Authorization {
  if (auth === undefined) return fixed({}, [], "anonymous (no auth)");
  if ("bearer" in auth)
    return fixed({ authorization: `Bearer ${auth.bearer}` }, [auth.bearer], "the holder of a token");
  if ("headers" in auth) {
    return fixed(
      auth.headers,
      Object.values(auth.headers),
      `the holder of the header ${Object.keys(auth.headers).join(", ")}`,
    );
  }
  if ("basic" in auth) {
    const { username, password } = auth.basic;
    const encoded = Buffer.from(`${username}:${password}`).toString("base64");
    return fixed({ authorization: `Basic ${encoded}` }, [password, encoded], `the user ${username}`);
  }
  return new ClientCredentials(auth.oauth);
}

function fixed(headers: Readonly<Record<string, string>>, secrets: readonly string[], who: string): Authorization {
  return { headers: () => Promise.resolve(headers), renew: () => false, secrets: () => secrets, who };
}

const tokenAnswer = z.object({
  access_token: z.string().regex(/^[\x21-\x7e]+$/),
  token_type: z
    .string()
    .regex(/^bearer$/i)
    .optional(),
  expires_in: z.coerce.number().positive().optional(),
});

/** A token is renewed this long before it expires, in milliseconds: the request still has to arrive. */
const margin = 30_000;

/** The client credentials grant (RFC 6749, 4.4). */
class ClientCredentials implements Authorization {
  readonly who: string;
  readonly #oauth: OAuth;
  readonly #encoded: string;
  #token: { readonly value: string; readonly goodUntil: number } | undefined;
  /** Replaced ones too: an answer may repeat them. */
  #tokens: readonly string[] = [];

  constructor(oauth: OAuth) {
    this.who = `the client ${oauth.clientId}`;
    this.#oauth = oauth;
    this.#encoded = Buffer.from(`${encode(oauth.clientId)}:${encode(oauth.clientSecret)}`).toString("base64");
  }

  async headers(server: Server): Promise<{ readonly authorization: string }> {
    let token = this.#token;
    if (token === undefined || performance.now() >= token.goodUntil) token = await this.#fetch(server);
    this.#token = token;
    return { authorization: `Bearer ${token.value}` };
  }

  renew({ authorization }: Readonly<Record<string, string>>): boolean {
    if (this.#token !== undefined && authorization === `Bearer ${this.#token.value}`) this.#token = undefined;
    return true;
  }

  secrets(): readonly string[] {
    const { clientSecret } = this.#oauth;
    return [clientSecret, encode(clientSecret), this.#encoded, ...this.#tokens];
  }

  async #fetch(server: Server): Promise<{ readonly value: string; readonly goodUntil: number }> {
    const { tokenUrl, clientId, clientSecret, scope, audience, send } = this.#oauth;
    const fields = {
      grant_type: "client_credentials",
      ...(scope !== undefined && { scope }),
      ...(audience !== undefined && { audience }),
      ...(send === "body" && { client_id: clientId, client_secret: clientSecret }),
    };
    const authorization = send === "header" ? `Basic ${this.#encoded}` : undefined;
    const title = `POST ${tokenUrl}`;
    const answer = await request(server, {
      request: async () => ({
        url: new URL(tokenUrl),
        method: "POST",
        headers: { accept: "application/json", authorization },
        body: formBody(fields),
      }),
      title,
      secrets: () => this.secrets(),
      use: async (answer) => tokenAnswer.safeParse(await jsonIn(answer).catch(unlessBroken)),
    });
    if (!answer.success) {
      const where = answer.error.issues[0]?.path.join(".") ?? "";
      throw new InputError(
        `${server.subject}: ${title}: the answer is not one with a bearer token${where === "" ? "" : ` (${where})`}; check auth`,
      );
    }
    const { access_token: value, expires_in: seconds } = answer.data;
    this.#tokens = [value, ...this.#tokens].slice(0, 3);
    const life = (seconds ?? 300) * 1_000;
    return { value, goodUntil: performance.now() + Math.max(life - margin, life / 2) };
  }
}

/** What is not JSON is not shown: it may hold a token. */
function unlessBroken(error: unknown): undefined {
  if (error instanceof SyntaxError) return undefined;
  throw error;
}

/** Form encoding (RFC 6749, 2.3.1). */
function encode(text: string): string {
  return new URLSearchParams([["", text]]).toString().slice(1);
}
