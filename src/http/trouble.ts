import { inWords } from "#text.ts";
import type { Http, Phase } from "./exchange.ts";
import { errors } from "./undici.ts";

/** A server, in the words of a person who has written down where it is. */
export interface Peer {
  /** With its port, where it has one: `ldap.example.com:636`. */
  readonly host: string;
  /** Which settings may be wrong. */
  readonly settings: {
    /** Who vouches for its certificate: "the target's `ca`". */
    readonly ca: string;
    /** The name that its certificate is to be for, where that can be set. */
    readonly serverName?: string;
    /** The certificate that it is shown, where there can be one. */
    readonly certificate?: string;
    /** With what else its address may have to begin: `http://`. */
    readonly scheme: string;
  };
}

/** Why there is no connection to a server. */
export interface Trouble {
  readonly reason: string;
  /** `network`: the same again may go better. Otherwise something must be changed first. */
  readonly with: "certificate" | "encryption" | "network";
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

const unreachable = new Set(["EHOSTUNREACH", "EHOSTDOWN", "ENETUNREACH", "ENETDOWN", "ETIMEDOUT", "EADDRNOTAVAIL"]);

/**
 * What the errors of Node's sockets, DNS and TLS mean for a person; undefined where it is not such an error. Their own
 * messages stay out of it: Node puts whole certificates into them.
 */
export function troubleOf(error: unknown, peer: Peer): Trouble | undefined {
  const code = codeOf(error);
  const certificate = certificateProblem(code, error, peer);
  if (certificate !== undefined) return { reason: certificate, with: "certificate" };
  if (code === "EPROTO" || /^ERR_(?:O?SSL|TLS)_/.test(code)) {
    return {
      reason: `no TLS with ${peer.host} (${code}): is it ${peer.settings.scheme} or another port, does it need a newer or older TLS?`,
      with: "encryption",
    };
  }
  const network = networkProblem(code, peer);
  return network === undefined ? undefined : { reason: network, with: "network" };
}

function certificateProblem(code: string, error: unknown, { host, settings }: Peer): string | undefined {
  if (untrusted.has(code)) {
    return `the certificate of ${host} is not from an authority that is trusted here (${code}): give its issuer's certificate as ${settings.ca}`;
  }
  switch (code) {
    case "OTHER_CERTIFICATE":
      return `${host} has another certificate than the one it was to have: is it another server?`;
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
  if (typeof error !== "object" || error === null || !("cert" in error)) return "which ones it does not say";
  const { cert } = error;
  const names = typeof cert === "object" && cert !== null && "subjectaltname" in cert ? cert.subjectaltname : undefined;
  return typeof names === "string" ? names : "it names none";
}

/** The code of an error of Node or a library; empty where it has none. */
export function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";
}

/** Why an exchange broke, for a person, and whether the same again may go better. */
export interface Breakage {
  readonly reason: string;
  /** `fix`: something must be changed first. */
  readonly advice: "repeat" | "later" | "fix";
}

/** An answer came, and is of no use: `reason` says why. */
export class Unusable extends Error {
  readonly advice: Breakage["advice"];

  constructor(reason: string, advice: Breakage["advice"]) {
    super(reason);
    this.advice = advice;
  }
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

/** Where an exchange broke. */
interface Place extends Pick<Http, "url" | "timeouts"> {
  /** Who has the setting `ca`: the target, unless it says otherwise. */
  readonly owner?: string;
  /** With what else the address may have to begin; `http://`, unless it says otherwise. */
  readonly scheme?: string;
}

/** @param error what undici, Node's TLS or zlib threw, or an `Unusable` */
export function breakageOf(
  error: unknown,
  phase: Phase,
  { url, timeouts, owner = "target", scheme = "http://" }: Place,
): Breakage {
  if (error instanceof Unusable) return { reason: error.message, advice: error.advice };
  const code = codeOf(error);
  const trouble = troubleOf(error, { host: url.host, settings: { ca: `the ${owner}'s \`ca\``, scheme } });
  if (trouble !== undefined) return { reason: trouble.reason, advice: trouble.with === "network" ? "repeat" : "fix" };
  if (code === "UND_ERR_CONNECT_TIMEOUT") {
    return {
      reason: `no connection to ${url.host} within ${inWords(timeouts.connect)}: check the network and its firewalls`,
      advice: "repeat",
    };
  }
  if (code === "UND_ERR_HEADERS_TIMEOUT")
    return { reason: `no answer within ${inWords(timeouts.headers)}`, advice: "later" };
  if (code === "UND_ERR_BODY_TIMEOUT")
    return { reason: `the answer stood still for ${inWords(timeouts.body)}`, advice: "repeat" };
  if (code === "UND_ERR_REQ_CONTENT_LENGTH_MISMATCH")
    return { reason: "the list was changed while it was being sent", advice: "later" };
  if (error instanceof errors.HTTPParserError && phase !== "receive") {
    return {
      reason: `${url.host} answered something that is not HTTP: is it https:// or another port?`,
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
