import type { FastifyReply, FastifyRequest } from "fastify";
import { ReopeningError } from "#duckdb/connection.ts";
import { InputError, messageOf, UnavailableError } from "#errors.ts";
import { obstacleOf } from "#files/disk.ts";
import type { Obstacle } from "#files/disk.ts";
import { HttpError, json, jsonBytes, text } from "#http/answers.ts";
import { errorCodes } from "#wire/errors.ts";
import { dataTexts } from "#wire/texts.ts";
import type { ErrorBody } from "#wire/errors.ts";

/** 401: no session, or one that has ended (specification 5). */
export function unverified(): HttpError {
  return new HttpError(401, [dataTexts.unverified]);
}

/** 403: a session without the privilege (0.6). */
export function forbidden(): HttpError {
  return new HttpError(403, [dataTexts.forbidden]);
}

/** 429 (0.8). */
export function throttled(seconds: number): HttpError {
  return new HttpError(429, [`Too many failed logins. Try again in ${seconds} seconds.`], {
    headers: { "retry-after": String(seconds) },
  });
}

/** Runs `work`, which reads sessions or users. When that fails, the caller cannot be verified (A.25). */
export async function authenticating<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (cause) {
    if (cause instanceof HttpError || cause instanceof ReopeningError || obstacleOf(cause) !== undefined) throw cause;
    throw new HttpError(500, [dataTexts.noAuthentication], { cause });
  }
}

/** Releases what an answer is read from once it has been sent, or its client is gone. */
export function releaseSent(reply: FastifyReply, answer: { release(): void }): void {
  const release = (): void => {
    answer.release();
  };
  if (reply.raw.destroyed) release();
  else reply.raw.once("close", release);
}

/** What is written is written as a whole: in a transaction, or under another name until it is complete. */
const obstacles: Readonly<Record<Obstacle, string>> = {
  full: "There is not enough free disk space, and nothing was changed. Make room on the disk with the data folder of the service, then try again.",
  "read-only": "The data folder of the service is on a file system that is read-only, and nothing was changed.",
  handles:
    "The service has too many files and connections open, and nothing was changed. Try again when less is going on, or have its limit on open files raised.",
};

/** Turns anything thrown into a response. Details that are not for callers go only to the log. */
export function httpErrorOf(error: unknown, incident: string): HttpError {
  if (error instanceof HttpError) return error;
  if (error instanceof InputError) {
    return new HttpError(400, error.problems.length > 0 ? error.problems : [error.message]);
  }
  const obstacle = obstacleOf(error);
  const later = obstacle === "full" ? 507 : 503;
  if (error instanceof ReopeningError)
    return new HttpError(503, [error.message], { headers: { "retry-after": "5" }, cause: error });
  if (error instanceof UnavailableError) return new HttpError(later, [error.message], { cause: error });
  if (obstacle !== undefined) return new HttpError(later, [obstacles[obstacle]], { cause: error });
  const status = typeof error === "object" && error !== null && "statusCode" in error ? Number(error.statusCode) : 500;
  if (status >= 400 && status < 500) return new HttpError(status, [messageOf(error)]);
  return new HttpError(500, [`error code = INTERNAL, message = Unexpected error, incident ${incident}.`], {
    cause: error,
  });
}

/** The family of a request, which decides the form of errors: plain text (A), error objects (B), or neither. */
export type Family = "data" | "administration" | "none";

/**
 * Makes the answer an error, in the language of the family: text (A.25), or an error object (B.1).
 * @returns its body
 */
export function turnIntoError(
  request: FastifyRequest,
  reply: FastifyReply,
  family: Family,
  error: HttpError,
): Buffer | undefined {
  const { incident, trace } = request.exchange;
  reply.code(error.status).headers(error.headers);
  if (family === "administration" && error.status === 415) return undefined;
  reply.type(family === "data" ? text : json);
  if (family === "data") return Buffer.from(error.messages.join("\n"));
  if (family === "none") return jsonBytes({ error: error.messages.join("; ") });
  const body: ErrorBody = {
    code: codeOf(error.status),
    incident_id_guid: incident,
    trace_id_guid: trace,
    debug: JSON.stringify(error.messages),
  };
  return jsonBytes(body);
}

function codeOf(status: number): number {
  if (status === 400) return errorCodes.badRequest;
  return status === 403 ? errorCodes.forbidden : errorCodes.other;
}
