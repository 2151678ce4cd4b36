import { parseJson } from "#input-bounds.ts";
import { RefusedError } from "#errors.ts";
import { jsonIn, textOf } from "#http/client.ts";
import type { Answer } from "#http/client.ts";
import { presentable } from "#redact.ts";

/** The parts of a refusal's message. */
export interface RefusalContext {
  /** `target analytics: user/list` */
  readonly subject: string;
  /** Where the family's paths begin. */
  readonly place: string;
  readonly advice?: Readonly<Record<number, string>> | undefined;
  readonly secrets: readonly string[];
  /** The body is plain text (A.25). */
  readonly plainErrors: boolean;
}

/** How many of the problems the service named are shown. */
const mostProblems = 20;

/** The error for an unsuccessful answer; it says what to do and, for a 400, lists the problems the service named (B.1). */
export async function refusalOf(answer: Answer, context: RefusalContext): Promise<RefusedError> {
  const { status } = answer;
  const advice = context.advice?.[status] ?? usualAdvice(answer, context.place);
  const problems =
    context.plainErrors && status !== 401 && status !== 403
      ? await linesOf(answer, context.secrets)
      : status === 400
        ? await problemsOf(answer, context.secrets)
        : [];
  const lines = problems.slice(0, mostProblems).map((problem) => `\n  ${problem}`);
  const rest = problems.length - lines.length;
  return new RefusedError(
    `${context.subject} was refused (${status}): ${advice}${lines.join("")}${rest > 0 ? `\n  … and ${rest} more` : ""}`,
    { status },
  );
}

function usualAdvice({ status, headers }: Answer, place: string): string {
  if (status >= 300 && status < 400) {
    return `it points to ${destinationOf(headers["location"], place)}, which is not followed; if that is the service, use its address as the url`;
  }
  switch (status) {
    case 400:
      return "the service rejected the request as invalid";
    case 401:
      return "the session is not valid";
    case 403:
      return "the account lacks the privilege for it";
    case 404:
    case 405:
      return `there is no such operation at ${place}: check url and prefix`;
    case 413:
      return "the list is larger than the service, or a proxy in front of it, accepts: raise its limit";
    case 507:
      return "the service has no room on its disk: make room there, then try again";
    default:
      return "the service, or a proxy in front of it, does not accept the request";
  }
}

/** The target of a redirect, without the parts that might be secret. */
function destinationOf(location: string | string[] | undefined, place: string): string {
  const url = typeof location === "string" && URL.canParse(location, place) ? new URL(location, place) : undefined;
  return url === undefined ? "nowhere" : `${url.origin === "null" ? url.protocol : url.origin}${url.pathname}`;
}

/** The strings of `debug`, a string that holds a JSON array of them; none when the body is anything else. */
async function problemsOf(answer: Answer, secrets: readonly string[]): Promise<string[]> {
  try {
    const body = await jsonIn(answer);
    if (typeof body !== "object" || body === null || !("debug" in body) || typeof body.debug !== "string") return [];
    const problems = parseJson(body.debug);
    if (!Array.isArray(problems)) return [];
    return problems.filter((problem) => typeof problem === "string").map((problem) => presentable(problem, secrets));
  } catch {
    return [];
  }
}

/** The lines of an error in plain text; none when the body is of another type. */
export async function linesOf(answer: Answer, secrets: readonly string[]): Promise<string[]> {
  if (!/^text\/plain\b/.test(String(answer.headers["content-type"]))) return [];
  const text = await textOf(answer).catch(() => "");
  return text
    .split("\n")
    .map((line) => presentable(line, secrets))
    .filter((line) => line !== "");
}
