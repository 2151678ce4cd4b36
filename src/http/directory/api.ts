import type { Socket } from "node:net";
import { IncompleteReadError, InputError, RefusedError, RollcallError, UnavailableError } from "#errors.ts";
import { createQueue } from "#queue.ts";
import { presentable } from "#redact.ts";
import { formatDuration } from "#text.ts";
import { HttpClient, jsonBody, jsonIn, textOf } from "#http/client.ts";
import type { Answer, HttpClientOptions, HttpRequest, Method, RequestBody } from "#http/client.ts";
import { HttpError } from "#http/errors.ts";
import { isLoopback } from "#http/listening.ts";
import { defaultRetries, repeat, retryAfter } from "#http/retries.ts";
import type { Outcome } from "#http/retries.ts";
import type { Authorization, Exchange, Refusal, Requester } from "./authorization.ts";
import { JsonError } from "./json.ts";
import { isUsedUp, Pace } from "./pace.ts";

/** Time limits, in milliseconds. */
export interface ApiTimeouts {
  /** To connect, TLS included. */
  readonly connect: number;
  /** Until an answer begins, and between two pieces of it. */
  readonly answer: number;
  /** One request up to the last byte of its answer. */
  readonly request: number;
  /** Everything that is read. */
  readonly read: number;
  /** The longest pause that is accepted when the service asks for one. */
  readonly pause: number;
}

/** A service and how it is asked, for the time of one read. */
export interface ApiOptions extends Pick<HttpClientOptions, "ca" | "certificate" | "proxy"> {
  /** For messages: `source corp`. The first word says whose setting `ca` is. */
  readonly subject: string;
  /** Where requests and the links in answers may go: `https://graph.microsoft.com`. No token goes anywhere else. */
  readonly origins: readonly string[];
  /** Plain HTTP to other machines, too. Default: only to this one. */
  readonly allowPlainHttp?: boolean | undefined;
  readonly authorization: Authorization;
  readonly timeouts: ApiTimeouts;
  /** How often one request is tried. Default: 4. */
  readonly attempts?: number | undefined;
  /** How many requests run at a time. Default: 4. */
  readonly concurrency?: number | undefined;
  /** Headers of every request: `{ accept: "application/scim+json" }`. Default: `accept: application/json`. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** What the body of a refusal says, in the service's own words. Default: what most services call it. */
  readonly errorText?: ((body: unknown) => string | undefined) | undefined;
  /** What to do about a refusal; undefined: the advice for any service. */
  readonly advice?: ((refusal: Refusal) => string | undefined) | undefined;
  /** Whether a refusal means too many requests, beside 429 and a 403 whose headers say so. */
  readonly isLimit?: ((refusal: Refusal) => boolean) | undefined;
}

/** One request that changes something. */
export interface Write<T> extends Pick<Exchange<T>, "use" | "signal" | "once"> {
  readonly url: URL;
  readonly method: Exclude<Method, "GET">;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: RequestBody | undefined;
  /** May turn a refusal into a result. */
  readonly refused?: ((refusal: Refusal) => { readonly value: T } | undefined) | undefined;
}

/** One request for something to read. */
export interface Get<T> extends Pick<Exchange<T>, "use" | "keepsOpen" | "signal"> {
  readonly url: URL;
  /** Beside, or instead of, those of every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** What is searched for, in JSON: services that read by POST. Default: GET. */
  readonly body?: object | undefined;
  /** May turn a refusal into a result: a 404 may mean that there is none. */
  readonly refused?: ((refusal: Refusal) => { readonly value: T } | undefined) | undefined;
}

/** In bytes: what is larger is read as a stream. */
const longestPage = 64 * 1024 * 1024;

/**
 * One read's access to a service that is asked page by page: a token where it belongs and nowhere else, time limits,
 * repeated attempts, the service's pace, and errors that say what to do.
 */
