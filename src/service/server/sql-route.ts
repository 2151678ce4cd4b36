import type { FastifyInstance } from "fastify";
import type { Engine } from "#service/engine/engine.ts";
import { localRoutes } from "#wire/routes.ts";
import { sqlRequest } from "#wire/sql.ts";
import { HttpError, sendJson } from "./answers.ts";
import type { Callers } from "./callers.ts";
import { disconnectOf, readBody } from "./request.ts";

export interface LocalSettings {
  readonly callers: Callers;
  readonly engine: Engine;
  /** Aborted when the service stops waiting for requests (0.9). */
  readonly shutdown: AbortSignal;
}

/**
 * SQL from commands on this machine, while the service holds the databases. A login is not enough, not even an
 * administrator's: free SQL is for those who could open the database files anyway.
 */
export function addLocalRoutes(app: FastifyInstance, { callers, engine, shutdown }: LocalSettings): void {
  app.route({
    method: localRoutes.sql.method,
    url: localRoutes.sql.path,
    handler: async (request, reply) => {
      await callers.requireLocal(request);
      const { database, sql } = readRequest(await readBody(request));
      return sendJson(reply, await engine.execute(database, sql, AbortSignal.any([shutdown, disconnectOf(reply)])));
    },
  });
}

function readRequest(body: string): ReturnType<typeof sqlRequest.parse> {
  try {
    return sqlRequest.parse(JSON.parse(body));
  } catch (cause) {
    throw new HttpError(400, ["expected a JSON object with `sql` and perhaps `database`"], { cause });
  }
}
