import type { FastifyInstance, FastifyRequest } from "fastify";
import { dataRoutes, familyA } from "#wire/routes.ts";
import { loginParameters, loginRequest } from "#wire/administration.ts";
import { dataTexts } from "#wire/errors.ts";
import type { Credentials } from "#service/session/login.ts";
import { text, unverified } from "./answers.ts";
import { readBody } from "./body.ts";
import { openSession } from "./login.ts";
import type { LoginSettings } from "./login.ts";
import { queryOf } from "./exchange.ts";
import { refuseOtherMethods } from "./other-methods.ts";
import { parametersOf } from "./parameters.ts";

/** Family A (specification 4.1). */
export function addDataRoutes(app: FastifyInstance, settings: LoginSettings): void {
  app.route({
    method: dataRoutes.ping.method,
    url: familyA + dataRoutes.ping.path,
    handler: (_request, reply) => reply.type(text).send(dataTexts.ping),
  });

  app.route({
    method: dataRoutes.login.method,
    url: familyA + dataRoutes.login.path,
    handler: async (request, reply) => {
      const credentials = credentialsOf(request, await readBody(request));
      if (credentials === undefined || !(await openSession(settings, request, reply, credentials))) throw unverified();
      return reply.type(text).send("");
    },
  });

  refuseOtherMethods(app, familyA, dataRoutes);
}

/** The pair in a JSON body, or in a form whatever its content type says (A.1). */
function credentialsOf(request: FastifyRequest, body: string): Credentials | undefined {
  const form = parametersOf(queryOf(request), new URLSearchParams(body));
  const parsed = body.trimStart().startsWith("{")
    ? loginRequest.safeParse(jsonOf(body))
    : loginParameters.safeParse(form);
  if (!parsed.success) return undefined;
  const { username, password } = parsed.data;
  return { username, password, remembered: false };
}

function jsonOf(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}