export class DirectoryApi implements Requester {
  readonly subject: string;
  /** Aborted with the read, and by `close`. */
  readonly signal: AbortSignal;
  readonly warn: (message: string) => void;
  readonly #options: ApiOptions;
  readonly #origins: ReadonlySet<string>;
  readonly #http: HttpClientOptions;
  readonly #idle: HttpClient[] = [];
  readonly #all: HttpClient[] = [];
  readonly #end: number;
  readonly #pace: Pace;
  readonly #queue: ReturnType<typeof createQueue>;
  readonly #closing = new AbortController();
  readonly #signals = new WeakMap<AbortSignal, AbortSignal>();
  #socket: Socket | undefined;

  /** @throws {InputError} an origin would be reached over plain HTTP; the reason of the signal, when it is aborted already */
  constructor(
    options: ApiOptions,
    { signal, warn }: { readonly signal: AbortSignal; readonly warn: (message: string) => void },
  ) {
    signal.throwIfAborted();
    const { timeouts, concurrency = 4 } = options;
    this.subject = options.subject;
    this.signal = AbortSignal.any([signal, this.#closing.signal]);
    this.warn = warn;
    this.#options = options;
    this.#origins = new Set(options.origins.map((origin) => new URL(origin).origin));
    for (const origin of this.#origins) this.#assertEncrypted(new URL(origin));
    this.#http = {
      owner: options.subject.split(" ")[0] ?? "source",
      ca: options.ca,
      certificate: options.certificate,
      proxy: options.proxy,
      timeouts: { connect: timeouts.connect, headers: timeouts.answer, body: timeouts.answer },
      keepAlive: true,
    };
    this.#end = performance.now() + timeouts.read;
    this.#pace = new Pace(concurrency, timeouts.pause);
    this.#queue = createQueue(concurrency);
  }

  /** Never to appear in a message. */
  secrets(): readonly string[] {
    return this.#options.authorization.secrets();
  }

  /** The connection of the last answer. */
  socket(): Socket | undefined {
    return this.#socket;
  }

  /** For messages: `source corp: GET https://idp.example.com/users?page=2`. */
  titleOf(url: URL): string {
    return `${this.subject}: GET ${shown(url)}`;
  }

  /**
   * Where a link in an answer leads. One to the same host over plain HTTP is meant to be encrypted: the service does not know of
   * the proxy that does that.
   * @param base the URL of the answer
   * @throws {IncompleteReadError} to another server than the service's: the token would go there
   */
  follow(link: string, base: URL): URL {
    const found = URL.parse(link, base);
    const isProxied =
      found?.protocol === "http:" &&
      base.protocol === "https:" &&
      found.hostname === base.hostname &&
      ["", base.port].includes(found.port);
    const url = isProxied && found.username === "" ? new URL(found.pathname + found.search, base) : found;
    if (url !== null && url.username === "" && url.password === "" && this.#origins.has(url.origin)) return url;
    const where = url === null ? "something that is not a URL" : `${url.protocol}//${url.host}`;
    throw new IncompleteReadError(
      `${this.titleOf(base)}: the next page is at ${where}, where no credentials may go (allowed: ${[...this.#origins].join(", ")}); the records read so far are not used`,
    );
  }

  /**
   * Sends a request, again where another attempt may succeed, with a new token once if the first is refused.
   * @throws {UnavailableError} no answer, or a temporary refusal, at every attempt; a time limit
   * @throws {RefusedError} the service refuses
   * @throws {InputError} the answer is not what it should be
   */
  get<T>({ body, ...rest }: Get<T>): Promise<T> {
    return body === undefined
      ? this.#exchange({ ...rest, method: "GET" })
      : this.#exchange({ ...rest, method: "POST", body: jsonBody(body) });
  }

  /**
   * Changes something. Only what is not `once` is sent again where the first may have arrived.
   * @throws {UnavailableError} as `get`; with `once` the change may have been made
   * @throws what else `get` throws
   */
  write<T>(request: Write<T>): Promise<T> {
    return this.#exchange({ ...request, writes: true });
  }

  #exchange<T>({
    url,
    method,
    headers,
    body,
    refused,
    ...rest
  }: Omit<Write<T>, "method"> & Pick<Exchange<T>, "keepsOpen" | "writes"> & { readonly method: Method }): Promise<T> {
    if (!this.#origins.has(url.origin)) throw new TypeError(`${url.origin} is not an origin of ${this.subject}`);
    const { authorization, headers: usual } = this.#options;
    let sent: Readonly<Record<string, string>> = {};
    let isRenewed = false;
    const exchange: Exchange<T> = {
      ...rest,
      title: `${method} ${shown(url)}`,
      request: async () => {
        sent = await authorization.headers(this, { method, url });
        return {
          url,
          method,
          headers: { accept: "application/json", ...usual, ...headers, ...sent },
          body,
        };
      },
      refused: (refusal) => {
        if (refusal.status === 401 && !isRenewed && authorization.renew(sent, refusal)) {
          isRenewed = true;
          return "again";
        }
        return refused?.(refusal);
      },
    };
    return this.#queue(() => this.perform(exchange), this.#signalOf(exchange));
  }

  #signalOf({ signal }: Pick<Exchange<never>, "signal">): AbortSignal {
    if (signal === undefined) return this.signal;
    // Thousands of requests have the same one.
    const known = this.#signals.get(signal) ?? AbortSignal.any([this.signal, signal]);
    this.#signals.set(signal, known);
    return known;
  }

  /** The JSON of an answer (up to 64 MiB), and its headers. @throws what `get` throws */
  json(url: URL, options: JsonOptions = {}): Promise<JsonAnswer> {
    return this.get<JsonAnswer>({
      url,
      ...options,
      use: async (answer) => ({ value: await jsonIn(answer, longestPage), headers: answer.headers }),
    });
  }

  /**
   * The JSON of what has an address of its own; undefined: there is no such thing.
   * @param gone the statuses that say so
   * @throws what `get` throws
   */
  async jsonIfAny(url: URL, gone: readonly number[] = [404]): Promise<unknown> {
    const none = { value: { value: undefined, headers: {} } };
    const { value } = await this.json(url, { refused: ({ status }) => (gone.includes(status) ? none : undefined) });
    return value;
  }

  /** The text of an answer (up to 1 MiB). @throws what `get` throws */
  text(url: URL, options: Pick<Get<string>, "headers" | "refused"> = {}): Promise<string> {
    return this.get<string>({ url, ...options, use: (answer) => textOf(answer) });
  }

  /**
   * Sends a request of another kind: for a token, to any server.
   * @throws what `get` throws
   */
  async perform<T>(exchange: Exchange<T>): Promise<T> {
    const { timeouts, attempts = defaultRetries.attempts } = this.#options;
    const retries = { ...defaultRetries, attempts, patience: timeouts.pause };
    const signal = this.#signalOf(exchange);
    return repeat(() => this.#attempt(exchange, signal), { retries, log: this.warn }, signal);
  }

  async #attempt<T>(exchange: Exchange<T>, signal: AbortSignal): Promise<Outcome<T>> {
    const subject = `${this.subject}: ${exchange.title}`;
    const sent = await exchange.request();
    let answer: Answer | undefined;
    let refusal: Refusal;
    try {
      answer = await this.#send(sent, exchange.title, signal);
      // What other successes hold (202, 204, 206) is not the whole answer to a question.
      const { status } = answer;
      if (status === 200 || status === 203 || (exchange.writes === true && status > 200 && status < 300)) {
        const value = await exchange.use(answer);
        if (exchange.keepsOpen !== true) answer.close();
        return { value };
      }
      refusal = await this.#refusalOf(answer);
      answer.close();
    } catch (error) {
      answer?.close();
      signal.throwIfAborted();
      const problem = `${subject}: ${problemOf(error, subject)}`;
      if (exchange.once === true && !(error instanceof HttpError && error.phase === "connect"))
        throw new UnavailableError(`${problem}; it may have been done`, { cause: error });
      return { problem };
    }
    const isLimit = saysTooMany(refusal) || this.#options.isLimit?.(refusal) === true;
    const result = isLimit ? undefined : exchange.refused?.(refusal);
    if (result === "again") return this.#attempt(exchange, signal);
    if (result !== undefined) return result;
    const { status, said, headers } = refusal;
    const problem = `${subject} answered ${status}${said === undefined ? "" : ` (${said})`}`;
    if (isLimit || isTemporary(status)) {
      const after = retryAfter(headers["retry-after"], Date.now());
      // Any other server error leaves open whether the request was carried out.
      const isUndone = isLimit || status === 425 || (status === 503 && after !== undefined);
      if (exchange.once === true && !isUndone) throw new UnavailableError(`${problem}; it may have been done`);
      // To a change, no pause at all says as little: it may be a date by another clock.
      const isSaid = (exchange.writes === true ? after || undefined : after) !== undefined || this.#pace.isWaiting();
      return { problem, after, isCrowded: isLimit && !isSaid };
    }
    throw new RefusedError(`${problem}: ${this.#options.advice?.(refusal) ?? adviceOn(refusal, exchange.isForToken)}`, {
      status,
    });
  }

  /** Sends one request, within the limits of the read. The answer must be closed. */
  async #send(request: HttpRequest, title: string, signal: AbortSignal): Promise<Answer> {
    this.#assertEncrypted(request.url);
    await this.#pace.turn(signal, (message) => this.warn(`${this.subject}: ${message}`));
    this.#assertInTime(Infinity, title);
    const client = this.#idle.pop() ?? this.#newClient();
    try {
      const answer = await client.send(request, signal);
      this.#socket = answer.socket;
      this.#pace.observe(answer.headers);
      const end = performance.now() + this.#options.timeouts.request;
      let isOpen = true;
      return {
        ...answer,
        // The client does not know how long a body may take altogether.
        body: until(answer.body, () => this.#assertInTime(end, title)),
        close: () => {
          answer.close();
          if (isOpen) this.#idle.push(client);
          isOpen = false;
        },
      };
    } catch (error) {
      this.#idle.push(client);
      throw error;
    }
  }

  /** Each has one connection: while an answer arrives, another request needs another one. */
  #newClient(): HttpClient {
    const client = new HttpClient(this.#http);
    this.#all.push(client);
    return client;
  }

  async #refusalOf(answer: Answer): Promise<Refusal> {
    const { status, headers } = answer;
    const body = await jsonIn(answer).catch(() => undefined);
    const said = this.#options.errorText?.(body) ?? usualErrorText(body);
    return { status, headers, body, said: said === undefined ? undefined : presentable(said, this.secrets()) };
  }

