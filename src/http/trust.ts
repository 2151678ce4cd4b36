import { X509Certificate } from "node:crypto";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import type { buildConnector as BuildConnector } from "undici";
import { buildConnector } from "./undici.ts";

/** What the server's certificate must be. */
export interface Trust {
  /** A certificate or several in PEM form, which the server's certificate is checked against instead of the usual ones. */
  readonly ca?: string;
  /** Accept exactly the first certificate of `ca`, and no other, whatever its host name: for a service on this machine. */
  readonly pinned?: boolean;
}

/** Opens a connection, TLS included. The socket that is becoming one is returned at once, so that it can be destroyed. */
export type Establish = (
  target: BuildConnector.Options,
  callback: (...result: [error: Error, socket: null] | [error: null, socket: Socket]) => void,
) => Socket;

/** @param timeout until the connection stands, in milliseconds */
export function createConnector({ ca, pinned }: Trust, timeout: number): Establish {
  if (pinned === true && ca === undefined) throw new TypeError("`pinned` needs the certificate in `ca`");
  const certificate = pinned === true && ca !== undefined ? new X509Certificate(ca) : undefined;
  const build = buildConnector({
    timeout,
    allowH2: false,
    maxCachedSessions: 0, // of a resumed session the certificate is not sent again
    ...(certificate !== undefined ? { rejectUnauthorized: false } : ca === undefined ? {} : { ca }),
  }) as Establish; // it returns the socket, as its documentation says and its type does not
  if (certificate === undefined) return build;
  return (target, callback) =>
    build(target, (...result) => {
      const [, socket] = result;
      if (!(socket instanceof TLSSocket) || isExactly(socket, certificate)) return callback(...result);
      socket.on("error", () => undefined).destroy();
      return callback(new OtherCertificateError(), null);
    });
}

function isExactly(socket: TLSSocket, certificate: X509Certificate): boolean {
  return socket.getPeerX509Certificate()?.raw.equals(certificate.raw) === true;
}

class OtherCertificateError extends Error {
  readonly code = "OTHER_CERTIFICATE";
}

/** A line on how a connection is protected, for a person. */
export function describeConnection(socket: Socket | undefined): string {
  if (!(socket instanceof TLSSocket)) return "not encrypted (http)";
  const certificate = socket.getPeerX509Certificate();
  const subject = certificate?.subject?.replaceAll("\n", ", ") ?? "no name";
  return `${socket.getProtocol() ?? "TLS"}, certificate of ${subject}, valid until ${certificate?.validTo ?? "?"}`;
}
