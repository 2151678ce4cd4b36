import { Readable } from "node:stream";
import type { FastifyInstance } from "fastify";
import type { Answer } from "#service/worker/worker.ts";
import { localRoutes } from "#wire/routes.ts";
import { sqlRequest } from "#wire/sql.ts";
import { HttpError, json } from "#http/answers.ts";
import { releaseSent } from "./answers.ts";
import type { ServerContext } from "./context.ts";
import { disconnectOf, readBody } from "#http/exchange.ts";

/**
 * What only commands on this machine may ask for: SQL, while the service holds the databases, a new password for the
 * administrator, and files that can be copied. A login is not enough, not even an administrator's: this is for those who could open the database files anyway.
 */
export function addLocalRoutes(app: FastifyInstance, { callers, worker, directory, shutdown }: ServerContext): void {
  app.route({
    method: localRoutes.password.method,
    url: localRoutes.password.path,
    handler: async (request, reply) => {
      await callers.requireLocal(request);
      return reply.type(json).send(JSON.stringify(await directory.resetPassword()));
    },
  });
  for (const name of ["hold", "release"] as const)
    app.route({
      method: localRoutes[name].method,
      url: localRoutes[name].path,
      handler: async (request, reply) => {
        await callers.requireLocal(request);
        await worker[name]();
        return reply.type(json).send("{}");
      },
    });
  app.route({
    method: localRoutes.sql.method,
    url: localRoutes.sql.path,
    handler: async (request, reply) => {
      await callers.requireLocal(request);
      const { database, sql } = readRequest(await readBody(request));
      const signal = AbortSignal.any([shutdown, disconnectOf(reply)]);
      const answer = await worker.execute(database, sql, signal);
      releaseSent(reply, answer);
      return reply.type(json).send(Readable.from(write(answer), { objectMode: false }));
    },
  });
}

async function* write(answer: Answer): AsyncGenerator<Buffer> {
  yield Buffer.from(`{"columnNames":${JSON.stringify(answer.columnNames)},"rows":[`);
  yield* answer.read();
  yield Buffer.from(`],"totalRowCount":${answer.totalRowCount}}`);
}

function readRequest(body: string): ReturnType<typeof sqlRequest.parse> {
  try {
    return sqlRequest.parse(JSON.parse(body));
  } catch (cause) {
    throw new HttpError(400, ["expected a JSON object with `sql` and perhaps `database`"], { cause });
  }
}
