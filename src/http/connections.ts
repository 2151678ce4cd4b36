import { readFileSync } from "node:fs";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** Handles that are not for connections: databases, the daemon's reads and requests, what the system itself opens. */
const reserved = 100;

/** How many connections a process may have: each may have a file open as well, what it uploads or what it is sent. */
export function mostConnections(openFiles: number): number {
  return Math.max(10, Math.floor((openFiles - reserved) / 2));
}

/** How many files and connections the system lets this process have open at once. */
export function openFilesLimit(): number {
  try {
    const [, soft] = /^Max open files +(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    return Number(soft ?? Infinity);
  } catch {
    // Only Linux has that file.
    return Infinity;
  }
}

/** So many more are taken to be told that there are too many; beyond these, a connection is closed at once. */
const surplus = 16;

/** A client that has sent nothing for so long is not about to send a request, in milliseconds. */
const silence = 1_000;

interface Connection {
  readonly socket: Socket;
  readonly opened: number;
  readonly isSurplus: boolean;
  /** Requests under way. */
  requests: number;
  /** Whether there was one. */
  isUsed: boolean;
}

/**
 * Bounds the connections of a server, so that files can still be opened. While there are as many as may be, each new one takes
 * the place of one over which nothing has ever come, or else of the one that has been idle the longest: its client finds it
 * closed as after any time limit. Where none is idle, the new one is surplus.
 */
export class Connections {
  readonly #most: number;
  /** By the client's address and port, since TLS wraps the socket; the one idle the longest first. */
  readonly #open = new Map<string, Connection>();

  constructor(server: Server, most: number) {
    this.#most = most;
    server.on("connection", (socket: Socket) => {
      this.#connect(socket);
    });
    server.on("request", ({ socket }: IncomingMessage, response: ServerResponse) => {
      this.#use(keyOf(socket), response);
    });
  }

  /** Whether there is one connection too many, and the request came over it: it is told so, and ends. */
  isSurplus({ socket }: IncomingMessage): boolean {
    return this.#open.get(keyOf(socket))?.isSurplus === true;
  }

  /** Closes those over which no request has come: a stop would wait for them. */
  closeUnused(): void {
    for (const { socket, isUsed } of this.#open.values()) if (!isUsed) socket.destroy();
  }

  #connect(socket: Socket): void {
    const hasRoom = this.#makeRoom();
    if (!hasRoom && this.#open.size >= this.#most + surplus) {
      socket.destroy();
      return;
    }
    const key = keyOf(socket);
    const entry = { socket, opened: performance.now(), isSurplus: !hasRoom, requests: 0, isUsed: false };
    this.#open.set(key, entry);
    socket.once("close", () => {
      if (this.#open.get(key) === entry) this.#open.delete(key);
    });
  }

  #use(key: string, response: ServerResponse): void {
    const entry = this.#open.get(key);
    if (entry === undefined) return;
    entry.requests++;
    entry.isUsed = true;
    response.once("close", () => {
      entry.requests--;
      if (this.#open.get(key) !== entry) return;
      this.#open.delete(key);
      this.#open.set(key, entry);
    });
  }

  #makeRoom(): boolean {
    if (this.#open.size < this.#most) return true;
    const now = performance.now();
    const isSilent = ({ isUsed, opened }: Connection): boolean => !isUsed && now - opened > silence;
    const idle = (): IteratorObject<[string, Connection]> =>
      this.#open.entries().filter(([, each]) => each.requests === 0);
    const going = idle().find(([, each]) => isSilent(each)) ?? idle().find(() => true);
    if (going === undefined) return false;
    const [key, { socket }] = going;
    this.#open.delete(key);
    socket.destroy();
    return true;
  }
}

function keyOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
