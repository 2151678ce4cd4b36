import type { FastifyInstance } from "fastify";
import { setTimeout as delay } from "node:timers/promises";
import { RollcallError, UnavailableError } from "#errors.ts";
import { healthRoutes } from "#wire/routes.ts";
import { sendJson } from "./answers.ts";

/** A readiness check: why the service is not ready, for a person, or undefined. */
export type Probe = () => string | undefined | Promise<string | undefined>;

export interface HealthSettings {
  readonly isStopping: () => boolean;
  /** Throws when the service cannot serve. */
  readonly probe?: () => Promise<void>;
  /** Further checks. */
  readonly probes: readonly Probe[];
  /** How long a check may take, in milliseconds. Default: 5 s. */
  readonly patience?: number | undefined;
}

/** Liveness and readiness, for process managers and load balancers. */
export function addHealthRoutes(
  app: FastifyInstance,
  { isStopping, probe, probes, patience = 5_000 }: HealthSettings,
): void {
  app.route({
    method: ["GET", "HEAD"],
    url: healthRoutes.alive.path,
    handler: (_request, reply) => sendJson(reply, { status: "alive" }),
  });

  app.route({
    method: ["GET", "HEAD"],
    url: healthRoutes.ready.path,
    handler: async (_request, reply) => {
      if (isStopping()) return sendJson(reply.code(503), { status: "stopping" });
      try {
        if (probe !== undefined) await inTime(probe(), patience);
      } catch {
        return sendJson(reply.code(503), { status: "failing" });
      }
      const reasons = await reasonsOf(probes, patience);
      if (reasons.length > 0) return sendJson(reply.code(503), { status: "failing", reasons });
      return sendJson(reply, { status: "ready" });
    },
  });
}

/** Why the service is not ready, without details that belong only in the log. */
async function reasonsOf(probes: readonly Probe[], patience: number): Promise<string[]> {
  const found = await Promise.all(
    probes.map(async (probe) => {
      try {
        return await inTime(Promise.resolve(probe()), patience);
      } catch (error) {
        return error instanceof RollcallError ? error.message : "a check failed";
      }
    }),
  );
  return found.filter((reason) => reason !== undefined);
}

/** A check that waits for something that does not move must not hold up the answer that says so. */
async function inTime<Result>(check: Promise<Result>, patience: number): Promise<Result> {
  const over = new AbortController();
  const late = delay(patience, undefined, { signal: over.signal }).then(() => {
    throw new UnavailableError(`a check did not answer within ${patience / 1000} s`);
  });
  try {
    return await Promise.race([check, late]);
  } finally {
    late.catch(() => undefined);
    over.abort();
  }
}
