import type { FastifyReply } from "fastify";
import { HttpError } from "./answers.ts";

/** Aborted when the client goes away before it has the answer. */
export function disconnectOf({ raw }: FastifyReply): AbortSignal {
  const controller = new AbortController();
  const abort = (): void => {
    if (!raw.writableFinished) controller.abort(new HttpError(408, ["The client went away."]));
  };
  if (raw.closed) abort();
  else raw.once("close", abort);
  return controller.signal;
}
