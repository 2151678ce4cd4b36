import { networkInterfaces } from "node:os";
import { Readable } from "node:stream";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import { messageOf, UnavailableError } from "#errors.ts";
import type { Answer, RequestBody } from "#http/client.ts";
import { isLoopback } from "#http/listening.ts";
import type { Node } from "#service/loads/cycle.ts";
import { HttpError } from "#http/answers.ts";
import { disconnectOf, plainAddress } from "#http/exchange.ts";

/** Names the node that a request is passed on to. The receiver answers it or refuses it, and never passes it on again. */
const nodeHeader = "x-rollcall-node";

export interface ForwardOptions {
  /** The id of this node. */
  readonly id: () => string;
  /** Whether the lease of a node has ended. */
  readonly isOver: (node: string) => Promise<boolean>;
  readonly log: Logger;
  /** Aborted when the service stops waiting for requests (0.9). */
  readonly shutdown: AbortSignal;
}

/** In milliseconds. The header of an answer may take as long as the node lives: an upload ends with its last byte on disk. */
const timeouts = { connect: 5_000, headers: 2 ** 31 - 1, body: 120_000 };

/** How often it is looked whether a node that has not answered yet is lost, in milliseconds. */
const lookInterval = 1_000;

/** What belongs to one connection (RFC 9110, 7.6.1), and what the node must judge by itself or was judged here. */
const ownHeaders = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "expect",
  "host",
  "accept-encoding",
  "origin",
  "sec-fetch-site",
  "date",
  "x-forwarded-for",
  nodeHeader,
]);

/** Passes requests on to the node that has what they are about. */
export class Forward {
  readonly #options: ForwardOptions;

  constructor(options: ForwardOptions) {
    this.#options = options;
  }

  /**
   * Whether another node has passed it on to this one.
   * @throws {HttpError} 421 when it was meant for another
   */
  isForwarded({ headers }: FastifyRequest): boolean {
    const meant = headers[nodeHeader];
    if (meant !== undefined && meant !== this.#options.id())
      throw new HttpError(421, ["This is another node of the service than the one that was meant."]);
    return meant !== undefined;
  }

  /**
   * Sends the request to the node and its answer to the client, both as they arrive. The client's own session
   * authenticates it there.
   * @returns undefined when the node did not answer: the request's body may be gone then
   */
  async send(request: FastifyRequest, reply: FastifyReply, node: Node): Promise<FastifyReply | undefined> {
    if (node.address === undefined) return undefined;
    const { log, shutdown } = this.#options;
    const gone = new AbortController();
    const left = disconnectOf(reply);
    const timer = setInterval(() => void this.#look(node, gone), lookInterval);
    try {
      const answer = await answerOf(request, node, AbortSignal.any([shutdown, left, gone.signal]));
      reply.raw.once("close", () => {
        answer.close();
      });
      if (answer.status === 421) {
        answer.close();
        throw new UnavailableError("another node answers there: check service.advertise of both");
      }
      return reply
        .code(answer.status)
        .headers(passed(answer.headers))
        .send(Readable.from(answer.body, { objectMode: false }));
    } catch (error) {
      if (shutdown.aborted || left.aborted) throw error;
      log.warn(
        { err: error, node: node.id },
        `a request could not be passed on to the node at ${node.address}: ${messageOf(error)}`,
      );
      return undefined;
    } finally {
      clearInterval(timer);
    }
  }

  /** Gives up when the node is lost. Who cannot tell waits on. */
  async #look({ id }: Node, gone: AbortController): Promise<void> {
    const over = await this.#options.isOver(id).catch(() => false);
    if (over) gone.abort(new UnavailableError("its lease has ended"));
  }
}

async function answerOf(request: FastifyRequest, node: Node, signal: AbortSignal): Promise<Answer> {
  const { HttpClient } = await import("#http/client.ts");
  const { certificate, address } = node;
  // The certificate is in the database, and anyone who could change it there needs no such detour.
  const trust = certificate === undefined ? {} : { ca: certificate, pinned: true };
  const http = new HttpClient({ owner: "service", ...trust, timeouts, proxy: false });
  const path = request.url.replace(/^https?:\/\/[^/]*/i, "");
  return http.send(
    {
      url: new URL(`${certificate === undefined ? "http" : "https"}://${address}${path}`),
      method: request.method === "GET" ? "GET" : "POST",
      headers: {
        // Only answers have headers with several values.
        ...(passed(request.raw.headers) as Record<string, string | undefined>),
        "accept-encoding": "identity",
        "x-forwarded-for": clientsOf(request),
        [nodeHeader]: node.id,
      },
      body: bodyOf(request),
    },
    signal,
  );
}

/** The headers that belong to the message, not to a connection. */
function passed<Value>(headers: Readonly<Record<string, Value>>): Record<string, Value> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !ownHeaders.has(name)));
}

/** The addresses before this node, for the log of the other one: they count where it trusts this one as a proxy. */
function clientsOf({ raw }: FastifyRequest): string {
  const before = raw.headers["x-forwarded-for"];
  const own = plainAddress(raw.socket.remoteAddress);
  return before === undefined ? own : `${String(before)}, ${own}`;
}

function bodyOf({ raw, exchange }: FastifyRequest): RequestBody | undefined {
  const { "content-length": length, "transfer-encoding": coding } = raw.headers;
  if (coding === undefined && Number(length ?? 0) === 0) return undefined;
  return {
    contentType: exchange.contentType,
    length: length === undefined ? undefined : Number(length),
    single: true,
    // The client still gets its answer when the node does not want to read all of it.
    chunks: () => raw.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>,
  };
}

/** Where other nodes reach this one, by what is configured and where it listens. */
export function advertised(
  given: { readonly host: string; readonly port: number } | undefined,
  listening: { readonly host: string; readonly port: number },
): string {
  const { host, port } = given ?? { host: reachable(listening.host), port: listening.port };
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

function reachable(host: string): string {
  if (host !== "0.0.0.0" && host !== "::") return host;
  const addresses = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
  const usable = addresses.filter(
    ({ address, internal, family }) =>
      !internal && !isLoopback(address) && !/^fe80:/i.test(address) && (host === "::" || family === "IPv4"),
  );
  const found = usable.find(({ family }) => family === "IPv4") ?? usable[0];
  return found?.address ?? (host === "::" ? "::1" : "127.0.0.1");
}
