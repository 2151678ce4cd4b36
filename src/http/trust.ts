import { X509Certificate } from "node:crypto";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import type { buildConnector as BuildConnector } from "undici";

/** What the server's certificate must be. */
export interface Trust {
  /** Certificates in PEM form that the server's is checked against, instead of the usual authorities. */
  readonly ca?: string | undefined;
  /** What the client shows of itself (mutual TLS), in PEM form. Not to a pinned server. */
  readonly certificate?: { readonly cert: string; readonly key: string } | undefined;
  /** Accept exactly the first certificate of `ca`, whatever its host name: for a server on this machine. */
  readonly pinned?: boolean | undefined;
}

/** Opens a connection, TLS included. Returns the socket at once, so that it can be destroyed while it is connecting. */
export type Connect = (
  target: BuildConnector.Options,
  callback: (...result: [error: Error, socket: null] | [error: null, socket: Socket]) => void,
) => Socket;

/**
 * How the certificate of a server is checked that is not pinned.
 * @param timeout for the whole connection, in milliseconds
 */
export function tlsOptions({ ca, certificate }: Trust, timeout: number): BuildConnector.BuildOptions {
  // A resumed session does not send the certificate again.
  return { timeout, allowH2: false, maxCachedSessions: 0, ca, ...certificate };
}

/** @param timeout for the whole connection, in milliseconds */
export function createConnect(
  { ca, pinned, certificate: own }: Trust,
  timeout: number,
  buildConnector: (options: BuildConnector.BuildOptions) => BuildConnector.connector,
): Connect {
  if (pinned === true && ca === undefined) throw new TypeError("`pinned` needs the certificate in `ca`");
  const certificate = pinned === true && ca !== undefined ? new X509Certificate(ca) : undefined;
  const connect = buildConnector({
    ...tlsOptions(certificate === undefined ? { ca, certificate: own } : {}, timeout),
    ...(certificate === undefined ? {} : { rejectUnauthorized: false }),
  }) as Connect; // it returns the socket, as its documentation says and its type does not
  if (certificate === undefined) return connect;
  return (target, callback) =>
    connect(target, (...result) => {
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
