import type { FastifyInstance } from "fastify";
import { healthRoutes } from "#wire/routes.ts";
import { sendJson } from "./answers.ts";

export interface HealthSettings {
  readonly isStopping: () => boolean;
  /** Throws when the service cannot serve. */
  readonly probe: () => Promise<void>;
}

/** Is the process alive, and does it serve: for whoever starts processes and spreads requests. */
export function addHealthRoutes(app: FastifyInstance, { isStopping, probe }: HealthSettings): void {
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
      return sendJson(reply, { status: "ready" });
    },
  });
}
