import {
  IncompleteReadError,
  InputError,
  messageOf,
  RefusedError,
  type RollcallError,
  UnavailableError,
} from "#errors.ts";
import { MalformedError } from "./ber.ts";
import type { Result } from "./result.ts";

/** Result codes that decide what to do next (RFC 4511, A.1). */
export const codes = {
  success: 0,
  referral: 10,
  noSuchObject: 32,
  busy: 51,
  unavailable: 52,
} as const;

/** What an answer that is no success means: the name of its code, what to do about it, and which error that is. */
interface Meaning {
  readonly name: string;
  readonly advice?: string;
  readonly error: new (message: string) => RollcallError;
}

const paging =
  "the server ends searches before they are complete; let the account read everything (OpenLDAP: limits … size.prtotal=unlimited)";

const meanings: Readonly<Record<number, Meaning>> = {
  1: {
    name: "operationsError",
    advice: "Active Directory says so to who is not logged in: is there a bind?",
    error: RefusedError,
  },
  2: { name: "protocolError", error: UnavailableError },
  3: { name: "timeLimitExceeded", advice: paging.replace("size.prtotal", "time"), error: IncompleteReadError },
  4: { name: "sizeLimitExceeded", advice: paging, error: IncompleteReadError },
  7: { name: "authMethodNotSupported", advice: "the server does not know this way to log in", error: RefusedError },
  8: {
    name: "strongerAuthRequired",
    advice: "the server wants TLS: write ldaps://, or tls: { starttls: true }",
    error: RefusedError,
  },
  10: { name: "referral", error: IncompleteReadError },
  11: { name: "adminLimitExceeded", advice: paging.replace("size.prtotal", "size"), error: IncompleteReadError },
  12: { name: "unavailableCriticalExtension", error: RefusedError },
  13: {
    name: "confidentialityRequired",
    advice: "the server wants TLS: write ldaps://, or tls: { starttls: true }",
    error: RefusedError,
  },
  32: { name: "noSuchObject", error: IncompleteReadError },
  34: { name: "invalidDNSyntax", error: InputError },
  48: {
    name: "inappropriateAuthentication",
    advice: "the account has no password, or anonymous access is off",
    error: RefusedError,
  },
  49: {
    name: "invalidCredentials",
    advice: "check bind: the name, the password, whether the account is locked",
    error: RefusedError,
  },
  50: { name: "insufficientAccessRights", advice: "let the account read there", error: RefusedError },
  51: { name: "busy", advice: "try again later", error: UnavailableError },
  52: { name: "unavailable", advice: "try again later", error: UnavailableError },
  53: { name: "unwillingToPerform", error: RefusedError },
};

/** The error for an answer that is no success. @param doing what was asked: `search for users below ou=people` */
export function resultError(doing: string, result: Result): RollcallError {
  const meaning: Meaning = meanings[result.code] ?? { name: `result ${result.code}`, error: UnavailableError };
  const said = result.message.replaceAll(/[\s\0]+/g, " ").trim();
  const parts = [`${doing}: ${meaning.name}`, said === "" ? "" : ` (the server says: ${said.slice(0, 300)})`];
  return new meaning.error(`${parts.join("")}${meaning.advice === undefined ? "" : `; ${meaning.advice}`}`);
}

const untrusted = new Set([
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  // An authority of the same name: one that was made anew.
  "CERT_SIGNATURE_FAILURE",
]);

/**
 * The error for a connection that did not come about or broke.
 * @param doing which connection, and what for
 * @param hint what to ask oneself when it was just closed
 */
export function connectionError(doing: string, error: unknown, hint = ""): RollcallError {
  if (error instanceof MalformedError) {
    return new UnavailableError(`${doing}: the server sent ${error.message}; is it an LDAP server, is the port right?`);
  }
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  // The cause stays out: Node puts whole certificates into its errors.
  const certificate = certificateProblem(code, error);
  if (certificate !== undefined) return new RefusedError(`${doing}: ${certificate}`);
  const reason = networkProblem(code) ?? messageOf(error);
  return new UnavailableError(`${doing}: ${reason}${hint !== "" && !reason.includes("?") ? `; ${hint}` : ""}`);
}

function certificateProblem(code: string, error: unknown): string | undefined {
  if (untrusted.has(code)) {
    return `the certificate is not from an authority that is trusted here (${code}); give its issuer's certificate as tls.ca`;
  }
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID") {
    return `the certificate is for other names (${namesOf(error)}); use one of them in the url, or as tls.serverName`;
  }
  if (code === "CERT_HAS_EXPIRED" || code === "CERT_NOT_YET_VALID") {
    return `the certificate is expired or not valid yet (${code}); renew it, or set this machine's clock`;
  }
  if (/^ERR_SSL_.*ALERT/.test(code)) {
    return `the server refused the TLS handshake (${code}); does it want a client certificate (tls.cert)?`;
  }
  return /^(?:CERT_|CRL_|INVALID_|HOSTNAME_)/.test(code) ? `the certificate is not accepted (${code})` : undefined;
}

const unreachable = new Set(["EHOSTUNREACH", "EHOSTDOWN", "ENETUNREACH", "ENETDOWN", "ETIMEDOUT", "EADDRNOTAVAIL"]);

function networkProblem(code: string): string | undefined {
  if (code === "EPROTO" || /^ERR_(?:O?SSL|TLS)_/.test(code)) return `no TLS (${code}); is it ldap://, or another port?`;
  if (code === "ENOTFOUND" || code === "EAI_AGAIN")
    return `the host name is not known (${code}); check the url and the DNS`;
  if (code === "ECONNREFUSED") return `nothing listens there (${code}); is the server running, is the port right?`;
  if (code === "ENOENT") return `there is no such socket (${code})`;
  if (code === "EACCES") return `this user may not use the socket (${code})`;
  if (unreachable.has(code)) return `cannot be reached (${code}); check the network and its firewalls`;
  if (code === "ECONNRESET" || code === "EPIPE") return `the connection was lost (${code})`;
  return undefined;
}

function namesOf(error: unknown): string {
  const certificate = typeof error === "object" && error !== null && "cert" in error ? error.cert : undefined;
  if (typeof certificate !== "object" || certificate === null || !("subjectaltname" in certificate))
    return "it names none";
  return typeof certificate.subjectaltname === "string" ? certificate.subjectaltname : "it names none";
}

/** A duration in milliseconds, for a person. */
export function inWords(duration: number): string {
  if (duration < 120_000) return `${Math.round(duration / 100) / 10} s`;
  return `${Math.round(duration / 6_000) / 10} min`;
}
