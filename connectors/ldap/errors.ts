import {
  IncompleteReadError,
  InputError,
  messageOf,
  RefusedError,
  type RollcallError,
  UnavailableError,
} from "#errors.ts";
import { presentable } from "#redact.ts";
import { codeOf } from "#files/disk.ts";
import { connectionProblem } from "#http/errors.ts";
import type { Peer } from "#http/errors.ts";
import { MalformedError } from "./message.ts";
import type { Result } from "./message.ts";
import type { LdapUrl } from "./options.ts";

/** Result codes that the code reacts to (RFC 4511, A.1). */
export const codes = {
  success: 0,
  referral: 10,
  noSuchObject: 32,
  busy: 51,
  unavailable: 52,
} as const;

/** A result code: its name, the error it becomes, and what to do about it. */
interface Meaning {
  readonly name: string;
  readonly advice?: string;
  readonly error: new (message: string) => RollcallError;
}

/** What to raise for the account, by server. */
const raised = (settings: string): string =>
  `the server ends searches before they are complete; let the account read everything (${settings})`;

const sizes = raised(
  "OpenLDAP: limits … size.prtotal=unlimited; 389 Directory Server: nsSizeLimit, nsPagedSizeLimit; Active Directory: MaxPageSize; OpenDJ, PingDirectory: ds-rlim-size-limit; eDirectory: Search Entry Limit; IBM: ibm-slapdSizeLimit; Oracle: orclSizeLimit",
);
const times = raised(
  "OpenLDAP: limits … time=unlimited; 389 Directory Server: nsTimeLimit; Active Directory: MaxQueryDuration; OpenDJ, PingDirectory: ds-rlim-time-limit; eDirectory: Search Time Limit; IBM: ibm-slapdTimeLimit; Oracle: orclTimeLimit",
);
const efforts = raised(
  "OpenLDAP: limits … size=unlimited size.unchecked=unlimited; 389 Directory Server: nsLookThroughLimit, nsPagedLookThroughLimit, nsIDListScanLimit; Active Directory: MaxResultSetSize, MaxTempTableSize; OpenDJ, PingDirectory: ds-rlim-lookthrough-limit",
);

const meanings: Readonly<Record<number, Meaning>> = {
  1: {
    name: "operationsError",
    advice: "Active Directory requires a login first: set bind",
    error: RefusedError,
  },
  2: { name: "protocolError", error: UnavailableError },
  3: { name: "timeLimitExceeded", advice: times, error: IncompleteReadError },
  4: { name: "sizeLimitExceeded", advice: sizes, error: IncompleteReadError },
  7: { name: "authMethodNotSupported", advice: "the server does not know this way to log in", error: RefusedError },
  8: {
    name: "strongerAuthRequired",
    advice: "the server wants TLS: write ldaps://, or tls: { starttls: true }",
    error: RefusedError,
  },
  10: { name: "referral", error: IncompleteReadError },
  11: { name: "adminLimitExceeded", advice: efforts, error: IncompleteReadError },
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
    advice: "check bind: the name, the password, whether the account is locked or its password has expired",
    error: RefusedError,
  },
  50: {
    name: "insufficientAccessRights",
    advice: "let the account read there; if it must change its password first, change it",
    error: RefusedError,
  },
  51: { name: "busy", advice: "try again later", error: UnavailableError },
  52: { name: "unavailable", advice: "try again later", error: UnavailableError },
  53: { name: "unwillingToPerform", error: RefusedError },
};

/** The error for a result without success. @param doing what failed: `search for users below ou=people` */
export function resultError(doing: string, result: Result): RollcallError {
  const meaning: Meaning = meanings[result.code] ?? { name: `result ${result.code}`, error: UnavailableError };
  const said = presentable(result.message);
  const parts = [`${doing}: ${meaning.name}`, said === "" ? "" : ` (the server says: ${said.slice(0, 300)})`];
  return new meaning.error(`${parts.join("")}${meaning.advice === undefined ? "" : `; ${meaning.advice}`}`);
}

/**
 * The error for a connection that failed or broke.
 * @param doing the connection and its purpose
 * @param hint what to check when it was closed without a reason
 */
export function connectionError(doing: string, error: unknown, url: LdapUrl, hint = ""): RollcallError {
  if (error instanceof MalformedError) {
    return new UnavailableError(`${doing}: the server sent ${error.message}; is it an LDAP server, is the port right?`);
  }
  const problem = connectionProblem(error, peerAt(url));
  // Without the cause: Node puts whole certificates into its errors.
  if (problem?.kind === "certificate") return new RefusedError(`${doing}: ${problem.reason}`);
  const reason = problem?.reason ?? localProblem(error) ?? messageOf(error);
  return new UnavailableError(`${doing}: ${reason}${hint !== "" && !reason.includes("?") ? `; ${hint}` : ""}`);
}

function peerAt({ scheme, host, port, path }: LdapUrl): Peer {
  return {
    host: path ?? `${host.includes(":") ? `[${host}]` : host}:${port}`,
    settings: {
      ca: "the source's `tls.ca`",
      serverName: "`tls.serverName`",
      certificate: "`tls.cert`",
      scheme: scheme === "ldaps" ? "ldap://" : "ldaps://",
    },
  };
}

function localProblem(error: unknown): string | undefined {
  const code = codeOf(error);
  if (code === "ENOENT") return `the socket does not exist (${code})`;
  if (code === "EACCES") return `permission denied for the socket (${code})`;
  if (code === "ECONNRESET" || code === "EPIPE") return `the connection was lost (${code})`;
  return undefined;
}

/** At most so many warnings of one kind are written in full. */
const examples = 5;

/** Warnings that may come once for every entry. */
export class Warnings {
  readonly #warn: (message: string) => void;
  readonly #counts = new Map<string, number>();

  constructor(warn: (message: string) => void) {
    this.#warn = warn;
  }

  /** @param kind the end of `12 more …`: `values are not UTF-8` */
  add(kind: string, message: string): void {
    const count = (this.#counts.get(kind) ?? 0) + 1;
    this.#counts.set(kind, count);
    if (count <= examples) this.#warn(message);
  }

  /** Warns with the number of those that were not written. */
  close(): void {
    for (const [kind, count] of this.#counts) if (count > examples) this.#warn(`${count - examples} more ${kind}`);
  }
}
