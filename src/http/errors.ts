import { codeOf } from "#files/disk.ts";
import { formatDuration } from "#text.ts";

/** How far a request came. Before `wait` the server cannot have all of it. */
export type Phase = "connect" | "send" | "wait" | "receive";

/** What to do about a failed request: `repeat` it now, try again `later`, or `fix` something first. */
export type Advice = "repeat" | "later" | "fix";

/** A request got no answer, or none that is of use. The message says why in plain words and never holds a secret. */
export class HttpError extends Error {
  override readonly name = "HttpError";
  readonly phase: Phase;
  readonly advice: Advice;

  constructor(phase: Phase, message: string, advice: Advice, options?: ErrorOptions) {
    super(message, options);
    this.phase = phase;
    this.advice = advice;
  }
}

/** An answer arrived that is of no use. */
export function unusableAnswer(reason: string, advice: Advice): HttpError {
  return new HttpError("receive", reason, advice);
}

/** A server and the settings that lead to it, as messages name them. */
export interface Peer {
  /** With its port, where it has one: `ldap.example.com:636`. */
  readonly host: string;
  /** The settings that may be wrong. */
  readonly settings: {
    /** The authorities its certificate is checked against: "the target's `ca`". */
    readonly ca: string;
    /** The host name its certificate is checked for, where that can be set. */
    readonly serverName?: string | undefined;
    /** The client certificate, where there can be one. */
    readonly certificate?: string | undefined;
    /** The other scheme its address may need: `http://`. */
    readonly scheme: string;
  };
}

/** Why there is no connection to a server. */
export interface ConnectionProblem {
  readonly reason: string;
  /** After a `network` problem another attempt may succeed; the others need a change first. */
  readonly kind: "certificate" | "encryption" | "network";
}

const untrusted = new Set([
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  // An authority of the same name with another key: it was created again.
  "CERT_SIGNATURE_FAILURE",
]);

const unreachable = new Set(["EHOSTUNREACH", "EHOSTDOWN", "ENETUNREACH", "ENETDOWN", "ETIMEDOUT", "EADDRNOTAVAIL"]);

/**
 * What an error of Node's sockets, DNS or TLS means; undefined for any other error. Node's own messages are left out:
 * they may hold whole certificates.
 */
export function connectionProblem(error: unknown, peer: Peer): ConnectionProblem | undefined {
  const code = codeOf(error);
  const certificate = certificateProblem(code, error, peer);
  if (certificate !== undefined) return { reason: certificate, kind: "certificate" };
  if (code === "EPROTO" || /^ERR_(?:O?SSL|TLS)_/.test(code)) {
    return {
      reason: `no TLS with ${peer.host} (${code}): is it ${peer.settings.scheme} or another port, does it need a newer or older TLS?`,
      kind: "encryption",
    };
  }
  const network = networkProblem(code, peer);
  return network === undefined ? undefined : { reason: network, kind: "network" };
}

function certificateProblem(code: string, error: unknown, { host, settings }: Peer): string | undefined {
  if (untrusted.has(code)) {
    return `the certificate of ${host} is not from an authority that is trusted here (${code}): give its issuer's certificate as ${settings.ca}`;
  }
  switch (code) {
    case "OTHER_CERTIFICATE":
      return `${host} has a different certificate than expected: is it another server?`;
    case "CERT_HAS_EXPIRED":
    case "CERT_NOT_YET_VALID":
      return `the certificate of ${host} is expired or not valid yet (${code}): renew it, or set this machine's clock`;
    case "ERR_TLS_CERT_ALTNAME_INVALID": {
      const elsewhere = settings.serverName === undefined ? "" : `, or as ${settings.serverName}`;
      return `the certificate of ${host} is for other names (${namesOf(error)}): use one of them in the url${elsewhere}`;
    }
    default:
  }
  if (/^ERR_SSL_.*ALERT/.test(code) && !code.includes("VERSION")) {
    const one = settings.certificate === undefined ? "" : ` (${settings.certificate})`;
    return `${host} refused the TLS handshake (${code}): does it want a client certificate${one}, or a newer or older TLS?`;
  }
  return /^(?:CERT_|CRL_|INVALID_|HOSTNAME_)/.test(code)
    ? `the certificate of ${host} was not accepted (${code})`
    : undefined;
}

