import { inWords } from "#network/duration.ts";
import { codeOf, troubleOf } from "#http/trouble.ts";
import type { Http, Phase } from "#http/exchange.ts";
import { errors } from "#http/undici.ts";

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
