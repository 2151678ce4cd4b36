import { connect, createServer } from "node:net";
import type { Socket } from "node:net";
import { Transform } from "node:stream";
import { listen, stop, track } from "./scripted-server.ts";

/** A TCP proxy between a client and a server that can break connections. */
export interface Proxy {
  readonly url: string;
  /** How many connections were broken. */
  readonly broken: number;
  /** Sends new connections to this URL. */
  forward(url: string): void;
  /** Breaks this many connections, each after the client has sent this many bytes. */
  breakAfter(bytes: number, times: number): void;
  /** Ends every connection, and opens none until `forward` is called. */
  cut(): void;
  /** Passes nothing on any more, in neither direction, and says so to nobody: as if a cable were pulled out. */
  freeze(): void;
  /** Passes on what has come since, and what comes. */
  thaw(): void;
  close(): Promise<void>;
}

export interface ProxyOptions {
  /** Hides from the server that a client went away, as if its machine had lost power. */
  readonly lingering?: boolean;
  /** What a client sends is passed on after this has resolved. Must not reject. */
  readonly before?: (bytes: Buffer) => Promise<void>;
}

export async function startProxy(
  target: string,
  { lingering = false, before = () => Promise.resolve() }: ProxyOptions = {},
): Promise<Proxy> {
  let upstream: URL | undefined = new URL(target);
  let limit = 0;
  let left = 0;
  let broken = 0;
  let frozen: PromiseWithResolvers<void> | undefined;
  const server = createServer((client) => {
    if (upstream === undefined) {
      client.destroy();
      return;
    }
    const onward = connect(Number(upstream.port), upstream.hostname);
    const both = (end: (socket: Socket) => void) => (): void => {
      end(client);
      end(onward);
    };
    let sent = 0;
    const counting = new Transform({
      transform(chunk: Buffer, _encoding, done) {
        sent += chunk.length;
        if (left > 0 && sent > limit) {
          left -= 1;
          broken += 1;
          both((socket) => socket.resetAndDestroy())();
          return;
        }
        void (async () => {
          await before(chunk);
          await frozen?.promise;
          done(null, chunk);
        })();
      },
    });
    const destroy = both((socket) => socket.destroy());
    const onLeave = (): void => {
      if (!lingering && frozen === undefined) destroy();
    };
    onward.on("error", destroy).on("close", destroy);
    client.on("error", onLeave).on("close", onLeave);
    client.pipe(counting, { end: !lingering }).pipe(onward);
    const back = new Transform({
      transform(chunk: Buffer, _encoding, done) {
        void (async () => {
          await frozen?.promise;
          done(null, chunk);
        })();
      },
    });
    onward.pipe(back).pipe(client);
  });
  const open = track(server);
  const port = await listen(server);
  return {
    url: `http://127.0.0.1:${port}`,
    get broken() {
      return broken;
    },
    forward: (url) => {
      upstream = new URL(url);
    },
    breakAfter: (bytes, times) => {
      limit = bytes;
      left = times;
    },
    cut: () => {
      upstream = undefined;
      for (const socket of open) socket.resetAndDestroy();
    },
    freeze: () => {
      frozen ??= Promise.withResolvers();
    },
    thaw: () => {
      frozen?.resolve();
      frozen = undefined;
    },
    close: () => {
      frozen?.resolve();
      return stop(server, open);
    },
  };
}

/** A proxy that holds back what a client sends from a chosen place on. */
export interface Gate {
  readonly url: string;
  /** Holds back the next match. Resolves when it has arrived. */
  stopAt(what: RegExp): Promise<void>;
  /** Passes on what was held back. */
  release(): void;
  close(): Promise<void>;
}

export async function startGate(target: string): Promise<Gate> {
  let stop: { readonly what: RegExp; readonly reached: () => void } | undefined;
  let opened = Promise.withResolvers<void>();
  const proxy = await startProxy(target, {
    before: async (bytes) => {
      if (stop?.what.test(bytes.toString("latin1")) !== true) return;
      stop.reached();
      stop = undefined;
      await opened.promise;
    },
  });
  return {
    url: proxy.url,
    stopAt: (what) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      opened = Promise.withResolvers();
      stop = { what, reached: resolve };
      return promise;
    },
    release: () => opened.resolve(),
    close: async () => {
      opened.resolve();
      await proxy.close();
    },
  };
}
