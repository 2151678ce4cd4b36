import type { Socket } from "node:net";
import { connect as connectPlain, isIP } from "node:net";
import { resolve } from "node:path";
import { connect as connectTls, createSecureContext } from "node:tls";
import type { ConnectionOptions, TLSSocket } from "node:tls";
import { UnbindRequest } from "ldapts";
import { InputError, messageOf, reasonOf } from "#errors.ts";
import { presentable } from "#redact.ts";
import { longestCertificates, readAuthorities } from "#files/certificates.ts";
import { readSmallFile } from "#files/disk.ts";
import { formatDuration } from "#text.ts";
import { enter, messagesOf, readInteger, readResult, tags } from "./message.ts";
import type { Cursor, Result } from "./message.ts";
import type { LdapUrl, Options } from "./options.ts";

/** A request, which `ldapts` encodes. */
export interface Request {
  messageId: number;
  write(): Buffer;
}

/** Receives the answers to a request. */
export interface Receiver {
  /**
   * @param operation the tag of the protocol operation
   * @param cursor at the operation, in the bytes of the message
   * @returns whether this was the last answer
   */
  receive(operation: number, cursor: Cursor): boolean;
  /** The connection broke: no more answers will come. */
  fail(error: unknown): void;
}

/** Bytes that may wait to be processed before reading stops. */
const highWater = 512 * 1024;
/** How long a server has to close the connection after an unbind, in milliseconds. */
const unbindTimeout = 500;
/** The message id of unsolicited notifications (RFC 4511, 4.4). */
const unsolicited = 0;

/**
 * A connection to an LDAP server with many operations at a time. `ldapts`' own client hides what a search needs to prove
 * that it is complete: the controls and referrals of a result.
 */
export class Connection {
  readonly #readTimeout: number;
  readonly #receivers = new Map<number, Receiver>();
  #socket: Socket;
  #take = messagesOf((message) => this.#dispatch(message));
  #id = 0;
  #held = 0;
  #urgent = 0;
  #broken: { readonly error: unknown } | undefined;

  /**
   * Takes over a connected socket.
   * @param readTimeout how long the server may be silent while an answer is pending, in milliseconds
   */
  constructor(socket: Socket, readTimeout: number) {
    this.#socket = socket;
    this.#readTimeout = readTimeout;
    this.#attach(socket);
  }

  get socket(): Socket {
    return this.#socket;
  }

