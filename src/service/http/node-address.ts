import type { FastifyRequest } from "fastify";
import { plainAddress } from "./exchange.ts";

/** Where the node that serves a load is reached (specification 2.3). */
export interface NodeAddress {
  readonly host: string;
  readonly port: number;
}

/** What the client dialled, as its Host header says it; without a port that of the scheme (A.5). */
export function nodeAddressOf({ headers, raw }: FastifyRequest, secure: boolean): NodeAddress {
  const { host, port } = /^(?<host>\[[^\]]+\]|[^:]+)(?::(?<port>\d{1,5}))?$/.exec(headers.host ?? "")?.groups ?? {};
  // HTTP/1.0 has no such header: then it is what the connection goes to.
  if (host === undefined) return { host: plainAddress(raw.socket.localAddress), port: raw.socket.localPort ?? 0 };
  return { host, port: port === undefined ? (secure ? 443 : 80) : Number(port) };
}
