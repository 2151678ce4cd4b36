import { once } from "node:events";
import type { Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { TLSSocket } from "node:tls";
import type { ConnectionOptions } from "node:tls";
import { describeConnection } from "#http/trust.ts";
import type { ServerAddress } from "./address.ts";

/** How long stopping a statement, or ending a connection, may take, in milliseconds: a read ends within a second. */
export const stopTime = 700;

/** How a connection is protected; undefined: not at all. @param ca certificates in PEM form */
export function tlsOf({ sslmode }: ServerAddress, ca: string | undefined): ConnectionOptions | undefined {
  if (sslmode === "disable") return undefined;
  // As in libpq: with authorities, `require` is `verify-ca`.
  if (sslmode === "require" && ca === undefined) return { rejectUnauthorized: false };
  return sslmode === "verify-full" ? { ca } : { ca, checkServerIdentity: () => undefined };
}

export function protectionOf(socket: Socket): string {
  return socket instanceof TLSSocket ? describeConnection(socket) : "not encrypted";
}

/** Waits for something that should not take long, and no longer than that. Whether it fails does not matter. */
export async function shortly(work: Promise<unknown>): Promise<void> {
  const late = new AbortController();
  await Promise.race([work, delay(stopTime, undefined, { signal: late.signal })]).catch(() => undefined);
  late.abort();
}

/** Destroys a socket, and waits until it is closed. */
export async function destroyed(socket: Socket): Promise<void> {
  socket.destroy();
  if (!socket.closed) await shortly(once(socket, "close"));
}
