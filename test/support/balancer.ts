import { connect, createServer } from "node:net";
import type { Socket } from "node:net";
import { listen, stop, track } from "./scripted-server.ts";

/** A TCP balancer: each connection goes to the next server, and on to the one after it where a server does not accept. */
export interface Balancer {
  readonly url: string;
  /** The servers' URLs, from now on. */
  to(urls: readonly string[]): void;
  close(): Promise<void>;
}

export async function startBalancer(urls: readonly string[]): Promise<Balancer> {
  let servers = urls.map((url) => new URL(url));
  let next = 0;
  const forward = (client: Socket, attempts: number): void => {
    const server = servers[next++ % servers.length];
    if (server === undefined || attempts === 0) {
      client.destroy();
      return;
    }
    const onward = connect({ host: server.hostname, port: Number(server.port), allowHalfOpen: true });
    const refused = (): void => {
      forward(client, attempts - 1);
    };
    onward.once("error", refused).once("connect", () => {
      onward.off("error", refused);
      const end = (): void => {
        client.destroy();
        onward.destroy();
      };
      for (const socket of [client, onward]) socket.on("error", end).on("close", end);
      client.pipe(onward).pipe(client);
    });
  };
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (client) => {
    client.on("error", () => undefined);
    forward(client, servers.length);
  });
  const open = track(server);
  const port = await listen(server);
  return {
    url: `http://127.0.0.1:${port}`,
    to: (urls) => {
      servers = urls.map((url) => new URL(url));
    },
    close: () => stop(server, open),
  };
}
