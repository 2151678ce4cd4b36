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
  /** Aborted when the service cannot wait for its requests any longer (0.9). */
  readonly shutdown: AbortSignal;
}

/**
 * What the commands on this machine ask of the service that holds the databases. A login, an administrator's too, does
 * not open this door: SQL of one's own is for who could as well open the database files.
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
