import { X509Certificate } from "node:crypto";
import type { z } from "zod";
import { InputError, RefusedError, UnavailableError, messageOf } from "#errors.ts";
import { jsonIn } from "#http/client.ts";
import type { Answer } from "#http/client.ts";
import { HttpError, unusableAnswer } from "#http/errors.ts";
import { isLoopback } from "#http/listening.ts";
import { defaultRetries, repeat, retryAfter } from "#http/retries.ts";
import type { Outcome, Retries } from "#http/retries.ts";
import { familyA } from "#wire/routes.ts";
import { Endpoint } from "./endpoint.ts";
import type { EndpointOptions, Exchange } from "./endpoint.ts";
import { linesOf, refusalOf } from "./refusal.ts";

export interface RequestOptions extends EndpointOptions {
  /** The target's name, for messages. */
  readonly name: string;
  readonly retries?: Partial<Retries> | undefined;
  /** Gets events that are not failures: a repeated attempt, a new session. Never contains a secret. */
  readonly log?: ((message: string) => void) | undefined;
  /** Called after every request. */
  readonly observe?: ((attempt: Attempt) => void) | undefined;
}

/** What the requests of a client to one family share. */
export interface Context {
  /** The target's name, for messages. */
  readonly name: string;
  readonly endpoint: Endpoint;
  readonly retries: Retries;
  /** Errors are plain text, as in family A (A.25), not objects (B.1). */
  readonly plainErrors: boolean;
  readonly log: (message: string) => void;
  readonly observe: ((attempt: Attempt) => void) | undefined;
}

/** One request. An operation may need several. */
export interface Attempt {
  /** The name of the target. */
  readonly target: string;
  /** Method and path below the family's root, without ids: `POST /user/sync`. */
  readonly operation: string;
  /** Absent if there was no answer. */
  readonly status?: number | undefined;
  readonly seconds: number;
}

/** A request, and what its failures mean. */
export interface Operation extends Exchange {
  /** For messages, for example `user/list`. */
  readonly title: string;
  /** By status: the advice for a refusal, instead of the usual one. */
  readonly advice?: Readonly<Record<number, string>> | undefined;
  /** Where to send it, if not to the endpoint of the context. */
  readonly node?: Endpoint | undefined;
  /** Other statuses that `use` accepts. */
  readonly accept?: readonly number[] | undefined;
  /** Set for a change: never repeated once the service may have the whole request. Says what to do in that case. */
  readonly once?: string | undefined;
  /** Values that must not appear in a message even if the service repeats them. */
  readonly secrets?: readonly string[] | undefined;
}

/** Reads a successful answer. */
export type Use<T> = (answer: Answer) => Promise<T>;

const temporary = new Set([500, 502, 503, 504]);

/** @throws {InputError} the url or the certificate is invalid */
export function contextOf(options: RequestOptions, family: string): Context {
  const { name, url, ca, retries, log = () => undefined, observe } = options;
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw new InputError(`target ${name}: the url must begin with http:// or https://`);
  }
  if (ca !== undefined) checkCertificate(ca, name);
  const endpoint = new Endpoint(options, family);
  if (endpoint.url.protocol === "http:" && !isLoopback(endpoint.url.hostname)) {
    log(`target ${name}: ${endpoint.url.origin} is not encrypted: passwords and sessions can be read on the way`);
  }
  return {
    name,
    endpoint,
    retries: { ...defaultRetries, ...retries },
    log,
    observe,
    plainErrors: family === familyA,
  };
}

function checkCertificate(ca: string, name: string): X509Certificate {
  try {
    return new X509Certificate(ca);
  } catch (error) {
    throw new InputError(`target ${name}: \`ca\` holds no certificate in PEM form: ${messageOf(error)}`);
  }
}

/**
 * Makes a request, repeats it where that is safe, and hands its successful answer to `use`.
 * @throws {UnavailableError} no answer, or no useful one for now
 * @throws {RefusedError} the service refused; `status` says how
 */
export function send<T>(context: Context, operation: Operation, use: Use<T>, signal: AbortSignal): Promise<T> {
  const endpoint = operation.node ?? context.endpoint;
  const subject = `target ${context.name}: ${operation.title}`;
  return repeat(() => attempt({ context, operation, endpoint, subject, use }, signal), context, signal);
}

