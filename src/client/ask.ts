import { RefusedError, UnavailableError } from "#errors.ts";
import type { Answer } from "#http/client.ts";
import { HttpError } from "#http/errors.ts";
import type { Endpoint, Exchange } from "./context.ts";
import { linesOf, refusalOf } from "./refusal.ts";
import { repeat, retryAfter } from "#http/retries.ts";
import type { Outcome, Retries } from "#http/retries.ts";

/** What every request of a client shares. */
export interface Context {
  /** The target's name, for messages. */
  readonly name: string;
  readonly http: Endpoint;
  readonly retries: Retries;
  /** Errors are plain text, as those of family A (A.25); else objects (B.1). */
  readonly plainErrors?: boolean;
  /** Says what a person may want to know about a request that has not failed for good. Never given a secret. */
  readonly log: (message: string) => void;
  readonly observe?: (attempt: Attempt) => void;
}

/** One request of an operation, which may take several. */
export interface Attempt {
  /** The name of the target. */
  readonly target: string;
  /** Method and path below the family's root, without ids: `POST /user/sync`. */
  readonly operation: string;
  /** Absent when there was no answer. */
  readonly status?: number;
  readonly seconds: number;
}

/** A request and what its failures mean. */
export interface Operation extends Exchange {
  /** For messages, for example `user/list`. */
  readonly title: string;
  /** What to do when it is refused with such a status, where the usual advice is not good enough. */
  readonly advice?: Readonly<Record<number, string>>;
  /** Where it goes, when that is another node than the session's. */
  readonly node?: Endpoint;
  /** Statuses that `use` is given too. */
  readonly accept?: readonly number[];
  /** It changes something: never repeated once the service may have the whole request. Says what is to be done then. */
  readonly once?: string;
  /** Values that must not appear in a message even if the service repeats them. */
  readonly secrets?: readonly string[];
}

/** Reads a successful answer. */
export type Use<T> = (answer: Answer) => Promise<T>;

const temporary = new Set([500, 502, 503, 504]);

/**
 * Makes a request, again where that is safe, and hands its successful answer to `use`.
 * @throws {UnavailableError} no answer, or none of use for now
 * @throws {RefusedError} the service refused; `status` says how
 */
export function ask<T>(context: Context, operation: Operation, use: Use<T>, signal: AbortSignal): Promise<T> {
  const http = operation.node ?? context.http;
  const subject = `target ${context.name}: ${operation.title}`;

  const unknown = (problem: string): UnavailableError =>
    new UnavailableError(
      `${subject}: ${problem}. Whether the changes were made is not known: either all of them were or none. ` +
        `It is not sent again; ${operation.once ?? ""}`,
    );

  const judge = async (answer: Answer): Promise<Outcome<T>> => {
    const { status, headers } = answer;
    if ((status >= 200 && status < 300) || operation.accept?.includes(status) === true)
      return { value: await use(answer) };
    const problem = `was answered ${status}${status === 429 ? ", too many requests" : ""}${incidentOf(answer)}`;
    if (operation.once !== undefined && status >= 500) throw unknown(problem);
    const secrets = [...(operation.secrets ?? []), ...cookieValues(operation.cookie)];
    if (status === 429 || temporary.has(status)) {
      const after = retryAfter(headers["retry-after"], Date.now());
      const [line] = context.plainErrors === true ? await linesOf(answer, secrets) : [];
      return {
        problem: `${subject} ${problem}${line === undefined ? "" : `: ${line}`}`,
        ...(after === undefined ? {} : { after }),
      };
    }
    const refusal = await refusalOf(answer, { ...context, ...operation, secrets, subject, place: http.place });
    // There may be room later, but not soon.
    throw status === 507 ? new UnavailableError(refusal.message, { cause: refusal }) : refusal;
  };

  const attempt = async (): Promise<Outcome<T>> => {
    const started = performance.now();
    let status: number | undefined;
    try {
      return await http.exchange(
        operation,
        (answer) => {
          ({ status } = answer);
          return judge(answer);
        },
        signal,
      );
    } catch (error) {
      if (!(error instanceof HttpError)) throw error;
      const { message: reason, advice, phase } = error;
      const arrived = phase === "wait" || phase === "receive";
      if (operation.once !== undefined && arrived) throw unknown(reason);
      const problem = `${subject}: ${reason}`;
      if (operation.body?.single === true && phase !== "connect") {
        throw new UnavailableError(`${problem}. What was being sent came from a stream and cannot be had again`);
      }
      if (advice === "repeat") return { problem };
      throw advice === "fix" ? new RefusedError(problem) : new UnavailableError(problem);
    } finally {
      const { method, path, template = path } = operation.route;
      context.observe?.({
        target: context.name,
        operation: `${method} ${template}`,
        ...(status === undefined ? {} : { status }),
        seconds: (performance.now() - started) / 1000,
      });
    }
  };

  return repeat(attempt, context, signal);
}

/** The values of a `Cookie` header that are long enough to be secrets: a service may say them back. */
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
