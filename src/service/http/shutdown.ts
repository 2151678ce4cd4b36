import { setTimeout as delay } from "node:timers/promises";
import type { FastifyInstance } from "fastify";
import { UnavailableError } from "#errors.ts";

/** How long requests under way may take to end, in milliseconds (0.9). */
const grace = 10_000;

/** How long the work of requests that were cut off may then take to undo what it began, in milliseconds. */
const undoing = 2_000;

/** The work of the requests under way, which goes on when their clients have gone. */
export interface Work {
  /** Aborted when the service cannot wait any longer. */
  readonly shutdown: AbortSignal;
  track<Result>(work: Promise<Result>): Promise<Result>;
  abort(): void;
  /** Resolves when nothing is under way. */
  settled(): Promise<void>;
}

export function createWork(): Work {
  const controller = new AbortController();
  const underWay = new Set<Promise<unknown>>();
  return {
    shutdown: controller.signal,
    track: async (work) => {
      underWay.add(work);
      try {
        return await work;
      } finally {
        underWay.delete(work);
      }
    },
    abort: () => {
      controller.abort(new UnavailableError("the service is stopping"));
    },
    settled: async () => {
      await Promise.allSettled(underWay);
    },
  };
}

/** Stops listening, waits for the requests under way, and cuts off those that take too long (0.9). */
export async function closeServer(app: FastifyInstance, work: Work): Promise<void> {
  // A connection whose last answer was already on its way when the service was told to stop is kept alive by nobody else.
  const idle = setInterval(() => {
    app.server.closeIdleConnections();
  }, 50);
  const cutOff = setTimeout(() => {
    work.abort();
    app.server.closeAllConnections();
  }, grace);
  await app.close();
  clearInterval(idle);
  clearTimeout(cutOff);
  await Promise.race([work.settled(), delay(undoing, undefined, { ref: false })]);
}
