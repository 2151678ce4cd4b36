import { once } from "node:events";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";

export interface PathProxy {
  /** Where browsers reach what is behind it: with the path, without a final slash. */
  readonly url: string;
  /** The addresses that somebody has asked for outside of the path. */
  readonly outside: readonly string[];
  /** @param to the server behind it */
  lead(to: string): void;
  stop(): void;
}

/** A proxy that passes on what is below `/rollcall`, without that, and writes another Host. */
export async function startPathProxy(): Promise<PathProxy> {
  let target = "";
  const outside: string[] = [];
  const server = createServer((asked, answer) => {
    const path = /^\/rollcall(?:$|(?=[/?]))(.*)$/.exec(asked.url ?? "")?.[1];
    if (path === undefined) {
      outside.push(asked.url ?? "");
      answer.writeHead(404).end();
      return;
    }
    const headers = { ...asked.headers, host: "backend.internal:8442" };
    const passed = request(new URL(path, target), { method: asked.method, headers }, (got) => {
      answer.writeHead(got.statusCode ?? 502, got.headers);
      got.pipe(answer);
    });
    passed.on("error", () => answer.destroy());
    answer.on("close", () => passed.destroy());
    asked.pipe(passed);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/rollcall`,
    outside,
    lead: (to) => {
      target = to;
    },
    stop: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
