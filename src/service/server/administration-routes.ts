import type { FastifyInstance } from "fastify";
import { SyncUpload } from "#service/directory/receive.ts";
import { loginParameters } from "#wire/administration.ts";
import { administrationRoutes, familyB } from "#wire/routes.ts";
import { HttpError, json } from "#http/answers.ts";
import { authenticating } from "./answers.ts";
import { openSession } from "./callers.ts";
import type { ServerContext } from "./context.ts";
import { disconnectOf, parametersOf, queryOf, readBody } from "#http/exchange.ts";

/** Family B (specification 4.2) below one prefix (0.2). */
export function addAdministrationRoutes(app: FastifyInstance, prefix: string, context: ServerContext): void {
  const { callers, sessions, directory, uploads, shutdown } = context;
  const { login, logout, userList, userSync } = administrationRoutes;
  const root = prefix + familyB;

  app.route({
    method: login.method,
    url: root + login.path,
    handler: async (request, reply) => {
      const form = new URLSearchParams(await readBody(request));
      const parsed = loginParameters.safeParse(parametersOf(queryOf(request), form));
      if (!parsed.success) return reply.code(401).send();
      const { rememberme: remembered, ...pair } = parsed.data;
      const opened = await openSession(context, request, reply, { ...pair, remembered });
      return reply.code(opened ? 204 : 401).send();
    },
  });

  app.route({
    method: logout.method,
    url: root + logout.path,
    handler: async (request, reply) => {
      const caller = await callers.find(request);
      if (caller === undefined) return reply.code(401).send();
      await authenticating(() => sessions.end(caller.token));
      return reply.code(204).send();
    },
  });

  app.route({
    method: userList.method,
    url: root + userList.path,
    handler: async (request, reply) => {
      await callers.require(request, "administration");
      // First: what is changed meanwhile is in the list then, and has another tag. Weak, for the list may be compressed.
      const tag = `W/"${await directory.store.state()}"`;
      reply.header("etag", tag);
      if (isNamed(tag, request.headers["if-none-match"])) return reply.code(304).send();
      const signal = AbortSignal.any([shutdown, disconnectOf(reply)]);
      return reply.type(json).send(await directory.list(signal));
    },
  });

  app.route({
    method: userSync.method,
    url: root + userSync.path,
    handler: async (request, reply) => {
      const caller = await callers.require(request, "administration");
      const signal = AbortSignal.any([shutdown, disconnectOf(reply)]);
      const { contentType } = request.exchange;
      const upload = new SyncUpload(request.raw, contentType, queryOf(request), { folder: uploads, signal });
      try {
        const answer = await directory.sync(upload, caller.name, signal);
        if (answer === undefined) throw new HttpError(415, []);
        reply.type(json).send(answer);
      } finally {
        await upload.discard();
      }
      return reply;
    },
  });
}

/** Whether a header `If-None-Match` names an entity tag (RFC 9110, 13.1.2). */
function isNamed(tag: string, header = ""): boolean {
  const named = header.split(",").map((each) => each.trim());
  return named.includes("*") || named.some((each) => tag === each || tag === `W/${each}`);
}
