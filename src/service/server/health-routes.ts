import type { FastifyInstance } from "fastify";
import { RollcallError } from "#errors.ts";
import type { Probe } from "#service/observer.ts";
import { healthRoutes } from "#wire/routes.ts";
import { sendJson } from "./answers.ts";

export interface HealthSettings {
  readonly isStopping: () => boolean;
  /** Throws when the service cannot serve. */
  readonly probe: () => Promise<void>;
  /** Further checks. */
  readonly probes: readonly Probe[];
}

/** Liveness and readiness, for process managers and load balancers. */
export function addHealthRoutes(app: FastifyInstance, { isStopping, probe, probes }: HealthSettings): void {
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
        await probe();
      } catch {
        return sendJson(reply.code(503), { status: "failing" });
      }
      const reasons = await reasonsOf(probes);
      if (reasons.length > 0) return sendJson(reply.code(503), { status: "failing", reasons });
      return sendJson(reply, { status: "ready" });
    },
  });
}

/** Why the service is not ready, without details that belong only in the log. */
async function reasonsOf(probes: readonly Probe[]): Promise<string[]> {
  const found = await Promise.all(
    probes.map(async (probe) => {
      try {
        return await probe();
      } catch (error) {
        return error instanceof RollcallError ? error.message : "a check failed";
      }
    }),
  );
  return found.filter((reason) => reason !== undefined);
}