  #assertEncrypted(url: URL): void {
    if (url.protocol === "https:" || this.#options.allowPlainHttp === true || isLoopback(url.hostname)) return;
    throw new InputError(`${this.subject}: ${url.origin} would get credentials unencrypted; use https://`);
  }

  #assertInTime(requestEnd: number, title: string): void {
    const now = performance.now();
    if (now <= requestEnd && now <= this.#end) return;
    const { read, request } = this.#options.timeouts;
    const [limit, setting, what] =
      now > this.#end ? [read, "read", "the whole read takes"] : [request, "request", `${title}: the answer takes`];
    throw new UnavailableError(
      `${this.subject}: ${what} longer than ${formatDuration(limit)} (timeouts: { ${setting} })`,
    );
  }

  /** Ends what still runs, and closes every connection. */
  async close(): Promise<void> {
    this.#closing.abort(new UnavailableError(`${this.subject}: the read has ended`));
    await Promise.all(this.#all.map((client) => client.close()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/**
 * What is read of a service, whose connections are closed afterwards.
 * @param open called once the first part is asked for
 */
export async function* reading<Api extends DirectoryApi, Part>(
  open: () => Api,
  read: (api: Api) => AsyncIterable<Part>,
): AsyncGenerator<Part> {
  await using api = open();
  yield* read(api);
  api.signal.throwIfAborted();
}

/** An answer in JSON. */
export interface JsonAnswer {
  readonly value: unknown;
  readonly headers: Answer["headers"];
}

type JsonOptions = Pick<Get<JsonAnswer>, "headers" | "refused">;

/** An answer that is delivered while it arrives. */
interface Arriving<Part, End> {
  /** For messages: `source corp: GET https://hr.example.com/people`. */
  readonly title: string;
  /** The answer, for messages. Default: `the answer`. */
  readonly what?: string | undefined;
  readonly first?: Part | undefined;
  readonly rest: AsyncGenerator<Part, End>;
  readonly close: () => void;
}

/**
 * The parts of an answer. Once the first of them is delivered, it is too late to ask again. Closes the answer.
 * @throws {UnavailableError} it broke off
 */
export async function* arriving<Part, End>(
  { signal }: Pick<DirectoryApi, "signal">,
  { title, what = "the answer", first, rest, close }: Arriving<Part, End>,
): AsyncGenerator<Part, End> {
  try {
    if (first !== undefined) yield first;
    return yield* rest;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof RollcallError) throw error;
    // Throws what another attempt would meet, too.
    problemOf(error, title);
    const reason = error instanceof JsonError ? error.message : "broke off";
    throw new UnavailableError(`${title}: ${what} ${reason}`, { cause: error });
  } finally {
    close();
  }
}

/** The pieces of a body, for as long as there is time. */
async function* until(body: AsyncIterable<Buffer>, assertInTime: () => void): AsyncGenerator<Buffer> {
  for await (const piece of body) {
    assertInTime();
    yield piece;
  }
}

/** Parameters that say no more than which part of a list it is. */
const places = new Set("startIndex count page pageNumber per_page offset limit first max maxResults $top".split(" "));

/** A URL for messages: of its query only the place in a list. */
function shown(url: URL): string {
  const kept = [...url.searchParams].flatMap(([name, value]) => (places.has(name) ? [`${name}=${value}`] : []));
  return `${url.origin}${url.pathname}${kept.length === 0 ? "" : `?${kept.join("&")}`}`;
}

/** Some services, such as GitHub, answer 403 then. */
function saysTooMany({ status, headers }: Refusal): boolean {
  return status === 429 || (status === 403 && (headers["retry-after"] !== undefined || isUsedUp(headers)));
}

/** 501 and 505 stay. */
function isTemporary(status: number): boolean {
  return [408, 425].includes(status) || (status >= 500 && status !== 501 && status !== 505);
}

/** Why an attempt failed; throws when another one would fail too. */
function problemOf(error: unknown, subject: string): string {
  if (error instanceof JsonError) {
    if (error.reason === "truncated") return `the answer ${error.message}`;
    throw new InputError(`${subject}: the answer ${error.message}, at its line ${error.line}; is the url right?`);
  }
  if (error instanceof SyntaxError) {
    if (/end of JSON|Unterminated/.test(error.message)) return "the answer ends before its JSON does";
    throw new InputError(`${subject}: the answer is not JSON; is the url right?`);
  }
  if (!(error instanceof HttpError)) throw error;
  if (error.advice === "fix") throw new RefusedError(`${subject}: ${error.message}`);
  return error.message;
}

/**
 * What most services call their reasons: SCIM (RFC 7644), token endpoints (RFC 6749), problem details (RFC 9457), and
 * objects with `code` and `message`, which may be inside `error`.
 */
function usualErrorText(body: unknown): string | undefined {
  if (typeof body !== "object" || body === null) return undefined;
  const found = body as Readonly<Record<string, unknown>>;
  const { error } = found;
  if (typeof error === "object" && error !== null) return usualErrorText(error);
  const names = [
    "scimType",
    "error",
    "code",
    "errorCode",
    "title",
    "detail",
    "error_description",
    "message",
    "errorSummary",
  ];
  const texts = names.flatMap((name) => {
    const value = found[name];
    return (typeof value === "string" && value !== "") || typeof value === "number" ? [String(value)] : [];
  });
  return texts.length === 0 ? undefined : [...new Set(texts)].join(": ");
}

/** What any service may mean by a status. */
function adviceOn({ status, headers }: Refusal, isForToken = false): string {
  if (status < 300) return "expected 200; anything else is not known to be the whole answer";
  if (status < 400) {
    const { location } = headers;
    const target = typeof location === "string" ? URL.parse(location) : null;
    const path = typeof location === "string" && location.startsWith("/") ? location.split(/[?#]/, 1)[0] : undefined;
    const place = target === null ? (path ?? "another address") : `${target.origin}${target.pathname}`;
    return `it points to ${place}, which is not followed; if that is the server, use its address as the url`;
  }
  if (isForToken && status !== 401)
    return "the server gives no token: check auth (the address, the client, its secret or key, the scope)";
  switch (status) {
    case 400:
      return "the server rejects the request: check the filter and the size of pages";
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
