import { createServer as createHttpServer, request } from "node:http";
import type { IncomingMessage, RequestListener } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import { connect } from "node:net";
import type { Socket } from "node:net";
import { pipeline } from "node:stream";
import { listen, stop, track } from "./scripted-server.ts";

/** A proxy for HTTP and, by CONNECT, for anything else. It alone knows where hosts are: all of them on this machine. */
export interface HttpProxy {
  /** Without credentials. */
  readonly url: string;
  /** Each request to it: `CONNECT host:port`, `GET http://host/path`. */
  readonly seen: readonly string[];
  /** How many bytes have come from clients through tunnels. */
  readonly tunnelled: number;
  close(): Promise<void>;
}

export interface HttpProxyOptions {
  /** It wants these: `user:password`. */
  readonly credentials?: string;
  /** Answers every request with this status. `silent`: never answers. `break`: closes the connection. */
  readonly refuses?: number | "silent" | "break";
  /** It is reached by HTTPS. */
  readonly tls?: { readonly key: string; readonly cert: string };
}

export async function startHttpProxy({ credentials, refuses, tls }: HttpProxyOptions = {}): Promise<HttpProxy> {
  const seen: string[] = [];
  let tunnelled = 0;
  const expected = credentials === undefined ? undefined : `Basic ${Buffer.from(credentials).toString("base64")}`;
  const refusal = ({ headers }: IncomingMessage): HttpProxyOptions["refuses"] =>
    refuses ?? (headers["proxy-authorization"] === expected ? undefined : 407);

  const forward: RequestListener = (incoming, response) => {
    seen.push(`${incoming.method} ${incoming.url}`);
    const refused = refusal(incoming);
    if (refused === "break") incoming.socket.destroy();
    if (typeof refused === "number") response.writeHead(refused).end();
    if (refused !== undefined) return;
    const url = new URL(incoming.url ?? "");
    const headers = { ...incoming.headers };
    delete headers["proxy-authorization"];
    const onward = request(
      { host: "127.0.0.1", port: url.port, path: url.pathname + url.search, method: incoming.method, headers },
      (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        pipeline(answer, response, () => undefined);
      },
    );
    onward.on("error", () => response.writeHead(502).end());
    pipeline(incoming, onward, () => undefined);
  };

  const tunnel = (incoming: IncomingMessage, client: Socket): void => {
    seen.push(`${incoming.method} ${incoming.url}`);
    client.on("error", () => undefined);
    const refused = refusal(incoming);
    if (refused === "break") client.destroy();
    if (typeof refused === "number") client.end(`HTTP/1.1 ${refused} Refused\r\ncontent-length: 0\r\n\r\n`);
    if (refused !== undefined) return;
    const onward = connect(Number(incoming.url?.replace(/^.*:/, "")), "127.0.0.1");
    onward.once("connect", () => {
      client.write("HTTP/1.1 200 Connection established\r\n\r\n");
      client.on("data", (chunk) => (tunnelled += chunk.length));
      pipeline(client, onward, () => undefined);
      pipeline(onward, client, () => undefined);
    });
    onward.once("error", () => client.end("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n"));
  };

  const server = tls === undefined ? createHttpServer(forward) : createHttpsServer(tls, forward);
  server.on("connect", tunnel);
  const open = track(server);
  const port = await listen(server);
  return {
    url: `${tls === undefined ? "http" : "https"}://127.0.0.1:${port}`,
    seen,
    get tunnelled() {
      return tunnelled;
    },
    close: () => stop(server, open),
  };
}

/** The URL of a proxy with credentials in it. */
export function withCredentials({ url }: HttpProxy, credentials: string): string {
  return url.replace("://", `://${credentials}@`);
}