  /** Sends a request under a message id of its own. */
  send(request: Request, receiver: Receiver): void {
    if (this.#broken !== undefined) {
      receiver.fail(this.#broken.error);
      return;
    }
    this.#id += 1;
    request.messageId = this.#id;
    this.#receivers.set(this.#id, receiver);
    this.#socket.write(request.write());
  }

  /** Sends a request with a single answer. */
  request(request: Request): Promise<Result> {
    return new Promise((resolve, reject) => {
      const receive = (_: number, cursor: Cursor): boolean => {
        resolve(readResult(cursor));
        return true;
      };
      this.send(request, { receive, fail: reject });
    });
  }

  /** Counts bytes that wait to be processed; above a limit, reading from the network stops until `release`. */
  hold(bytes: number): void {
    this.#held += bytes;
  }

  release(bytes: number): void {
    this.#held -= bytes;
    if (this.#broken === undefined) this.#balance();
  }

  /** Reads on regardless while `work` runs: its answers may be behind those that wait. */
  async withoutBackpressure<Value>(work: () => Promise<Value>): Promise<Value> {
    this.#urgent += 1;
    try {
      this.#balance();
      return await work();
    } finally {
      this.#urgent -= 1;
      if (this.#broken === undefined) this.#balance();
    }
  }

  /** Replaces the socket, for StartTLS. */
  async upgrade(secure: (socket: Socket) => Promise<Socket>): Promise<void> {
    const plain = this.#socket;
    plain.off("data", this.#onData).off("close", this.#onClose).off("timeout", this.#onTimeout);
    plain.setTimeout(0);
    // Whatever arrived before TLS may come from somebody in between.
    this.#take = messagesOf((message) => this.#dispatch(message));
    this.#attach(await secure(plain));
  }

  /** Destroys the connection; every pending request gets the error. */
  drop(error: unknown): void {
    if (this.#broken !== undefined) return;
    this.#broken = { error };
    this.#socket.destroy();
    const waiting = [...this.#receivers.values()];
    this.#receivers.clear();
    for (const receiver of waiting) receiver.fail(error);
  }

  /** Unbinds and closes. Never throws. */
  async close(): Promise<void> {
    if (this.#broken === undefined) {
      this.#broken = { error: new Error("the connection is closed") };
      this.#receivers.clear();
      this.#socket.off("timeout", this.#onTimeout);
      await unbind(this.#socket, this.#id + 1);
    }
    await closed(this.#socket);
  }

  #attach(socket: Socket): void {
    this.#socket = socket;
    socket.on("data", this.#onData).on("error", (error) => this.drop(error));
    socket.on("close", this.#onClose).on("timeout", this.#onTimeout);
    socket.setTimeout(this.#readTimeout);
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#broken !== undefined) return;
    try {
      this.#take(chunk);
      this.#balance();
    } catch (error) {
      this.drop(error);
    }
  };

  readonly #onClose = (): void => this.drop(new Error("the server closed the connection"));

  readonly #onTimeout = (): void => {
    if (this.#receivers.size > 0) this.drop(new Error(`no answer for ${formatDuration(this.#readTimeout)}`));
  };

  #balance(): void {
    const wait = this.#held > highWater && this.#urgent === 0;
    if (wait === this.#socket.isPaused()) return;
    if (wait) this.#socket.pause();
    else this.#socket.resume();
    this.#socket.setTimeout(wait ? 0 : this.#readTimeout);
  }

  #dispatch(message: Buffer): void {
    const cursor: Cursor = { bytes: message, at: 0 };
    enter(cursor, tags.sequence);
    const number = readInteger(cursor);
    const operation = message[cursor.at] ?? 0;
    if (number === unsolicited) {
      const { message: said } = readResult(cursor);
      throw new Error(`the server ended the connection${said === "" ? "" : ` (it says: ${presentable(said)})`}`);
    }
    const receiver = this.#receivers.get(number);
    if (receiver?.receive(operation, cursor) === true) this.#receivers.delete(number);
  }
}

/** Sends an unbind and waits briefly for the server to close. */
async function unbind(socket: Socket, id: number): Promise<void> {
  if (socket.destroyed) return;
  socket.resume();
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, unbindTimeout);
    socket.once("close", () => {
      clearTimeout(timer);
      resolve();
    });
    socket.end(new UnbindRequest({ messageId: id }).write());
  });
}

/** Destroys the socket unless it is, and waits until it is closed. */
async function closed(socket: Socket): Promise<void> {
  if (!socket.closed) {
    await new Promise<void>((resolve) => {
      socket.once("close", () => resolve());
      socket.destroy();
    });
  }
}

/** The TLS options, with the contents of the files they name. */
export type TlsMaterial = Pick<ConnectionOptions, "ca" | "cert" | "key" | "rejectUnauthorized" | "servername">;

/** @throws {InputError} a file cannot be read, or is not what it should be */
export async function readTlsMaterial(tls: Options["tls"], folder: string): Promise<TlsMaterial> {
  const read = (key: string, path: string): Buffer => {
    try {
      return readSmallFile(resolve(folder, path), longestCertificates);
    } catch (error) {
      throw new InputError(`tls.${key}: ${path} cannot be read: ${reasonOf(error)}`, { cause: error });
    }
  };
  const { serverName, insecure } = tls;
  const ca = tls.ca?.map((path) => readAuthorities(resolve(folder, path), `tls.ca: ${path}`));
  const cert = tls.cert === undefined ? undefined : read("cert", tls.cert);
  const key = tls.key === undefined ? undefined : read("key", tls.key);
  if (cert !== undefined && key !== undefined) checkPair(cert, key, tls);
  return {
    rejectUnauthorized: !insecure,
    ca,
    cert,
    key,
    ...(serverName !== undefined && { servername: serverName }),
  };
}

function checkPair(cert: Buffer, key: Buffer, names: Options["tls"]): void {
  try {
    createSecureContext({ cert, key });
  } catch (error) {
    // Without the cause: it may quote the key.
    throw new InputError(
      `tls: ${names.cert} and ${names.key} are not a certificate and its key in PEM form: ${codeOf(error)}`,
    );
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : messageOf(error);
}

/** Connects, with TLS for `ldaps`. `opened` gets the socket at once: the caller destroys it, also when this fails. */
export function openSocket(url: LdapUrl, tls: TlsMaterial, opened: (socket: Socket) => void): Promise<Socket> {
  if (url.scheme === "ldaps") {
    const socket = connectTls({ host: url.host, port: url.port, ...tlsOptions(url, tls) });
    opened(socket);
    return ready(socket, "secureConnect");
  }
  const socket = url.path === undefined ? connectPlain(url.port, url.host) : connectPlain(url.path);
  opened(socket);
  return ready(socket, "connect");
}

/** Starts TLS on an open connection. */
export function secure(plain: Socket, url: LdapUrl, tls: TlsMaterial): Promise<TLSSocket> {
  return ready(connectTls({ socket: plain, host: url.host, ...tlsOptions(url, tls) }), "secureConnect");
}

function tlsOptions(url: LdapUrl, tls: TlsMaterial): ConnectionOptions {
  // SNI takes no IP addresses; the certificate is checked against them all the same.
  return { ...(isIP(url.host) === 0 && { servername: url.host }), ...tls };
}

function ready<Kind extends Socket>(socket: Kind, event: string): Promise<Kind> {
  return new Promise((resolve, reject) => {
    const fail = (error: Error): void => reject(error);
    socket.once("error", fail);
    socket.once("close", () => reject(Object.assign(new Error("the connection was closed"), { code: "ECONNRESET" })));
    socket.once(event, () => {
      socket.off("error", fail);
      resolve(socket);
    });
  });
}
