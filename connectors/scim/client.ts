import { readFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { resolve } from "node:path";
import { pipeline } from "node:stream";
import type { Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import type { Dispatcher } from "undici";
import { z } from "zod";
import type { OpenContext, ReadContext } from "#connector.ts";
import { IncompleteReadError, InputError, RefusedError, RollcallError } from "#errors.ts";
import { presentable } from "#http/refusal.ts";
import { defaultRetries, repeat, retryAfter } from "#http/retries.ts";
import type { Outcome } from "#http/retries.ts";
import { breakageOf } from "#http/trouble.ts";
import { createConnector } from "#http/trust.ts";
import type { Establish } from "#http/trust.ts";
import { Client } from "#http/undici.ts";
import { JsonError } from "./json.ts";
import type { Auth, Options } from "./options.ts";
import { objectOf } from "./resource.ts";

/** A server for the time of one read. */
export interface Server {
  /** Where it is, with a slash at the end. */
  readonly base: URL;
  /** `source corp` */
  readonly subject: string;
  readonly signal: AbortSignal;
  warn(message: string): void;
  /** @throws what `ask` throws */
  get<T>(query: Query<T>): Promise<T>;
  /** The connection that is in use. */
  socket(): Socket | undefined;
  close(): Promise<void>;
}

export interface Query<T> {
  /** Below the base. */
  readonly path: string;
  readonly parameters: Readonly<Record<string, string>>;
  readonly use: (answer: Answer) => Promise<T>;
  readonly refused?: (refusal: Refusal) => { readonly value: T } | undefined;
}

/** @throws {IncompleteReadError} when the file of certificates cannot be read */
export async function openServer(
  options: Options & { readonly url: string },
  authorization: Authorization,
  { name, folder }: OpenContext,
  { signal, warn }: ReadContext,
): Promise<Server> {
  const exchanges = await openExchanges(options, folder, signal);
  const asking: Asking = { exchanges, name, signal, warn, patience: options.timeouts.pause };
  const base = new URL(options.url.replace(/\/*$/, "/"));
  return {
    base,
    subject: `source ${name}`,
    signal,
    warn,
    get: ({ path, parameters, use, refused }) => {
      const url = new URL(path.replace(/^\/+/, ""), base);
      for (const [key, value] of Object.entries(parameters)) url.searchParams.set(key, value);
      let headers: Readonly<Record<string, string>> = {};
      let isRenewed = false;
      return ask(asking, {
        title: `GET ${titleOf(url)}`,
        secrets: () => authorization.secrets(),
        use,
        request: async () => {
          headers = await authorization.headers(asking);
          return { url, headers };
        },
        refused: (refusal) => {
          if (refusal.status === 401 && !isRenewed && authorization.renew(headers)) {
            isRenewed = true;
            return "again";
          }
          return refused?.(refusal);
        },
      });
    },
    socket: () => exchanges.socket(),
    close: () => exchanges.close(),
  };
}

/** A URL as a message shows it: with its place in a list, without what is long or says nothing to a person. */
export function titleOf(url: URL): string {
  const place = ["startIndex", "count"].flatMap((name) => {
    const value = url.searchParams.get(name);
    return value === null ? [] : [`${name}=${value}`];
  });
  return `${url.origin}${url.pathname}${place.length === 0 ? "" : `?${place.join("&")}`}`;
}

/** What all requests of one read share. */
export interface Asking {
  readonly exchanges: Exchanges;
  /** The source's name, for messages. */
  readonly name: string;
  readonly signal: AbortSignal;
  readonly warn: (message: string) => void;
  /** The longest pause that a server may ask for, in milliseconds. */
  readonly patience: number;
}

/** A question to a server. */
export interface Question<T> {
  /** Made anew for every attempt. */
  readonly request: () => Promise<Request>;
  /** For messages: `GET https://idp.example.com/scim/v2/Users?startIndex=1`. */
  readonly title: string;
  /** Reads a successful answer. */
  readonly use: (answer: Answer) => Promise<T>;
  /** May make something of a refusal: an answer, another attempt at once (`again`), or nothing. */
  readonly refused?: (refusal: Refusal) => { readonly value: T } | "again" | undefined;
  /** What must not stand in a message. */
  readonly secrets: () => readonly string[];
}

/** An answer that is no success, and what its body says. */
export interface Refusal {
  readonly status: number;
  readonly scimType?: string;
  readonly detail?: string;
}

const passing = new Set([408, 425, 429, 500, 502, 503, 504]);

/**
 * Puts a question, again where it may go better.
 * @throws {UnavailableError} when there is no answer, or none of use for now
 * @throws {RefusedError} when the server refuses
 * @throws {InputError} when the answer is not what it should be
 */
function ask<T>(asking: Asking, question: Question<T>): Promise<T> {
  const { exchanges, name, signal, warn, patience } = asking;
  const subject = `source ${name}: ${question.title}`;

  const judge = async (answer: Answer): Promise<Outcome<T>> => {
    if (answer.status >= 200 && answer.status < 300) return { value: await question.use(answer) };
    const refusal = await refusalOf(answer, question.secrets());
    const made = question.refused?.(refusal);
    if (made === "again") return attempt();
    if (made !== undefined) return made;
    const said = [refusal.scimType, refusal.detail].filter((part) => part !== undefined).join(": ");
    const problem = `${subject} answered ${refusal.status}${said === "" ? "" : ` (${said})`}`;
    if (passing.has(refusal.status)) {
      const after = retryAfter(answer.headers["retry-after"], Date.now());
      return after === undefined ? { problem } : { problem, after };
    }
    throw new RefusedError(`${problem}: ${adviceOn(refusal, answer)}`, { status: refusal.status });
  };

  const attempt = async (): Promise<Outcome<T>> => {
    let isReading = false;
    const request = await question.request();
    try {
      const answer = await exchanges.request(request);
      isReading = true;
      return await judge(answer);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof RollcallError) throw error;
      if (error instanceof JsonError && error.reason === "malformed") {
        throw new InputError(
          `${subject}: the answer ${error.message}, at its line ${error.line}; is the url that of a SCIM server?`,
        );
      }
      if (error instanceof JsonError) return { problem: `${subject}: the answer ${error.message}` };
      const { reason, isPassing } = exchanges.reasonOf(error, request.url, isReading);
      if (isPassing) return { problem: `${subject}: ${reason}` };
      throw new RefusedError(`${subject}: ${reason}`);
    }
  };

  return repeat(attempt, { retries: { ...defaultRetries, patience }, log: warn }, signal);
}

async function refusalOf({ status, body }: Answer, secrets: readonly string[]): Promise<Refusal> {
  const text = await textOf(body).catch(() => "");
  let said: Readonly<Record<string, unknown>> | undefined;
  try {
    said = objectOf(JSON.parse(text));
  } catch {
    return { status };
  }
  // What servers of tokens say has other names (RFC 6749, 5.2).
  const scimType = said?.["scimType"] ?? said?.["error"];
  const detail = said?.["detail"] ?? said?.["error_description"];
  return {
    status,
    ...(typeof scimType === "string" ? { scimType: presentable(scimType, secrets) } : {}),
    ...(typeof detail === "string" ? { detail: presentable(detail, secrets) } : {}),
  };
}

function adviceOn({ status }: Refusal, { headers }: Answer): string {
  if (status >= 300 && status < 400) {
    const { location } = headers;
    const target = typeof location === "string" ? URL.parse(location) : null;
    const place = target === null ? "another address" : `${target.origin}${target.pathname}`;
    return `it points to ${place}, which is not followed; if that is the server, use its address as the url`;
  }
  switch (status) {
    case 400:
      return "the server does not take the request: check the filter; paging: { count } may be too large, or attributes: all be needed";
    case 401:
      return "the server does not take the credentials: check auth";
    case 403:
      return "the credentials do not allow it: the account needs to read all users and groups";
    case 404:
      return "there is nothing: check the url and the paths of users and groups";
    default:
      return "the server, or a proxy before it, does not take such a request";
  }
}

/** The text of a body, of which no more than 1 MiB is read. */
export async function textOf(body: AsyncIterable<Buffer>): Promise<string> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of body) {
    parts.push(part);
    length += part.length;
    if (length > 2 ** 20) break;
  }
  return Buffer.concat(parts).toString();
}

/** One request. */
export interface Request {
  readonly url: URL;
  readonly method?: "GET" | "POST";
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** An answer whose header has arrived; `body` is unpacked. */
export interface Answer {
  readonly status: number;
  readonly headers: Dispatcher.ResponseData["headers"];
  readonly body: AsyncIterable<Buffer>;
}

/** Connections to the servers of one read. */
export interface Exchanges {
  /**
   * @throws {Broken} when there is no answer
   * @throws the signal's reason
   */
  request(request: Request): Promise<Answer>;
  /** What went wrong while an answer was awaited or read, for a person. */
  reasonOf(error: unknown, url: URL, isReading: boolean): Reason;
  /** The connection of the last request. */
  socket(): Socket | undefined;
  close(): Promise<void>;
}

interface Reason {
  readonly reason: string;
  /** It may go better when it is tried again. */
  readonly isPassing: boolean;
}

/**
 * @param folder where the configuration is
 * @throws {IncompleteReadError} when the file of certificates cannot be read
 */
async function openExchanges(
  { ca, timeouts: { connect, answer } }: Options,
  folder: string,
  signal: AbortSignal,
): Promise<Exchanges> {
  const trust = ca === undefined ? {} : { ca: await certificatesIn(ca, folder) };
  const establish = createConnector(trust, connect);
  const timeouts = { connect, headers: answer, body: answer };
  const sockets = new Set<Socket>();
  const clients = new Map<string, Client>();
  let last: Socket | undefined;

  const clientOf = ({ origin }: URL): Client => {
    const known = clients.get(origin);
    if (known !== undefined) return known;
    const client = new Client(origin, {
      headersTimeout: answer,
      bodyTimeout: answer,
      connect: track(establish, sockets, (socket) => (last = socket)),
    });
    clients.set(origin, client);
    return client;
  };
  // Not left to `request`, which waits for a connection that is being opened before it notices.
  const end = (): void => {
    for (const client of clients.values()) client.destroy().catch(() => undefined);
    for (const socket of sockets) socket.destroy();
  };
  signal.addEventListener("abort", end);

  return {
    async request({ url, method = "GET", headers, body }) {
      signal.throwIfAborted();
      try {
        const response = await clientOf(url).request({
          method,
          path: url.pathname + url.search,
          headers: { accept: "application/scim+json, application/json", "accept-encoding": "gzip", ...headers },
          body: body ?? null,
        });
        response.body.on("error", () => undefined); // it may be left unread
        return { status: response.statusCode, headers: response.headers, body: unpacked(response) };
      } catch (error) {
        signal.throwIfAborted();
        throw error;
      }
    },
    reasonOf(error, url, isReading) {
      const where = { url, timeouts, owner: "source" };
      const { reason, advice } = breakageOf(error, isReading ? "receive" : "wait", where);
      return { reason, isPassing: advice !== "fix" };
    },
    socket: () => last,
    async close() {
      signal.removeEventListener("abort", end);
      end();
      await Promise.all([...clients.values()].map((client) => client.destroy().catch(() => undefined)));
    },
  };
}

function track(establish: Establish, sockets: Set<Socket>, opened: (socket: Socket) => void): Establish {
  return (target, callback) => {
    const socket = establish(target, callback);
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    opened(socket);
    return socket;
  };
}

function unpacked({ headers, body }: Dispatcher.ResponseData): AsyncIterable<Buffer> {
  if (headers["content-encoding"] !== "gzip") return body as AsyncIterable<Buffer>;
  // The pipeline hands every error of the body to who reads what it unpacks.
  return pipeline(body as Readable, createGunzip(), () => {}) as AsyncIterable<Buffer>;
}

async function certificatesIn(path: string, folder: string): Promise<string> {
  try {
    return await readFile(resolve(folder, path), "utf8");
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "unknown";
    throw new IncompleteReadError(`ca: ${path} cannot be read (${code}); it is relative to the configuration's folder`);
  }
}

/** As whom a source asks. Holds a token for as long as it is valid, through several reads. */
export interface Authorization {
  /** The headers of a request. @throws what `ask` throws, when there is no token to be had */
  headers(asking: Asking): Promise<Readonly<Record<string, string>>>;
  /** Forgets the token that was refused; false when there is no other to be had. */
  renew(refused: Readonly<Record<string, string>>): boolean;
  /** What must not stand in a message. */
  secrets(): readonly string[];
  /** As whom, for a person. */
  readonly who: string;
}

type OAuth = Extract<Auth, { oauth: unknown }>["oauth"];

export function authorizationOf(auth: Auth | undefined): Authorization {
  if (auth === undefined) return fixed({}, [], "nobody (no auth)");
  if ("bearer" in auth)
    return fixed({ authorization: `Bearer ${auth.bearer}` }, [auth.bearer], "the holder of a token");
  if ("headers" in auth) {
    return fixed(auth.headers, Object.values(auth.headers), `what ${Object.keys(auth.headers).join(", ")} says`);
  }
  if ("basic" in auth) {
    const { username, password } = auth.basic;
    const encoded = Buffer.from(`${username}:${password}`).toString("base64");
    return fixed({ authorization: `Basic ${encoded}` }, [password, encoded], `the user ${username}`);
  }
  return clientCredentials(auth.oauth);
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

/** A token is not used when it has less than this to live, in milliseconds: the request still has to arrive. */
const margin = 30_000;

function clientCredentials(oauth: OAuth): Authorization {
  let token: { readonly value: string; readonly goodUntil: number } | undefined;
  const encoded = Buffer.from(`${encode(oauth.clientId)}:${encode(oauth.clientSecret)}`).toString("base64");
  const own = [oauth.clientSecret, encode(oauth.clientSecret), encoded];
  // Also those that have just been replaced: an answer may repeat them.
  let tokens: readonly string[] = [];
  const secrets = (): readonly string[] => [...own, ...tokens];

  const fetch = async (asking: Asking): Promise<string> => {
    const form = new URLSearchParams({ grant_type: "client_credentials" });
    if (oauth.scope !== undefined) form.set("scope", oauth.scope);
    if (oauth.audience !== undefined) form.set("audience", oauth.audience);
    if (oauth.send === "body") {
      form.set("client_id", oauth.clientId);
      form.set("client_secret", oauth.clientSecret);
    }
    const title = `POST ${oauth.tokenUrl}`;
    const request = {
      url: new URL(oauth.tokenUrl),
      method: "POST" as const,
      headers: {
        accept: "application/json",
        "content-type": "application/x-www-form-urlencoded",
        ...(oauth.send === "header" ? { authorization: `Basic ${encoded}` } : {}),
      },
      body: form.toString(),
    };
    const answer = await ask(asking, {
      request: () => Promise.resolve(request),
      title,
      secrets,
      use: async ({ body }) => parsed(await textOf(body)),
    });
    if (!answer.success) {
      const where = answer.error.issues[0]?.path.join(".") ?? "";
      throw new InputError(
        `source ${asking.name}: ${title}: the answer is not one with a bearer token${where === "" ? "" : ` (${where})`}; check auth`,
      );
    }
    const { access_token: value, expires_in: seconds } = answer.data;
    tokens = [value, ...tokens].slice(0, 3);
    const life = (seconds ?? 300) * 1_000;
    token = { value, goodUntil: performance.now() + Math.max(life - margin, life / 2) };
    return value;
  };

  return {
    async headers(asking) {
      const value = token !== undefined && performance.now() < token.goodUntil ? token.value : await fetch(asking);
      return { authorization: `Bearer ${value}` };
    },
    renew({ authorization }) {
      if (token !== undefined && authorization === `Bearer ${token.value}`) token = undefined;
      return true;
    },
    secrets,
    who: `the client ${oauth.clientId}`,
  };
}

function parsed(text: string) {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Not shown: what cannot be read may hold a token.
  }
  return tokenAnswer.safeParse(value);
}

/** As in a form (RFC 6749, 2.3.1). */
function encode(text: string): string {
  return new URLSearchParams([["", text]]).toString().slice(1);
}
