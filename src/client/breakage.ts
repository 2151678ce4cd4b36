import type { Http, Phase } from "./http.ts";
import { errors } from "./undici.ts";

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

const untrusted = new Set([
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
]);

const unreachable = new Set(["EHOSTUNREACH", "EHOSTDOWN", "ENETUNREACH", "ENETDOWN", "ETIMEDOUT", "EADDRNOTAVAIL"]);

const lost = new Set([
  "ECONNRESET",
  "ECONNABORTED",
  "EPIPE",
  "UND_ERR_SOCKET",
  "UND_ERR_RES_CONTENT_LENGTH_MISMATCH",
  "Z_BUF_ERROR",
  "Z_DATA_ERROR",
]);

/** Where an exchange broke. `owner` is who has the setting `ca`: the target, unless it says otherwise. */
type Place = Pick<Http, "url" | "timeouts"> & { readonly owner?: string };

/** @param error what undici, Node's TLS or zlib threw, or an `Unusable` */
export function breakageOf(error: unknown, phase: Phase, { url, timeouts, owner = "target" }: Place): Breakage {
  if (error instanceof Unusable) return { reason: error.message, advice: error.advice };
  const code = codeOf(error);
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") {
    return {
      reason: `the host name ${url.hostname} is not known (${code}): check the url and the DNS`,
      advice: "repeat",
    };
  }
  if (code === "ECONNREFUSED") {
    return {
      reason: `nothing listens at ${url.host} (${code}): is the service running, is the port right?`,
      advice: "repeat",
    };
  }
  if (code === "UND_ERR_CONNECT_TIMEOUT") {
    return {
      reason: `no connection to ${url.host} within ${inWords(timeouts.connect)}: check the network and its firewalls`,
      advice: "repeat",
    };
  }
  if (unreachable.has(code)) {
    return { reason: `${url.host} cannot be reached (${code}): check the network and its firewalls`, advice: "repeat" };
  }
  const tls = tlsProblem(code, error, url, owner);
  if (tls !== undefined) return { reason: tls, advice: "fix" };
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

function tlsProblem(code: string, error: unknown, url: URL, owner: string): string | undefined {
  if (untrusted.has(code)) {
    return `the certificate of ${url.host} is not from an authority that is trusted here (${code}): give its issuer's certificate as the ${owner}'s \`ca\``;
  }
  switch (code) {
    case "OTHER_CERTIFICATE":
      return `${url.host} has another certificate than the one it was to have: is it another server?`;
    case "CERT_HAS_EXPIRED":
    case "CERT_NOT_YET_VALID":
      return `the certificate of ${url.host} is expired or not valid yet (${code}): renew it, or set this machine's clock`;
    case "ERR_TLS_CERT_ALTNAME_INVALID":
      return `the certificate of ${url.host} is for other names (${namesOf(error)}): use one of them in the url`;
    default:
  }
  if (/^(?:CERT_|ERR_TLS_|CRL_|INVALID_CA|INVALID_PURPOSE|HOSTNAME_MISMATCH)/.test(code)) {
    return `the certificate of ${url.host} was not accepted (${code})`;
  }
  if (code === "EPROTO" || /^ERR_O?SSL_/.test(code)) {
    return `no TLS with ${url.host} (${code}): is it http:// or another port, does it need a newer or older TLS?`;
  }
  return undefined;
}

function namesOf(error: unknown): string {
  if (typeof error !== "object" || error === null || !("cert" in error)) return "which ones it does not say";
  const { cert } = error;
  const names = typeof cert === "object" && cert !== null && "subjectaltname" in cert ? cert.subjectaltname : undefined;
  return typeof names === "string" ? names : "it names none";
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";
}

/** A duration in milliseconds, for a person. */
export function inWords(duration: number): string {
  if (duration < 1000) return `${Math.round(duration)} ms`;
  if (duration < 120_000) return `${Math.round(duration / 100) / 10} s`;
  return `${Math.round(duration / 6000) / 10} min`;
}
