import { DatabaseError } from "pg";
import { InputError, messageOf, RefusedError, RollcallError, UnavailableError } from "#errors.ts";

/** PostgreSQL's five-character code of an error; undefined when the error is not PostgreSQL's. */
export function sqlState(error: unknown): string | undefined {
  return error instanceof DatabaseError ? error.code : undefined;
}

/** The classes and codes that say that the server cannot do it now. */
const unavailable = /^(?:08|53|58|57P|40|55P03|57014|25006|XX)/;
const refused = /^(?:28|3D000)/;

/** What servers that take plain passwords say, and the driver where they take SCRAM. */
const noPassword = /^empty password returned by client$|client password must be a (?:non-empty )?string$/;

/** Codes of Node for a certificate that is not accepted. */
const certificate = /CERT|UNABLE_TO|SELF_SIGNED|^ERR_(?:TLS|SSL)/;

/** What Node's sockets, the driver and its pool say when there is no connection or no longer one. */
const lost =
  /^(?:E(?:CONN|TIMEDOUT|NOTFOUND|AI_|HOST|NET|PIPE|NOENT|ADDR)|Connection terminated|timeout exceeded|timeout expired|Client has encountered a connection error|Client was closed|Query read timeout|Cannot use a pool)/;

/** A connection led to a server that follows another one and cannot write. */
export class StandbyError extends Error {
  constructor() {
    super("it is a standby");
  }
}

/**
 * The error of Rollcall that an error of a statement or a connection means: the server is away, overloaded or stopped it
 * (UnavailableError), or lets this user not in (RefusedError). Anything else stays what it is; where a person wrote the
 * SQL, `inputError` says what is wrong with it.
 * @param place what messages call the database
 */
export function meaningOf(error: unknown, place: string): unknown {
  if (error instanceof RollcallError) return error;
  const state = sqlState(error);
  const message = messageOf(error);
  if (noPassword.test(message))
    return new RefusedError(
      `PostgreSQL at ${place} asks for a password, and there is none: write it into the URL (postgres://user:password@host/database), or into PGPASSWORD`,
      { cause: error },
    );
  if (state !== undefined) {
    if (refused.test(state)) return new RefusedError(`PostgreSQL at ${place} refused: ${message}`, { cause: error });
    if (state === "25006")
      return new UnavailableError(`PostgreSQL at ${place} only reads: it is a standby, or set to read-only`, {
        cause: error,
      });
    if (isFull(error))
      return new UnavailableError(
        `PostgreSQL at ${place} has no connection left: ${message}; raise max_connections, or the limit of the user or database, or lower poolSize`,
        { cause: error },
      );
    if (state === "57014")
      return new UnavailableError(`PostgreSQL at ${place} stopped it: ${message}`, { cause: error });
    if (unavailable.test(state))
      return new UnavailableError(`PostgreSQL at ${place} cannot do this now: ${message}`, { cause: error });
    return error;
  }
  if (!(error instanceof Error)) return error;
  if (error instanceof StandbyError)
    return new UnavailableError(`PostgreSQL at ${place} only reads now: ${error.message}`, { cause: error });
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  if (certificate.test(code))
    return new RefusedError(
      `the certificate of PostgreSQL at ${place} is not accepted: ${message}; \`sslrootcert\` names the authorities, and the URL's host must be in the certificate`,
      { cause: error },
    );
  if (message === "The server does not support SSL connections")
    return new RefusedError(
      `PostgreSQL at ${place} does not encrypt its connections: turn on its \`ssl\`, or write sslmode=disable if the network is trusted`,
      { cause: error },
    );
  if (lost.test(code) || lost.test(message))
    return new UnavailableError(`PostgreSQL at ${place} does not answer: ${message}`, { cause: error });
  return error;
}

/**
 * Whether an error means that the server was not there, or went away, so that the same may work when it is back: a failover
 * takes some seconds.
 */
export function isAway(error: unknown): boolean {
  if (!(error instanceof UnavailableError)) return false;
  const { cause } = error;
  const state = sqlState(cause);
  if (state !== undefined) return /^(?:08|57P|25006)/.test(state) && !isForeignAway(error);
  return cause instanceof Error && !isCrowded(error);
}

/**
 * Whether an error means that a server was reached that is away now: it said so, or broke the connection. Where nothing listens or a
 * name is unknown, the URL may be wrong.
 */
export function isGoing(error: unknown): boolean {
  if (!isAway(error)) return false;
  const { cause } = error as UnavailableError;
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : "";
  return (
    sqlState(cause) !== undefined ||
    /^(?:ECONNRESET|EPIPE)$/.test(code) ||
    messageOf(cause).startsWith("Connection terminated")
  );
}

/** Whether an error means that all connections were in use, those of the pool or those of the server: one may be free soon. */
export function isCrowded(error: unknown): boolean {
  const cause = error instanceof UnavailableError ? error.cause : error;
  return isFull(cause) || (cause instanceof Error && cause.message === "timeout exceeded when trying to connect");
}

/** Whether the server lets no further connection in. An ERROR would be about another server, inside a statement. */
function isFull(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === "53300" && error.severity === "FATAL";
}

/** Whether an error means that another server went away, on which this one has tables: this one goes on with its connection. */
export function isForeignAway(error: unknown): boolean {
  const cause = error instanceof UnavailableError ? error.cause : error;
  return cause instanceof DatabaseError && /^(?:08|57P)/.test(cause.code ?? "") && cause.severity === "ERROR";
}

/** What is wrong with SQL that a person wrote, or with the values it was given; undefined when that is not the trouble. */
export function inputError(error: unknown): InputError | undefined {
  if (!(error instanceof DatabaseError)) return undefined;
  const { code = "", message, detail, hint } = error;
  if (unavailable.test(code) && code !== "25006") return undefined;
  const more = [detail, hint].filter((text) => text !== undefined).map((text) => `; ${text.replace(/\.$/, "")}`);
  return new InputError(`${message}${more.join("")}`, { cause: error });
}