/** A request that is being made. */
interface Sending<T> {
  readonly context: Context;
  readonly operation: Operation;
  readonly endpoint: Endpoint;
  /** How messages begin: `target analytics: user/list`. */
  readonly subject: string;
  readonly use: Use<T>;
}

async function attempt<T>(sending: Sending<T>, signal: AbortSignal): Promise<Outcome<T>> {
  const { context, operation, endpoint, subject } = sending;
  const started = performance.now();
  let status: number | undefined;
  const judged = (answer: Answer): Promise<Outcome<T>> => {
    ({ status } = answer);
    return judge(answer, sending);
  };
  try {
    return await endpoint.exchange(operation, judged, signal);
  } catch (error) {
    if (!(error instanceof HttpError)) throw error;
    const { message: reason, advice, phase } = error;
    const mayHaveArrived = phase === "wait" || phase === "receive";
    if (operation.once !== undefined && mayHaveArrived) throw unknownOutcome(reason, sending);
    const problem = `${subject}: ${reason}`;
    if (operation.body?.single === true && phase !== "connect") {
      throw new UnavailableError(`${problem}. The data came from a stream, which cannot be sent twice`);
    }
    if (advice === "repeat") return { problem };
    throw advice === "fix" ? new RefusedError(problem) : new UnavailableError(problem);
  } finally {
    const { method, path, template = path } = operation.route;
    const seconds = (performance.now() - started) / 1000;
    context.observe?.({ target: context.name, operation: `${method} ${template}`, status, seconds });
  }
}

async function judge<T>(answer: Answer, sending: Sending<T>): Promise<Outcome<T>> {
  const { context, operation, endpoint, subject, use } = sending;
  const { status, headers } = answer;
  if ((status >= 200 && status < 300) || operation.accept?.includes(status) === true)
    return { value: await use(answer) };
  const problem = `was answered ${status}${status === 429 ? ", too many requests" : ""}${incidentOf(answer)}`;
  if (operation.once !== undefined && status >= 500) throw unknownOutcome(problem, sending);
  const secrets = [...(operation.secrets ?? []), ...cookieValues(operation.cookie)];
  if (status === 429 || temporary.has(status)) {
    const [line] = context.plainErrors ? await linesOf(answer, secrets) : [];
    const after = retryAfter(headers["retry-after"], Date.now());
    return {
      problem: `${subject} ${problem}${line === undefined ? "" : `: ${line}`}`,
      after,
      // The service says for how long. A proxy before it may not.
      isCrowded: status === 429 && after === undefined,
    };
  }
  const refusal = await refusalOf(answer, { ...context, ...operation, secrets, subject, place: endpoint.place });
  // There may be room later, but not soon.
  throw status === 507 ? new UnavailableError(refusal.message, { cause: refusal }) : refusal;
}

function unknownOutcome(problem: string, { operation, subject }: Sending<unknown>): UnavailableError {
  return new UnavailableError(
    `${subject}: ${problem}. It is not known whether the changes were made: either all were, or none. ` +
      `It is not sent again; ${operation.once ?? ""}`,
  );
}

/** The values of a `Cookie` header that are long enough to be secrets: a service may repeat them. */
function cookieValues(header = ""): string[] {
  return header
    .split("; ")
    .map((pair) => pair.slice(pair.indexOf("=") + 1))
    .filter((value) => value.length >= 8);
}

/** The number by which the service's operators find the answer in their logs. */
function incidentOf({ headers }: Answer): string {
  const id = headers["x-service-incident-id"];
  return typeof id === "string" && /^[\w-]{1,64}$/.test(id) ? ` (incident ${id})` : "";
}

/** The largest answer to read, in bytes. A status may list many errors. */
const longestJson = 64 * 1024 * 1024;

/** The value of a JSON answer, whatever its content type (specification 4.1). @throws {HttpError} */
export async function jsonOf<T>(answer: Answer, schema: z.ZodType<T>, limit = longestJson): Promise<T> {
  try {
    return schema.parse(await jsonIn(answer, limit));
  } catch (error) {
    if (error instanceof HttpError) throw error;
    throw unusableAnswer("the answer does not have the form of this interface: is the url right?", "fix");
  }
}
