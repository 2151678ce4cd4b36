import { presentable } from "#http/refusal.ts";
import { defaultRetries, type Outcome, repeat, retryAfter } from "#http/retries.ts";
import { InputError, RefusedError, RollcallError } from "#errors.ts";
import type { Answer, Exchanges, Request } from "./exchange.ts";
import { JsonError } from "./json.ts";
import { objectOf } from "./names.ts";

/** What all requests of one read share. */
export interface Asking {
  readonly exchanges: Exchanges;
  /** The source's name, for messages. */
  readonly name: string;
  readonly signal: AbortSignal;
  readonly warn: (message: string) => void;
  /** The longest pause that a server may ask for, in milliseconds. */
  readonly patience: number;
}

/** A question to a server. */
export interface Question<T> {
  /** Made anew for every attempt. */
  readonly request: () => Promise<Request>;
  /** For messages: `GET https://idp.example.com/scim/v2/Users?startIndex=1`. */
  readonly title: string;
  /** Reads a successful answer. */
  readonly use: (answer: Answer) => Promise<T>;
  /** May make something of a refusal: an answer, another attempt at once (`again`), or nothing. */
  readonly refused?: (refusal: Refusal) => { readonly value: T } | "again" | undefined;
  /** What must not stand in a message. */
  readonly secrets: () => readonly string[];
}

/** An answer that is no success, and what its body says. */
export interface Refusal {
  readonly status: number;
  readonly scimType?: string;
  readonly detail?: string;
}

const passing = new Set([408, 425, 429, 500, 502, 503, 504]);

/**
 * Puts a question, again where it may go better.
 * @throws {UnavailableError} when there is no answer, or none of use for now
 * @throws {RefusedError} when the server refuses
 * @throws {InputError} when the answer is not what it should be
 */
export function ask<T>(asking: Asking, question: Question<T>): Promise<T> {
  const { exchanges, name, signal, warn, patience } = asking;
  const subject = `source ${name}: ${question.title}`;

  const judge = async (answer: Answer): Promise<Outcome<T>> => {
    if (answer.status >= 200 && answer.status < 300) return { value: await question.use(answer) };
    const refusal = await refusalOf(answer, question.secrets());
    const made = question.refused?.(refusal);
    if (made === "again") return attempt();
    if (made !== undefined) return made;
    const said = [refusal.scimType, refusal.detail].filter((part) => part !== undefined).join(": ");
    const problem = `${subject} answered ${refusal.status}${said === "" ? "" : ` (${said})`}`;
    if (passing.has(refusal.status)) {
      const after = retryAfter(answer.headers["retry-after"], Date.now());
      return after === undefined ? { problem } : { problem, after };
    }
    throw new RefusedError(`${problem}: ${adviceOn(refusal, answer)}`, { status: refusal.status });
  };

  const attempt = async (): Promise<Outcome<T>> => {
    let isReading = false;
    const request = await question.request();
    try {
      const answer = await exchanges.request(request);
      isReading = true;
      return await judge(answer);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof RollcallError) throw error;
      if (error instanceof JsonError && error.reason === "malformed") {
        throw new InputError(
          `${subject}: the answer ${error.message}, at its line ${error.line}; is the url that of a SCIM server?`,
        );
      }
      if (error instanceof JsonError) return { problem: `${subject}: the answer ${error.message}` };
      const { reason, isPassing } = exchanges.reasonOf(error, request.url, isReading);
      if (isPassing) return { problem: `${subject}: ${reason}` };
      throw new RefusedError(`${subject}: ${reason}`);
    }
  };

  return repeat(attempt, { retries: { ...defaultRetries, patience }, log: warn }, signal);
}

async function refusalOf({ status, body }: Answer, secrets: readonly string[]): Promise<Refusal> {
  const text = await textOf(body).catch(() => "");
  let said: Readonly<Record<string, unknown>> | undefined;
  try {
    said = objectOf(JSON.parse(text));
  } catch {
    return { status };
  }
  // What servers of tokens say has other names (RFC 6749, 5.2).
  const scimType = said?.["scimType"] ?? said?.["error"];
  const detail = said?.["detail"] ?? said?.["error_description"];
  return {
    status,
    ...(typeof scimType === "string" ? { scimType: presentable(scimType, secrets) } : {}),
    ...(typeof detail === "string" ? { detail: presentable(detail, secrets) } : {}),
  };
}

function adviceOn({ status }: Refusal, { headers }: Answer): string {
  if (status >= 300 && status < 400) {
    const { location } = headers;
    const target = typeof location === "string" ? URL.parse(location) : null;
    const place = target === null ? "another address" : `${target.origin}${target.pathname}`;
    return `it points to ${place}, which is not followed; if that is the server, use its address as the url`;
  }
  switch (status) {
    case 400:
      return "the server does not take the request: check the filter; paging: { count } may be too large, or attributes: all be needed";
    case 401:
      return "the server does not take the credentials: check auth";
    case 403:
      return "the credentials do not allow it: the account needs to read all users and groups";
    case 404:
      return "there is nothing: check the url and the paths of users and groups";
    default:
      return "the server, or a proxy before it, does not take such a request";
  }
}

/** The text of a body, of which no more than 1 MiB is read. */
export async function textOf(body: AsyncIterable<Buffer>): Promise<string> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of body) {
    parts.push(part);
    length += part.length;
    if (length > 2 ** 20) break;
  }
  return Buffer.concat(parts).toString();
}
