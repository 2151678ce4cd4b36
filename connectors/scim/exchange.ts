import { readFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { resolve } from "node:path";
import { pipeline, type Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import type { Dispatcher } from "undici";
import { breakageOf } from "#http/trouble.ts";
import { createConnector, type Establish } from "#http/trust.ts";
import { Client } from "#http/undici.ts";
import { IncompleteReadError } from "#errors.ts";
import type { Options } from "./options.ts";

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
export async function openExchanges(
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