function networkProblem(code: string, { host }: Peer): string | undefined {
  if (code === "ENOTFOUND" || code === "EAI_AGAIN")
    return `the host name ${host.replace(/:\d+$/, "")} is not known (${code}): check the url and the DNS`;
  if (code === "ECONNREFUSED") return `nothing listens at ${host} (${code}): is the server running, is the port right?`;
  if (unreachable.has(code)) return `${host} cannot be reached (${code}): check the network and its firewalls`;
  return undefined;
}

function namesOf(error: unknown): string {
  if (typeof error !== "object" || error === null || !("cert" in error)) return "it does not say which";
  const { cert } = error;
  const names = typeof cert === "object" && cert !== null && "subjectaltname" in cert ? cert.subjectaltname : undefined;
  return typeof names === "string" ? names : "it names none";
}

const lost = new Set([
  "ECONNRESET",
  "ECONNABORTED",
  "EPIPE",
  "UND_ERR_SOCKET",
  "UND_ERR_RES_CONTENT_LENGTH_MISMATCH",
  "Z_BUF_ERROR",
  "Z_DATA_ERROR",
]);

/** Where a request went. */
export interface RequestContext {
  readonly host: string;
  /** In milliseconds. */
  readonly timeouts: { readonly connect: number; readonly headers: number; readonly body: number };
  /** Whose setting `ca` is, as messages name it: `target`. */
  readonly owner: string;
  /** The other scheme its address may need. Default: `http://`. */
  readonly scheme?: string | undefined;
  /** The setting for the authorities that its certificate is checked against. Default: the owner's `ca`. */
  readonly authorities?: string | undefined;
}

/** Why a request failed. @param error what undici, Node's TLS or zlib threw */
export function requestProblem(
  error: unknown,
  phase: Phase,
  { host, timeouts, owner, scheme = "http://", authorities = `the ${owner}'s \`ca\`` }: RequestContext,
): { readonly reason: string; readonly advice: Advice } {
  const code = codeOf(error);
  const problem = connectionProblem(error, { host, settings: { ca: authorities, scheme } });
  if (problem !== undefined) return { reason: problem.reason, advice: problem.kind === "network" ? "repeat" : "fix" };
  if (code === "UND_ERR_CONNECT_TIMEOUT") {
    return {
      reason: `no connection to ${host} within ${formatDuration(timeouts.connect)}: check the network and its firewalls`,
      advice: "repeat",
    };
  }
  if (code === "UND_ERR_HEADERS_TIMEOUT")
    return { reason: `no answer within ${formatDuration(timeouts.headers)}`, advice: "later" };
  if (code === "UND_ERR_BODY_TIMEOUT")
    return { reason: `no more of the answer came for ${formatDuration(timeouts.body)}`, advice: "repeat" };
  if (code === "UND_ERR_REQ_CONTENT_LENGTH_MISMATCH")
    return { reason: "the list was changed while it was being sent", advice: "later" };
  if (error instanceof Error && error.name === "HTTPParserError" && phase !== "receive") {
    return {
      reason: `${host} answered something that is not HTTP: is it https:// or another port?`,
      advice: "fix",
    };
  }
  return {
    reason: `${lostIn[phase]} (${code === "" ? "no further details" : code})`,
    advice: lost.has(code) ? "repeat" : "later",
  };
}

const lostIn: Readonly<Record<Phase, string>> = {
  connect: "the connection was closed while it was being opened",
  send: "the connection was lost before the whole request was sent",
  wait: "the connection was lost before an answer came",
  receive: "the answer broke off or arrived damaged",
};
