import { Readable } from "node:stream";
import type { Change } from "#plan/change.ts";
import { inChunks } from "#plan/render/shared.ts";
import { HeldError, InputError, RefusedError, RollcallError, UnavailableError, messageOf } from "#errors.ts";

type Advice = RollcallError["advice"];
type Headers = Readonly<Record<string, string>>;

/** Answers a request with an error status. */
export class Refusal extends Error {
  readonly status: number;
  readonly problems: readonly string[];
  readonly headers: Headers;

  constructor(status: number, message: string, options: { problems?: readonly string[]; headers?: Headers } = {}) {
    super(message);
    this.status = status;
    this.problems = options.problems ?? [];
    this.headers = options.headers ?? {};
  }
}

/** The HTTP answer to an error. */
export interface ErrorAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly document: { readonly error: { message: string; problems: readonly string[]; advice: Advice } };
  /** An unexpected error: its message goes to the log, not to the client. */
  readonly unexpected: boolean;
}

export function answerOf(error: unknown): ErrorAnswer {
  const status = statusOf(error);
  const unexpected = status === 500;
  const message = unexpected ? "something unexpected happened; the daemon's log says what" : messageOf(error);
  const advice = error instanceof RollcallError ? error.advice : status === 503 ? "retry" : unexpected ? "stop" : "fix";
  return {
    status,
    headers: hasHeaders(error) ? error.headers : {},
    document: { error: { message, problems: problemsOf(error), advice } },
    unexpected,
  };
}

function statusOf(error: unknown): number {
  if (error instanceof InputError) return 400;
  if (error instanceof HeldError) return 409;
  if (error instanceof UnavailableError) return 503;
  if (error instanceof RefusedError) return 502;
  if (!(error instanceof Error)) return 500;
  // Refusals of the control API, the service and Fastify carry their status.
  const said = "status" in error ? error.status : "statusCode" in error ? error.statusCode : undefined;
  return typeof said === "number" && said >= 400 && said <= 599 ? said : 500;
}

function problemsOf(error: unknown): readonly string[] {
  return error instanceof InputError || error instanceof HeldError || error instanceof Refusal ? error.problems : [];
}

function hasHeaders(error: unknown): error is { readonly headers: Headers } {
  return error instanceof Error && "headers" in error && typeof error.headers === "object" && error.headers !== null;
}

/**
 * Waits for the coordinator.
 * @throws {Refusal} 409 when it refuses: the request itself was valid, so the state of the run is the reason
 */
export async function orConflict<Result>(work: Promise<Result>): Promise<Result> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    throw new Refusal(409, error.message, { problems: error.problems });
  }
}

/**
 * Changes as JSON: one array, or a line for each.
 * @throws what reading the first change throws
 */
export async function changesAsJson(changes: AsyncIterable<Change>, form: "array" | "lines"): Promise<Readable> {
  const iterator = changes[Symbol.asyncIterator]();
  const first = await iterator.next();
  return Readable.from(inChunks(pieces(iterator, first, form)), { objectMode: false });
}

async function* pieces(
  iterator: AsyncIterator<Change>,
  first: IteratorResult<Change>,
  form: "array" | "lines",
): AsyncIterable<string> {
  const [start, between, end] = form === "array" ? ["[\n", ",\n", "\n]\n"] : ["", "\n", "\n"];
  try {
    yield start;
    for (let { done, value } = first; done !== true; { done, value } = await iterator.next()) {
      yield `${value === first.value ? "" : between}${JSON.stringify(value)}`;
    }
    if (form === "array" || first.done !== true) yield end;
  } finally {
    await iterator.return?.();
  }
}
